"""The formats of ``--output``."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats; README describes them."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    MARKDOWN = "markdown"
    KCG = "kcg"
    PROMETHEUS = "prometheus"
