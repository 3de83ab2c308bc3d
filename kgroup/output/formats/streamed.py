"""One JSON or YAML document, written while its data arrives: memory does not grow with the number of subjects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from kgroup.model.envelope import Envelope, envelope
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome, OutcomeItem, json_form
from kgroup.output.formats.envelope import is_utf, to_yaml, with_remarks, write_json, write_yaml
from kgroup.output.remarks import Remarks
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.json_line import one_line_json, plain

HELD_SUBJECTS = 20
"""So many subjects are held; one more, and the document is written from then on as they arrive."""


class StreamedDocument:
    """The envelope of everything that a command returns.

    Up to 20 subjects are written at the end, in JSON indented. More are written as they arrive, in JSON one line each,
    which is ten times as fast. ``data`` comes before all fields that are only known at the end: errors, warnings,
    notes. Kind, cluster and ``executed`` come before ``data``: from the outcomes until then, which are the same in all.
    """

    def __init__(self, verb: str, stream: IO[str], *, yaml: bool = False) -> None:
        self._kind: str | None = None
        self._verb = verb
        self._cluster: ClusterRef | None = None
        self._executed = False
        self._stream = stream
        self._form: _Json | _Yaml = _Yaml(stream) if yaml else _Json(stream)
        self._held: list[OutcomeItem] = []
        self._errors: list[RowError] = []
        self.begun = False

    def add(self, outcome: Outcome) -> None:
        """Add the outcome's data and errors; ``begun`` is whether a part of the document is written now."""
        self._kind = self._kind or outcome.kind
        self._cluster = self._cluster or outcome.cluster
        self._executed = self._executed or outcome.executed
        self._errors += outcome.errors
        for subject in outcome.data:
            if self.begun:
                self._form.next(subject)
                continue
            self._held.append(subject)
            if len(self._held) > HELD_SUBJECTS:
                self._begin()

    def end(self, remarks: Remarks, error: RowError | None = None) -> None:
        """Write the rest. ``error`` is the one that ended the command in the midst of its data."""
        self._errors += () if error is None else (error,)
        document = with_remarks(self._envelope(self._held), remarks)
        if self.begun:
            self._form.end({name: getattr(document, name) for name in ("errors", "warnings", "notes")})
        else:
            self._form.whole(document)

    def _begin(self) -> None:
        document = self._envelope()
        self._form.begin({name: getattr(document, name) for name in ("kind", "cluster", "executed")})
        self.begun = True
        for subject in self._held:
            self._form.next(subject)
        self._held.clear()

    def _envelope(self, subjects: Iterable[OutcomeItem] = ()) -> Envelope:
        data = map(json_form, subjects)
        return envelope(self._kind or self._verb, self._cluster, data, executed=self._executed, errors=self._errors)


class _Json:
    """One line for each element of a list, and for each other field."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_utf = is_utf(stream)
        self._rows = 0

    def whole(self, document: Envelope) -> None:
        write_json(document, self._stream)

    def begin(self, head: dict[str, Any]) -> None:
        """The fields before the data."""
        fields = ",\n".join(f'  "{name}": {self._line(value)}' for name, value in head.items())
        self._stream.write("{\n" + fields + ',\n  "data": [\n')

    def next(self, subject: OutcomeItem) -> None:
        """The next element of the data."""
        self._stream.write((",\n    " if self._rows else "    ") + self._line(json_form(subject)))
        self._rows += 1

    def end(self, rest: dict[str, Any]) -> None:
        """The fields after the data."""
        self._stream.write("\n  ]")
        for name, value in rest.items():
            rows = ",\n".join("    " + self._line(row) for row in value)
            self._stream.write(f',\n  "{name}": ' + (f"[\n{rows}\n  ]" if rows else "[]"))
        self._stream.write("\n}\n")

    def _line(self, value: Any) -> str:
        return one_line_json(value, ascii_only=not self._is_utf)


class _Yaml:
    """The data as a list that is not indented, as PyYAML writes one."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def whole(self, document: Envelope) -> None:
        write_yaml(document, self._stream)

    def begin(self, head: dict[str, Any]) -> None:
        self._stream.write(to_yaml(plain(head)) + "data:\n")

    def next(self, subject: OutcomeItem) -> None:
        self._stream.write(to_yaml(plain([json_form(subject)])))

    def end(self, rest: dict[str, Any]) -> None:
        self._stream.write(to_yaml(plain(rest)))
