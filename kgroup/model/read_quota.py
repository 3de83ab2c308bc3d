"""A quota on what clients may read (``consumer_byte_rate``, KIP-13, KIP-546)."""

from __future__ import annotations

import msgspec

EACH = ""
"""The name of the default entity: the quota of each client id, or of each user, that has none of its own."""


class ReadQuota(msgspec.Struct, frozen=True):
    """Bytes a second and broker that a client id, a user, or a client id of a user may read; None: it names none."""

    bytes_per_s: int
    client_id: str | None = None
    user: str | None = None

    @property
    def subject(self) -> str:
        """``client id pay-0``, ``each user``, ``client id pay-0 of user alice``."""
        return " of ".join(
            f"each {word}" if name == EACH else f"{word} {name}"
            for word, name in (("client id", self.client_id), ("user", self.user))
            if name is not None
        )
