"""Whether a group can move to the other rebalance protocol, and how: checks over what was read of it. Pure."""
