"""Files that get their name only when they are complete and on disk."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import IO

from kgroup.support.errors import KgroupError, UsageError

_DESCRIPTOR = r"/dev/(?:fd/(\d+)|(stdout)|(stderr))|/proc/self/fd/(\d+)"
_URL = r"[A-Za-z][A-Za-z0-9+.-]+:/"
_MODE, _PUBLIC_MODE = 0o600, 0o644


class AtomicFile:
    """``with AtomicFile(path, "--backup") as file``: bytes written to ``file`` are at ``path`` after the block.

    They are written to ``path.part``, synced and renamed. If the block fails, ``path.part`` is removed. Only the owner
    can read the file. A device, a FIFO and /dev/stdout are written to directly.

    ``option`` is the option before the path on the command line. Entering raises UsageError if the file is not empty,
    cannot be created, or is being written by another kgroup run. With ``replaces`` an existing file is replaced and
    every user may read the new one: a metrics collector runs as another user.
    """

    def __init__(self, path: Path | str, option: str, *, replaces: bool = False) -> None:
        self._replaces = replaces
        self._mode = _PUBLIC_MODE if replaces else _MODE
        self._typed = str(path)
        self._option = option
        self._part: Path | None = None
        self._path = Path(path)

    def check(self) -> None:
        """Raise the UsageError that entering would raise, as far as it is known without writing anything."""
        self._require_name()
        if re.fullmatch(_DESCRIPTOR, self._typed):
            return
        path = self._path.resolve()
        if path.is_dir():
            raise self._usage("is a directory")
        if path.is_file() and path.stat().st_size and not self._replaces:
            raise self._usage("is there already, and is not overwritten")
        if not path.parent.is_dir():
            raise self._usage(f"there is no directory {path.parent}")
        if path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise self._usage("may not be written")
            return
        try:
            try_to_create(path.parent)
        except OSError as error:
            raise self._usage(f"cannot be written: {error.strerror}") from error

    def __enter__(self) -> IO[bytes]:
        self._require_name()
        try:
            self._file = self._open()
        except OSError as error:
            raise self._usage(error.strerror or str(error)) from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        complete = False
        try:
            if kind is None:
                self._complete()
                complete = True
        except OSError as error:
            raise self.failure(error) from error
        finally:
            if self._part is not None and not complete:
                self._part.unlink(missing_ok=True)
            with suppress(OSError):  # the rest of the buffer is given up
                self._file.close()  # this releases the lock too

    def failure(self, error: OSError) -> KgroupError:
        return KgroupError(f"{self._typed} could not be written: {error.strerror or error}", code="file")

    def _require_name(self) -> None:
        if not self._typed:
            raise UsageError(f"{self._option} requires the name of a file")
        require_path(self._option, self._typed)

    def _open(self) -> IO[bytes]:
        if descriptor := re.fullmatch(_DESCRIPTOR, self._typed):
            # Opening it again would write from the start of the file, over the output of the shell's other writers.
            numbered, stdout, stderr, proc = descriptor.groups()
            return os.fdopen(os.dup(1 if stdout else 2 if stderr else int(numbered or proc)), "wb")
        self._path = self._path.resolve()
        self._require_free()
        if self._path.exists() and not self._path.is_file():
            return self._path.open("wb")
        part = self._path.with_name(self._path.name + ".part")
        file = os.fdopen(self._locked(part), "wb")
        self._part = part
        return file

    def _require_free(self) -> None:
        if self._path.is_dir():
            raise self._usage("is a directory")
        if self._path.is_file() and self._path.stat().st_size and not self._replaces:
            raise self._usage("is there already, and is not overwritten")

    def _locked(self, part: Path) -> int:
        """The locked, empty ``part``. Reuses the file of a killed run; refuses one that another run is writing."""
        if part.is_symlink() or (part.exists() and not part.is_file()):
            raise self._usage(f"{part} is in the way")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, self._mode)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Between our open and our lock, the other writer may have renamed it.
                ours = part.exists() and os.path.samestat(part.stat(), os.fstat(descriptor))
            except BlockingIOError:
                ours = False
            if not ours:
                raise self._usage(f"another kgroup is writing {part}")
            os.ftruncate(descriptor, 0)
            os.fchmod(descriptor, self._mode)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _complete(self) -> None:
        self._file.flush()
        if self._part is None:
            return
        os.fsync(self._file.fileno())
        self._require_free()  # another process may have created it meanwhile
        self._part.replace(self._path)
        sync_directory(self._path.parent)

    def _usage(self, reason: str) -> UsageError:
        return UsageError(f"{self._option} {self._typed}: {reason}", hint="Name a new file.")


def require_path(option: str, text: str, hint: str | None = None) -> None:
    """Raise UsageError for a URL (``s3a://``, ``dbfs:/``, ``file:///``): as a path it names a local directory ``s3a:``.

    ``hint`` is for other URLs than those of files.
    """
    if re.match(_URL, text):
        if hint is None or text.startswith("file:"):
            hint = "Name a path of this machine, without a scheme."
        raise UsageError(f"{option} {text}: a URL, and not a path of this machine", hint=hint)


def replace_file(path: Path, content: bytes, *, mode: int = _MODE) -> None:
    """Write ``content`` next to ``path``, and rename it to ``path`` when it is on disk. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        write_synced(part, content, mode=mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_synced(path: Path, content: bytes, *, mode: int = _MODE) -> None:
    """Write a new file; it is on disk when this returns. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Bring new and renamed names of a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_to_create(directory: Path) -> None:
    """Raise the OSError of creating a file in this directory; nothing is left there.

    ``os.access`` allows root everything, also below /proc, where no file can be created.
    """
    from tempfile import TemporaryFile  # imported here: only a change needs it

    with TemporaryFile(dir=directory):
        pass


def nearest_existing(path: Path) -> Path:
    """``path``, or its nearest parent that exists. Raises OSError if one of the directories may not be entered.

    ``Path.exists`` reports everything below such a directory as missing, from Python 3.14 on.
    """
    for one in (path, *path.parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            one.stat()
            return one
    raise FileNotFoundError(path)
