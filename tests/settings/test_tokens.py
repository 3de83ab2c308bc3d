"""A token is kept until it is time for a new one, and used to its end if there is none."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pytest

from kgroup.settings.tokens import Token, TokenSource, UnsecuredTokens
from kgroup.support.errors import Unreachable


@dataclass
class Endpoint:
    """Gives the tokens t1, t2, ... for 100 s, unless it is down."""

    life_s: float | None = 100.0
    down: bool = False
    given: int = 0
    now: float = 1000.0
    asked: list[float] = field(default_factory=list)

    def __call__(self) -> Token:
        self.asked.append(self.now)
        if self.down:
            raise Unreachable("idp gave no token")
        self.given += 1
        return f"t{self.given}", self.life_s


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    endpoint = Endpoint()
    monkeypatch.setattr("kgroup.settings.tokens.time.time", lambda: endpoint.now)
    return endpoint


def test_a_new_token_comes_after_four_fifths_of_the_lifetime(endpoint: Endpoint) -> None:
    source = TokenSource(endpoint, {"x": "1"})
    seen = []
    for endpoint.now in (1000.0, 1079.0, 1081.0, 1160.0, 1162.0):
        seen.append((source.token(), source("")))

    assert seen == [
        ("t1", ("t1", 1100.0, "", {"x": "1"})),
        ("t1", ("t1", 1100.0, "", {"x": "1"})),
        ("t2", ("t2", 1181.0, "", {"x": "1"})),
        ("t2", ("t2", 1181.0, "", {"x": "1"})),
        ("t3", ("t3", 1262.0, "", {"x": "1"})),
    ]


def test_without_an_endpoint_the_present_token_is_used_to_its_end(endpoint: Endpoint) -> None:
    source = TokenSource(endpoint, {})
    source.token()
    endpoint.down = True
    for endpoint.now in (1081.0, 1084.0, 1097.0, 1099.5):
        assert source("") == ("t1", 1100.0, "", {})
    assert endpoint.asked == [1000.0, 1081.0, 1097.0, 1099.5]  # after four fifths of what is left, each time
    endpoint.now = 1100.0
    with pytest.raises(Unreachable, match="idp gave no token"):
        source("")
    endpoint.down = False
    assert source.token() == "t2"


def test_a_token_of_unknown_lifetime_is_not_kept(endpoint: Endpoint) -> None:
    endpoint.life_s = None
    source = TokenSource(endpoint, {})
    assert [source.token(), source.token()] == ["t1", "t2"]


def test_it_travels_without_its_token(endpoint: Endpoint) -> None:
    source = TokenSource(UnsecuredTokens({"sub": "alice"}, 60), {"x": "1"})
    source.token()

    there = pickle.loads(pickle.dumps(source))

    assert (there.fetch, there.extensions(), there._token) == (source.fetch, {"x": "1"}, "")
    assert source.token() not in repr(source)
    endpoint.now += 5
    assert there.token() != source.token()
