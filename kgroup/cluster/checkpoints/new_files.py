"""Creates files of a checkpoint only if they are not there, so that a query and kgroup never write the same one.

On a file system of this machine by a hard link, which is made once; in S3 by a conditional put (``If-None-Match``).
Spark itself renames in S3, after it has looked: of two that begin a batch there at the same instant, both may win.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from kgroup.support.atomic_file import sync_directory, try_to_create, write_synced
from kgroup.support.errors import ConfigError, Refused, refusal_code

READ_ONLY_STORE = refusal_code(
    "read-only-store",
    "changes of streaming queries",
    "The checkpoint is in a store where kgroup cannot create a file only if it is not there.",
    "Mount it, or copy the checkpoint to a local disk, change it there, and copy the new files back.",
)
S3 = ("s3", "s3a", "s3n")
_MODE = 0o666
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_DENIED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403")


class NewFiles(Protocol):
    """Where files are created; paths are relative, with ``/``."""

    def check(self, folder: str) -> None:
        """Raise OSError if no file can be created there, as far as that is known without creating one."""

    def create(self, path: str, content: bytes) -> None:
        """Create a file, whole and stored. Raises FileExistsError, PermissionError, OSError."""


def new_files(location: str, timeout_s: float) -> NewFiles:
    """Of a path or a URI. Raises Refused for a store of another kind, ConfigError without the package for it."""
    if (root := local_root(location)) is not None:
        return _OfThisMachine(root)
    store = urlsplit(location).scheme
    if store not in S3:
        raise Refused(f"kgroup creates no files at {store}://, only in S3 and on this machine", code=READ_ONLY_STORE)
    return _OfS3(location, timeout_s)


def local_root(location: str) -> Path | None:
    """The folder on a file system of this machine; None for another store."""
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


class _OfThisMachine:
    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self, folder: str) -> None:
        try_to_create(self._root / folder)

    def create(self, path: str, content: bytes) -> None:
        target = self._root / path
        part = target.with_name(f".{target.name}.{uuid4()}.tmp")  # as Spark names it
        try:
            write_synced(part, content, mode=_MODE)
            try:
                os.link(part, target)
            except FileExistsError:
                raise
            except OSError:  # a mounted store without hard links
                write_synced(target, content, mode=_MODE)
        finally:
            part.unlink(missing_ok=True)
        with suppress(OSError):
            sync_directory(target.parent)


class _OfS3:
    def __init__(self, location: str, timeout_s: float) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise ConfigError(
                "to create files in S3, kgroup needs boto3", hint="pip install 'boto3>=1.36'", code="no-boto3"
            ) from None
        parts = urlsplit(location)
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        self._bucket, self._root = parts.netloc, unquote(parts.path).strip("/")
        endpoint = options.get("endpoint_override")
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=None if endpoint is None else f"{options.get('scheme', 'https')}://{endpoint}",
            region_name=options.get("region"),
            config=Config(connect_timeout=timeout_s, read_timeout=timeout_s, retries={"total_max_attempts": 2}),
        )

    def check(self, folder: str) -> None:
        """A put alone shows whether it is allowed."""

    def create(self, path: str, content: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        key = f"{self._root}/{path}"
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content, IfNoneMatch="*")
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _EXISTS:
                # The answer to an earlier attempt of this put may have been lost.
                if self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read() == content:
                    return
                raise FileExistsError(key) from None
            if code in _DENIED:
                raise PermissionError(f"{path}: {code}") from None
            raise OSError(f"{path}: {code or error}") from None
        except BotoCoreError as error:
            raise OSError(f"{path}: {error}") from None
