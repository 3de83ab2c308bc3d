"""Settings as one line."""

from __future__ import annotations

from kgroup.output.pages.text import settings_text


def test_a_setting_that_is_removed_is_unset() -> None:
    assert settings_text({"a": "1", "b": None, "c": ""}) == "a=1, b unset, c="
    assert settings_text({}) == ""
