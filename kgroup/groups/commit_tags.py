"""The ids of plans, and the metadata by which kgroup's own commits are known in ``__consumer_offsets``. Pure."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""The journal's: nothing in it is taken for something else when it is read aloud."""

_ID = rf"cu-[{ID_ALPHABET}]{{4}}"
_NUMBER = "(0|[1-9][0-9]{0,18})"
_MARK = rf"kgroup ({_ID}) (0|[1-9][0-9]{{0,17}}) (?:(release|back)|(release) {_NUMBER})"


class TagPurpose(StrEnum):
    """What a commit of kgroup's did: moved the group to the head, or back into its gap."""

    RELEASE = "release"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class CatchupCommitTag:
    """Which plan's runner made a commit, in which epoch, and what for. What stood there before is in the plan.

    ``start`` is, with a release, where the gap begins that ends at the commit's own offset: it says what is pending
    even when the ledger is lost. None in marks of older versions, and with a move back.
    """

    plan_id: str
    epoch: int
    moved: TagPurpose
    start: int | None = None

    @property
    def metadata(self) -> str:
        """``kgroup cu-7f3a 3 release 70``, to be committed with the offset."""
        start = "" if self.start is None else f" {self.start}"
        return f"kgroup {self.plan_id} {self.epoch} {self.moved}{start}"

    @classmethod
    def of(cls, metadata: str) -> CatchupCommitTag | None:
        """The mark that a commit carries; None where it is not kgroup's."""
        found = re.fullmatch(_MARK, metadata)
        if found is None:
            return None
        return cls(
            found[1], int(found[2]), TagPurpose(found[3] or found[4]), None if found[5] is None else int(found[5])
        )


def new_plan_id(taken: Collection[str] = ()) -> str:
    """``cu-7f3a``: short, random, and not one of ``taken``."""
    while True:
        made = "cu-" + "".join(secrets.choice(ID_ALPHABET) for _ in range(4))
        if made not in taken:
            return made


def is_plan_id(text: str) -> bool:
    """Whether a plan can be called that; a group's name is looked up otherwise."""
    return re.fullmatch(_ID, text) is not None
