"""Sentences in lines, and settings as one line."""

from __future__ import annotations

from kgroup.output.pages.text import settings_text, wrapped


def test_a_sentence_is_wrapped_between_words() -> None:
    assert wrapped("a" * 40 + " " + "b" * 37) == ["a" * 40 + " " + "b" * 37]
    assert wrapped("a" * 40 + " " + "b" * 38) == ["a" * 40, "b" * 38]
    assert wrapped("-> " + "a" * 70 + " two-words", "   ") == ["-> " + "a" * 70, "   two-words"]
    assert wrapped("x" * 90) == ["x" * 90], "a name is not broken"


def test_a_setting_that_is_removed_is_unset() -> None:
    assert settings_text({"a": "1", "b": None, "c": ""}) == "a=1, b unset, c="
    assert settings_text({}) == ""
