"""Situations that are played and judged: ``python -m tests.situations``.

Starts the chosen rows side by side on a broker of its own and prints what the five verbs said of each at each moment.
Exit 1 if a row was answered wrongly or could not be judged.
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.situations.results import RESULTS, store
from tests.situations.row import Moment
from tests.situations.run import run
from tests.situations.schedule import Repeats, chosen
from tests.situations.table import ROWS

MOST_S: Final = 23 * 60.0
"""Of a run, of which brokers and members take half a minute more to end. Nothing begins that would not be over then."""

MOST_PLAYS: Final = 3
"""Of a row whose looks were too late, or whose group did not do what the row says: none is unseen by accident."""


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.situations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", default="", metavar="REGEX", help="only rows whose id has a match")
    parser.add_argument("--list", action="store_true", help="print the rows, and what happens in each")
    parser.add_argument(
        "--until", type=Moment, choices=list(Moment), default=Moment.TWO_MINUTES, help="the last look; 2m without it"
    )
    parser.add_argument("--advice", action="store_true", help="execute the commands that are printed, in copies")
    parser.add_argument("--write", action="store_true", help=f"put the results into {RESULTS.name}")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs of members and what was said there")
    asked = parser.parse_args()
    rows = chosen(ROWS, asked.k)
    if not rows:
        parser.error(f"no row has a match of {asked.k}")
    if asked.list:
        for row in rows:
            print(f"{row.id:22} {row.cause}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # broker and members end with it
    moments = [moment for moment in Moment if moment.seconds <= asked.until.seconds]
    begun = time.monotonic()
    with ExitStack() as stack:
        directory = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kgroup-situations-")))
        whole = not asked.k and asked.until is Moment.TEN_MINUTES
        results = run(
            rows,
            moments,
            directory,
            lambda line: print(line, flush=True),
            repeats=Repeats(lambda result: bool(result.void), MOST_PLAYS),
            most_s=MOST_S,
            with_fleet=whole,
            advice=asked.advice,
            keep=store if asked.write else lambda _: None,
        )
    bad = [result for result in results if result.is_bad]
    void = [result for result in bad if result.void]
    missing = len(rows) * len(moments) + whole - len(results)
    print(
        f"{len(results)} looks at {len(rows)} rows in {time.monotonic() - begun:.0f} s, {len(bad)} of them bad: "
        f"{len(void)} not judged, {sum(result.void == 'late' for result in void)} of these too late; {missing} missing"
    )
    return int(bool(bad or missing))


if __name__ == "__main__":
    sys.exit(main())
