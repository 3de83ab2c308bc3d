"""Joining a group: the exclusive membership, and the conversion to the other protocol."""
