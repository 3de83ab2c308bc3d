"""``--to-spark FORMAT --option KEY=VALUE``: what the ledger stores of it, and what Spark's writer gets.

Many people can read the ledger, so it stores no secrets: ``@FILE`` and ``$VARIABLE`` name where the secret is. They are
looked up on the machine that runs the replay. Needs no pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from kgroup.settings.environment import environment
from kgroup.support.errors import Refused, UsageError, refusal_code
from kgroup.support.redact import is_secret

SINK = refusal_code("sink", "catchup", "The destination does not fit the plan.", "Follow the message.")

FORMAT = "format"
SELECT = "select"
"""The option of a Delivery with the columns that the writer gets, in Spark SQL."""

OF_WRITER = "option."
"""In ``Delivery.options``, the prefix of an option of Spark's writer."""

REMEMBERING = {
    "delta": ("txnAppId", "txnVersion"),
    "iceberg": ("snapshot-property.kgroup-plan", "snapshot-property.kgroup-chunks"),
}
"""By format, the writer's options with which a table remembers the plan, and the number of a group of its chunks."""

_OF_SPARK = ("console", "csv", "jdbc", "json", "noop", "orc", "parquet", "text", "xml")
"""The formats that Spark writes without another jar."""

_JARS = ("spark.jars", "spark.driver.extraClassPath")
"""Prefixes of settings by which Spark may know more formats."""

_MAY_ADD_JARS = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
"""Variables by which it may."""

_IN_URL = re.compile(r"[a-z][\w+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_IN_TEXT = re.compile(r"(?i)\b(?:[\w.-]*(?:password|passwd|pwd|secret)[\w.-]*)=[^&;\s]")


def parse_options(words: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` words of ``--option`` into ``Delivery.options``; the last value of a key wins.

    Raises UsageError for a word without a key or ``=``, and for a literal secret, which the message does not repeat.
    """
    options: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key.strip():
            raise UsageError("--option must be KEY=VALUE")
        if not _is_named(value) and (is_secret(key) or "token" in key.lower() or _contains_secret(value)):
            raise UsageError(
                f"--option {key}: everyone who reads the ledger would see its value",
                hint=f"use --option {key}=@FILE, or --option '{key}=$VARIABLE': read when the replay starts",
            )
        options[f"{OF_WRITER}{key}"] = value
    return options


def check(options: Mapping[str, str]) -> None:
    """Raise UsageError for an option of the writer that kgroup sets itself; as ``resolved`` for the others."""
    own = {name.lower() for names in REMEMBERING.values() for name in names}
    for name in resolved(options):
        if name.lower() in own:
            raise UsageError(
                f"--option {name}: kgroup sets it, so that a table remembers the groups of chunks that it has",
                hint="leave the option out",
            )


def check_format(name: str, settings: Iterable[str]) -> None:
    """Raise UsageError for a misspelled format of Spark's own, if no jar can have a format of that name.

    ``settings`` are the names of Spark's. A format that resembles none is left to Spark, as it may be in its jars.
    """
    if any(setting.startswith(_JARS) for setting in settings) or any(environment().get(one) for one in _MAY_ADD_JARS):
        return
    wanted = name.lower()
    near = () if "." in wanted or wanted in _OF_SPARK else get_close_matches(wanted, _OF_SPARK, n=1, cutoff=0.8)
    if near:
        raise UsageError(
            f"--to-spark {name}: Spark has no format of this name, and no option adds a jar that may have it",
            hint=f"--to-spark {near[0]}, or --conf spark.jars.packages=... with the package of the format",
        )


def _is_named(value: str) -> bool:
    return value[:1] in ("@", "$") and value[:1] != value[1:2]


def _contains_secret(value: str) -> bool:
    return _IN_URL.search(value) is not None or _IN_TEXT.search(value) is not None


def table_format(options: Mapping[str, str]) -> str:
    """The writer's format in lower case, as Spark compares it."""
    return options[FORMAT].lower()


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """Options for Spark's writer: looks up ``@FILE`` and ``$VARIABLE``; a leading ``@@`` or ``$$`` means a literal one.

    Raises Refused with code ``sink`` for a file that cannot be read or a variable that is not set.
    """
    return {
        name.removeprefix(OF_WRITER): _looked_up(name.removeprefix(OF_WRITER), value)
        for name, value in options.items()
        if name.startswith(OF_WRITER)
    }


def secrets_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The contents of the files and variables, for redaction. Raises as ``resolved``."""
    named = (name.removeprefix(OF_WRITER) for name, value in options.items() if _is_named(value))
    told = resolved(options)
    return tuple(told[name] for name in named if told.get(name))


def _looked_up(key: str, value: str) -> str:
    if not _is_named(value):
        return value[1:] if value[:1] in ("@", "$") else value
    name = value[1:]
    if value.startswith("$"):
        if (secret := environment().get(name)) is None:
            raise Refused(f"--option {key}: the variable {name} is not set here", code=SINK)
        return secret
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"--option {key}: {name} cannot be read: {getattr(error, 'strerror', None) or error}", code=SINK
        ) from error
