"""Choose free TCP ports on loopback.

Ports of the ephemeral range are avoided: the system may give one to any client between our check and the broker's bind
("Address already in use", seen in three starts).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from kgroup.support.errors import SandboxError

HOST = "127.0.0.1"
_LOWEST = 16_384
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_RANGE = (32_768, 60_999)
_EVERYWHERE_ELSE = (49_152, 65_535)
_TRIES = 2_000


def ephemeral_range(range_file: Path = _RANGE_FILE) -> tuple[int, int]:
    """First and last port that the system assigns to clients; if unknown, Linux's default, elsewhere IANA's range."""
    try:
        low, high = range_file.read_text().split()
    except (OSError, ValueError):
        return _EVERYWHERE_ELSE if not _RANGE_FILE.parent.exists() else _USUAL_RANGE
    return int(low), int(high)


def is_free(port: int) -> bool:
    """Whether a listener can be opened on loopback now, under the same rules as Java's sockets."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def choose(
    count: int, *, free: Callable[[int], bool] = is_free, ephemeral: tuple[int, int] | None = None
) -> tuple[int, ...]:
    """So many adjacent free ports, at random. Raises SandboxError if there are none."""
    for first in _firsts(count, ephemeral or ephemeral_range()):
        block = tuple(range(first, first + count))
        if all(free(port) for port in block):
            return block
    raise SandboxError(f"found no {count} free neighbouring ports on {HOST}")


def _firsts(count: int, ephemeral: tuple[int, int]) -> Iterator[int]:
    low, high = ephemeral
    starts = [*range(_LOWEST, low - count + 1), *range(max(high + 1, _LOWEST), 65_536 - count + 1)]
    if not starts:  # every port is ephemeral: accept the risk, the caller retries
        starts = list(range(_LOWEST, 65_536 - count + 1))
    yield from random.sample(starts, min(_TRIES, len(starts)))
