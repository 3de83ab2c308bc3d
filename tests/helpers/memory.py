"""How much memory a value takes."""

from __future__ import annotations

import gc
import sys


def bytes_of(found: object) -> int:
    """The memory of an object and of all that it refers to, without types."""
    seen: dict[int, int] = {}
    left = [found]
    while left:
        item = left.pop()
        if id(item) not in seen and not isinstance(item, type):
            seen[id(item)] = sys.getsizeof(item)
            left += gc.get_referents(item)
    return sum(seen.values())
