"""Many small cases in one test: a seed, a record or a width is no test of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def for_each(name: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once a case, as its argument ``name``, in one pytest case; a failure names its case.

    The test has no fixtures. It can be stacked.
    """
    kept = list(cases)
    assert kept, "nothing to test"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**others: Any) -> None:
            for case in kept:
                try:
                    test(**{name: case}, **others)
                except BaseException as error:
                    error.add_note(f"{name} = {case!r:.200}")
                    raise

        # Not __wrapped__: pytest would look for fixtures of its arguments.
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate
