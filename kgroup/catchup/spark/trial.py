"""What a worker of Spark tries before anything moves: the packages, the login, each broker, files, the destination.

A worker without msgspec runs this too, to say that it is missing: what needs it is imported where it is tried.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup.catchup.worker.failure import SPARK_WORKERS, Failure, failure_of
from kgroup.support.errors import KgroupError, Refused

if TYPE_CHECKING:
    from kgroup.groups.catchup.model import Chunk

_NOT_A_FILE = "probe"
"""A value of ``ssl.ca.location``: librdkafka looks for the machine's own certificates."""

_ON_ALL = "it must be at the same path on each machine with workers of Spark"


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """A task that reads no record. ``config`` is of the Kafka clients, with secrets.

    ``directory`` is that of --to-files, and ``mark`` a file in it that the driver has made; ``command`` is that of
    --to-command, ``function`` that of --to-python. ``directory`` is None on the driver's machine, which is checked.
    """

    number: int
    modules: tuple[str, ...]
    config: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    directory: str | None = None
    mark: str = ""
    command: str | None = None
    function: str | None = None
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class TriedWorker:
    """A worker's machine, its Python, how many brokers answered it (0: not tried), and what fails there."""

    host: str
    python: str
    brokers: int
    problems: tuple[Failure, ...]


def try_worker(trial: WorkerTrial) -> TriedWorker:
    """The ``TaskWork`` of a trial: each check is made though another one fails, unless it needs that one."""
    problems: list[Failure] = []
    brokers = 0

    def holds(check: Callable[[], Any]) -> bool:
        try:
            check()
        except Exception as error:
            problems.append(failure_of(error))
            return False
        return True

    def reach_brokers() -> None:
        nonlocal brokers
        from kgroup.cluster.topic_admin import reach_brokers

        try:
            brokers = reach_brokers(trial.config, timeout_s=trial.timeout_s)
        except KgroupError as error:
            raise error.with_context(prefix="from Spark's workers, ") from None

    able = holds(lambda: _import(trial.modules))
    able = holds(lambda: _read_files(trial.config)) and able
    if able and holds(lambda: _log_in(trial.config.get("oauth_cb"))):
        holds(reach_brokers)
    if able and trial.function is not None:
        holds(lambda: _load(trial.function or ""))
    if trial.directory is not None:
        holds(lambda: _write(Path(trial.directory or ""), trial.mark))
    if trial.command is not None:
        holds(lambda: _find(trial.command or ""))
    return TriedWorker(socket.gethostname(), platform.python_version(), brokers, tuple(problems))


def _import(modules: tuple[str, ...]) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise  # names the package
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise Refused(f"Spark's workers cannot import {module}: {why}", code=SPARK_WORKERS) from error


def _read_files(config: Mapping[str, Any]) -> None:
    """Certificates and keys that are sent as a path: they are read where the client runs."""
    for key, path in config.items():
        if not key.endswith(".location") or path == _NOT_A_FILE:
            continue
        try:
            next(Path(path).iterdir(), None) if Path(path).is_dir() else Path(path).open("rb").close()
        except OSError as error:
            raise Refused(
                f"Spark's workers cannot read {path} ({key}): {error.strerror}", code=SPARK_WORKERS, hint=_ON_ALL
            ) from error


def _log_in(tokens: Any) -> None:
    """Get a token, if that is how this user logs in: temporary keys of AWS may be missing in a worker."""
    try:
        if tokens is not None:
            tokens.token()
    except KgroupError as error:
        raise error.with_context(prefix="Spark's workers cannot log in: ") from None


def _load(function: str) -> None:
    from kgroup.catchup.sinks import python

    try:
        python.load(function)
    except KgroupError as error:
        hint = "add its package to each machine with workers, or --conf spark.submit.pyFiles=FILE"
        raise Refused(f"Spark's workers: {error.message}", code=SPARK_WORKERS, hint=hint) from error


def _write(directory: Path, mark: str) -> None:
    """Write a file to the directory, if it is the driver's."""
    mine = f"--to-files {directory}: on the machines with workers of Spark this is "
    hint = f"use a directory that all machines share, or --to-spark parquet --option path={directory}"
    own = directory / f"{mark}.{socket.gethostname()}.{os.getpid()}"
    try:
        if not (directory / mark).exists():
            raise Refused(f"{mine}not the directory of this machine", code=SPARK_WORKERS, hint=hint)
        own.touch(exist_ok=False)
        own.unlink()
    except OSError as error:
        raise Refused(f"{mine}not writable: {error.strerror}", code=SPARK_WORKERS, hint=hint) from error


def _find(command: str) -> None:
    """Look for the program of a command that begins with its plain name; the shell knows its own words."""
    name = command.split()[0]
    if not re.fullmatch(r"[\w./+][\w./+-]*", name):
        return
    # The shell that will run the command.
    found = subprocess.run(
        ["/bin/sh", "-c", 'command -v "$1"', "sh", name], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if found.returncode != 0:
        raise Refused(
            f"--to-command: Spark's workers do not find {name}",
            code=SPARK_WORKERS,
            hint="install it on each machine with workers, or write its path",
        )


@contextmanager
def marked(directory: Path) -> Iterator[str]:
    """A file in the directory, by which other machines recognise it; yields its name.

    Without it, a worker's own directory of that name would get the files, and they would not be found there.
    A directory that is made for it is removed again. Raises OSError.
    """
    name = f".kgroup-{os.urandom(8).hex()}"
    made = [one for one in (directory, *directory.parents) if not one.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        (directory / name).touch(exist_ok=False)
        yield name
    finally:
        with suppress(OSError):  # what was tried counts
            (directory / name).unlink()
        for one in made:
            with suppress(OSError):  # others use it meanwhile
                one.rmdir()
