"""``--watch``: the same page again and again, in a terminal or as lines of JSON."""
