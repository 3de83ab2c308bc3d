"""Helpers that import nothing else of kgroup: errors, time, text, atomic files, locks, signals."""
