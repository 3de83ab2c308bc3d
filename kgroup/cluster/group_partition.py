"""Which partition of ``__consumer_offsets`` holds a group. Pure, and quick to import."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that holds a group; its leader is the group's coordinator.

    ``partitions`` is the topic's number of partitions. Java's ``abs(String.hashCode()) % partitions`` over UTF-16 code
    units, where abs(-2**31) is 0:
    ``partition_of("polygenelubricants", 50) == 0``, ``partition_of("abc", 50) == 4`` (96354 % 50).
    """
    code = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFFFFFF
    if code == 0x80000000:
        return 0
    return (code if code < 0x80000000 else 0x100000000 - code) % partitions


def probe_groups(partitions: int) -> list[str]:
    """An invented group id for each partition of ``__consumer_offsets``, in the order of the partitions."""
    names: dict[int, str] = {}
    number = 0
    while len(names) < partitions:
        name = f"kgroup-probe-{number}"
        names.setdefault(partition_of(name, partitions), name)
        number += 1
    return [names[partition] for partition in sorted(names)]
