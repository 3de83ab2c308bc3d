"""The verdict at the top of ``describe`` and ``lag``: the problems of a group in a few lines.

Pure. A line begins with a fixed word (LAG, STUCK or READER, RECORD, REWOUND, RANGE, TXN, RATE, PAST, RETENTION, SHAPE).
Without evidence it is ``unknown: <what could not be read>``. If nothing is unread, only LAG and RATE are shown.
"""
