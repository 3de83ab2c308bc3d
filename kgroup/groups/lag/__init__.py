"""Lag of a group: unread records, their age, status, rates, and when the group will have caught up.

``measure`` turns a group and ``LagEvidence`` into a ``GroupLag``; ``check`` compares it with bounds.
"""
