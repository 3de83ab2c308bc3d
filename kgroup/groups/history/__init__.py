"""The history of a group out of its log: generations and epochs, their causes, moves, jumps of offsets. Pure."""
