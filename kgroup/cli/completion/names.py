"""Names of groups, topics and plans for completion, requested in the background and cached.

A key at a prompt must not wait for a cluster. So a separate process asks the cluster and writes to the cache. It
outlives the process that the shell waits for.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kgroup.support.signals import kill_after

if TYPE_CHECKING:
    from kgroup.cluster.snapshot import Cluster
    from kgroup.settings.model import Settings

    PlanNames = Callable[[Settings], Iterable[str]]

FRESH_S = 60.0
"""Up to this age cached names are used without asking again."""
STALE_S = 8 * 3600.0
"""Up to this age cached names are used if the cluster does not answer in time."""

_TRY_EVERY_S = 10.0
_TIMEOUT_S = 5.0
_LIFE_S = 15
_KEEP_S = 7 * 24 * 3600.0
_LOOK_EVERY_S = 0.005

GROUPS, TOPICS, INTERNAL, PLANS = "groups", "topics", "internal", "plans"


class Cache(msgspec.Struct, frozen=True):
    """The names of one cluster, as one connection sees them: a file for each kind, and a lock."""

    folder: Path
    key: str

    @classmethod
    def of(cls, folder: Path, settings: Settings) -> Cache:
        """The cache of a connection. Its key contains no secrets, not even hashed."""
        # Imported from here: hashlib would load OpenSSL.
        from _blake2 import blake2b

        public = [(key, entry.value) for key, entry in settings.entries.items() if not entry.is_secret]
        digest = blake2b(json.dumps(public).encode("utf-8", "surrogatepass"), digest_size=16)
        return cls(folder, digest.hexdigest())

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.key}.{kind}"

    def age_s(self, kind: str) -> float | None:
        """The age of the names; None if there are none, or if their time is in the future."""
        with suppress(OSError):
            age = time.time() - self.file(kind).stat().st_mtime
            return age if age >= 0 else None
        return None

    def read(self, kind: str) -> list[str]:
        """The names; empty if there is no file."""
        with suppress(OSError):
            return self.file(kind).read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
        return []

    def write(self, kind: str, names: Iterable[str]) -> None:
        """Replace the names, without those that have unprintable characters: no shell can show them."""
        aside = self.folder / f"{self.key}.{kind}.{os.getpid()}"
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.writelines(f"{name}\n" for name in names if is_plain(name))
        aside.replace(self.file(kind))


def is_plain(name: str) -> bool:
    """Whether a name can be shown at a prompt: not empty, and all characters printable."""
    return bool(name) and all(each.isprintable() for each in name)


def names(cache: Cache, settings: Settings, kind: str, until: float, plan_names: PlanNames) -> list[str]:
    """The names of ``kind``: from the cache while fresh, else from the cluster before ``until``, else stale ones.

    ``until`` is on the monotonic clock. ``plan_names`` reads the plans of the ledger.
    """
    age = cache.age_s(kind)
    if age is None or age >= FRESH_S:
        before = _identity(cache.file(kind))
        cache.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = cache.file("plans.lock" if kind == PLANS else "lock")
        asking = _start_asking(lock, partial(_fill, cache, settings, kind, plan_names))
        while asking() and time.monotonic() < until and _identity(cache.file(kind)) == before:
            time.sleep(_LOOK_EVERY_S)
        age = cache.age_s(kind)
    return cache.read(kind) if age is not None and age < STALE_S else []


def _identity(file: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = file.stat()
        return status.st_ino, status.st_mtime_ns
    return None


def _start_asking(lock_file: Path, fill: Callable[[], None]) -> Callable[[], bool]:
    """Ask the cluster in a background process, one at a time; returns a check whether an answer may still come."""
    lock = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return lambda: True  # a process for another key is asking already
    if not _may_try(lock):
        os.close(lock)
        return lambda: False
    child = os.fork()
    if child == 0:
        _ask(lock, fill)
    os.close(lock)  # the child still holds it
    return lambda: _is_running(child)


def _is_running(child: int) -> bool:
    with suppress(ChildProcessError):  # no child to wait for if the shell ignores SIGCHLD
        return os.waitpid(child, os.WNOHANG) == (0, 0)
    return False


def _may_try(lock: int) -> bool:
    """Whether the last try is at least 10 s ago; a wrong password must not lock an account key by key."""
    now = time.time()
    with suppress(ValueError):
        if 0 <= now - float(os.pread(lock, 32, 0)) < _TRY_EVERY_S:
            return False
    os.ftruncate(lock, 0)
    os.pwrite(lock, repr(now).encode(), 0)
    return True


def _ask(lock: int, fill: Callable[[], None]) -> None:
    """The background process; never returns."""
    try:
        os.setsid()
        kill_after(_LIFE_S)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        # The shell waits until all copies of its pipe are closed; this process may have inherited several.
        os.closerange(3, lock)
        os.closerange(lock + 1, os.sysconf("SC_OPEN_MAX"))
        fill()
    finally:
        os._exit(0)


def _fill(cache: Cache, settings: Settings, kind: str, plan_names: PlanNames) -> None:
    """Ask for the plans, or for the names of ``kind`` first and then for groups or topics over the same connection."""
    settings = replace(settings, timeout_s=min(settings.timeout_s, _TIMEOUT_S))
    if kind == PLANS:
        cache.write(PLANS, dict.fromkeys(plan_names(settings)))
    else:
        _fill_groups_and_topics(cache, settings, kind)
    _tidy(cache.folder)


def _fill_groups_and_topics(cache: Cache, settings: Settings, kind: str) -> None:
    # Imported here, in the background: the Kafka client alone takes half the time that a key may take.
    from kgroup.cluster.snapshot import Cluster
    from kgroup.support.errors import KgroupError

    with Cluster(settings) as cluster:
        asks = {GROUPS: _fill_groups, TOPICS: _fill_topics}
        for each in sorted(asks, key=lambda other: other != kind):
            with suppress(KgroupError):  # a user who may not see groups may still see topics
                asks[each](cache, cluster)


def _fill_groups(cache: Cache, cluster: Cluster) -> None:
    cache.write(GROUPS, [group.name for group in cluster.list_groups().groups])


def _fill_topics(cache: Cache, cluster: Cluster) -> None:
    from kgroup.cluster.topics import list_topics

    topics = cluster.ask(list_topics)
    cache.write(INTERNAL, [topic.name for topic in topics if topic.internal])
    cache.write(TOPICS, [topic.name for topic in topics if not topic.internal])


def _tidy(folder: Path) -> None:
    """Remove files that were not written for a week."""
    for file in folder.iterdir():
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _KEEP_S:
                file.unlink()
