"""Completion in bash, zsh and fish: scripts from the verbs' own options, and names from the cluster."""
