"""Finding Java, with scripts that claim to be one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kgroup.support.errors import ExitCode, Refused
from kgroup.support.java_home import find_java, with_one_collector


def fake_java(directory: Path, version: str | None) -> Path:
    """A ``java`` that tells this version, or fails."""
    directory.mkdir(parents=True)
    script = directory / "java"
    script.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n" if version else "#!/bin/sh\nexit 3\n"
    )
    script.chmod(0o755)
    return script


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", "21.0.2")
    fake_java(tmp_path / "path", "17.0.15")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert (found.executable, found.major) == (home, 21)


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402"])
def test_path_where_java_home_is_too_old(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "home" / "bin", version)
    on_path = fake_java(tmp_path / "path", "17")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert (found.executable, found.major) == (on_path, 17)


@pytest.mark.parametrize(
    ("home", "path", "told"),
    [
        (None, None, ("JAVA_HOME is not set", "no java in PATH=")),
        ("1.8.0_402", "11.0.22", ("is Java 8, too old", "is Java 11, too old")),
        ("", None, ("does not print its version", "no java in PATH=")),
    ],
)
def test_says_what_was_looked_at(tmp_path: Path, home: str | None, path: str | None, told: tuple[str, str]) -> None:
    environment = {"PATH": str(tmp_path / "path")}
    if home is not None:
        fake_java(tmp_path / "home" / "bin", home)
        environment["JAVA_HOME"] = str(tmp_path / "home")
    if path is not None:
        fake_java(tmp_path / "path", path)
    with pytest.raises(Refused, match="needs Java 17 or newer") as raised:
        find_java(environment)
    assert raised.value.code == "no-java"
    assert raised.value.exit_code == ExitCode.REFUSED
    for expected, line in zip(told, raised.value.details, strict=True):
        assert expected in line


def test_java_home_without_java(tmp_path: Path) -> None:
    with pytest.raises(Refused) as raised:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert raised.value.details[0] == f"JAVA_HOME={tmp_path} has no bin/java"


@pytest.mark.parametrize(
    ("environment", "other", "kept"),
    [
        ({}, "", ("-XX:+UseSerialGC", "-Xss512k")),
        ({"JAVA_TOOL_OPTIONS": "-Dx=y -XX:-UseG1GC", "PATH": "-XX:+UseG1GC"}, "", ("-XX:+UseSerialGC", "-Xss512k")),
        ({"JAVA_TOOL_OPTIONS": "-Dx=y -XX:+UseG1GC"}, "", ("-Xss512k",)),
        ({"JDK_JAVA_OPTIONS": "-XX:+UseZGC -Xmx1g"}, "", ("-Xss512k",)),
        ({"_JAVA_OPTIONS": "-XX:+UseShenandoahGC"}, "", ("-Xss512k",)),
        ({}, "-XX:+UseParallelGC", ("-Xss512k",)),
        ({}, "-XX:+UseDynamicNumberOfGCThreads", ("-XX:+UseSerialGC", "-Xss512k")),
    ],
)
def test_our_collector_gives_way_to_the_users(
    environment: Mapping[str, str], other: str, kept: tuple[str, ...]
) -> None:
    assert with_one_collector(("-XX:+UseSerialGC", "-Xss512k"), environment, other) == kept
