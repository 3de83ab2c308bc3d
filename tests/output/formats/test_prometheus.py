"""Prometheus' text format: escaping, numbers, and what the textfile collector would refuse."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.model.metrics import Metric, MetricSample
from kgroup.output.formats.prometheus import exposition


def one(value: float, **labels: str) -> str:
    return exposition([Metric("m", "Help.", (MetricSample(tuple(labels.items()), value),))]).splitlines()[-1]


def test_a_metric_with_two_series() -> None:
    metric = Metric(
        "kgroup_lag", "Lag, in\\records\nof all.", (MetricSample((("a", "x"), ("b", "")), 3), MetricSample((), 0.5))
    )

    assert exposition([metric, Metric("none", "Not written.", ())]) == (
        "# HELP kgroup_lag Lag, in\\\\records\\nof all.\n"
        "# TYPE kgroup_lag gauge\n"
        'kgroup_lag{a="x",b=""} 3\n'
        "kgroup_lag 0.5\n"
    )


def test_nothing_to_say_is_an_empty_text() -> None:
    assert exposition([]) == exposition([Metric("m", "", ())]) == ""


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ("orders", "orders"),
        ('a"b', 'a\\"b'),
        ("a\\b", "a\\\\b"),
        ("a\nb", "a\\nb"),
        ("\\n", "\\\\n"),
        ("grüße-注文", "grüße-注文"),
        ("half \ud800", "half ?"),
        ("tab\tand\rreturn", "tab\tand\rreturn"),
    ],
)
def test_label_values_are_escaped(label: str, written: str) -> None:
    text = exposition([Metric("m", "", (MetricSample((("group", label),), 1),))])

    assert text.split("\n")[2] == f'm{{group="{written}"}} 1'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (-95, "-95"),
        (2**62, "4611686018427387904"),
        (1795225000.0, "1795225000"),
        (1795225000.123, "1795225000.123"),
        (1e300, "1e+300"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (True, "1"),
    ],
)
def test_numbers(value: float, written: str) -> None:
    assert one(value) == f"m {written}"


@pytest.mark.parametrize(
    "metrics",
    [
        [Metric("a-b", "", ())],
        [Metric("1a", "", ())],
        [Metric("", "", ())],
        [Metric("a", "", ()), Metric("a", "", ())],
        [Metric("a", "", (MetricSample((("x-y", ""),), 1),))],
        [Metric("a", "", (MetricSample((("__x", ""),), 1),))],
        [Metric("a", "", (MetricSample((("x", "1"), ("x", "2")), 1),))],
        [Metric("a", "", (MetricSample((("x", "1"),), 1), MetricSample((("x", "1"),), 2)))],
        [Metric("a", "", (MetricSample((("x", "1"), ("y", "2")), 1), MetricSample((("y", "2"), ("x", "1")), 2)))],
    ],
)
def test_what_the_collector_would_refuse_is_an_error_here(metrics: list[Metric]) -> None:
    with pytest.raises(ValueError, match=r"twice|no name"):
        exposition(metrics)


_LINE = re.compile(r'm\{a="((?:[^"\\\n]|\\[\\"n])*)",b="((?:[^"\\\n]|\\[\\"n])*)"\} \S+')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], text)


@given(st.text(), st.text(), st.floats())
def test_any_label_comes_back_as_it_was(a: str, b: str, value: float) -> None:
    lines = exposition([Metric("m", "", (MetricSample((("a", a), ("b", b)), value),))]).split("\n")

    assert len(lines) == 4
    found = _LINE.fullmatch(lines[2])
    assert found
    assert [parsed(group) for group in found.groups()] == [text.encode("utf-8", "replace").decode() for text in (a, b)]
