"""The pages of verbs that show more than one table, as Screen values. Pure; ``output`` draws them."""
