"""Integers of documents that other programs may have written, for msgspec's typed decoding."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

NonNegativeInt64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""An offset, a partition, a number of things."""

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A time in ms since 1970."""
