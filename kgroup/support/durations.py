"""Durations as users type them (``5m``, ``1h30m``) and as kgroup shows them."""

from __future__ import annotations

import re
from collections.abc import Callable

from kgroup.support.errors import UsageError

SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# Patterns as text: re compiles and caches them at their first use; most command lines have no duration.
_PART = r"(?a)(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_WHOLE = r"(?a)(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+"
_NUMBER = r"(?a)\d+(?:\.\d+)?"
_SUSPICIOUS_BELOW_MS = 1000
_LONGEST_TIMEOUT_S = 86_400.0
_LONGEST_S = 10 * 366 * 86_400.0


def parse_duration(text: str, option: str) -> float:
    """``text`` in seconds; every number needs a unit: ms, s, m, h or d (``1h30m`` is 5400.0).

    ``option`` names the source in messages: an option (``--within``), a variable or a setting. Raises UsageError for a
    bare number, for anything else that is not a duration, and for more than ten years.
    """
    stripped = text.strip()
    if re.fullmatch(_WHOLE, stripped):
        seconds = sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in re.findall(_PART, stripped))
        if seconds > _LONGEST_S:
            raise UsageError(f"{option}: must be at most ten years")
        return seconds
    typed = _as_typed(option, text)
    if re.fullmatch(_NUMBER, stripped):
        raise UsageError(f"{typed}: the unit is missing: {stripped}s, {stripped}m or {stripped}h")
    raise UsageError(f"{typed}: not a duration, like 30s, 5m or 1h30m")


def parse_timeout(text: str, warn: Callable[[str], None], option: str = "--timeout") -> float:
    """``text`` in seconds; a bare number is milliseconds, the unit of kafka-consumer-groups.sh.

    A bare number under 1000 warns, because the user probably means seconds. Raises UsageError if it is not a duration,
    is zero, or is more than a day.
    """
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        seconds = float(stripped) / 1000
        if 0 < float(stripped) < _SUSPICIOUS_BELOW_MS:
            warn(
                f"{_as_typed(option, stripped)} is {stripped} milliseconds (the unit of "
                f"kafka-consumer-groups.sh); for {stripped} seconds write {_as_typed(option, stripped)}s"
            )
    else:
        seconds = parse_duration(stripped, option)
    if seconds <= 0:
        raise UsageError(f"{_as_typed(option, text)}: must be greater than 0, like 10s or 2m")
    if seconds > _LONGEST_TIMEOUT_S:
        raise UsageError(f"{option}: must be at most a day, like 10s or 2m")
    return seconds


def format_duration(seconds: float) -> str:
    """The two largest units that matter: ``250ms``, ``45s``, ``1m14s``, ``38m``, ``1h23m``, ``6d23h``.

    Rounds to the smallest unit shown: from ten minutes on minutes, from one day on hours. A negative duration keeps its
    sign.
    """
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 1:
        milliseconds = round(seconds * 1000)
        if milliseconds < 1000:
            return f"{milliseconds}ms" if milliseconds else "0s"
    total = round(seconds)
    if total >= 600:
        total = round(seconds / 60) * 60
    if total >= 86400:
        total = round(seconds / 3600) * 3600
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, whole = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (whole, "s")]
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount)


def _as_typed(option: str, text: str) -> str:
    return f"{option} {text}" if option.startswith("-") else f"{option}={text}"
