"""Sandboxes for tests. The jars come from the usual cache (KGROUP_CACHE_DIR), fetched by the first that needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.sandbox import Sandbox
from tests.helpers.sandbox_reporters import Recorder


@pytest.fixture
def reporter() -> Recorder:
    return Recorder()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """An empty one, removed at the end."""
    yield from _sandbox(tmp_path)


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Three brokers and their controller, for the module."""
    for made in _sandbox(tmp_path_factory.mktemp("three")):
        made.up(brokers=3, reporter=Recorder())
        yield made


def _sandbox(directory: Path) -> Iterator[Sandbox]:
    made = Sandbox(directory / "sandbox")
    try:
        yield made
    finally:
        made.down(wipe=True, reporter=Recorder())
