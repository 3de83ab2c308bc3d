"""The entry point, also of ``python -m kgroup``. It is small, to handle ctrl-C while the rest is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit at once: nothing has begun, so nothing has to be undone."""
    os._exit(128 + number if number == signal.SIGINT else 143)


def main() -> None:
    """Run the command line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell's background job ignores ctrl-C
            signal.signal(number, _leave)
    if sys.argv[1:2] == ["__complete"]:  # a key at a prompt: answered before Typer is imported
        from kgroup.cli.completion.answer import run as complete

        complete(sys.argv[2:])
    from kgroup.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
