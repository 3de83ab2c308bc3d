"""File formats: Parquet in the columns of Spark's Kafka source, or one line of JSON per record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol, Self

from kgroup.catchup.worker import arrow
from kgroup.cluster.reader.batches import Batch
from kgroup.model.json_lines import json_lines

_ROW_GROUP_BYTES = 64 * 2**20
_ROW_GROUP_RECORDS = 200_000
_BLOCK = 2**20


class HashingFile:
    """A write-only, sequential file that computes its digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.written = 0
        self.closed = False
        """pyarrow reads this attribute."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything that was written."""
        return self._hash.hexdigest()

    def write(self, data: Any) -> int:
        """Write the bytes; returns how many."""
        self._hash.update(data)
        self._file.write(data)
        number = memoryview(data).nbytes
        self.written += number
        return number

    def tell(self) -> int:
        """The position in the file: how many bytes were written."""
        return self.written

    def flush(self) -> None:
        """Flush the underlying file."""
        self._file.flush()

    def close(self) -> None:
        """Does nothing: the code that opened the file closes it."""

    def readable(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """False."""
        return False


def digest_of(path: Path) -> tuple[str, int]:
    """SHA-256 and length in bytes of a file."""
    digest, number = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            number += len(block)
    return digest.hexdigest(), number


class FormatWriter(Protocol):
    """Writes batches to a file. A context manager: leaving it without an error completes the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def add(self, batch: Batch) -> int:
        """Write the batch; returns how many records were written."""


def writer(file: HashingFile, options: Mapping[str, str]) -> FormatWriter:
    """The writer for the format in the options."""
    if options.get("format", "parquet") == "json":
        return _Lines(file)
    return _Parquet(file, options.get("compression", "snappy"))


class _Lines:
    def __init__(self, file: HashingFile) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def add(self, batch: Batch) -> int:
        times = (ms if kind else None for kind, ms in batch.timestamps())
        rows = zip(batch.offsets(), times, batch.keys(), batch.values(), batch.headers(), strict=True)
        written = json_lines(batch.topic, batch.partition, rows)
        self._file.write(b"".join(written))
        return len(written)


class _Parquet:
    def __init__(self, file: HashingFile, compression: str) -> None:
        import pyarrow.parquet as parquet

        self._waiting: list[Any] = []
        self._records = 0
        self._bytes = 0
        # Keys and values hardly repeat: a dictionary for them costs time and saves no space.
        self._writer = parquet.ParquetWriter(
            file, arrow.schema(), compression=compression.upper(), use_dictionary=["topic", "partition"]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
            self._writer.close()

    def add(self, batch: Batch) -> int:
        rows = arrow.record_batch(batch)
        self._waiting.append(rows)
        self._records += rows.num_rows
        self._bytes += rows.nbytes
        if self._bytes >= _ROW_GROUP_BYTES or self._records >= _ROW_GROUP_RECORDS:
            self._flush()
        return int(rows.num_rows)

    def _flush(self) -> None:
        import pyarrow

        if self._waiting:
            self._writer.write_table(pyarrow.Table.from_batches(self._waiting), row_group_size=self._records)
        self._waiting, self._records, self._bytes = [], 0, 0
