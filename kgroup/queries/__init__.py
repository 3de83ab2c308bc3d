"""What the verbs that look have in common: reading, for what is then judged, measured and drawn elsewhere."""
