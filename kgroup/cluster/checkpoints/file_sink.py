"""The log of Spark's file sink, ``_spark_metadata`` in its folder: the files of each batch of one query.

Who reads the folder with Spark needs every number of it, an appended batch's too: it has no files. Each tenth file is
``N.compact`` and has the lines of those before it. Source: CompactibleFileStreamLog of apache/spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from kgroup.cluster.checkpoints.stores import Store, store_of
from kgroup.support.errors import Refused, UsageError, refusal_code

FILE_SINK = refusal_code(
    "file-sink",
    "changes of streaming queries",
    "Spark's file sink needs each batch in its log too, and a checkpoint does not name its folder.",
    "Name the folder of writeStream.format(parquet, json, text, ...): --file-sink DIR. Otherwise: --file-sink none.",
)
_LOG, _COMPACT = "_spark_metadata", ".compact"
_INTERVAL = 10
"""``spark.sql.streaming.fileSink.log.compactInterval``, unless the log shows another."""


class FileSink:
    """The file sink that writes to ``root``, a path or a URI."""

    def __init__(self, root: str, timeout_s: float) -> None:
        self.root = root
        self._timeout_s = timeout_s

    @cached_property
    def _store(self) -> Store:
        return store_of(self.root, self._timeout_s)

    def check(self, least: int, last: int) -> None:
        """Raise UsageError unless there is a log that ends with a batch from ``least`` to ``last``.

        Raises OSError, and Refused, as adding the batch after ``last`` would.
        """
        newest = max(self._names(), default=None)
        if newest is None:
            raise UsageError(
                f"--file-sink {self.root}: there is no log of Spark's file sink ({_LOG})",
                hint="For a query with another sink: --file-sink none",
            )
        if not least <= newest <= last:
            raise UsageError(
                f"--file-sink {self.root} is not of this query: its log ends with batch {newest}, the query has {last}"
            )
        self._store.check(_LOG)
        self._missing(least, last + 1)

    def add_missing(self, least: int, last: int) -> None:
        """Add batches without files where the log has none after ``least``. Raises OSError, and Refused for holes."""
        for name, content in self._missing(least, last).items():
            self._store.create(f"{_LOG}/{name}", content)

    def _missing(self, least: int, last: int) -> dict[str, bytes]:
        """The files that are to be added, in their order."""
        names, added = self._names(), dict[str, bytes]()
        compacted = sorted(number for number, name in names.items() if name.endswith(_COMPACT))
        # What is before the last compact file is in it, and may have been deleted.
        for number in range(max([least, *compacted]) + 1, last + 1):
            if number not in names:
                compact = (number + 1) % _interval(compacted) == 0
                lines = self._lines_before(number, names, compacted) if compact else []
                added[f"{number}{_COMPACT if compact else ''}"] = "\n".join(["v1", *lines]).encode()
                names[number] = ""
        return added

    def _names(self) -> dict[int, str]:
        try:
            names = self._store.names(_LOG)
        except FileNotFoundError:
            return {}
        numbered = ((name.removesuffix(_COMPACT), name) for name in names)
        # A compact file is read instead of the plain one of its number.
        return {int(number): name for number, name in sorted(numbered) if number.isdigit()}

    def _lines_before(self, number: int, names: Mapping[int, str], compacted: Sequence[int]) -> Iterator[str]:
        """All files of all batches before this one, from the last compact file on; "" is one that has none yet."""
        for each in range(max((n for n in compacted if n < number), default=0), number):
            if each not in names:
                raise Refused(f"the log of {self.root} has no batch {each}", code=FILE_SINK)
            if names[each]:
                content = self._store.read(f"{_LOG}/{names[each]}")
                version, *lines = content.decode().splitlines()
                if version != "v1":
                    raise Refused(f"{names[each]} has version {version}; this kgroup knows v1", code=FILE_SINK)
                yield from lines


def _interval(compacted: Sequence[int]) -> int:
    """How many batches are between two compact files, by those that are there."""
    if len(compacted) > 1:
        return compacted[-1] - compacted[-2]
    if not compacted:
        return _INTERVAL
    upto = compacted[0] + 1
    return next((n for n in range(_INTERVAL, upto // 2 + 1) if upto % n == 0), upto)
