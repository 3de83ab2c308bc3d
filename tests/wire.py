"""Something that happens at an exact moment: when kafka-python is about to send a request of some kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.net.manager import KafkaConnectionManager


def just_before(monkeypatch: pytest.MonkeyPatch, request: str, act: Callable[[], object]) -> list[str]:
    """``act()`` once, in this process, before the first ``request`` (``OffsetCommit``) leaves; then it goes its way.

    The list that is returned is empty until that has happened. ``act`` runs in the sender's loop, which stands still
    meanwhile: it must use other clients than that one.
    """
    real = KafkaConnectionManager.send
    happened: list[str] = []

    def send(self: KafkaConnectionManager, message: Any, *arguments: Any, **named: Any) -> Any:
        if type(message).__name__ == f"{request}Request" and not happened:
            happened.append(request)
            act()
        return real(self, message, *arguments, **named)

    monkeypatch.setattr(KafkaConnectionManager, "send", send)
    return happened
