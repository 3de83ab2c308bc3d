"""What a catch-up decides: the gap, its chunks, the next step, what moves back, what is verified."""
