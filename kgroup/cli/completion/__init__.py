"""Completion in bash, zsh and fish: verbs and options from a data file, names from the cluster."""
