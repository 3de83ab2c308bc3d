"""The verdict at the head of ``describe`` and ``lag``: what is the matter with a group, in a few lines.

A pure function from what was read to lines. Each begins with a fixed word (LAG, STUCK, BACK, RANGE, TXN, RATE, SAFE,
SHAPE); one without evidence says ``unknown: <what could not be read>``. Where all is read, only LAG and RATE stay.
"""
