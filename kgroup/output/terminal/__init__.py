"""Pages in a terminal or a pipe: layout, colour, progress bars."""
