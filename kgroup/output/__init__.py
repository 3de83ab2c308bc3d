"""Render what commands return. Only this package knows formats, widths and colours."""
