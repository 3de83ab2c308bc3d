"""What a group's records in ``__consumer_offsets`` tell of its type, state, members and their changes. Pure."""
