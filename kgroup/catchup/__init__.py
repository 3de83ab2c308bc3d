"""Catching up after a crash: the group starts at the log end at once, and its gap is replayed in parallel.

The idea is from KIP-333.
"""
