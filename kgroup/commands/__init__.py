"""One file per verb: parse, read, decide, act, return an Outcome."""
