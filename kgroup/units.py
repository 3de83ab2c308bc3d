"""Numbers as people read them, for verdicts and totals; columns keep plain integers."""

from __future__ import annotations

_STEPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_PLAIN_BELOW = 10_000


def human_count(number: int) -> str:
    """Three significant digits with k, M, G or T: 3940025 -> 3.94M, 15310 -> 15.3k; below 10000 plain."""
    if number < _PLAIN_BELOW:
        return str(number)
    for step, letter in _STEPS:
        scaled = number / step
        if scaled >= 0.9995:  # 999.5k would be drawn as 1000k
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            text = f"{scaled:.{digits}f}"
            return text + letter
    return str(number)


def percent(part: int, whole: int) -> str:
    """A share in whole percent; ``<1%`` rather than 0% of something."""
    share = 100 * part / whole if whole else 0
    return "<1%" if 0 < share < 1 else f"{share:.0f}%"


def plural(count: int, noun: str) -> str:
    """``1 member``, ``3 members``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
