"""Ids of catch-up plans, and the commit metadata that marks kgroup's own commits. Pure."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Characters of ids, those of the journal too: no two of them are confused when an id is read aloud."""

_ID = rf"cu-[{ID_ALPHABET}]{{4}}(?:[{ID_ALPHABET}]{{4}})?"
_NUMBER = "(0|[1-9][0-9]{0,18})"
_MARK = rf"kgroup ({_ID}) (0|[1-9][0-9]{{0,17}}) (?:(release|back|gap)|(release) {_NUMBER})"


_ENDS_WITH = "\0"
"""confluent-kafka, with which a member commits, adds this to all metadata (2.16)."""


class TagPurpose(StrEnum):
    """The purpose of a commit by kgroup: the release to the log end, a move back into the gap, or the gap's start.

    GAP is in the group that reads the gap instead (``--to-group``), and never in the group of the plan.
    """

    RELEASE = "release"
    BACK = "back"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class CatchupCommitTag:
    """The plan, runner epoch and purpose of a commit by kgroup; the plan has the commit that it replaced.

    ``start`` is the first offset of the released gap, which ends at the commit's own offset. It shows what is pending
    even if the ledger is lost. None in tags of older versions, and for a move back.
    """

    plan_id: str
    epoch: int
    moved: TagPurpose
    start: int | None = None

    @property
    def metadata(self) -> str:
        """The metadata of the commit: ``kgroup cu-7f3a 3 release 70``."""
        start = "" if self.start is None else f" {self.start}"
        return f"kgroup {self.plan_id} {self.epoch} {self.moved}{start}"

    @classmethod
    def of(cls, metadata: str) -> CatchupCommitTag | None:
        """The tag in a commit's metadata; None if kgroup did not make the commit."""
        parsed = re.fullmatch(_MARK, metadata.removesuffix(_ENDS_WITH))
        if parsed is None:
            return None
        return cls(
            parsed[1], int(parsed[2]), TagPurpose(parsed[3] or parsed[4]), None if parsed[5] is None else int(parsed[5])
        )


def new_plan_id(taken: Collection[str] = ()) -> str:
    """A short random id that is not in ``taken``, like ``cu-7f3a``."""
    while True:
        plan_id = "cu-" + "".join(secrets.choice(ID_ALPHABET) for _ in range(4))
        if plan_id not in taken:
            return plan_id


def new_member_plan_id() -> str:
    """A longer one, like ``cu-7f3a2k9x``: many members make plans at one moment, and none sees the others' yet."""
    return new_plan_id() + new_plan_id().removeprefix("cu-")


def is_plan_id(text: str) -> bool:
    """Whether ``text`` has the form of a plan id; callers take any other text as a group's name."""
    return re.fullmatch(_ID, text) is not None
