"""A committed offset, apart from other values of groups: workers import it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset: the offset of the next record that the group will read. Metadata is kept byte for byte."""

    offset: int
    leader_epoch: int | None
    metadata: str
