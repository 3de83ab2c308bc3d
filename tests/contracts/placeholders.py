"""What differs from run to run is replaced by its type: ``<time>``, ``<number>``. All else is literal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MEMBER_ID, TOPIC_ID = "<member id>", "<topic id>"

_BY_KEY = {
    "member_id": MEMBER_ID,
    "leader_id": MEMBER_ID,
    "topic_id": TOPIC_ID,
    "who": "<user>@<host>",
    "created_by": "<user>@<host>",
}
"""Strings that are of this run, or of this machine, and have no form of their own."""

_IDS = [
    (re.compile(r"\bcu-[2-9a-z]{4}\b"), "<plan id>"),
    (re.compile(r"\bch-[2-9a-z]{4}\b"), "<change id>"),
]
_BY_FORM = [
    *_IDS,
    (re.compile(r"\b[\w.-]*?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), MEMBER_ID),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z?"), "<time>"),
    # of another day than today with its date
    (re.compile(r"\b(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?Z"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)?/s\b"), "<rate>"),
    (re.compile(r"\b\d+(ms|s|m)(?= ago)"), "<duration>"),
    (re.compile(r"\b\d+(d\d+h|h\d+m|m\d+s)\b"), "<duration>"),
    # a record's age, in the hour after midnight, is whole days
    (re.compile(r"(?<=oldest unread record )(at least )?\d+d\b"), r"\1<duration>"),
    (re.compile(r"\b\d+d(?= old\b)"), "<duration>"),
    (re.compile(r"(?<=no reader for )\d+[smh]\b|(?<=NO-READER )\d+[smh]\b"), "<duration>"),
    (re.compile(r"(?<=on 1 machine )\(\S+\), with Python [\d.]+"), "(<host>), with Python <version>"),
    (re.compile(r"127\.0\.0\.1:\d{3,}"), "<address>"),
]

_NUMBERS = re.compile(
    r"(^|[_.])(ms|s|pid|port|bytes|log_offset|standstill_offset_count)$"
    r"|^listeners\.|^scan\.(start|end|complete_from)_offset$"  # of __consumer_offsets, where groups share partitions
)
"""Keys, after the key that they are below, of numbers that are not the same in each run."""


@dataclass
class Placeholders:
    """``texts`` are known to be of this run: directories, ids."""

    texts: dict[str, str] = field(default_factory=dict)

    def put_into(self, value: Any, key: str = "", above: str = "") -> Any:
        """A copy of a document with placeholders; keys stay in their order."""
        if isinstance(value, dict):
            return {self.put_into(name): self.put_into(inner, name, key) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.put_into(inner, key, above) for inner in value]
        if isinstance(value, str):
            return _BY_KEY.get(key) or self._text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return "<number>" if _NUMBERS.search(f"{above}.{key}".lstrip(".")) else value
        return value

    def command(self, arguments: Sequence[str]) -> str:
        """A command line as it was typed, but for ids and directories."""
        return self._text(shlex.join(["kgroup", *arguments]), _IDS)

    def _text(self, text: str, forms: Sequence[tuple[re.Pattern[str], str]] = _BY_FORM) -> str:
        for found, placeholder in self.texts.items():
            text = text.replace(found, placeholder)
        for form, placeholder in forms:
            text = form.sub(placeholder, text)
        return text
