"""The ledger of catch-up plans: its topic, its records, and who may write them."""
