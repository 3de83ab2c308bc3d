"""Resolves settings: flags over environment variables over the context file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kgroup.settings.environment import environment
from kgroup.settings.keys import (
    ALIASES,
    EXCLUSIVE,
    FILE_KEYS,
    HONOURED,
    IGNORED,
    JAVA_KEYS,
    NOT_FOR_JAVA,
    ONLY_VALUES,
    PASSWORD_MECHANISMS,
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    UNCONCERNED_PREFIXES,
    UNSUPPORTED,
)
from kgroup.settings.model import DEFAULT_SOURCE, DEFAULT_TIMEOUT_S, Setting, Settings
from kgroup.support.durations import parse_timeout
from kgroup.support.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from kgroup.model.reporter import Reporter
    from kgroup.settings.connection import Connection
    from kgroup.settings.contexts import Context

_ADDRESS = "bootstrap.servers"
_API_TIMEOUT = "default.api.timeout.ms"
_UPPER_CASE_KEYS = ("security.protocol", "sasl.mechanism")


class _Level(msgspec.Struct, frozen=True):
    """The connection options of one level; later entries of ``parts`` win over earlier ones."""

    parts: tuple[tuple[Setting, ...], ...]
    context: str | None
    context_source: str
    timeout: str | None
    timeout_source: str

    @property
    def address_source(self) -> str | None:
        """The source of this level's address, None if it gives none."""
        sources = (
            setting.source
            for part in reversed(self.parts)
            for setting in part
            if ALIASES.get(setting.key, setting.key) == _ADDRESS
        )
        return next(sources, None)

    @property
    def gives_address(self) -> bool:
        return self.address_source is not None


def resolve(
    connection: Connection, reporter: Reporter, environ: Mapping[str, str] | None = None, *, strict: bool = False
) -> Settings:
    """The resolved settings: flag > environment variable > context file, key by key.

    Flags: ``-b`` wins over ``-X``, and ``-X`` over ``--command-config``. Variables: KGROUP_BOOTSTRAP_SERVER wins over
    KGROUP_PROPERTIES, and that over KGROUP_COMMAND_CONFIG. ``--command-config`` replaces the file of
    KGROUP_COMMAND_CONFIG instead of adding to it. KGROUP_PROPERTIES holds KEY=VALUE words, separated by blanks or line
    ends and quoted as in a shell: ``security.protocol=SSL ssl.ca.location='/etc/my ca.pem'``.

    A context that ``--context`` or KGROUP_CONTEXT *names* always applies. An address from a flag or variable replaces
    only its address. If that address is from a variable, which may be left over, a warning is printed. A context that
    is only *remembered* by ``kgroup context use`` applies unless a flag or variable gives an address: otherwise the
    passwords of one cluster would be sent to another.

    Raises UsageError without any address, ConfigError for settings that cannot be honoured, NotFound for a named
    context that does not exist. Unknown settings warn; with ``strict`` they raise ConfigError: a misspelt ``read_only``
    must not let a change through.
    """
    environ = environment() if environ is None else environ
    flags, variables = _flag_level(connection), _environment_level(environ, with_file=connection.command_config is None)
    context, named = _context(flags, variables)
    if context is not None and named and variables.gives_address and not flags.gives_address:
        reporter.warn(f'the address is from {variables.address_source}, not from context "{context.name}"')
    parts = (*variables.parts, *flags.parts)
    if context is not None:
        parts = (context.resolved(environ), *parts)
        if context.shows_a_secret:
            file = contexts_file()
            reporter.warn(f"{file} has a password in it, and every user of this machine may read it: chmod 600 {file}")
    merged, unknown, api_timeout = _merge(parts)
    if unknown and strict:
        raise _unknown_settings_error(unknown)
    for setting in unknown:
        shown, perhaps = _key_and_similar(setting)
        reporter.warn(f"unknown setting {shown} from {setting.source} has no effect{perhaps}")
    timeout_s, timeout_source = _timeout(flags, variables, context, api_timeout, reporter)
    return Settings(
        entries=_checked(merged, reporter),
        context=None if context is None else context.name,
        context_source=None if context is None else context.source,
        named=named,
        read_only=context is not None and context.read_only,
        explicit=context is not None and context.explicit,
        timeout_s=timeout_s,
        timeout_source=timeout_source,
        unknown=unknown,
        java_file=_java_file(connection, environ, (*variables.parts, *flags.parts)),
        catchup=() if context is None else context.catchup,
        queries={} if context is None else context.queries,
    )


def _java_file(connection: Connection, environ: Mapping[str, str], parts: Iterable[tuple[Setting, ...]]) -> str | None:
    """The file of ``--command-config`` or its variable; None without one, or if Java's clients cannot use it."""
    name = environ.get("KGROUP_COMMAND_CONFIG") if connection.command_config is None else str(connection.command_config)
    from_file = ("--command-config,", "KGROUP_COMMAND_CONFIG,")
    of_file = {setting.key for part in parts for setting in part if setting.source.startswith(from_file)}
    return None if of_file & NOT_FOR_JAVA else name or None


def contexts_file() -> str:
    """The path of the contexts file, for messages."""
    from kgroup.settings import paths
    from kgroup.settings.contexts import display_path

    return display_path(paths.config_file())


def _flag_level(connection: Connection) -> _Level:
    given = {
        "-b": connection.bootstrap_server,
        "--context": connection.context,
        "--command-config": "" if connection.command_config == Path() else None,  # the value of Path("")
        "--timeout": connection.timeout,
    }
    for option, value in given.items():
        if value is not None and not value.strip():
            # Otherwise `-b "$PROD"` with PROD unset would ask another cluster.
            raise UsageError(f"{option} is empty", hint="A variable of the script may be unset.")
    parts: list[tuple[Setting, ...]] = []
    if connection.command_config is not None:
        parts.append(read_properties(connection.command_config, "--command-config"))
    parts.append(_words(connection.property or (), "-X"))
    if connection.bootstrap_server:
        parts.append((Setting(_ADDRESS, connection.bootstrap_server, "-b"),))
    return _Level(tuple(parts), connection.context, "--context", connection.timeout, "--timeout")


def _environment_level(environ: Mapping[str, str], *, with_file: bool) -> _Level:
    """An empty variable counts as unset; without ``with_file`` KGROUP_COMMAND_CONFIG is not read."""
    parts: list[tuple[Setting, ...]] = []
    if with_file and environ.get("KGROUP_COMMAND_CONFIG"):
        parts.append(read_properties(Path(environ["KGROUP_COMMAND_CONFIG"]), "KGROUP_COMMAND_CONFIG"))
    if environ.get("KGROUP_PROPERTIES"):
        try:
            words = shlex.split(environ["KGROUP_PROPERTIES"])
        except ValueError:
            raise UsageError("KGROUP_PROPERTIES: a quotation mark is not closed") from None
        parts.append(_words(words, "KGROUP_PROPERTIES"))
    if environ.get("KGROUP_BOOTSTRAP_SERVER"):
        parts.append((Setting(_ADDRESS, environ["KGROUP_BOOTSTRAP_SERVER"], "KGROUP_BOOTSTRAP_SERVER"),))
    context, timeout = environ.get("KGROUP_CONTEXT") or None, environ.get("KGROUP_TIMEOUT") or None
    return _Level(tuple(parts), context, "KGROUP_CONTEXT", timeout, "KGROUP_TIMEOUT")


def read_properties(path: Path, option: str) -> tuple[Setting, ...]:
    """The entries of a properties file; of repeated keys the last. Raises ConfigError with file and line."""
    # Imported here: only these files need it, and compiling the patterns takes longer than reading most files.
    from kgroup.settings.contexts import display_path
    from kgroup.settings.java_properties import PropertiesError, decode, parse_properties

    shown = display_path(path)
    try:
        entries = parse_properties(decode(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read {shown} ({option}): {error.strerror}") from None
    except PropertiesError as problem:
        raise ConfigError(f"{shown}:{problem.line}: {problem}") from None
    last = {
        entry.key: Setting(entry.key, entry.value, f"{option}, {shown}:{entry.line}") for entry in entries if entry.key
    }
    return tuple(last.values())


def _words(words: Iterable[str], option: str) -> tuple[Setting, ...]:
    settings: dict[str, Setting] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            # The word is not repeated: it may be a password.
            raise UsageError(f"{option} requires KEY=VALUE, and one word does not have this form")
        settings[key.strip()] = Setting(key.strip(), value, option)
    return tuple(settings.values())


def _context(flags: _Level, variables: _Level) -> tuple[Context | None, bool]:
    """The context in use, None without one, and whether a flag or variable named it."""
    naming = next((level for level in (flags, variables) if level.context), None)
    if naming is None and (flags.gives_address or variables.gives_address):
        return None, False
    # Imported here: an address without a context needs neither the contexts file nor its reader.
    from kgroup.settings import contexts

    if naming is not None and naming.context:
        return contexts.choose(contexts.load(), naming.context, naming.context_source), True
    name = contexts.load_choice()
    if name is None:
        return None, False
    known = contexts.load()
    if name not in known:
        raise contexts.missing_context_error(name, known)
    return known[name], False


def _merge(
    parts: Iterable[tuple[Setting, ...]],
) -> tuple[dict[str, Setting], tuple[Setting, ...], Setting | None]:
    """The honoured settings under librdkafka's keys, the unknown ones, and Java's API timeout; later parts win."""
    merged: dict[str, Setting] = {}
    unknown: dict[str, Setting] = {}
    api_timeout: Setting | None = None
    for part in parts:
        translated = _without_java(_canonical(part))
        api_timeout = translated.pop(_API_TIMEOUT, api_timeout)
        honoured = {key: setting for key, setting in translated.items() if _is_honoured(setting)}
        for group in EXCLUSIVE:
            if group & honoured.keys():
                for key in group:
                    merged.pop(key, None)
        merged |= honoured
        unknown |= {key: setting for key, setting in translated.items() if _is_unknown(key)}
    return merged, tuple(unknown.values()), api_timeout


def _canonical(part: tuple[Setting, ...]) -> dict[str, Setting]:
    """One part under the names that kgroup uses; a setting's own name wins over other spellings."""
    own = {setting.key: setting for setting in part if setting.key not in ALIASES}
    aliased = {
        ALIASES[setting.key]: Setting(ALIASES[setting.key], setting.value, setting.source)
        for setting in part
        if setting.key in ALIASES
    }
    return aliased | own


def _without_java(given: dict[str, Setting]) -> dict[str, Setting]:
    """The settings of one source, with Java-only ones translated. Raises ConfigError if one cannot be."""
    if not JAVA_KEYS & given.keys():
        return given
    # Imported here: only Java's files have such keys.
    from kgroup.settings.java import translate

    return translate(given)


def _is_honoured(setting: Setting) -> bool:
    """Whether the clients get it. Raises ConfigError for a setting that matters but that they cannot honour."""
    key, value = setting.key, setting.value.strip()
    if key in UNSUPPORTED and value:
        raise ConfigError(f"{key} from {setting.source} cannot be honoured: {UNSUPPORTED[key]}")
    allowed = ONLY_VALUES.get(key)
    if allowed is not None and value and value.replace(" ", "") not in allowed:
        raise ConfigError(
            f"{key}={value} from {setting.source} cannot be honoured: kgroup's clients require "
            f"{' or '.join(sorted(allowed))}"
        )
    return key in HONOURED and bool(value)


def _is_unknown(key: str) -> bool:
    known = HONOURED | UNSUPPORTED.keys() | ONLY_VALUES.keys() | IGNORED
    return key not in known and not key.startswith(UNCONCERNED_PREFIXES)


def _unknown_settings_error(unknown: Sequence[Setting]) -> ConfigError:
    """The error of a verb that changes something; its details have the settings after the first."""
    lines = [
        f"unknown setting {named} from {s.source}{perhaps}" for s in unknown for named, perhaps in [_key_and_similar(s)]
    ]
    return ConfigError(
        lines[0],
        details=tuple(lines[1:]),
        hint="A verb that changes something runs only if every setting is known. Correct or remove the setting.",
    )


def _key_and_similar(setting: Setting) -> tuple[str, str]:
    """(the key as it may be shown, the known key that is similar, or nothing)."""
    perhaps = _perhaps(setting.key)
    return setting.key if perhaps else setting.named, perhaps


def _perhaps(key: str) -> str:
    # Imported here: misspelt keys are rare.
    import difflib

    from kgroup.settings.contexts import OWN_KEYS

    near = difflib.get_close_matches(key, HONOURED | JAVA_KEYS | OWN_KEYS, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}" if near else ""


def _timeout(
    flags: _Level,
    variables: _Level,
    context: Context | None,
    api_timeout: Setting | None,
    reporter: Reporter,
) -> tuple[float, str]:
    """The time limit in seconds and its source; Java's default.api.timeout.ms counts only if nothing else is set."""
    for level in (flags, variables):
        if level.timeout:
            return parse_timeout(level.timeout, reporter.warn, level.timeout_source), level.timeout_source
    if context is not None and context.timeout is not None:
        try:
            return parse_timeout(context.timeout.value, reporter.warn, "timeout"), context.timeout.source
        except UsageError as error:
            raise ConfigError(f"{error.message} ({context.timeout.source})") from None
    if api_timeout is not None:
        value = api_timeout.value.strip()
        if not value.isdigit() or int(value) == 0:
            raise ConfigError(f"{_API_TIMEOUT}={value} from {api_timeout.source} is not a number of milliseconds")
        return int(value) / 1000, api_timeout.source
    return DEFAULT_TIMEOUT_S, DEFAULT_SOURCE


def _checked(merged: dict[str, Setting], reporter: Reporter) -> dict[str, Setting]:
    """The settings in a fixed order and spelling. Raises for an address or a combination that cannot work."""
    if _ADDRESS not in merged:
        raise UsageError(
            "no cluster is named",
            details=("Give -b HOST:PORT or --context NAME, or set KGROUP_BOOTSTRAP_SERVER or KGROUP_CONTEXT.",),
            hint="To try kgroup on a Kafka of your own:  kgroup sandbox up",
        )
    merged[_ADDRESS] = _addresses(merged[_ADDRESS])
    for key in _UPPER_CASE_KEYS:
        if key in merged:
            merged[key] = Setting(key, merged[key].value.strip().upper(), merged[key].source)
    for key in FILE_KEYS & merged.keys():
        path = merged[key]
        if path.value.startswith("~"):
            merged[key] = Setting(key, str(Path(path.value).expanduser()), path.source)
    _check_protocol(merged, reporter)
    return {key: merged[key] for key in (*_FIRST, *sorted(merged.keys() - set(_FIRST))) if key in merged}


_FIRST = (_ADDRESS, "security.protocol", "sasl.mechanism")


def _addresses(setting: Setting) -> Setting:
    if "@" in setting.value:
        # No part of it is repeated: there is a password before the @.
        raise UsageError(
            f"an address from {setting.source} has a user or a password in it: an address is HOST:PORT",
            hint="sasl.username and sasl.password are settings of their own: kgroup help connection",
        )
    servers = [server.strip() for server in setting.value.split(",") if server.strip()]
    for server in servers:
        if any(character.isspace() for character in server):
            raise UsageError(f"{setting.value} from {setting.source}: separate brokers by commas")
        host, colon, port = server.rpartition(":")
        if server.endswith("]") or not colon:
            # No port: both clients take 9092.
            continue
        if "/" in server or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{server!r} from {setting.source} is not HOST:PORT")
    if not servers:
        raise UsageError(f"{setting.source} names no broker: write HOST:PORT[,HOST:PORT...]")
    return Setting(setting.key, ",".join(servers), setting.source)


def _check_protocol(merged: dict[str, Setting], reporter: Reporter) -> None:
    protocol = merged.get("security.protocol")
    if protocol is not None and protocol.value not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"security.protocol={protocol.value} from {protocol.source} does not exist",
            details=(f"It is one of {', '.join(SECURITY_PROTOCOLS)}.",),
        )
    in_force = protocol.value if protocol is not None else "PLAINTEXT"
    idle = _idle(merged, in_force)
    if idle is not None:
        reporter.warn(
            f"{idle.key} from {idle.source} has no effect: security.protocol is {in_force}"
            + (f" (from {protocol.source})" if protocol is not None else ", the default")
        )
    if in_force.startswith("SASL_"):
        assert protocol is not None
        _check_sasl(merged, protocol)


def _idle(merged: Mapping[str, Setting], protocol: str) -> Setting | None:
    """A credential or CA setting that the protocol in use ignores, which is probably a mistake; None without one."""
    if not protocol.startswith("SASL_") and "sasl.mechanism" in merged:
        return merged["sasl.mechanism"]
    if not protocol.startswith("SASL_") and "sasl.username" in merged:
        return merged["sasl.username"]
    if protocol == "PLAINTEXT":
        return next((merged[key] for key in ("ssl.ca.location", "ssl.ca.pem") if key in merged), None)
    return None


def _check_sasl(merged: Mapping[str, Setting], protocol: Setting) -> None:
    mechanism = merged.get("sasl.mechanism")
    if mechanism is None:
        raise ConfigError(
            f"security.protocol={protocol.value} needs sasl.mechanism",
            details=(
                f"security.protocol is from {protocol.source}.",
                "Kafka's default, GSSAPI (Kerberos), must be written out here.",
            ),
            hint=f"It is one of {', '.join(SASL_MECHANISMS)}.",
        )
    if mechanism.value not in SASL_MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism={mechanism.value} from {mechanism.source} cannot be used",
            details=(f"kgroup knows {', '.join(SASL_MECHANISMS)}.",),
        )
    if mechanism.value in PASSWORD_MECHANISMS:
        missing = [key for key in ("sasl.username", "sasl.password") if key not in merged]
        if missing:
            raise ConfigError(
                f"sasl.mechanism={mechanism.value} needs {' and '.join(missing)}",
                details=(f"sasl.mechanism is from {mechanism.source}.",),
            )
    if mechanism.value == "AWS_MSK_IAM" and protocol.value != "SASL_SSL":
        raise ConfigError(
            "sasl.mechanism=AWS_MSK_IAM needs security.protocol=SASL_SSL",
            details=(f"security.protocol is from {protocol.source}.",),
        )
