"""Settings on a page, as one line."""

from __future__ import annotations

from collections.abc import Mapping


def settings_text(configs: Mapping[str, str | None]) -> str:
    """``consumer.session.timeout.ms=60000``; a setting that is removed is ``... unset``."""
    return ", ".join(f"{name}={value}" if value is not None else f"{name} unset" for name, value in configs.items())
