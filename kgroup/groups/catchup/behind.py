"""How far behind is too far: ``10m`` or ``100k``. Pure, and quick to import."""

from __future__ import annotations

import re

import msgspec

from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError

_RECORDS = r"(?a)(\d+)(k?)"
_EXAMPLES = "use 10m or 2h for the age of the first unread record, 2500 or 100k for unread records"


class BehindBound(msgspec.Struct, frozen=True):
    """Unread records, or the age of the first one in seconds; the other is None. A lag equal to it is not behind."""

    records: int | None = None
    age_s: float | None = None

    @classmethod
    def parse(cls, text: str, option: str) -> BehindBound:
        """``100k`` and ``2500`` are records, ``10m`` and ``2h`` an age. Raises UsageError, which names ``option``."""
        typed = text.strip()
        if count := re.fullmatch(_RECORDS, typed):
            return cls(records=int(count[1]) * (1000 if count[2] else 1))
        try:
            return cls(age_s=parse_duration(typed, option))
        except UsageError as error:
            raise UsageError(f"{option} {text}: neither a duration nor a number of records", hint=_EXAMPLES) from error
