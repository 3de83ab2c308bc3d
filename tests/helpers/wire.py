"""Something that happens at an exact moment: when kafka-python is about to send a request of some kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.net.manager import KafkaConnectionManager


def just_before(monkeypatch: pytest.MonkeyPatch, request: str, act: Callable[[], object], skip: int = 0) -> list[str]:
    """``act()`` once, in this process, before the first ``request`` (``OffsetCommit``) leaves; then it goes its way.

    With ``skip``, before the one after so many of them. The list that is returned is empty until that has happened.
    ``act`` runs in the sender's loop, which stands still meanwhile: it must use other clients than that one.
    """
    real = KafkaConnectionManager.send
    happened: list[str] = []
    left = skip

    def send(self: KafkaConnectionManager, message: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal left
        if message.name == f"{request}Request" and not happened:
            if left:
                left -= 1
            else:
                happened.append(request)
                act()
        return real(self, message, *arguments, **named)

    monkeypatch.setattr(KafkaConnectionManager, "send", send)
    return happened


def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all requests that leave from now on (``OffsetCommit``), as they leave."""
    real = KafkaConnectionManager.send
    names: list[str] = []

    def send(self: KafkaConnectionManager, message: Any, *arguments: Any, **named: Any) -> Any:
        names.append(message.name.removesuffix("Request"))
        return real(self, message, *arguments, **named)

    monkeypatch.setattr(KafkaConnectionManager, "send", send)
    return names
