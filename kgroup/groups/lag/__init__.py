"""Lag: how many records a group has not read, how old they are, how it is read, and when it has caught up.

``measure`` turns a group and ``Evidence`` into a ``GroupLag``; ``check`` holds it against bounds.
"""
