"""The ledger of catch-up plans: its topic, its records and its writers."""
