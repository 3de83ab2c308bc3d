"""The command line: the table of verbs, options, help, hints and completion."""
