"""The implementation of the catch-up verbs: start, resume, stop, cancel, prune, list and show."""
