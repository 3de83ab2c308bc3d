"""The journal of changes: what stood there and what was to stand there is on disk before anything is changed.

A change is a file of JSON lines in ``journal/`` of the state directory, ``ch-7k2f.jsonl``: a head, a line a
group with its rows, a line that says that this is all; then, while the change is made, lines of what came of
it. A file whose plan is not complete was cut off before anything was changed. Results are evidence, not truth:
who undoes a change compares what stands there now.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from errno import EACCES, EIO, ENOENT, ENOTDIR
from pathlib import Path
from typing import Any

from kgroup.model.groups import Commit
from kgroup.model.reporter import Reporter
from kgroup.settings import paths
from kgroup.support.atomic_file import nearest
from kgroup.support.clock import utc_now
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, NotFound, Refused
from kgroup.support.file_lock import exclusive

_SUFFIX = ".jsonl"
_VERSION = 1
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_NAMED = 5
_LOCK, _LOCK_PATIENCE_S = "lock", 60.0

Place = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A partition's commit before and after; None is no commit."""

    group: str
    topic: str
    partition: int
    before: Commit | None
    after: Commit | None

    @property
    def place(self) -> Place:
        """Which partition of which group."""
        return self.group, self.topic, self.partition


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change.

    ``command`` has no secrets. ``groups`` are the types of the groups by name, as they were; ``created`` and
    ``deleted`` those that came into being and went. ``topics`` are the ids of the topics by name. ``results``
    has the error code of each row that was tried, None where it was done; a row that is missing was not tried,
    or nobody lived to write it down. ``converted`` has the old and the new type of groups that were to change it,
    ``configs`` dynamic configs of groups before and after; ``conversions`` and ``configured`` are the error codes of
    both, as in ``results``.
    ``hidden`` are commits of deleted groups that the broker did not show, by group, topic and partition (None: whether
    there were some is not known): they are in no row and can't be put back.
    ``ended`` is None where kgroup died meanwhile. ``undoes`` is the id of the change that this one took back.
    """

    id: str
    at: datetime
    who: str
    what: str
    subject: str
    command: tuple[str, ...]
    reason: str | None
    cluster: ClusterRef
    groups: Mapping[str, str]
    topics: Mapping[str, str | None]
    rows: tuple[JournalRow, ...]
    created: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    undoable: bool = True
    undoes: str | None = None
    results: Mapping[Place, str | None] = field(default_factory=dict)
    converted: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = field(default_factory=dict)
    conversions: Mapping[str, str | None] = field(default_factory=dict)
    configured: Mapping[str, str | None] = field(default_factory=dict)
    ended: datetime | None = None
    hidden: Mapping[str, tuple[tuple[str, int], ...] | None] = field(default_factory=dict)

    @property
    def migrates(self) -> bool:
        """Whether it was about the types and configs of groups; their offsets it left as they were."""
        return bool(self.converted or self.configs)

    @property
    def mine(self) -> bool:
        """Whether this user made it."""
        return self.who == whoami()


class Writing:
    """A change that is being made: results are added as they come."""

    def __init__(self, path: Path, entry: JournalEntry) -> None:
        self.id = entry.id
        self.fault: str | None = None
        """Why results are missing in the file, in a sentence; None while none are.

        A disk that is full must not stop a change half-way: the plan is on disk before the first change, and
        ``kgroup undo`` compares it with the cluster where it finds no results.
        """
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def done(self, results: Mapping[Place, KgroupError | None]) -> None:
        """What came of some rows."""
        rows = [[*place, None if error is None else error.code] for place, error in results.items()]
        self._line({"done": rows})

    def removed(self, results: Mapping[str, KgroupError | None]) -> None:
        """What came of members that were to be removed."""
        self._line({"done": {name: None if error is None else error.code for name, error in results.items()}})

    def converted(self, results: Mapping[str, KgroupError | None]) -> None:
        """What came of groups that were to change their type."""
        self._of_groups("converted", results)

    def configured(self, results: Mapping[str, KgroupError | None]) -> None:
        """What came of groups whose configs were to be set."""
        self._of_groups("configured", results)

    def _of_groups(self, what: str, results: Mapping[str, KgroupError | None]) -> None:
        if results:
            self._line({what: {name: None if error is None else error.code for name, error in results.items()}})

    def close(self) -> None:
        """Nothing more will be tried."""
        self._line({"ended": utc_now().isoformat()})
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._failed(error)
        with suppress(OSError):  # which writes what is left in its buffer, and says the same once more
            self._file.close()

    def _line(self, document: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(document) + "\n")
            self._file.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.fault = self.fault or (
            f"the journal {self._path} could not be written to its end ({error.strerror}): it has all offsets from "
            f"before the change, but not every result; kgroup undo {self.id} compares them with the cluster"
        )


class NewerFormat(OSError):
    """A file of a kgroup that is newer than this one; ``version`` is its format."""

    def __init__(self, version: int) -> None:
        super().__init__(EIO, "was written by a newer version of kgroup")
        self.version = version


class Journal:
    """The changes that were made from this state directory, to any cluster."""

    def __init__(self, directory: Path | None = None) -> None:
        self._fault: str | None = None
        self.unreadable = 0
        """How many files could not be read, or are no journal, when they were last looked at."""
        try:
            self.directory = directory or paths.state_dir() / "journal"
        except RuntimeError:  # a pod's user that has no entry in /etc/passwd, and no HOME
            self.directory, self._fault = Path("~/.local/state/kgroup/journal"), "this user has no home directory"

    def check(self) -> None:
        """Raise the Refused that ``require_writable`` would, as far as it can be told without making anything."""
        self._require_home()
        try:
            there = nearest(self.directory)
            if not there.is_dir():
                raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR))
            if not os.access(there, os.W_OK | os.X_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
        except OSError as error:
            raise _unwritable(self.directory, error) from error

    def require_writable(self) -> None:
        """Make the directory. Raises Refused where that can't be, or nothing can be written there."""
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
        """Let no other kgroup of this machine change anything meanwhile; Refused where one takes too long."""
        what = "another kgroup that changes something"
        return exclusive(self.directory / _LOCK, reporter.event, what, _LOCK_PATIENCE_S)

    def begin(self, entry: JournalEntry) -> Writing:
        """Write the plan down, and come back when it is on disk. Raises Refused where it can't be."""
        path = self._path(entry.id)
        try:
            with path.open("x", encoding="utf-8") as file:
                path.chmod(0o600)
                for line in _lines(entry):
                    file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
            _sync_directory(self.directory)
            return Writing(path, entry)
        except OSError as error:
            raise _unwritable(path, error) from error

    def new_id(self) -> str:
        """Short and random: two hosts have two journals, and both would have a number 192."""
        while True:
            made = "ch-" + "".join(secrets.choice(_ALPHABET) for _ in range(4))
            if not self._path(made).exists():
                return made

    def entries(self, cluster_id: str | None, since: datetime | None = None) -> list[JournalEntry]:
        """The changes of this cluster, newest first; a file that was cut off before the change is left out."""
        self.unreadable = 0
        found: list[JournalEntry] = []
        for path in self.files(since):
            try:
                entry = _read(path)
            except OSError:
                self.unreadable += 1
                continue
            if entry and _of_cluster(entry, cluster_id):
                found.append(entry)
        return sorted(found, key=lambda entry: entry.at, reverse=True)

    def entry(self, change_id: str, cluster_id: str | None) -> JournalEntry:
        """One change of this cluster.

        Raises NotFound, and Refused where it was another cluster's, or written by a newer kgroup.
        """
        typed = change_id.lower()
        path = self._path(typed if typed.startswith("ch-") else f"ch-{typed}")
        entry = self._found(path)
        if entry is None:
            raise self._unknown(change_id, cluster_id)
        if not _of_cluster(entry, cluster_id):
            raise Refused(
                f"{change_id} was made to another cluster: {entry.cluster.label} ({entry.cluster.cluster_id})",
                code="other-cluster",
                hint="name that cluster: --context NAME or -b HOST:PORT",
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
                code="newer-journal",
            ) from error
        except OSError as error:
            raise NotFound(f"{path} can't be read: {error.strerror}") from error

    def _unknown(self, change_id: str, cluster_id: str | None) -> NotFound:
        """No such change: ids that are near, and the changes of a group whose name stands instead of an id."""
        entries = self.entries(cluster_id)
        typed = change_id.lower()
        near_ids = get_close_matches(typed if typed.startswith("ch-") else f"ch-{typed}", [e.id for e in entries])
        about = [entry for entry in entries if change_id in entry.groups or entry.id in near_ids][:_NAMED]
        near = [f"{entry.id}  {entry.at:%m-%d %H:%M:%SZ}  {entry.what} {entry.subject}" for entry in about]
        return NotFound(
            f"no change {change_id!r} in the journal of this machine",
            details=(*near, f"The journal is {self.directory}."),
            hint="kgroup undo lists what can be taken back from here",
        )

    def files(self, since: datetime | None) -> Iterator[Path]:
        """The journal's files that were written to since then. Raises Refused where the directory cannot be read."""
        oldest = since.timestamp() if since else 0.0
        for name in sorted(self._names()):
            path = self.directory / name
            try:
                recent = path.stat().st_mtime >= oldest
            except OSError:
                recent = True  # whoever reads it gets the reason
            if recent:
                yield path

    def _names(self) -> list[str]:
        # Path.glob, and from Python 3.14 on Path.exists, take a directory that may not be entered for an empty one.
        try:
            names = [path.name for path in self.directory.iterdir()]
            with suppress(FileNotFoundError):
                (self.directory / _LOCK).stat()  # raises where the directory may be listed, and not entered
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(self.directory, error) from error
        return [name for name in names if name.startswith("ch-") and name.endswith(_SUFFIX)]

    def _path(self, change_id: str) -> Path:
        return self.directory / f"{change_id}{_SUFFIX}"


def whoami() -> str:
    """``maria@jump-1``; a pod's user without a name is its number."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def our_commits(
    journal: Journal, cluster_id: str | None, groups: Collection[str], since: datetime
) -> dict[str, set[tuple[str, int, int]]]:
    """(topic, partition, offset) that kgroup has committed since then, by group: they are nobody else's."""
    found: dict[str, set[tuple[str, int, int]]] = {}
    for path in journal.files(since):
        try:
            head, *lines = _documents(path)
        except OSError:
            continue
        if head.get("cluster_id") == cluster_id and head.get("kgroup_journal") == _VERSION:
            for line in lines:
                if (group := line.get("group", "")) in groups:
                    after = {(row[0], row[1], row[3][0]) for row in line["rows"] if row[3] is not None}
                    found.setdefault(group, set()).update(after)
    return found


def _lines(entry: JournalEntry) -> Iterator[dict[str, Any]]:
    yield {
        "kgroup_journal": _VERSION,
        "id": entry.id,
        "at": entry.at.isoformat(),
        "who": entry.who,
        "what": entry.what,
        "subject": entry.subject,
        "command": list(entry.command),
        "reason": entry.reason,
        "cluster_id": entry.cluster.cluster_id,
        "context": entry.cluster.context,
        "bootstrap_servers": entry.cluster.bootstrap_servers,
        "groups": dict(entry.groups),
        "topics": dict(entry.topics),
        "created": sorted(entry.created),
        "deleted": sorted(entry.deleted),
        "converted": {name: list(kinds) for name, kinds in entry.converted.items()},
        "configs": {name: {key: list(pair) for key, pair in own.items()} for name, own in entry.configs.items()},
        "undoable": entry.undoable,
        "undoes": entry.undoes,
        **(
            {"hidden": {name: places and [*map(list, places)] for name, places in entry.hidden.items()}}
            if entry.hidden
            else {}
        ),
    }
    rows: dict[str, list[list[Any]]] = {}
    for row in entry.rows:
        rows.setdefault(row.group, []).append([row.topic, row.partition, _packed(row.before), _packed(row.after)])
    yield from ({"group": group, "rows": given} for group, given in rows.items())
    yield {"planned": len(entry.rows)}


def _packed(commit: Commit | None) -> list[Any] | None:
    return None if commit is None else [commit.offset, commit.leader_epoch, commit.metadata]


def _unpacked(packed: list[Any] | None) -> Commit | None:
    return None if packed is None else Commit(*packed)


def _documents(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, an empty one first where it has none; a line that is cut off or broken is left out.

    Raises OSError where it can't be read.
    """
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            document = json.loads(line)
            if isinstance(document, dict):
                found.append(document)
    return found or [{}]


def _read(path: Path) -> JournalEntry | None:
    """None for a plan that was never complete: nothing was changed then.

    Raises OSError for what can't be read, and for what is no journal of this version.
    """
    try:
        head, *others = _documents(path)
        if "kgroup_journal" not in head and b"\n" in path.read_bytes():
            raise OSError(EIO, "is damaged")
        if isinstance(version := head["kgroup_journal"], int) and version > _VERSION:
            raise NewerFormat(version)
        rows = [
            JournalRow(line["group"], topic, partition, _unpacked(before), _unpacked(after))
            for line in others
            if "rows" in line
            for topic, partition, before, after in line["rows"]
        ]
        if {"planned": len(rows)} not in others:
            if any("done" in line or "ended" in line for line in others):
                raise OSError(EIO, "is damaged")
            return None  # cut off before anything was changed
        done = [result for line in others for result in _results(line)]
        ended = next((line["ended"] for line in others if "ended" in line), None)
        return JournalEntry(
            id=head["id"],
            at=datetime.fromisoformat(head["at"]),
            who=head["who"],
            what=head["what"],
            subject=head["subject"],
            command=tuple(head["command"]),
            reason=head["reason"],
            cluster=ClusterRef(head["cluster_id"], head["bootstrap_servers"], head["context"]),
            groups=head["groups"],
            topics=head["topics"],
            rows=tuple(rows),
            created=frozenset(head["created"]),
            deleted=frozenset(head["deleted"]),
            undoable=head["undoable"],
            undoes=head["undoes"],
            results={(group, topic, partition): code for group, topic, partition, code in done},
            converted={name: (old, new) for name, (old, new) in head.get("converted", {}).items()},
            configs={
                name: {key: (before, after) for key, (before, after) in own.items()}
                for name, own in head.get("configs", {}).items()
            },
            conversions={name: code for line in others for name, code in _of_groups(line, "converted")},
            configured={name: code for line in others for name, code in _of_groups(line, "configured")},
            ended=datetime.fromisoformat(ended) if ended else None,
            hidden={
                name: None if places is None else tuple((topic, number) for topic, number in places)
                for name, places in head.get("hidden", {}).items()
            },
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _results(line: Mapping[str, Any]) -> Iterator[tuple[str, str, int, str | None]]:
    """The results in a line; what is none is left out, since the plan stands without it."""
    given = line.get("done")
    for item in given if isinstance(given, list) else ():
        if isinstance(item, list) and len(item) == 4:
            group, topic, partition, code = item
            yield group, topic, partition, code


def _of_groups(line: Mapping[str, Any], what: str) -> Iterator[tuple[str, str | None]]:
    given = line.get(what)
    yield from given.items() if isinstance(given, dict) else ()


def _is_id(text: str) -> bool:
    return text.startswith("ch-") and text.removeprefix("ch-").isalnum() and text.isascii()


def _of_cluster(entry: JournalEntry, cluster_id: str | None) -> bool:
    return entry.cluster.cluster_id == cluster_id


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"the journal cannot be read: {path}: {error.strerror}",
        details=("Which changes were made from this machine is unknown.",),
        hint="run kgroup as the user that owns the journal, or set KGROUP_STATE_DIR",
        code="no-journal",
    )


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"the journal can't be written: {path}: {error.strerror}",
        details=("Without it the change could not be taken back. Nothing was changed.",),
        hint="set KGROUP_STATE_DIR to a directory that can be written, or give --backup FILE (or -)",
        code="no-journal",
    )
