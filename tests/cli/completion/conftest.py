"""What the tests of completion share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.completion import Asker


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setenv("KGROUP_CACHE_DIR", str(tmp_path / "cache"))
    return Asker(tmp_path / "cache")


@pytest.fixture
def here(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The shared broker, named in the environment."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", bootstrap)
    return bootstrap
