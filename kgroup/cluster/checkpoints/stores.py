"""The stores of checkpoints: folders of this machine, object stores (S3, Google, Azure) and HDFS.

A file is created only if it is not there, so that a query and kgroup never write the same one: by a hard link, a
conditional put, or a rename that replaces nothing. Spark itself renames in S3 and Google's store after it has looked:
of two that begin a batch there at the same instant, both may win.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from kgroup.settings.environment import variable
from kgroup.support.atomic_file import sync_directory, try_to_create, write_synced
from kgroup.support.background import in_background
from kgroup.support.errors import ConfigError, UsageError

T = TypeVar("T")

_MODE = 0o666
_S3, _GOOGLE, _AZURE, _HDFS = ("s3", "s3a"), ("gs",), ("abfs", "abfss"), ("hdfs", "viewfs")
_S3_OPTIONS = ("endpoint", "region")
_LOGIN = "The login comes from the environment: AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_..., kinit"


class Store(Protocol):
    """The files below a path or a URI; paths are relative, with ``/``."""

    def names(self, path: str) -> Mapping[str, int]:
        """The entries of a folder with their times of change (ms since 1970). Raises FileNotFoundError, OSError.

        An object store has no folder without files.
        """

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError, OSError."""

    def check(self, folder: str) -> None:
        """Raise OSError if no file can be created there, as far as that is known without creating one."""

    def create(self, path: str, content: bytes) -> None:
        """Create a file, whole and stored. Raises FileExistsError, PermissionError, OSError."""


def store_of(location: str, timeout_s: float) -> Store:
    """Of a path or a URI. Raises as ``check_location``, ConfigError without the package for it, PermissionError."""
    check_location(location)
    if (root := local_root(location)) is not None:
        return _ThisMachine(root)
    uri, _, query = location.partition("?")
    if urlsplit(uri).scheme in _HDFS:
        return _Hdfs(uri, timeout_s)
    return _ObjectStore(uri, {key: values[-1] for key, values in parse_qs(query).items()}, timeout_s)


def check_location(location: str) -> None:
    """Raise UsageError for a URI that kgroup does not read. What may be a secret is not repeated."""
    if local_root(location) is not None:
        return
    parts = urlsplit(location)
    if parts.password or (parts.username and parts.scheme not in _AZURE):
        raise UsageError("a checkpoint's URI must not have a user or a password in it", hint=_LOGIN)
    if unknown := parse_qs(parts.query).keys() - (_S3_OPTIONS if parts.scheme in _S3 else ()):
        raise UsageError(f"a checkpoint's URI has no option {min(unknown)}", hint=_LOGIN)
    if parts.scheme not in (known := ("file", *_S3, *_GOOGLE, *_AZURE, *_HDFS)):
        raise UsageError(f"kgroup reads no checkpoints at {parts.scheme}://", hint=f"It reads: {', '.join(known)}")


def local_root(location: str) -> Path | None:
    """The folder on a file system of this machine; None for another store."""
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


class _ThisMachine:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> Mapping[str, int]:
        times = {}
        with os.scandir(self._root / path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was renamed, or pruned
                    times[entry.name] = entry.stat().st_mtime_ns // 1_000_000
        return times

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def check(self, folder: str) -> None:
        try_to_create(self._root / folder)

    def create(self, path: str, content: bytes) -> None:
        target = self._root / path
        part = target.with_name(_temporary(target.name))
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


def _temporary(name: str) -> str:
    """As Spark names it."""
    return f".{name}.{uuid4()}.tmp"


class _ObjectStore:
    def __init__(self, uri: str, options: Mapping[str, str], timeout_s: float) -> None:
        scheme = urlsplit(uri).scheme
        with _needed("obstore", "obstore>=0.12", scheme):
            from obstore.store import from_url
        within, login = f"{timeout_s:g}s", dict[str, Any]()
        if scheme in _S3 and not variable("AWS_ACCESS_KEY_ID") and find_spec("boto3"):
            # For profiles and single sign-on, which obstore does not know.
            from obstore.auth.boto3 import Boto3CredentialProvider

            try:
                login["credential_provider"] = Boto3CredentialProvider()
            except ValueError:
                raise PermissionError("no login of AWS was found") from None
        open_store: Any = from_url
        self._files = open_store(
            uri,
            client_options={"timeout": within, "connect_timeout": within, "allow_http": True},
            retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=timeout_s)},
            **options,
            **login,
        )

    def names(self, path: str) -> Mapping[str, int]:
        with _as_os_error():
            found = self._files.list_with_delimiter(path or None)
        times = {each["path"]: round(each["last_modified"].timestamp() * 1000) for each in found["objects"]}
        return {
            name.rsplit("/", 1)[-1]: at for name, at in (dict.fromkeys(found["common_prefixes"], 0) | times).items()
        }

    def read(self, path: str) -> bytes:
        with _as_os_error():
            return bytes(self._files.get(path).bytes())

    def check(self, folder: str) -> None:
        """A put alone shows whether it is allowed."""

    def create(self, path: str, content: bytes) -> None:
        try:
            with _as_os_error():
                self._files.put(path, content, mode="create")
        except FileExistsError:
            # The answer to an earlier attempt of this put may have been lost.
            if self.read(path) != content:
                raise


@contextmanager
def _as_os_error() -> Iterator[None]:
    """An error of obstore becomes an OSError of one line, without a URI's query, which may have a signature."""
    from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, OSError) as error:
        text = re.sub(r"\?\S*", "", str(error).strip().partition("\n")[0])
        if isinstance(error, AlreadyExistsError):
            raise FileExistsError(text) from None
        if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or re.search("code: 40[13] ", text):
            raise PermissionError(text) from None
        if isinstance(error, FileNotFoundError) or re.search("NoSuchBucket|ContainerNotFound", str(error)):
            raise FileNotFoundError(text) from None
        hint = "; name the bucket's region in AWS_REGION or by ?region=" if "redirect" in text.lower() else ""
        raise OSError(text + hint) from None


class _Hdfs:
    def __init__(self, uri: str, timeout_s: float) -> None:
        parts = urlsplit(uri)
        with _needed("hdfs-native", "hdfs-native>=0.14", parts.scheme):
            from hdfs_native import Client
        try:
            self._files = Client(f"{parts.scheme}://{parts.netloc}" if parts.netloc else None)
        except (ValueError, OSError, RuntimeError) as error:
            raise ConfigError(f"{uri}: {error}", hint="HADOOP_CONF_DIR names Hadoop's configuration") from None
        self._root, self._timeout_s = unquote(parts.path).rstrip("/"), timeout_s

    def names(self, path: str) -> Mapping[str, int]:
        folder = f"{self._root}/{path}".rstrip("/")
        entries = self._ask(lambda: list(self._files.list_status(folder)))
        return {each.path.rsplit("/", 1)[-1]: each.modification_time for each in entries}

    def read(self, path: str) -> bytes:
        def read() -> bytes:
            with self._files.read(f"{self._root}/{path}") as file:
                return bytes(file.read())

        return self._ask(read)

    def check(self, folder: str) -> None:
        """A file that is created alone shows whether it is allowed."""

    def create(self, path: str, content: bytes) -> None:
        folder, _, name = f"{self._root}/{path}".rpartition("/")
        part = f"{folder}/{_temporary(name)}"

        def create() -> None:
            with self._files.create(part) as file:
                file.write(content)
            try:
                self._files.rename(part, f"{folder}/{name}", overwrite=False)
            except OSError:
                self._files.delete(part)
                raise

        self._ask(create)

    def _ask(self, call: Callable[[], T]) -> T:
        """In a thread, as the client waits without a limit. Errors have the server's stack in them: it is left out."""
        try:
            return in_background("hdfs", call).result(self._timeout_s)
        except TimeoutError:
            raise OSError(f"no answer within {self._timeout_s:g}s") from None
        except (OSError, RuntimeError) as error:
            text = re.sub(r'(\n|\\n).*|RPCError\(".*?", "', "", str(error), flags=re.DOTALL)
            if isinstance(error, OSError):
                raise type(error)(text) from None
            denied = "AccessControlException" in str(error)
            raise (PermissionError if denied else OSError)(text) from None


@contextmanager
def _needed(package: str, install: str, scheme: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ConfigError(
            f"checkpoints at {scheme}:// need {package}", hint=f"pip install '{install}'", code="no-store-client"
        ) from None
