"""Which settings are hidden wherever they are shown."""

from __future__ import annotations

import pytest

from kgroup.settings.model import Setting

URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("key", "value", "hidden"),
    [
        ("sasl.password", "x", True),
        ("client.id", "x", False),
        ("bootstrap.servers", "b1:9092,b2:9092", False),
        (URL, "https://idp.example/oauth/token", False),
        (URL, "https://idp.example:8443/a@b", False),
        (URL, "https://svc:pass@idp.example/token", True),
        (URL, "https://TOKEN@idp.example/token", True),
        (URL, "HTTPS://svc:p%40ss@idp.example", True),
        (URL, "https://idp.example/token?api_key=KEY", True),
        (URL, "https://idp.example?sig=KEY", True),
    ],
)
def test_a_secret_is_hidden_by_its_key_or_as_a_part_of_a_url(key: str, value: str, hidden: bool) -> None:
    setting = Setting(key, value, "here")

    assert setting.is_secret == hidden
    assert (value in setting.display_value) == (not hidden)
    assert (value in repr(setting)) == (not hidden)
