"""The history of a group from its log: generations and epochs, their causes, moves and offset jumps. Pure."""
