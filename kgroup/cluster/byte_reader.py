"""Decode Kafka's primitive types from bytes, for stored records and member metadata.

There are two dialects (KIP-482). The old one has fixed-size lengths: int16 before a string, int32 before bytes and
arrays, -1 for null. The *compact* one ("flexible versions") has an unsigned varint of length + 1, 0 for null, and
ends each struct with a section of tagged fields.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct, unpack_from
from struct import error as struct_error
from types import MappingProxyType
from typing import TypeVar

from kgroup.support.errors import KgroupError

T = TypeVar("T")

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")

_URL_SAFE, _STANDARD = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")

FAULTS = (struct_error, IndexError, UnicodeDecodeError)
"""What reading broken bytes raises besides MalformedRecord. The decoders convert these to MalformedRecord."""

NO_TAGS: Mapping[int, bytes] = MappingProxyType({})


class MalformedRecord(KgroupError):
    """Bytes that no version of Kafka writes: truncated, a length beyond the end, not UTF-8."""

    code = "malformed-record"


@lru_cache(maxsize=4096)
def topic_id(raw: bytes) -> str | None:
    """The 16 bytes of a topic id as Kafka prints it (base64url, 22 characters); None for Kafka's zero id.

    ``uuid.UUID(bytes=raw)`` is the same id as kafka-python represents it.
    """
    if len(raw) != 16:
        raise MalformedRecord(f"a topic id has 16 bytes, not {len(raw)}")
    if not any(raw):
        return None
    return b2a_base64(raw, newline=False).translate(_URL_SAFE)[:22].decode("ascii")


def raw_topic_id(text: str) -> bytes:
    return a2b_base64(text.encode("ascii").translate(_STANDARD) + b"==")


class ByteReader:
    """Reads values one after the other from ``data``; ``pos`` is the position of the next one.

    ``compact_`` is the compact dialect, all else the old one; null is malformed where the name does not allow it.
    Every method raises MalformedRecord or one of FAULTS if the bytes do not hold the value.
    """

    __slots__ = ("data", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos

    @property
    def exhausted(self) -> bool:
        return self.pos >= len(self.data)

    def i8(self) -> int:
        value = self.data[self.pos]
        self.pos += 1
        return value - 256 if value > 127 else value

    def i16(self) -> int:
        value: int = _I16.unpack_from(self.data, self.pos)[0]
        self.pos += 2
        return value

    def i32(self) -> int:
        value: int = _I32.unpack_from(self.data, self.pos)[0]
        self.pos += 4
        return value

    def i64(self) -> int:
        value: int = _I64.unpack_from(self.data, self.pos)[0]
        self.pos += 8
        return value

    def uvarint(self) -> int:
        """An unsigned varint of at most five bytes."""
        data = self.data
        value = data[self.pos]
        self.pos += 1
        if value < 128:
            return value
        value &= 127
        for shift in (7, 14, 21, 28):
            byte = data[self.pos]
            self.pos += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise MalformedRecord("a varint is longer than five bytes")

    def take(self, size: int) -> bytes:
        start = self.pos
        stop = start + size
        if size < 0 or stop > len(self.data):
            raise MalformedRecord(f"{size} bytes expected where {len(self.data) - start} are left")
        self.pos = stop
        return self.data[start:stop]

    def string(self) -> str:
        # Not built on take(): this and bytes_ are most of the cost of decoding a classic group's record.
        data = self.data
        start = self.pos + 2
        stop: int = start + _I16.unpack_from(data, self.pos)[0]
        if not start <= stop <= len(data):
            raise MalformedRecord(f"a string of {stop - start} bytes where {len(data) - start} are left")
        self.pos = stop
        return data[start:stop].decode()

    def nullable_string(self) -> str | None:
        size = self.i16()
        return None if size == -1 else self.take(size).decode()

    def bytes_(self) -> bytes:
        data = self.data
        start = self.pos + 4
        stop: int = start + _I32.unpack_from(data, self.pos)[0]
        if not start <= stop <= len(data):
            raise MalformedRecord(f"{stop - start} bytes expected where {len(data) - start} are left")
        self.pos = stop
        return data[start:stop]

    def nullable_bytes(self) -> bytes | None:
        size = self.i32()
        return None if size == -1 else self.take(size)

    def compact_string(self) -> str:
        return self.take(self.uvarint() - 1).decode()

    def nullable_compact_string(self) -> str | None:
        size = self.uvarint()
        return self.take(size - 1).decode() if size else None

    def compact_bytes(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def array(self, item: Callable[[], T]) -> tuple[T, ...]:
        return self._items(self.i32(), item)

    def compact_array(self, item: Callable[[], T]) -> tuple[T, ...]:
        return self._items(self.uvarint() - 1, item)

    def i32_array(self) -> tuple[int, ...]:
        return self._integers(self.i32())

    def compact_i32_array(self) -> tuple[int, ...]:
        return self._integers(self.uvarint() - 1)

    def topic_id(self) -> str | None:
        return topic_id(self.take(16))

    def tags(self) -> Mapping[int, bytes]:
        """The tagged fields that end a compact struct: tag -> its raw bytes, unknown tags included."""
        count = self.uvarint()
        if not count:
            return NO_TAGS
        self._check_count(count)
        tags: dict[int, bytes] = {}
        for _ in range(count):
            tag = self.uvarint()
            tags[tag] = self.take(self.uvarint())
        return tags

    def _items(self, count: int, item: Callable[[], T]) -> tuple[T, ...]:
        self._check_count(count)
        return tuple([item() for _ in range(count)])

    def _integers(self, count: int) -> tuple[int, ...]:
        self._check_count(count)
        values: tuple[int, ...] = unpack_from(f">{count}i", self.data, self.pos)
        self.pos += 4 * count
        return values

    def _check_count(self, count: int) -> None:
        # Each item is at least one byte: a broken count must not make us loop or allocate for minutes.
        if not 0 <= count <= len(self.data) - self.pos:
            raise MalformedRecord(f"{count} items expected where {len(self.data) - self.pos} bytes are left")
