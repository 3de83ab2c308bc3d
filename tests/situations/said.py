"""What a verb says of a group, from its JSON: statuses, findings, sentences and commands. No Kafka."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.situations.advice import shape

VERBS: Final = ("describe", "lag", "doctor", "peek", "history")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that the doctor found broken; its places are as in the row."""

    rule: str
    severity: str
    places: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """What one verb says of one group. Topics are named as in the row."""

    verb: str
    statuses: Mapping[str, str]  # by place; a partition whose status is unknown has none
    findings: tuple[Finding, ...]
    sentences: tuple[str, ...]
    commands: Mapping[str, str]  # as printed, by shape
    early: tuple[str, ...]  # why something is not known yet


def said(document: Json, group: str, topics: Mapping[str, str], symbols: Mapping[str, int]) -> Said:
    """What a document of one of VERBS says; `topics` are the broker's names by the row's."""
    verb = document["kind"].removeprefix("kgroup.").partition("/")[0]
    subjects = document["data"]
    rows = {real: name for name, real in topics.items()}
    statuses: dict[str, str] = {}
    early: dict[str, None] = {}
    for each in subjects:
        for one in each.get("partitions", [each] if verb == "peek" else []):
            if one["lag_status"] is not None:
                statuses[f"{rows.get(one['topic'], one['topic'])}:{one['partition']}"] = one["lag_status"]
            elif reason := one.get("lag_status_unknown_reason"):
                early[reason] = None
        for rule in each.get("unchecked_rules", ()):
            early[f"{rule['rule']}: {rule['reason']}"] = None
    sentences = [*_sentences(verb, subjects), *document["notes"], *(error["message"] for error in document["errors"])]
    return Said(
        verb=verb,
        statuses=statuses,
        findings=tuple(
            Finding(
                one["rule"],
                one["severity"],
                tuple(_as_in_row(place, topics) for place in one["affected"]),
                _as_in_row(_of_finding(one), topics),
            )
            for each in subjects
            for one in each.get("findings", ())
        ),
        sentences=tuple(_as_in_row(sentence, topics) for sentence in sentences),
        commands={shape(each, group, topics, symbols): each for each in _commands(subjects)},
        early=tuple(early),
    )


def _as_in_row(text: str, topics: Mapping[str, str]) -> str:
    for name, real in sorted(topics.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(real, name)
    return text


def _sentences(verb: str, subjects: list[Json]) -> Iterator[str]:
    for each in subjects:
        if verdict := each.get("verdict"):
            yield from (f"{line['word']} {line['text']}" for line in verdict["lines"])
            yield verdict["next"] or ""
        for finding in each.get("findings", ()):
            yield _of_finding(finding)
        for record in each.get("records", ()):
            yield f"shows {record['topic']}:{record['partition']} {record['offset']}"
        if verb == "history":
            yield from _of_history(each)
        if reason := each.get("stopped_reason"):
            yield reason


def _of_finding(finding: Json) -> str:
    return f"{finding['rule']} {finding['severity']}: {finding['evidence']}; {finding['remedy']}"


def _of_history(group: Json) -> Iterator[str]:
    for one in group["signatures"]:
        yield f"{one['signature']}: {one['text']}"
    for cause in group["totals"]["causes"]:
        yield f"{cause['cause']} x{cause['step_count']}"
    for jump in (group["commits"] or {"jumps": ()})["jumps"]:
        yield f"{jump['move']} by {jump['author']} {jump['author_name'] or ''}, moved {jump['moved_offsets']}"
        if alternation := jump["alternation"]:
            yield f"{alternation['writers']} writers"


def _commands(value: Any) -> Iterator[str]:
    """Every `commands` and `command` of a document, however deep."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "commands":
                yield from inner
            elif key == "command" and isinstance(inner, str):
                yield inner
            else:
                yield from _commands(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands(inner)
