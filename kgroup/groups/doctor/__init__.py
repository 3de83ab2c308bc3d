"""What is wrong with a group or a cluster: rules from a snapshot to findings, each with evidence, remedy and source."""
