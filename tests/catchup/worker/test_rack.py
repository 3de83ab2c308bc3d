"""The rack of a worker, from its environment."""

from __future__ import annotations

import pytest

from kgroup.catchup.worker.rack import in_own_rack


@pytest.mark.parametrize(
    ("rack", "given", "expected"),
    [
        (None, {"client.rack": "a"}, {"client.rack": "a"}),
        ("", {}, {}),
        ("b", {}, {"client.rack": "b"}),
        ("b", {"client.rack": "a", "client.id": "x"}, {"client.rack": "b", "client.id": "x"}),
    ],
)
def test_its_own_rack_wins(
    rack: str | None, given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGROUP_CLIENT_RACK", raising=False)
    if rack is not None:
        monkeypatch.setenv("KGROUP_CLIENT_RACK", rack)
    assert in_own_rack(given) == expected
