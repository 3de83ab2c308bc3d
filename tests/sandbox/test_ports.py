"""Choosing ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kgroup.sandbox import ports
from kgroup.support.errors import SandboxError


def test_ephemeral_range_is_avoided() -> None:
    for _ in range(200):
        first, second, third = ports.choose(3, free=lambda port: True, ephemeral=(20_000, 60_000))
        assert (second, third) == (first + 1, first + 2)
        assert third < 20_000 or first > 60_000


def test_taken_ports_are_passed_over() -> None:
    assert ports.choose(2, free=lambda port: port in (17_000, 17_001, 18_000), ephemeral=(17_500, 65_000)) == (
        17_000,
        17_001,
    )


def test_none_left() -> None:
    with pytest.raises(SandboxError, match="no 1 free"):
        ports.choose(1, free=lambda port: False)


def test_whole_range_ephemeral() -> None:
    assert ports.choose(1, free=lambda port: True, ephemeral=(1_024, 65_535))


def test_a_listener_takes_its_port() -> None:
    with socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)


def test_range_is_read_from_the_system(tmp_path: Path) -> None:
    (tmp_path / "range").write_text("32768\t60999\n")
    assert ports.ephemeral_range(tmp_path / "range") == (32_768, 60_999)
    assert ports.ephemeral_range(tmp_path / "none")[1] > 60_000
