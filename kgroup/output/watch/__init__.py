"""``--watch``: the same page, refreshed in a terminal or written as one line of JSON per refresh."""
