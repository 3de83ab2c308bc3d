"""The environment variables, read here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def variable(name: str) -> str | None:
    """Its value; None if it is not set, or empty."""
    return os.environ.get(name) or None


def environment() -> Mapping[str, str]:
    """All variables: for child processes, and for those that a user names in a file or an option."""
    return os.environ


def is_dumb_terminal() -> bool:
    """Whether the terminal cannot move its cursor, or colour text."""
    return variable("TERM") == "dumb"


def set_variable(name: str, value: str) -> None:
    """Set one until this process ends, for what runs after kgroup's own code in it."""
    os.environ[name] = value


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables during the block, for a library that takes settings from there alone."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
