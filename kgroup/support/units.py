"""Numbers and lists for people, in verdicts and totals; table columns keep plain integers."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 3
"""The number of names in a line; JSON has all of them."""

_STEPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_PLAIN_BELOW = 10_000


def human_count(number: int) -> str:
    """Three significant digits with k, M, G or T: 3940025 -> 3.94M, 15310 -> 15.3k; below 10000 plain."""
    if number < _PLAIN_BELOW:
        return str(number)
    for step, letter in _STEPS:
        scaled = number / step
        if scaled >= 0.9995:  # 999.5k would be shown as 1000k
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            text = f"{scaled:.{digits}f}"
            return text + letter
    return str(number)


def bar(done: int, total: int, width: int) -> str:
    """``[####------]``: how much of ``total`` is done, ``width`` without its ends. It is full only if all is done."""
    filled = width if done >= total else width * max(0, done) // total
    return f"[{'#' * filled}{'-' * (width - filled)}]"


def percent(part: int, whole: int) -> str:
    """A share in whole percent; a share above 0 and under 1 is ``<1%``."""
    share = 100 * part / whole if whole else 0
    return "<1%" if 0 < share < 1 else f"{share:.0f}%"


def plural(count: int, noun: str) -> str:
    """``1 member``, ``3 members``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def human_bytes(size: int) -> str:
    """``512 B``, ``850 MiB``, ``9.3 GiB``: one decimal below ten."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1023.5 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.{1 if amount < 9.95 and units[0] != 'B' else 0}f} {units[0]}"


def some_of(names: Sequence[str], most: int = NAMED) -> str:
    """The first ``most`` names: ``a, b, c and 4 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
