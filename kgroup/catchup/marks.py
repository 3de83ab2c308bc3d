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
_MARK = rf"kgroup ({_ID}) (0|[1-9][0-9]{{0,17}}) (release|back)"


class Moved(StrEnum):
    """What a commit of kgroup's did: moved the group to the head, or back into its gap."""

    RELEASE = "release"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Mark:
    """Which plan's runner made a commit, in which epoch, and what for. What stood there before is in the plan."""

    plan_id: str
    epoch: int
    moved: Moved

    @property
    def metadata(self) -> str:
        """``kgroup cu-7f3a 3 release``, to be committed with the offset."""
        return f"kgroup {self.plan_id} {self.epoch} {self.moved}"

    @classmethod
    def of(cls, metadata: str) -> Mark | None:
        """The mark that a commit carries; None where it is not kgroup's."""
        found = re.fullmatch(_MARK, metadata)
        return None if found is None else cls(found[1], int(found[2]), Moved(found[3]))


def new_plan_id(taken: Collection[str] = ()) -> str:
    """``cu-7f3a``: short, random, and not one of ``taken``."""
    while True:
        made = "cu-" + "".join(secrets.choice(ID_ALPHABET) for _ in range(4))
        if made not in taken:
            return made


def is_plan_id(text: str) -> bool:
    """Whether a plan can be called that; a group's name is looked up otherwise."""
    return re.fullmatch(_ID, text) is not None
