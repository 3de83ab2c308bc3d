"""What the catch-up verbs do: start, resume, stop, cancel, prune, show."""
