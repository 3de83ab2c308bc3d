"""What a group's records in ``__consumer_offsets`` tell of its type, state and members, from record to record. Pure."""
