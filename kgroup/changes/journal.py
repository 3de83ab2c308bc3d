"""The journal of changes: old and new offsets are on disk before anything is changed.

A change is a file of JSON lines in ``journal/`` of the state directory, ``ch-7k2f.jsonl``. It has a first line about
the change, one line per group with its rows, and a line that ends the plan. Result lines follow while the change is
made. A file that ends within the plan was cut off before anything was changed. Results are evidence, not truth: undo
compares the rows with the current commits.

Each line has a checksum, so that a damaged one is found. Its rows are not restored. If a result is missing, or the end,
undo treats the rows without a result as perhaps changed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from difflib import get_close_matches
from errno import EIO, ENOENT
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from kgroup.model.commit import Commit
from kgroup.model.journal import DAMAGED_JOURNAL, JournalEntry, JournalRow
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import GroupTopicPartition
from kgroup.settings import paths
from kgroup.support.atomic_file import nearest_existing, sync_directory, try_to_create
from kgroup.support.clock import utc_ms, utc_now
from kgroup.support.errors import KgroupError, NotFound, Refused, refusal_code
from kgroup.support.file_lock import exclusive_lock
from kgroup.support.hint import Hint
from kgroup.support.instants import short_time

NO_JOURNAL = refusal_code(
    "no-journal",
    "changes",
    "The journal cannot be written.",
    "Set KGROUP_STATE_DIR to a directory that can be written, or add --backup.",
)
NEWER_JOURNAL = refusal_code(
    "newer-journal", "undo", "A newer version of kgroup made that change.", "Undo it with that version, or a newer one."
)
OTHER_CLUSTER = refusal_code(
    "other-cluster",
    "undo, catchup",
    "The change was made to another cluster, or the plan is another cluster's and this ledger is a mirrored copy.",
    "Name that cluster, or another --ledger-topic.",
)

_SUFFIX = ".jsonl"
_VERSION = 1
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_NAMED = 5
_LOCK, _LOCK_PATIENCE_S = "lock", 60.0
_CHECKSUM = re.compile(r'\{"crc32": "([0-9a-f]{8})", ')


class ChangeWriter:
    """Adds the results to the file of a change while it is made."""

    def __init__(self, path: Path, entry: JournalEntry) -> None:
        self.id = entry.id
        self.fault: str | None = None
        """Why results are missing in the file, as a sentence; None if none are.

        A full disk must not stop a change half-way: the plan is on disk before the first change, and ``kgroup undo``
        compares it with the cluster for rows without a result.
        """
        self._path = path
        self._results = 0
        self._file = path.open("a", encoding="utf-8")

    def record_results(self, results: Mapping[GroupTopicPartition, KgroupError | None]) -> None:
        self._results_line("done", [[*tp, None if error is None else error.code] for tp, error in results.items()])

    def removed(self, results: Mapping[str, KgroupError | None]) -> None:
        self._results_line("done", {name: None if error is None else error.code for name, error in results.items()})

    def converted(self, results: Mapping[str, KgroupError | None]) -> None:
        self._of_groups("converted", results)

    def configured(self, results: Mapping[str, KgroupError | None]) -> None:
        self._of_groups("configured", results)

    def _of_groups(self, what: str, results: Mapping[str, KgroupError | None]) -> None:
        if results:
            self._results_line(what, {name: None if error is None else error.code for name, error in results.items()})

    def close(self) -> None:
        """Record that the change has ended, and close the file."""
        self._line({"ended": utc_now().isoformat(), "results": self._results})
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._failed(error)
        with suppress(OSError):  # closing writes the rest of the buffer, and fails with the same error again
            self._file.close()

    def _results_line(self, what: str, results: Sized) -> None:
        self._results += len(results)
        self._line({what: results})

    def _line(self, document: Mapping[str, Any]) -> None:
        try:
            self._file.write(line_of(document))
            self._file.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.fault = self.fault or (
            f"the journal {self._path} could not be written completely ({error.strerror}). It has all offsets "
            "from before the change, but not every result; "
            + Hint("{} compares them with the cluster", ("undo", self.id))
        )


class NewerFormat(OSError):
    """A file of a newer kgroup; ``version`` is its format."""

    def __init__(self, version: int) -> None:
        super().__init__(EIO, "was written by a newer version of kgroup")
        self.version = version


class DamagedFile(OSError):
    """A file whose change cannot be told from what is intact of it."""

    def __init__(self) -> None:
        super().__init__(EIO, "is damaged")


class Journal:
    """The changes made from this state directory, to any cluster."""

    def __init__(self, directory: Path | None = None) -> None:
        self._fault: str | None = None
        self.unreadable = 0
        """How many files the last call of ``entries`` could not read, or found damaged."""
        try:
            self.directory = directory or paths.state_dir() / "journal"
        except RuntimeError:  # a pod's user without an entry in /etc/passwd and without HOME
            self.directory, self._fault = Path("~/.local/state/kgroup/journal"), "this user has no home directory"

    def check(self) -> None:
        """Raise the Refused that ``require_writable`` would raise, as far as it is known without creating anything."""
        self._require_home()
        try:
            try_to_create(nearest_existing(self.directory))
        except OSError as error:
            raise _unwritable(self.directory, error) from error

    def require_writable(self) -> None:
        """Create the directory. Raises Refused if it cannot be created, or no file can be written in it."""
        self._require_home()
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self.directory / _LOCK).open("a"):
                return
        except OSError as error:
            raise _unwritable(self.directory, error) from error

    def _require_home(self) -> None:
        if self._fault is not None:
            raise _unwritable(self.directory, OSError(ENOENT, self._fault))

    def locked(self, reporter: Reporter) -> AbstractContextManager[None]:
        """Let no other kgroup run of this machine change anything during the block; Refused after 60 s of waiting."""
        what = "another kgroup run that makes a change"
        return exclusive_lock(self.directory / _LOCK, reporter.event, what, _LOCK_PATIENCE_S)

    def begin(self, entry: JournalEntry) -> ChangeWriter:
        """Write the plan and return when it is on disk. Raises Refused if it cannot be written."""
        path = self._path(entry.id)
        try:
            with path.open("x", encoding="utf-8") as file:
                path.chmod(0o600)
                for line in _lines(entry):
                    file.write(line_of(line))
                file.flush()
                os.fsync(file.fileno())
            sync_directory(self.directory)
            return ChangeWriter(path, entry)
        except OSError as error:
            raise _unwritable(path, error) from error

    def new_id(self) -> str:
        """A new id, short and random: two hosts have two journals, and sequential numbers would collide."""
        while True:
            made = "ch-" + "".join(secrets.choice(_ALPHABET) for _ in range(4))
            if not self._path(made).exists():
                return made

    def entries(self, cluster_id: str | None, since: datetime | None = None) -> list[JournalEntry]:
        """The changes of this cluster, newest first, without those that were cut off before the change."""
        self.unreadable = 0
        entries: list[JournalEntry] = []
        for path in self.files(since):
            try:
                entry = _read(path)
            except OSError:
                self.unreadable += 1
                continue
            if entry and _of_cluster(entry, cluster_id):
                entries.append(entry)
        return sorted(entries, key=lambda entry: entry.at, reverse=True)

    def entry(self, change_id: str, cluster_id: str | None) -> JournalEntry:
        """One change of this cluster.

        Raises NotFound, and Refused if it is damaged, was made to another cluster, or written by a newer kgroup.
        """
        typed = change_id.lower()
        path = self._path(typed if typed.startswith("ch-") else f"ch-{typed}")
        entry = self._found(path)
        if entry is None:
            raise self._unknown(change_id, cluster_id)
        if not _of_cluster(entry, cluster_id):
            raise Refused(
                f"{change_id} was made to another cluster: {entry.cluster.label} ({entry.cluster.cluster_id})",
                code=OTHER_CLUSTER,
                hint="Choose that cluster: --context NAME or -b HOST:PORT",
            )
        return entry

    def _found(self, path: Path) -> JournalEntry | None:
        if not _is_id(path.stem) or path.name not in self._names():
            return None
        try:
            return _read(path)
        except NewerFormat as error:
            raise Refused(
                f"{path.stem} was written by a newer version of kgroup",
                details=(f"The file {path} has format {error.version}; this version reads format {_VERSION}.",),
                hint="Undo this change with the version that made it, or with a newer one.",
                code=NEWER_JOURNAL,
            ) from error
        except DamagedFile as error:
            raise Refused(
                f"{path.stem} cannot be read: {path} is damaged",
                hint=Hint("To restore the offsets of an earlier time: {}", ("undo", "GROUP", "--as-of", "TIME")),
                code=DAMAGED_JOURNAL,
            ) from error
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}") from error

    def _unknown(self, change_id: str, cluster_id: str | None) -> NotFound:
        """The error for an unknown id, with similar ids, and the changes of a group if its name was given instead."""
        entries = self.entries(cluster_id)
        typed = change_id.lower()
        near_ids = get_close_matches(typed if typed.startswith("ch-") else f"ch-{typed}", [e.id for e in entries])
        about = [entry for entry in entries if change_id in entry.groups or entry.id in near_ids][:_NAMED]
        near = [f"{entry.id}  {short_time(entry.at_ms, utc_ms())}  {entry.what} {entry.subject}" for entry in about]
        return NotFound(
            f"no change {change_id!r} in the journal of this machine",
            details=(*near, f"The journal is {self.directory}."),
            hint=Hint("{} lists the changes that can be undone from this machine", ("undo",)),
        )

    def files(self, since: datetime | None) -> Iterator[Path]:
        """The journal's files written since then (None: all). Raises Refused if the directory cannot be read."""
        oldest = since.timestamp() if since else 0.0
        for name in sorted(self._names()):
            path = self.directory / name
            try:
                recent = path.stat().st_mtime >= oldest
            except OSError:
                recent = True  # reading the file reports the reason
            if recent:
                yield path

    def _names(self) -> list[str]:
        # Path.glob, and from Python 3.14 on Path.exists, treat a directory that may not be entered as empty.
        try:
            names = [path.name for path in self.directory.iterdir()]
            with suppress(FileNotFoundError):
                (self.directory / _LOCK).stat()  # raises if the directory may be listed but not entered
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(self.directory, error) from error
        return [name for name in names if name.startswith("ch-") and name.endswith(_SUFFIX)]

    def _path(self, change_id: str) -> Path:
        return self.directory / f"{change_id}{_SUFFIX}"


_MAY_BE_COMMITTED = (None, "outcome-unknown", "unreachable", "timed-out")
"""Results of a row whose commit the group has, or may have; with every other the broker has refused it."""


def our_commits(
    journal: Journal, cluster_id: str | None, groups: Collection[str], since: datetime
) -> dict[str, set[tuple[str, int, int]]]:
    """The (topic, partition, offset) that kgroup has committed since then, or may have, by group."""
    commits: dict[str, set[tuple[str, int, int]]] = {}
    for path in journal.files(since):
        try:
            head, lines = _typed(_documents(path)[0])
        except OSError:
            continue
        if not _of_cluster(head, cluster_id):
            continue
        failed = {row[:3] for line in lines for row in line.row_results if row[3] not in _MAY_BE_COMMITTED}
        for line in lines:
            if line.group in groups:
                commits.setdefault(line.group, set()).update(
                    (topic, partition, after.offset)
                    for topic, partition, _, after in line.rows or ()
                    if after is not None and (line.group, topic, partition) not in failed
                )
    return commits


class _Line(msgspec.Struct, frozen=True):
    """A line after the first: rows of a group, the end of the plan, results, or the end of the change."""

    group: str = ""
    rows: tuple[tuple[str, int, Commit | None, Commit | None], ...] | None = None
    planned: int | None = None
    done: tuple[tuple[str, str, int, str | None], ...] | dict[str, str | None] = ()
    """Error codes of rows; an eviction has those of members instead."""
    converted: dict[str, str | None] = {}
    configured: dict[str, str | None] = {}
    ended: datetime | None = None
    results: int = 0

    @property
    def result_count(self) -> int:
        return len(self.done) + len(self.converted) + len(self.configured)

    @property
    def row_results(self) -> tuple[tuple[str, str, int, str | None], ...]:
        """Group, topic, partition and error code of rows."""
        return () if isinstance(self.done, dict) else self.done


def _lines(entry: JournalEntry) -> Iterator[dict[str, Any]]:
    head = msgspec.to_builtins(replace(entry, rows=()))
    cluster = head.pop("cluster")
    yield {"kgroup_journal": _VERSION, **head, **cluster}
    rows: dict[str, list[tuple[str, int, Commit | None, Commit | None]]] = {}
    for row in entry.rows:
        rows.setdefault(row.group, []).append((row.topic, row.partition, row.before, row.after))
    yield from ({"group": group, "rows": given} for group, given in rows.items())
    yield {"planned": len(entry.rows)}


def line_of(document: Mapping[str, Any]) -> str:
    """A line of a file; its first field is the CRC-32 of the document without that field."""
    text = json.dumps(document)
    return f'{{"crc32": "{crc32(text.encode()):08x}", {text[1:]}\n'


def _document(line: str) -> dict[str, Any] | None:
    """The document in a line; None if the line is damaged."""
    checksum = _CHECKSUM.match(line)
    text = line if checksum is None else "{" + line[checksum.end() :]
    if checksum is None or crc32(text.encode()) != int(checksum[1], 16):
        return None
    document = json.loads(text)
    return document if isinstance(document, dict) else None


def _documents(path: Path) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """The intact lines of a file, at least one empty document; and the numbers of the damaged lines, from 1.

    A last line that was cut off is left out. Raises OSError if the file cannot be read.
    """
    *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    documents = [_document(line) for line in lines]
    intact = [document for document in documents if document is not None]
    return intact or [{}], tuple(number for number, document in enumerate(documents, 1) if document is None)


def _typed(documents: Sequence[dict[str, Any]]) -> tuple[JournalEntry, list[_Line]]:
    """The first line, without rows and results, and the others. Raises DamagedFile, and NewerFormat."""
    head, *others = documents
    _check_version(head)
    try:
        return msgspec.convert({**head, "cluster": head}, JournalEntry), msgspec.convert(others, list[_Line])
    except msgspec.ValidationError as error:
        raise DamagedFile from error


def _check_version(head: Mapping[str, Any]) -> None:
    version = head.get("kgroup_journal")
    if not isinstance(version, int):
        raise DamagedFile
    if version > _VERSION:
        raise NewerFormat(version)


def _read(path: Path) -> JournalEntry | None:
    """The entry; None if its plan is incomplete, so nothing was changed.

    Raises OSError for an unreadable file, DamagedFile, and NewerFormat.
    """
    documents, damaged = _documents(path)
    if not (documents[0] or damaged):
        return None
    _check_version(documents[0])
    if not damaged and all("rows" in line for line in documents[1:]):
        return None  # cut off before anything was changed
    head, lines = _typed(documents)
    rows = tuple(JournalRow(line.group, *row) for line in lines for row in line.rows or ())
    planned = next((line.planned for line in lines if line.planned is not None), None)
    damage = None
    if planned != len(rows):
        where = f"line {', '.join(map(str, damaged))}" if damaged else "a line"
        damage = f"{where} of {path} is {'damaged' if damaged else 'missing'}"
    recorded = sum(line.result_count for line in lines)
    return replace(
        head,
        rows=rows,
        results={(group, topic, number): code for line in lines for group, topic, number, code in line.row_results},
        conversions={name: code for line in lines for name, code in line.converted.items()},
        configured={name: code for line in lines for name, code in line.configured.items()},
        ended=next((line.ended for line in lines if line.ended and line.results == recorded), None),
        damage=damage,
    )


def _is_id(text: str) -> bool:
    return text.startswith("ch-") and text.removeprefix("ch-").isalnum() and text.isascii()


def _of_cluster(entry: JournalEntry, cluster_id: str | None) -> bool:
    return entry.cluster.cluster_id == cluster_id


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"the journal cannot be read: {path}: {error.strerror}",
        details=("kgroup cannot know which changes were made from this machine.",),
        hint="run kgroup as the user that owns the journal, or set KGROUP_STATE_DIR",
        code=NO_JOURNAL,
    )


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"the journal cannot be written: {path}: {error.strerror}",
        details=("Without the journal the change could not be undone. Nothing was changed.",),
        hint="set KGROUP_STATE_DIR to a directory that can be written, or give --backup FILE (or -)",
        code=NO_JOURNAL,
    )
