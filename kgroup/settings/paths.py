"""Where kgroup keeps files: the user's configuration (read only), state (journal, chosen context), cache.

Each directory has a variable that overrides it, so that a pod without ``$HOME`` works.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs

from kgroup.settings.environment import variable


def config_file() -> Path:
    """The contexts file: ``KGROUP_CONFIG`` or ``config.yaml`` in the user's configuration directory."""
    named = variable("KGROUP_CONFIG")
    return Path(named) if named else platformdirs.user_config_path("kgroup") / "config.yaml"


def state_dir() -> Path:
    """Journal, chosen context and sandboxes: ``KGROUP_STATE_DIR`` or the user's state directory."""
    named = variable("KGROUP_STATE_DIR")
    return Path(named) if named else platformdirs.user_state_path("kgroup")


def cache_dir() -> Path:
    """Files that can be downloaded or computed again: ``KGROUP_CACHE_DIR`` or the user's cache directory."""
    named = variable("KGROUP_CACHE_DIR")
    return Path(named) if named else platformdirs.user_cache_path("kgroup")
