"""What a group's steps and commits show of a span of time: totals, patterns, crash loops, offset jumps. Pure."""
