"""Frozen values that every part of kgroup shares: groups, records, outcomes, blocks of pages, the reporter."""
