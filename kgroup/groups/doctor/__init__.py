"""Rules that diagnose a group or a cluster: from a snapshot to findings with evidence, remedy and source."""
