"""Checks whether and how a group can migrate to the other rebalance protocol, from facts already read. Pure."""
