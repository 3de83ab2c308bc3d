"""How every verb that changes offsets goes about it: checks, guards, journal, backup, applying, reading back."""
