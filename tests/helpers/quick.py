"""A plugin of pytest: ``-m quick`` runs what needs no broker and no Spark, in a minute or two.

A quick test is one of every day that lies in none of SLOW and shares no fixture with other tests: what a module or a
run shares is a broker, a Spark session, or takes as long. In every run, a quick test that starts Java fails.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOW = tuple(
    f"tests/{place}"
    for place in (
        "benchmarks/",
        "catchup/spark/",
        "cli/completion/",
        "cli/test_processes",
        "docs/",
        "helpers/",
        "install/",
        "output/watch/test_loop",
        "sandbox/",
    )
)
"""Where tests take long by themselves, or start processes that do."""

_FOR_ALL = ("whole_hypothesis", "quick_spark")
"""Fixtures of the whole run that start nothing for a quick test."""
_DIRECTORY = pytest.StashKey[Path]()
_JAVA = '#!/bin/sh\necho "$0 $*" >> "${0%/*}/started"\necho "a quick test starts no Java" >&2\nexit 97\n'


def is_quick(item: pytest.Item) -> bool:
    """Whether a test of every day is quick."""
    if item.nodeid.startswith(SLOW) or not isinstance(item, pytest.Function):
        return False
    used = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    return not any(
        each.scope != "function" and each.argname not in _FOR_ALL and not each.func.__module__.startswith("_pytest")
        for each in used
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the Java of quick tests, which fails."""
    made = tempfile.TemporaryDirectory(prefix="kgroup-no-java-")
    config.add_cleanup(made.cleanup)
    config.stash[_DIRECTORY] = Path(made.name)
    programs = Path(made.name, "bin")
    programs.mkdir()
    for name in ("java", "keytool"):
        (programs / name).write_text(_JAVA)
        (programs / name).chmod(0o755)


@pytest.fixture(autouse=True)
def no_java_if_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A quick test and its processes find this Java alone. The test fails even where it takes no notice."""
    if request.node.get_closest_marker("quick") is None:
        yield
        return
    directory = request.config.stash[_DIRECTORY]
    monkeypatch.setenv("JAVA_HOME", str(directory))
    monkeypatch.setenv("PATH", os.pathsep.join((str(directory / "bin"), os.environ["PATH"])))
    yield
    started = directory / "bin" / "started"
    if started.exists():
        lines = started.read_text(encoding="utf-8")
        started.unlink()
        pytest.fail(f"a quick test started Java; a broker or Spark belongs into a fixture of its module:\n{lines}")
