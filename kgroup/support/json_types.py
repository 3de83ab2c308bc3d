"""What the fields of JSON documents are annotated with: ``lag: Annotated[Count | None, "Unread records; ..."]``.

The last text is the field's meaning. Another text, or an enumeration, names its type.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

Count = Annotated[int, "count"]
Offset = Annotated[int, "offset"]
Bytes = Annotated[int, "bytes"]
Ms = Annotated[int, "ms"]
PerSecond = Annotated[float, "per second"]
Instant = Annotated[str, "instant"]
EpochMs = Annotated[int, "epoch ms"]


class ExplainedEnum(StrEnum):
    """Values with their meanings: ``OK = "ok", "it keeps up"``. A value without a meaning is not in JSON."""

    meaning: str
    _value_: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        self = str.__new__(cls, value)
        self._value_ = value
        self.meaning = meaning
        return self
