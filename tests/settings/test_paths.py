"""Each place has a variable of its own, for a pod without a home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from kgroup.settings.paths import cache_dir, config_file, state_dir


@pytest.mark.parametrize(
    ("place", "name", "default"),
    [
        (config_file, "KGROUP_CONFIG", platformdirs.user_config_path("kgroup") / "config.yaml"),
        (state_dir, "KGROUP_STATE_DIR", platformdirs.user_state_path("kgroup")),
        (cache_dir, "KGROUP_CACHE_DIR", platformdirs.user_cache_path("kgroup")),
    ],
)
def test_a_place(place: Callable[[], Path], name: str, default: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("KGROUP_CONFIG", "KGROUP_STATE_DIR", "KGROUP_CACHE_DIR"):
        monkeypatch.setenv(each, "/elsewhere")
    monkeypatch.setenv(name, "/here")
    assert place() == Path("/here")
    monkeypatch.setenv(name, "")
    assert place() == default
