"""Metrics in Prometheus' text format 0.0.4, for the textfile collector of node_exporter.

The collector rejects a whole file for one bad line. A bad name or a duplicate series therefore raises an error here.
There are no timestamps: the collector rejects those too. The caller writes a temporary file and renames it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from kgroup.model.metrics import Labels, Metric

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def exposition(metrics: Iterable[Metric]) -> str:
    """All metrics, in their order, as one text that ends with a line feed; "" if there is no sample.

    Raises ValueError for a name that Prometheus does not allow, and for a metric or series that occurs twice.
    """
    names: set[str] = set()
    lines: list[str] = []
    for metric in metrics:
        if metric.name in names or not _METRIC.fullmatch(metric.name):
            raise ValueError(f"metric {metric.name!r} is there twice, or no name for one")
        names.add(metric.name)
        if metric.samples:
            lines += _lines(metric)
    return "".join(f"{line}\n" for line in lines)


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_help(metric.help)}"
    yield f"# TYPE {metric.name} gauge"
    written: set[frozenset[tuple[str, str]]] = set()
    for sample in metric.samples:
        series = frozenset(sample.labels)
        if series in written:
            raise ValueError(f"{metric.name}: a series is there twice: {dict(sample.labels)}")
        written.add(series)
        yield f"{metric.name}{_labels(metric.name, sample.labels)} {_number(sample.value)}"


def _labels(metric: str, labels: Labels) -> str:
    if not labels:
        return ""
    names = [name for name, _ in labels]
    if len(set(names)) != len(names) or not all(_LABEL.fullmatch(name) for name in names):
        raise ValueError(f"{metric}: labels {names} are there twice, or no names for labels")
    return "{" + ",".join(f'{name}="{_value(value)}"' for name, value in labels) + "}"


def _help(text: str) -> str:
    return _encodable(text).replace("\\", "\\\\").replace("\n", "\\n")


def _value(text: str) -> str:
    """Escape backslash, quote and line feed; the format allows every other character unescaped."""
    return _encodable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _encodable(text: str) -> str:
    """Replace unpaired surrogates with ``?``: they cannot be encoded in UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _number(value: float) -> str:
    """Whole numbers without a fraction, others in their shortest exact form; Prometheus itself rounds beyond 2**53."""
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
