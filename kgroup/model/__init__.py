"""Frozen values that every part of kgroup shares: groups, records, outcomes, page blocks, the reporter interface."""
