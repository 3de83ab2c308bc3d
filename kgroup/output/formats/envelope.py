"""Envelopes of what a command returned, written as JSON and YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import IO, Any

from msgspec.structs import replace

from kgroup.model.envelope import Envelope, cluster_document, envelope
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome, json_form
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError
from kgroup.support.instants import rfc3339
from kgroup.support.json_line import one_line_json, plain
from kgroup.support.quoting import json_safe


def of_outcomes(verb: str, outcomes: Sequence[Outcome], remarks: Remarks = NO_REMARKS) -> Envelope:
    """One envelope for everything that the command returned; its kind is the verb's if no outcome has its own."""
    document = envelope(
        next((outcome.kind for outcome in outcomes if outcome.kind), verb),
        next((outcome.cluster for outcome in outcomes if outcome.cluster), None),
        (json_form(item) for outcome in outcomes for item in outcome.data),
        executed=any(outcome.executed for outcome in outcomes),
        errors=[error for outcome in outcomes for error in outcome.errors],
    )
    return with_remarks(document, remarks)


def of_error(verb: str, error: KgroupError, remarks: Remarks = NO_REMARKS) -> Envelope:
    """The envelope of a command that failed before it returned an outcome."""
    return with_remarks(envelope(verb, error.cluster, errors=[RowError.of(error)]), remarks)


def with_remarks(document: Envelope, remarks: Remarks) -> Envelope:
    return replace(document, warnings=remarks.warnings, notes=remarks.notes)


def of_refresh(
    verb: str,
    at: datetime,
    outcomes: Sequence[Outcome],
    error: KgroupError | None,
    cluster: ClusterRef | None,
    remarks: Remarks,
) -> Envelope:
    """The envelope of one ``--watch`` refresh, with ``at``, the time of the refresh.

    ``cluster`` is used if the refresh names no cluster: it failed, or no group was selected.
    """
    document = of_error(verb, error, remarks) if error else of_outcomes(verb, outcomes, remarks)
    return replace(document, at=rfc3339(at), cluster=document.cluster or cluster_document(cluster))


def write_json(document: Envelope, stream: IO[str]) -> None:
    stream.write(json_safe(json.dumps(plain(document), indent=2, ensure_ascii=not is_utf(stream))) + "\n")


def write_json_line(document: Envelope, stream: IO[str]) -> None:
    """Write the document on one line, for verbs that write one document after another."""
    stream.write(one_line_json(document, ascii_only=not is_utf(stream)) + "\n")


def is_utf(stream: IO[str]) -> bool:
    """Whether the stream's encoding has all characters; for another one, JSON escapes those that are not ASCII."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def write_yaml(document: Envelope, stream: IO[str]) -> None:
    """Write the same document as YAML, with the keys in the same order."""
    stream.write(to_yaml(plain(document)))


_NOT_ASCII = r"[^\x00-\x7e]"


def to_yaml(document: Any) -> str:
    """The text of a value, in ASCII if it has characters that are not printable."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """PyYAML's C dumper if it is installed. It writes a StrEnum as its text, as in JSON."""

    Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    if any(not match[0].isprintable() for match in re.finditer(_NOT_ASCII, text)):
        text = yaml.dump(document, Dumper=Dumper, sort_keys=False)
    return text
