"""``kgroup describe svc --watch`` without a cluster: each look brings what the command line says.

``python -m tests.helpers.watched_process page page down page``; the last one goes on for ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kgroup.cli import app
from kgroup.commands import describe
from kgroup.model.groups import Coordinator, Group
from kgroup.model.outcome import Outcome
from kgroup.output.pages.describe import outcome
from kgroup.output.pages.describe_records import DescribePart
from kgroup.output.watch.request import Refresh
from kgroup.settings.invocation import Invocation
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import AuthenticationFailed, Unreachable


class Looks:
    """Does one thing a look."""

    def __init__(self, script: list[str], run: Invocation) -> None:
        self._script = script
        self._run = run
        self._at = 0

    def __call__(self) -> list[Outcome]:
        """The next look."""
        what = self._script[min(self._at, len(self._script) - 1)]
        self._at += 1
        match what:
            case "down":
                raise Unreachable("broker 1 did not answer within the timeout", hint="a longer --timeout may help")
            case "auth":
                raise AuthenticationFailed("who are you")
            case "bug":
                raise ValueError("a bug")
            case "stuck":
                threading.Event().wait()
            case "note":
                self._run.reporter.note("something is not known")
        return [self._page()]

    def _page(self) -> Outcome:
        coordinator = Coordinator(1, "127.0.0.1", 9092, None)
        group = Group(
            "svc", "classic", f"Look-{self._at}", "consumer", "range", coordinator, 7, None, None, None, (), ()
        )
        return outcome(DescribePart.PAGE, [group], ClusterRef("id", "127.0.0.1:1", None))


def main(script: list[str], flags: list[str]) -> None:
    """Run the command line with looks of this kind."""

    @contextmanager
    def connect(run: Invocation, *_: Any) -> Iterator[Refresh]:
        yield Looks(script, run)

    setattr(describe, "_connect", connect)  # noqa: B010 - mypy sees another signature
    app.main(["describe", "svc", "-b", "127.0.0.1:1", "--watch", "--every", "500ms", *flags])


if __name__ == "__main__":
    words = sys.argv[1:]
    main([word for word in words if not word.startswith("-")], [word for word in words if word.startswith("-")])
