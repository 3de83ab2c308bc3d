"""Which part of the table `.ci/run` plays, and what in it is worse than what is stored."""

import os
import shutil
import subprocess
from typing import Final

from tests.helpers.places import ROOT
from tests.situations.conclude import BAD, Worth, named
from tests.situations.results import Result, digest
from tests.situations.row import Row
from tests.situations.schedule import PARTS

CHOOSES: Final = "KGROUP_SITUATIONS_PART"


def part_number(rows: tuple[Row, ...]) -> int:
    """Another one with each commit, if KGROUP_SITUATIONS_PART does not choose it.

    A shallow clone does not know how many commits there are, and a copy without git none: any other digits do.
    """
    if chosen := os.environ.get(CHOOSES):
        number = int(chosen)
        assert 1 <= number <= PARTS, f"{CHOOSES} is one of 1 to {PARTS}"
        return number
    if _git("rev-parse", "--is-shallow-repository") == "false":
        return int(_git("rev-list", "--count", "HEAD")) % PARTS + 1
    digits = _git("rev-parse", "HEAD") or "".join(digest(row) for row in rows[-1:])
    return int(digits[:8], 16) % PARTS + 1


def _git(*words: str) -> str:
    """What git prints; "" where there is no git, or no repository."""
    git = shutil.which("git", path=os.environ.get("PATH_OF_MACHINE"))  # tests have Python and Java alone on PATH
    if git is None:
        return ""
    return subprocess.run([git, "-C", ROOT, *words], capture_output=True, text=True, check=False).stdout.strip()


def worse(of: Row, result: Result, stored: Result | None) -> list[str]:
    """What is worse than when the row was played and stored: what is wrong now, and a cause that is named no more.

    What is stored of a row that was another one says nothing of it.
    """
    if result.void:
        return [f"not judged: {result.void}"]
    row = of.then(result.moment)
    before = stored if stored and not stored.void and stored.digest == digest(of) else None
    worth = {cell.verb: cell.worth for cell in before.cells} if before else {}
    found = [
        f"{cell.verb} is {cell.worth}: {cell.why}"
        for cell in result.cells
        if cell.worth in BAD and not _is_as_bad(worth.get(cell.verb), cell.worth)
    ]
    due = result.moment.seconds >= row.named_by.seconds
    if before and not row.healthy and due and named(before.cells) and not named(result.cells) and not found:
        found.append("not named")
    return found


def _is_as_bad(before: Worth | None, now: Worth) -> bool:
    return before is Worth.HARMFUL or (before is Worth.WRONG and now is Worth.WRONG)
