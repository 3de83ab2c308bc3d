"""One file a verb: parse, read, decide, act, return an Outcome."""
