"""Reading a client's configuration as properties or YAML, and writing properties line by line."""

from __future__ import annotations

import random

import pytest

from kgroup.changes.client_config_file import read_config, write_changes
from kgroup.groups.migration.client_config import plan_config
from kgroup.settings.java_properties import parse_properties
from kgroup.support.errors import ConfigError

SECRET = "hunter-2-hunter"


def rewritten(before: bytes, name: str = "x.properties") -> bytes:
    file = read_config(before, name)
    return write_changes(before, file, plan_config(file, "consumer").changes)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x.YML", "group.id: g\n", "yaml"),
        ("x.json", '{"group.id": "g"}', "yaml"),
        ("x.conf", "group.id: g\n", "properties"),
        ("-", "# c\ngroup.id=g\n", "properties"),
        ("-", "group.id: g\nclient.id = c\n", "properties"),
        ("-", "# c\ngroup.id: g\n", "yaml"),
        ("-", "---\nkafka:\n  group.id: g\n", "yaml"),
        ("-", "", "properties"),
    ],
)
def test_the_format_follows_the_name_or_the_text(name: str, text: str, kind: str) -> None:
    assert read_config(text.encode(), name).kind == kind


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# c\ngroup.id=g\nsession.timeout.ms=1\nz=1\n", "# c\ngroup.id=g\ngroup.protocol=consumer\nz=1\n"),
        ("group.protocol : classic\ngroup.id : g\n", "group.protocol=consumer\ngroup.id : g\n"),
        ("group.id g\nheartbeat.interval.ms 2\n", "group.id g\ngroup.protocol=consumer\n"),
        (
            "interceptor.classes=a,\\\n  session.timeout.ms=1\nheartbeat.interval.ms=5\n! c \\\ngroup.id=g",
            "interceptor.classes=a,\\\n  session.timeout.ms=1\n! c \\\ngroup.id=g\ngroup.protocol=consumer\n",
        ),
        ("session\\u002etimeout\\.ms=1,\\\n 2\ngroup.id=g\n", "group.id=g\ngroup.protocol=consumer\n"),
        ("#session.timeout.ms=1\ngroup.id=g\n", "#session.timeout.ms=1\ngroup.id=g\ngroup.protocol=consumer\n"),
        ("group.id=g\r\nsession.timeout.ms=1\r\nz=c\r\n", "group.id=g\r\ngroup.protocol=consumer\r\nz=c\r\n"),
        ("group.id=g\rsession.timeout.ms=1\rz=c", "group.id=g\rgroup.protocol=consumer\rz=c"),
        ("z=c\r\ngroup.id=g", "z=c\r\ngroup.id=g\r\ngroup.protocol=consumer\r\n"),
        ("\ufeffgroup.id=g\nclient.id=ä€\n", "\ufeffgroup.id=g\ngroup.protocol=consumer\nclient.id=ä€\n"),
        ("group.id=g\nz=a\x0cb\n\x0csession.timeout.ms=1\n", "group.id=g\ngroup.protocol=consumer\nz=a\x0cb\n"),
    ],
)
def test_other_lines_stay(before: str, after: str) -> None:
    assert rewritten(before.encode()).decode() == after
    assert rewritten(after.encode()).decode() == after


def test_bytes_that_are_not_utf_8_stay() -> None:
    assert rewritten(b"client.id=\xe4\ngroup.id=g\n") == b"client.id=\xe4\ngroup.id=g\ngroup.protocol=consumer\n"


@pytest.mark.parametrize("before", ["group.id=g\\", "a\\ b.group.id=g\n", "a\\=.group.id=g\n"])
def test_a_file_that_would_read_differently_is_not_written(before: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.properties: cannot be changed line by line"):
        rewritten(before.encode())


def test_any_order_of_any_settings() -> None:
    """All other lines stay in their order, and the result has the intended settings."""
    others = {"bootstrap.servers": "a:1", "client.id": "ä = b: c#d", "sasl.password": SECRET, "group.id": "g"}
    ours = {"session.timeout.ms": "45000", "group.protocol": "classic", "group.protocol.type": "consumer"}
    random.seed(848)
    for _ in range(100):
        settings = [*others.items(), *random.choices([*ours.items()], k=random.randrange(5))]
        random.shuffle(settings)
        eol = random.choice(["\n", "\r\n", "\r"])
        lines = [line for key, value in settings for line in (*random.sample(["# c", ""], 1), f"{key}={value}")]
        text = eol.join(lines) + random.choice(["", eol])

        after = rewritten(text.encode(), "x.conf").decode()

        assert {found.key: found.value for found in parse_properties(after)} == {**others, "group.protocol": "consumer"}
        kept = [line for line in lines if line.partition("=")[0] not in ours]
        left = [line for line in after.split(eol) if line != "group.protocol=consumer"]
        assert left == [*kept, *([""] if after.endswith(eol) else [])], text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.properties", "a=b\ngroup.id=\\u12\n", "x.properties:2: malformed"),
        ("x.yml", "a: b\n c: [\n", "x.yml:2: not YAML"),
        ("x.yml", "a: " + "[" * 900, "x.yml: nested too deeply"),
        ("x.yml", f"group.id: g\nsasl.password: *{SECRET}\n", "x.yml:2: not YAML: found undefined alias [hidden]"),
    ],
)
def test_a_file_that_cannot_be_read(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(text.encode(), name)

    assert raised.value.message.startswith(message)
