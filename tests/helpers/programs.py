"""A plugin of pytest: PATH has Python's programs and Java's alone, except for tests that are marked ``programs``.

So each run, on any machine, shows that the tests which are not marked need no other program. What a program of the
base system calls by its path is there all the same: ``/bin/sh``, and what Spark's own start needs (bash, coreutils).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.helpers.quick import is_quick

F = TypeVar("F", bound=Callable[..., Any])
_MACHINE = "PATH_OF_MACHINE"
"""The variable with the machine's PATH, which the processes that xdist starts read too."""
_OF_JAVA = ("java", "keytool")
_LEFT_OUT = pytest.StashKey[dict[str, tuple[str, ...]]]()
_IN_OUTPUT = "needing_programs"


def programs_of(item: pytest.Item) -> tuple[str, ...]:
    """What a test needs besides Python and Java, sorted; empty if it is not marked."""
    return tuple(sorted({name for mark in item.iter_markers("programs") for name in mark.args}))


def needs(*names: str) -> Callable[[F], F]:
    """Below ``pytest.fixture``: each test that uses the fixture is marked with ``programs(*names)``."""

    def noted(function: F) -> F:
        function.programs = names  # type: ignore[attr-defined]
        return function

    return noted


def pytest_configure(config: pytest.Config) -> None:
    """Replace PATH for this process and those that it starts."""
    config.stash[_LEFT_OUT] = {}
    if _MACHINE in os.environ:  # the process that started this one has done it
        return
    machine = os.environ[_MACHINE] = os.environ.get("PATH", os.defpath)
    made = tempfile.TemporaryDirectory(prefix="kgroup-path-")
    config.add_cleanup(made.cleanup)
    places = os.pathsep.join((str(Path(os.environ.get("JAVA_HOME", "/nowhere"), "bin")), machine))
    for name in _OF_JAVA:
        if found := shutil.which(name, path=places):
            Path(made.name, name).symlink_to(Path(found).resolve())
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), made.name))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what CONTRIBUTING's commands select, and before it what has a fixture that needs programs.

    Situations are played where they are asked for: nothing runs beside them, and a run of a directory is soon over.
    """
    if "situations" not in config.option.markexpr:
        played = [item for item in items if item.get_closest_marker("situations")]
        items[:] = [item for item in items if item not in played]
        config.hook.pytest_deselected(items=played)
    for item in items:
        for definitions in item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ():
            if names := getattr(definitions[-1].func, "programs", ()):
                item.add_marker(pytest.mark.programs(*names))
        if not any(item.get_closest_marker(name) for name in ("soak", "situations", "programs")):
            item.add_marker("everyday")
            if is_quick(item):
                item.add_marker("quick")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that is marked has the machine's PATH, and so have the fixtures that it is the first to use."""
    if not item.get_closest_marker("programs"):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.environ[_MACHINE])
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """It fails, and is never skipped, where one of its programs is missing."""
    if missing := [name for name in programs_of(item) if not shutil.which(name)]:
        pytest.fail(f"{', '.join(missing)}: not installed here; .ci/run installs what tests need", pytrace=False)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Keep what the everyday command leaves to .ci/run."""
    for item in items:
        if programs_of(item) and not item.get_closest_marker("soak"):
            item.config.stash[_LEFT_OUT][item.nodeid] = programs_of(item)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Each of xdist's processes has deselected the same, and the one that prints has collected nothing."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_IN_OUTPUT] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Of xdist: one of its processes has ended."""
    node.config.stash[_LEFT_OUT].update(getattr(node, "workeroutput", {}).get(_IN_OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line about what was not run."""
    left_out = config.stash[_LEFT_OUT]
    if left_out and config.option.markexpr == "everyday":
        names = sorted({name for names in left_out.values() for name in names})
        terminalreporter.write_line(f"{len(left_out)} tests need {', '.join(names)}: .ci/run runs them")
