"""What shell handlers of ``--ack line`` need."""

from __future__ import annotations

NAME = """name() { t=${l#*'"topic": "'}; p=${l#*'"partition": '}; o=${l#*'"offset": '}
echo "${t%%'"'*}:${p%%,*}:${o%%,*}"; }
"""
"""A shell function that prints the name of the record in ``$l``, a line as the handler got it."""
