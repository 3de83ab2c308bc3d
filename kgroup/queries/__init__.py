"""Reads the cluster for the verbs; pure code in other packages judges, measures and draws the data."""
