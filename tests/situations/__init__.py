"""The corpus of situations: small programs of real clients against a real broker, and what kgroup says of each.

A row of the table (`table/`) says what runs, what goes wrong and what may rightly be said of it.
`python -m tests.situations -k REGEX` starts the rows side by side on a broker of its own, asks five verbs 30 seconds
and 2 minutes after each began, and prints a table: right, silent or wrong. With `--advice` the printed commands are
executed, those that change something in copies of the row, and what became of them is printed as well. To add a
situation, add a `Row` to a module of `table/`.
"""
