"""What runs in a situation: members of groups, each a process, and who writes the records."""
