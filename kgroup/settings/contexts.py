"""Named clusters: the user's YAML file, which kgroup only reads, and the chosen context in the state directory.

    contexts:
      prod:
        bootstrap.servers: b1.prod:9093,b2.prod:9093
        security.protocol: SASL_SSL
        sasl.mechanism: SCRAM-SHA-512
        sasl.username: oncall
        sasl.password: ${env:PROD_PASSWORD}      # or ${file:~/.kafka/prod-password}
        ssl.ca.location: prod-ca.pem             # relative to this file
        explicit: true
        timeout: 20s
        catchup:
          master: spark://spark:7077
          rate: 20MiB/s
        queries:                                 # streaming queries of Spark, by the names that kgroup shows
          orders-bronze: s3a://lake/checkpoints/orders-bronze
          orders-hourly:
            checkpoint: /mnt/lake/checkpoints/orders-hourly
            every: 1h                            # its job starts every hour; it is late after that

Client settings keep their names, librdkafka's or Java's. ``read_only``, ``explicit``, ``timeout``, ``catchup`` and
``queries`` are kgroup's own.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.settings import paths
from kgroup.settings.keys import FILE_KEYS
from kgroup.settings.model import Setting, StreamingQuerySetting
from kgroup.support.atomic_file import replace_file
from kgroup.support.durations import parse_duration
from kgroup.support.errors import ConfigError, NotFound, UsageError
from kgroup.support.redact import is_secret

if TYPE_CHECKING:
    import yaml

CATCHUP_KEYS = ("master", "rate", "dead-letter-topic")
"""What the section ``catchup`` may have, besides Spark's own settings: the options of these names."""

OWN_KEYS = frozenset({"read_only", "explicit", "timeout", "catchup", "queries"})
_PATH_KEYS = FILE_KEYS | {"ssl.truststore.location", "ssl.keystore.location"}
_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
"""Matches names that look like a variable; a password hardly ever does."""
_MISTAKEN = re.compile(r"\$\{(?!(?:env|file):[^}]*\})")
_QUOTED = re.compile(r"'(?!<)[^']{3,}'|\"[^\"]{3,}\"")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, repr=False)
class Context:
    """A named cluster as in its file; references such as ``${env:NAME}`` are not replaced yet."""

    name: str
    source: str
    settings: tuple[Setting, ...]
    read_only: bool = False
    explicit: bool = False
    timeout: Setting | None = None
    catchup: tuple[Setting, ...] = ()
    queries: Mapping[str, StreamingQuerySetting] = field(default_factory=dict)
    directory: Path = field(default=Path())

    @property
    def shows_a_secret(self) -> bool:
        """Whether its file contains a password and is readable by every user of this machine."""
        inline = any(is_secret(s.key) and s.value and not _REFERENCE.search(s.value) for s in self.settings)
        with contextlib.suppress(OSError):
            return inline and bool(paths.config_file().stat().st_mode & stat.S_IROTH)
        return False

    def get(self, key: str) -> str | None:
        """A setting as written in the file, None if it is not set."""
        return next((setting.value for setting in self.settings if setting.key == key), None)

    def resolved(self, environ: Mapping[str, str]) -> tuple[Setting, ...]:
        """The settings with references replaced and paths absolute. Raises ConfigError if one cannot be replaced."""
        return tuple(
            Setting(setting.key, _value(setting, environ, self.directory), setting.source) for setting in self.settings
        )

    def __repr__(self) -> str:
        return f"Context({self.name!r}, {list(self.settings)})"


def display_path(path: Path) -> str:
    """A path for messages, with ``~`` for the home directory."""
    with contextlib.suppress(ValueError, RuntimeError):
        return f"~/{path.absolute().relative_to(Path.home())}"
    return str(path)


def load(path: Path | None = None) -> dict[str, Context]:
    """The contexts of the file, in its order; empty if there is no file.

    Raises ConfigError, with file, line and key, if it is not a contexts file.
    """
    path = path or paths.config_file()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ConfigError(f"{display_path(path)} is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"cannot read {display_path(path)}: {error.strerror}") from None
    return _File(path).contexts(text)


def choose(contexts: Mapping[str, Context], name: str, source: str) -> Context:
    """The context of this name; ``source`` is where the name came from. Raises NotFound, with similar names."""
    context = contexts.get(name)
    if context is not None:
        return context
    file = display_path(paths.config_file())
    near = difflib.get_close_matches(name, contexts, n=3, cutoff=0.5)
    if not contexts:
        details: tuple[str, ...] = (f"There are no contexts in {file}.",)
    elif near:
        details = (f"Near: {', '.join(near)}",)
    else:
        details = (f"{file} has {', '.join(contexts)}.",)
    # A name that is similar to no context may be a password, given to the wrong option.
    named = f'no context "{name}"' if near else "no context of that name"
    raise NotFound(f"{named} (from {source})", details=details, hint="See all:  kgroup context list")


def load_choice() -> str | None:
    """The context that ``kgroup context use`` chose last, None without one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _choice_file().read_text(encoding="utf-8").strip() or None
    return None


def save_choice(name: str) -> None:
    """Choose a context for later commands. Raises ConfigError if the choice cannot be written."""
    file = _choice_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, f"{name}\n".encode())
    except OSError as error:
        raise ConfigError(
            f"cannot write {display_path(file)}: {error.strerror}",
            hint="Set KGROUP_STATE_DIR to a directory that can be written, or KGROUP_CONTEXT instead.",
        ) from None


def missing_context_error(name: str, contexts: Mapping[str, Context]) -> ConfigError:
    """The error for a chosen context that is no longer in the file: the wrong cluster is worse than none."""
    others = f"; it has {', '.join(contexts)}" if contexts else ""
    return ConfigError(
        f'the chosen context "{name}" does not exist any more',
        details=(f"{display_path(paths.config_file())} has no such context (any more){others}.",),
        hint="Choose another:  kgroup context use NAME",
    )


def _choice_file() -> Path:
    return paths.state_dir() / "context"


def _value(setting: Setting, environ: Mapping[str, str], directory: Path) -> str:
    def replacement(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "env":
            if name not in environ:
                told = _VARIABLE.fullmatch(name) or not is_secret(setting.key)
                shown = f"the variable {name}" if told else "the variable that ${env:...} names"
                raise ConfigError(f"{setting.key} from {setting.source}: {shown} is not set")
            return environ[name]
        path = directory / Path(name).expanduser()
        # A password that was written instead of a path is not repeated.
        shown = str(path) if "/" in name or not is_secret(setting.key) else "the file that ${file:...} names"
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigError(f"{setting.key} from {setting.source}: {shown} is not UTF-8 text") from None
        except OSError as error:
            raise ConfigError(f"{setting.key} from {setting.source}: cannot read {shown}: {error.strerror}") from None

    if _MISTAKEN.search(setting.value):
        raise ConfigError(f"{setting.key} from {setting.source}: only ${{env:NAME}} and ${{file:PATH}} are replaced")
    value = _REFERENCE.sub(replacement, setting.value)
    if setting.key in _PATH_KEYS and value not in ("", "probe"):
        return str(directory / Path(value).expanduser())
    return value


class _File:
    """Reads one contexts file; every error names the line and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def contexts(self, text: str) -> dict[str, Context]:
        import yaml

        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except RecursionError:
            raise ConfigError(f"{display_path(self.path)}: nested too deeply") from None
        except yaml.YAMLError as error:
            raise self._broken(error) from None
        if root is None:
            return {}
        contexts: dict[str, Context] = {}
        for key, node in self._mapping(root, "the file").items():
            if key.value != "contexts":
                raise self._wrong(key, f'unknown key "{key.value}"; the file has only "contexts" at the top')
            if not self._is_null(node):
                for name, body in self._mapping(node, "contexts").items():
                    contexts[name.value] = self._context(name, body)
        return contexts

    def _context(self, name: yaml.ScalarNode, body: yaml.Node) -> Context:
        settings: list[Setting] = []
        own: dict[str, tuple[yaml.ScalarNode, str]] = {}
        catchup: tuple[Setting, ...] = ()
        queries: dict[str, StreamingQuerySetting] = {}
        for key, node in self._mapping(body, f'context "{name.value}"').items():
            if key.value == "catchup":
                catchup = () if self._is_null(node) else tuple(self._catchup(name.value, node))
                continue
            if key.value == "queries":
                queries = {} if self._is_null(node) else self._queries(name.value, node)
                continue
            value = self._scalar(key, node)
            if key.value in OWN_KEYS:
                own[key.value] = (key, value)
            else:
                settings.append(Setting(key.value, value, self._source(name.value, key)))
        timeout = own.get("timeout")
        return Context(
            name=name.value,
            source=self._source(name.value, name),
            settings=tuple(settings),
            read_only=self._boolean(own.get("read_only")),
            explicit=self._boolean(own.get("explicit")),
            timeout=None if timeout is None else Setting("timeout", timeout[1], self._source(name.value, timeout[0])),
            catchup=catchup,
            queries=queries,
            directory=self.path.parent.absolute(),
        )

    def _catchup(self, context: str, body: yaml.Node) -> Iterator[Setting]:
        for key, node in self._mapping(body, '"catchup"').items():
            if key.value not in CATCHUP_KEYS and not key.value.startswith("spark."):
                raise self._wrong(key, f'"catchup" has {", ".join(CATCHUP_KEYS)} and spark.*, not "{key.value}"')
            yield Setting(key.value, self._scalar(key, node), self._source(context, key))

    def _queries(self, context: str, body: yaml.Node) -> dict[str, StreamingQuerySetting]:
        queries = {}
        for name, node in self._mapping(body, '"queries"').items():
            if not re.fullmatch(r"[\w.-]+", name.value):
                raise self._wrong(name, f'the name of a streaming query has letters, digits, ".-_": not "{name.value}"')
            queries[name.value] = self._query(context, name, node)
        return queries

    def _query(self, context: str, name: yaml.ScalarNode, node: yaml.Node) -> StreamingQuerySetting:
        import yaml

        source = self._source(context, name)
        if isinstance(node, yaml.ScalarNode):
            return StreamingQuerySetting(self._location(name, self._scalar(name, node)), source=source)
        location, every_s = "", None
        for key, value in self._mapping(node, f'"{name.value}"').items():
            text = self._scalar(key, value)
            if key.value == "checkpoint":
                location = text
            elif key.value == "every":
                try:
                    every_s = parse_duration(text, "every")
                except UsageError:
                    raise self._wrong(key, f'"every" of "{name.value}" is a duration, as 1h') from None
            else:
                raise self._wrong(key, f'a streaming query has checkpoint and every, not "{key.value}"')
        return StreamingQuerySetting(self._location(name, location), every_s, source)

    def _location(self, name: yaml.ScalarNode, text: str) -> str:
        """The checkpoint as written; a path is relative to the file, as all paths in it."""
        if not text:
            raise self._wrong(name, f'the streaming query "{name.value}" has no checkpoint')
        return text if "://" in text else str(self.path.parent.absolute() / Path(text).expanduser())

    def _mapping(self, node: yaml.Node, what: str) -> dict[yaml.ScalarNode, yaml.Node]:
        import yaml

        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, f"{what} must be a mapping (name: value)")
        seen: dict[str, int] = {}
        entries: dict[yaml.ScalarNode, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, f"a key of {what} must be plain text")
            if key.value in seen:
                raise self._wrong(key, f'"{key.value}" is twice in {what}, first in line {seen[key.value]}')
            seen[key.value] = key.start_mark.line + 1
            entries[key] = value
        return entries

    def _scalar(self, key: yaml.ScalarNode, node: yaml.Node) -> str:
        """The text as written, so that ``yes`` and ``0755`` stay unchanged; null is empty."""
        import yaml

        if not isinstance(node, yaml.ScalarNode):
            raise self._wrong(key, f'"{key.value}" must have a single value')
        return "" if self._is_null(node) else str(node.value)

    def _boolean(self, entry: tuple[yaml.ScalarNode, str] | None) -> bool:
        if entry is None:
            return False
        key, value = entry
        if value.lower() not in _BOOLEANS:
            # A misspelt safety setting must not count as off.
            raise self._wrong(key, f'"{key.value}" is true or false, not "{value}"')
        return _BOOLEANS[value.lower()]

    def _is_null(self, node: yaml.Node) -> bool:
        return bool(node.tag == "tag:yaml.org,2002:null")

    def _source(self, context: str, key: yaml.Node) -> str:
        return f'context "{context}" ({display_path(self.path)}:{key.start_mark.line + 1})'

    def _wrong(self, node: yaml.Node, what: str) -> ConfigError:
        return ConfigError(f"{display_path(self.path)}:{node.start_mark.line + 1}: {what}")

    def _broken(self, error: yaml.YAMLError) -> ConfigError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = display_path(self.path) if mark is None else f"{display_path(self.path)}:{mark.line + 1}"
        # A password that looks like an alias or a tag is quoted by the parser.
        problem = re.sub(_QUOTED, "...", getattr(error, "problem", None) or "unreadable")
        details: tuple[str, ...] = ()
        if mark is not None:
            key = self._key_at(mark.line)
            details = (f"Column {mark.column + 1}" + (f', at "{key}".' if key else "."),)
        return ConfigError(f"{where}: not YAML: {problem}", details=details)

    def _key_at(self, line: int) -> str | None:
        """The key at the start of the broken line, or of the last line with a key before it; never a value."""
        lines = self.path.read_text(encoding="utf-8-sig").splitlines()
        for candidate in reversed(lines[: line + 1]):
            match = re.match(r"\s*([\w.\-]+)\s*:", candidate)
            if match:
                return match.group(1)
        return None
