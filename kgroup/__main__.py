"""The entry point, also of ``python -m kgroup``. It is small, to handle ctrl-C while the rest is imported."""

from __future__ import annotations

import sys

from kgroup.support import signals


def main() -> None:
    """Run the command line."""
    signals.end_at_once()
    if sys.argv[1:2] == ["__complete"]:  # a key at a prompt: answered before Typer is imported
        from kgroup.catchup.service.plan_names import plan_names
        from kgroup.cli.completion.answer import run as complete

        complete(sys.argv[2:], plan_names)
    from kgroup.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
