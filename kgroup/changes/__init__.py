"""The steps that all verbs share which change offsets: checks, guards, journal, backup, applying, reading back."""
