"""Where kgroup keeps files: the user's configuration (read only), state (journal, chosen context), cache.

Each directory has a variable that overrides it, so that a pod without ``$HOME`` works.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import platformdirs


def config_file() -> Path:
    """The contexts file: ``KGROUP_CONFIG`` or ``config.yaml`` in the user's configuration directory."""
    named = os.environ.get("KGROUP_CONFIG")
    return Path(named) if named else platformdirs.user_config_path("kgroup") / "config.yaml"


def state_dir() -> Path:
    """Journal, chosen context and sandboxes: ``KGROUP_STATE_DIR`` or the user's state directory."""
    named = os.environ.get("KGROUP_STATE_DIR")
    return Path(named) if named else platformdirs.user_state_path("kgroup")


def cache_dir() -> Path:
    """What can be fetched or made again: ``KGROUP_CACHE_DIR`` or the user's cache directory."""
    named = os.environ.get("KGROUP_CACHE_DIR")
    return Path(named) if named else platformdirs.user_cache_path("kgroup")


def nearest(path: Path) -> Path:
    """``path``, or the first above it that exists. Raises OSError where one of them may not be entered.

    ``Path.exists`` would take what is below such a directory for missing, from Python 3.14 on.
    """
    for one in (path, *path.parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            one.stat()
            return one
    raise FileNotFoundError(path)
