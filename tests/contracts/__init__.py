"""Contracts with scripts: what the verbs give today, word for word where a program reads it."""

WRITE = "CONTRACTS_WRITE"
"""In the environment: the files are written, not compared."""
