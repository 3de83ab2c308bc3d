"""The forms in which a result is written."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats, see README."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    MARKDOWN = "markdown"
    KCG = "kcg"
    PROMETHEUS = "prometheus"
