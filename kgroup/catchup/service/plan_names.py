"""The names of plans for completion. It imports nothing at first: a key at a prompt must not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgroup.settings.model import Settings


def plan_names(settings: Settings) -> list[str]:
    """The plans of the ledger, open ones first, and the groups that have one. Raises as ``Ledger.list``."""
    from kgroup.catchup.ledger.ledger import Ledger
    from kgroup.catchup.ledger.view import nothing_wanted
    from kgroup.catchup.service.pending import ledger_topic
    from kgroup.settings.clients import librdkafka_config

    with Ledger(librdkafka_config(settings), ledger_topic(None), timeout_s=settings.timeout_s) as ledger:
        heads = sorted(ledger.list(patience_s=0, wanted=nothing_wanted).heads, key=lambda head: not head.may_be_open)
    return [head.id for head in heads] + [head.group for head in heads if head.group]
