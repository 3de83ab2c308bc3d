"""Catching up after a crash: the group starts at the head at once, and the gap is replayed beside it (after
KIP-333).
"""
