"""``--to-files``: a file for each chunk, written under a temporary name and renamed once when it is complete.

A file with its final name is complete, so an attempt that finds it does not write it again. A *receipt* next to it has
the counts and the file's digest, since a worker may die before it writes to the ledger. Spark and Hadoop ignore names
that begin with ``_`` or ``.``.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from kgroup.catchup.sinks.formats import HashingFile, digest_of, writer
from kgroup.catchup.worker.chunk_counts import ChunkCount
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ChunkProgress
from kgroup.model.numbers import NonNegativeInt64
from kgroup.model.records import LostOffsets
from kgroup.support.atomic_file import nearest_existing, replace_file, sync_directory, try_to_create, write_synced
from kgroup.support.errors import KgroupError, Refused, UsageError, refusal_code

FOREIGN_FILE = refusal_code(
    "foreign-file",
    "catchup",
    "The directory of --to-files has a file of that name, which kgroup did not write.",
    "Move the file away, then use catchup resume.",
)

MANIFEST = "_manifest.json"

_FORMATS = {"parquet": "parquet", "json": "json"}
_CODECS = frozenset({"zstd", "snappy", "lz4", "gzip", "none"})
_DEFAULT_CODEC = "snappy"
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Receipt(Struct, frozen=True):
    """The counts and the digest of a finished file; ``filtered`` records were read and not written."""

    records: NonNegativeInt64
    size: NonNegativeInt64
    lost: tuple[LostOffsets, ...]
    sha256: str
    file_bytes: NonNegativeInt64
    filtered: NonNegativeInt64


class _ListedFile(Receipt, frozen=True, kw_only=True):
    """A file in the manifest: its path below the manifest's directory, and its chunk."""

    file: str
    topic: str
    partition: NonNegativeInt64
    start: NonNegativeInt64
    end: NonNegativeInt64


class _Manifest(Struct, frozen=True):
    files: tuple[_ListedFile, ...]


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """The path of a chunk's file: ``DIR/plan/topic/partition/START-END.parquet``.

    START and END have twenty digits, so that names sort as offsets do.
    """

    directory: Path
    name: str

    @classmethod
    def of(cls, root: Path, plan_id: str, chunk: Chunk, form: str) -> ChunkFile:
        """The file of a chunk. A topic named ``.`` or ``..`` is escaped: no directory can have that name."""
        topic = quote(chunk.topic, safe="") if chunk.topic.strip(".") else chunk.topic.replace(".", "%2E")
        directory = root / plan_id / topic / str(chunk.partition)
        return cls(directory, f"{chunk.start:020d}-{chunk.end:020d}.{_FORMATS[form]}")

    @property
    def path(self) -> Path:
        """The path of the finished file."""
        return self.directory / self.name

    def receipt(self) -> Receipt:
        """The receipt that matches the existing file. Raises Refused with code ``foreign-file`` if none does."""
        digest, number = digest_of(self.path)
        for path in self.receipts():
            try:
                receipt = msgspec.json.decode(path.read_bytes(), type=Receipt)
            except ValueError:
                continue
            if (receipt.sha256, receipt.file_bytes) == (digest, number):
                return receipt
        raise Refused(
            f"{self.path} already exists, and kgroup did not write it",
            hint="move the file away, then resume the plan",
            code=FOREIGN_FILE,
        )

    def receipts(self) -> list[Path]:
        """The receipts of all attempts that came as far as writing one."""
        return sorted(self.directory.glob(f"_{self.name}.*.receipt"))

    def leftovers(self) -> list[Path]:
        """Temporary files of attempts that were killed."""
        return sorted(self.directory.glob(f".{self.name}.*.part"))

    def keep(self, part: Path, token: str, receipt: Receipt) -> bool:
        """Write the receipt, then give the complete file its name; False if another attempt was faster."""
        path = self.directory / f"_{self.name}.{token}.receipt"
        write_synced(path, msgspec.json.encode(receipt), mode=0o666)
        try:
            os.link(part, self.path)
        except FileExistsError:
            path.unlink(missing_ok=True)
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if self.path.exists():
                path.unlink(missing_ok=True)
                return False
            part.rename(self.path)
        sync_directory(self.directory)
        return True


def check(options: Mapping[str, str]) -> None:
    """Raise UsageError for invalid options, or if pyarrow is missing for Parquet.

    Options: ``dir``; ``format`` is ``parquet`` or ``json`` (a line per record, see ``model/json_lines``).
    ``compression`` is for Parquet: snappy (Spark's default), zstd, lz4, gzip or none.
    """
    if not options.get("dir"):
        raise UsageError("--to-files requires a directory")
    form, codec = options.get("format", "parquet"), options.get("compression", _DEFAULT_CODEC)
    if form not in _FORMATS:
        raise UsageError(f"--format {form}: choose one of parquet or json")
    if codec not in _CODECS:
        raise UsageError(f"compression {codec}: choose one of {', '.join(sorted(_CODECS))}")
    if form == "parquet" and not find_spec("pyarrow"):
        raise UsageError("Parquet needs pyarrow", hint="pip install 'pyarrow>=18'", code="no-pyarrow")


def unwritable(options: Mapping[str, str]) -> str | None:
    """Why this machine cannot write to the directory; None if it seems writable. Creates nothing."""
    try:
        there = nearest_existing(Path(options["dir"]))
    except OSError as error:
        return f"{options['dir']} cannot be reached: {error.strerror}"
    if not there.is_dir():
        return f"{there} is not a directory"
    try:
        try_to_create(there)
    except OSError as error:
        return f"this user cannot write to {there}: {error.strerror}"
    return None


def deliver(run: TaskRun) -> None:
    """Write a file for each of the task's chunks, and commit each to the ledger."""
    options = run.spec.options
    check(options)
    for chunk in run.chunks():
        file = ChunkFile.of(Path(options["dir"]), run.spec.plan_id, chunk, options.get("format", "parquet"))
        with translated(file.path):
            make_directory(file.directory)
            receipt = file.receipt() if file.path.exists() else _written(run, chunk, file)
        if receipt is not None:
            whole, records = replace(ChunkCount.of(chunk, None), lost=receipt.lost), receipt.records
            run.counts[chunk.number] = whole.with_records(
                chunk.end, records + receipt.filtered, records, receipt.size, filtered=receipt.filtered
            )
            run.commit()


def _written(run: TaskRun, chunk: Chunk, file: ChunkFile) -> Receipt | None:
    """The receipt of the written file; None if the task was asked to stop before the end of the chunk."""
    if leftovers := file.leftovers():
        run.note(chunk, 0)  # fails if superseded: such an attempt would delete the part of a live one
        for old in leftovers:
            old.unlink(missing_ok=True)
    token = secrets.token_hex(4)
    part = file.directory / f".{file.name}.{token}.part"
    run.counts[chunk.number] = ChunkCount.of(chunk, None)  # a file is always written from the start of its chunk
    try:
        with part.open("xb") as raw:
            hashing = HashingFile(raw)
            if not _fill(run, chunk, hashing):
                return None
            raw.flush()
            os.fsync(raw.fileno())
        counted = run.counted(chunk.number)
        count = counted.run
        taken = count.delivered + count.filtered
        if taken != count.visible:
            raise KgroupError(
                f"internal error: {chunk}: {count.visible} records read, {taken} written or filtered; no file was kept",
                hint="please report this; then resume the plan",
                code="not-counted",
            )
        receipt = Receipt(count.delivered, counted.size, counted.lost, hashing.digest, hashing.written, count.filtered)
        if receipt.records or receipt.filtered:
            # From here on the file may count as delivered, and a superseded attempt fails in note(). A chunk without
            # wanted records counts too: later attempts trust the file's receipt, so --where must not change any more.
            run.note(chunk, max(1, receipt.records))
        return receipt if file.keep(part, token, receipt) else file.receipt()
    finally:
        run.drop(chunk.number)
        part.unlink(missing_ok=True)


def _fill(run: TaskRun, chunk: Chunk, file: HashingFile) -> bool:
    """Write the chunk's records to the file; whether the chunk was read to its end."""
    with writer(file, run.spec.options) as writing:
        for batch in run.batches(chunk):
            count = run.counts[chunk.number]
            if not len(batch):
                run.counts[chunk.number] = count.moved(batch.position)
                continue
            written = writing.add(batch)
            run.counts[chunk.number] = count.with_records(batch.position, len(batch), written, batch.size())
        return run.counts[chunk.number].finished


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise KgroupError(
                f"the disk is full: {path} cannot be written",
                details=(error.strerror or str(error),),
                hint="free some space, then resume the plan: incomplete files are written again",
                code="disk-full",
            ) from error
        raise KgroupError(f"{path} could not be written: {error.strerror or error}", code="file") from error


def write_manifest(options: Mapping[str, str], plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> Path:
    """Write the list of a plan's files, ``DIR/plan/_manifest.json``, after checking it against the ledger; its path.

    For the driver, if it sees the same directory. The file is written under a temporary name and replaces an earlier
    one. The receipts are copied into it and removed. Raises KgroupError with code ``file`` if a file is missing or does
    not have what the ledger has, and Refused with code ``foreign-file``.
    """
    root, form = Path(options["dir"]), options.get("format", "parquet")
    path = root / plan.id / MANIFEST
    with translated(path):
        known = _listed(path) if path.exists() else {}
        rows, files = list[_ListedFile](), []
        for chunk in plan.chunks:
            told = progress.get(chunk.number)
            if told is None or told.delivered_to < chunk.end:
                continue
            place = {"topic": chunk.topic, "partition": chunk.partition, "start": chunk.start, "end": chunk.end}
            file = ChunkFile.of(root, plan.id, chunk, form)
            name = str(file.path.relative_to(path.parent))
            if not file.path.exists():
                raise KgroupError(f"{file.path} does not exist, but the ledger has it as delivered", code="file")
            receipt = known[name] if name in known else file.receipt()
            wanted = told.records - told.filtered
            if (receipt.records, receipt.size) != (wanted, told.size):
                raise KgroupError(
                    f"{file.path} has {receipt.records} records, but the ledger has {wanted}", code="file"
                )
            rows.append(_ListedFile(**{**asdict(receipt), "file": name, **place}))
            files.append(file)
        document = {
            "plan_id": plan.id,
            "format": form,
            "complete": len(rows) == len(plan.chunks),
            "records": sum(row.records for row in rows),
            "files": rows,
        }
        make_directory(path.parent)
        replace_file(path, msgspec.json.format(msgspec.json.encode(document), indent=1), mode=0o666)
        for file in files:
            for receipt_path in file.receipts():
                receipt_path.unlink(missing_ok=True)
    return path


def _listed(manifest: Path) -> dict[str, Receipt]:
    """The receipts that a manifest has, by file name. Raises KgroupError with code ``file`` if it is damaged."""
    try:
        return {one.file: one for one in msgspec.json.decode(manifest.read_bytes(), type=_Manifest).files}
    except ValueError as error:
        raise KgroupError(
            f"{manifest} is damaged: {error}",
            hint="restore this file from a copy: it has the only checksums of the files that it lists",
            code="file",
        ) from error


def make_directory(path: Path) -> None:
    """Create the directory and its parents, and sync them, so that they survive a power cut."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_directory(one.parent)
