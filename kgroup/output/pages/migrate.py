"""The page of a migration: readiness of each group, the result, what the application does next, its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kgroup.groups.change_plan import committed
from kgroup.groups.migration.check import (
    BLOCKED,
    CheckStatus,
    MigrationCheck,
    MigrationPath,
    Readiness,
    ReadinessResult,
)
from kgroup.groups.migration.migrated import MigrationResult
from kgroup.groups.migration.readiness import ReadinessSummary, offline_check
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    LabelledLine,
    Prose,
    Screen,
    Style,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.output.pages.change import ROWS_ON_A_PAGE
from kgroup.output.pages.text import settings_text
from kgroup.support.errors import NOT_EMPTY
from kgroup.support.instants import short_time
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import ConfigPlan
    from kgroup.groups.migration.client_config.decide import ConfigChange


HEADER = (
    "group", "type", "state", "member_count", "topic_count", "commit_count", "readiness", "how", "reason", "converted",
    "read_back_count", "error_code", "error_message",
)  # fmt: skip

LISTED = frozenset({BLOCKED, NOT_EMPTY})
"""The refusals that the table of several groups already shows."""

_STYLES: dict[str, Style] = {
    ReadinessResult.DONE: "good",
    ReadinessResult.READY: "good",
    ReadinessResult.WARNING: "warn",
    ReadinessResult.BLOCKED: "bad",
    CheckStatus.OK: "good",
    CheckStatus.WARNING: "warn",
    CheckStatus.BLOCKED: "bad",
}
_CHECKS = (Column("CHECK"), Column("STATUS"), Column("EVIDENCE", fold=True))
_SUMMARY = (Column("READINESS"), Column("HOW"), Column("GROUPS", right=True), Column("MAIN-REASON", fold=True))
_GROUPS = (
    Column("GROUP", fold=True),
    Column("MEMBERS", right=True, drop=2),
    Column("TOPICS", right=True, drop=3),
    Column("READINESS"),
    Column("HOW"),
    Column("REASON", fold=True),
    Column("CONVERTED"),
)
_SHOWN_DIFFERENCE_MS = 3_600_000
_WITHOUT_FINDING = frozenset({CheckStatus.OK, CheckStatus.INFO})
_WITH_REMEDY = frozenset({CheckStatus.WARNING, CheckStatus.BLOCKED})
_ACCORDING_TO_KIP_848 = {
    "consumer": "If ONE classic member joins first, the broker converts the group back to classic without an error.",
    "classic": "If ONE member of the consumer protocol joins first, the broker converts it back without an error.",
}


class Page(msgspec.Struct, frozen=True):
    """What the page of a migration shows in addition to its plan.

    ``why`` is the command that shows the checks of one group. ``steps`` are those of a rollout, ``facts`` hold for all
    groups, ``config`` shows the changes to the application's configuration; all may be empty. ``cleared`` is true if
    members left by a killed kgroup run were removed.
    """

    why: str
    summary: Sequence[ReadinessSummary]
    steps: Sequence[str] = ()
    facts: Sequence[str] = ()
    config: Sequence[Block] = ()
    cleared: bool = False
    verbose: bool = False


def about(readiness: Sequence[Readiness], types: Sequence[str], target: str) -> str:
    """``pay-svc: classic -> consumer``, ``120 groups to the consumer protocol``."""
    if len(readiness) == 1:
        kind = types[0]
        return f"{readiness[0].group}: {kind} -> {target}" if kind != target else f"{readiness[0].group} to {target}"
    return f"{plural(len(readiness), 'group')} to the {target} protocol"


def table(rows: Sequence[MigrationResult], page: Page, *, executed: bool) -> list[Block]:
    """The blocks between the title and the refusals."""
    if len(rows) == 1:
        blocks = list(_after(rows[0]) if rows[0].converted else _group_blocks(rows[0], page, executed=executed))
    else:
        blocks = list(_many(rows, page, executed=executed))
    return [*blocks, *page.config]


def nothing_to_do(rows: Sequence[MigrationResult], subject: str, page: Page) -> Screen:
    """The page if no group is left to convert."""
    title = Title(f"PLAN  migrate {subject}")
    end = "Done: the member that a killed kgroup run left behind was removed." if page.cleared else "Nothing to do."
    return Screen((title, *table(rows, page, executed=False), BlankLine(), Text((end,))))


def ready_now(rows: Sequence[MigrationResult]) -> int:
    """How many groups can be converted at once, without a warning."""
    return sum(row.ready_now for row in rows)


def _group_blocks(row: MigrationResult, page: Page, *, executed: bool) -> Iterator[Block]:
    readiness = row.readiness
    if readiness.result is ReadinessResult.DONE:
        yield Text((f"It already uses the {row.target} protocol and is {row.evidence.group.state}.",))
        yield from _settings(row, executed=executed)
        return
    yield LabelledLine(readiness.result.value.upper(), _in_words(row), _STYLES[readiness.result])
    if row.error and executed:
        yield LabelledLine("FAILED", f"{row.error.message} [{row.error.code}]", "bad")
        yield Text(tuple(f"  {line}" for line in (*row.error.details, *((row.error.hint,) if row.error.hint else ()))))
    yield from _settings(row, executed=executed)
    yield BlankLine()
    yield from _checks(readiness.checks, verbose=page.verbose)
    if page.steps:
        yield BlankLine()
        yield Prose(tuple(page.steps), 3)
    yield from _facts(page)


def _settings(row: MigrationResult, *, executed: bool) -> Iterator[Block]:
    if row.configs:
        said = "set" if row.configured else "NOT SET" if executed else "to be set"
        yield LabelledLine("SETTINGS", f"{settings_text(row.configs)}: {said}")


def _facts(page: Page) -> Iterator[Block]:
    if page.facts:
        yield BlankLine()
        yield Prose(tuple(page.facts))


def _in_words(row: MigrationResult) -> str:
    commits = plural(len(committed(row.evidence.group)), "commit")
    match row.readiness.result, row.readiness.how:
        case ReadinessResult.BLOCKED, _:
            return row.readiness.reason or "it cannot be migrated"
        case _, MigrationPath.NOW:
            return (
                f"now: it is Empty; kgroup commits {commits} on {plural(row.topics, 'topic')} again, then converts it"
            )
        case _, MigrationPath.ROLLING:
            return "rolling: it can migrate while it runs, member by member. Or stop it, then convert it"
        case _:
            why = offline_check(row.readiness.checks)
            return "stop: it can only be converted while it is Empty" + (f". {why.id}: {why.evidence}" if why else "")


def _checks(checks: Sequence[MigrationCheck], *, verbose: bool) -> Iterator[Block]:
    """The checks with a finding (``verbose``: all checks), then what to do about them."""
    shown = [check for check in checks if verbose or check.status not in _WITHOUT_FINDING]
    if shown:
        yield Table(_CHECKS, [(check.id, _status_cell(check.status), check.evidence) for check in shown])
    if more := len(checks) - len(shown):
        yield Text((f"{plural(more, 'check')} without a finding: --verbose",))
    todo = [check for check in shown if verbose or (check.remedy and check.status in _WITH_REMEDY)]
    if todo:
        yield BlankLine()
        yield Prose(tuple(_remedy(check, verbose=verbose) for check in todo), 2)


def _remedy(check: MigrationCheck, *, verbose: bool) -> str:
    source = f" ({check.source})" if verbose else ""
    return f"{check.id}: {check.remedy or 'nothing to do'}{source}"


def _status_cell(word: CheckStatus | ReadinessResult) -> Cell:
    text = word.value if word in (CheckStatus.OK, CheckStatus.INFO, CheckStatus.UNKNOWN) else word.value.upper()
    style = _STYLES.get(word)
    return Styled(text, style) if style else text


def _many(rows: Sequence[MigrationResult], page: Page, *, executed: bool) -> Iterator[Block]:
    if not executed:
        yield Table(
            _SUMMARY,
            [(_status_cell(row.result), row.how.value, row.count, row.reason or None) for row in page.summary],
        )
        yield BlankLine()
    shown = rows if page.verbose else rows[:ROWS_ON_A_PAGE]
    cells = [_group(row, executed=executed) for row in shown]
    yield Table(_GROUPS, cells, sparse=frozenset({"CONVERTED"}))
    if more := len(rows) - len(shown):
        yield Text((f"{more} more: --verbose, or -o csv; why one: {page.why}",))
    if executed:
        yield from _after_all(rows)
        return
    if page.verbose:
        for row in rows:
            if row.readiness.result is not ReadinessResult.DONE:
                yield BlankLine()
                yield LabelledLine(row.readiness.result.value.upper(), row.name, _STYLES[row.readiness.result])
                yield from _checks(row.readiness.checks, verbose=True)
    yield from _facts(page)


def _group(row: MigrationResult, *, executed: bool) -> tuple[Cell, ...]:
    readiness = row.readiness
    reason = readiness.reason if readiness.result is not ReadinessResult.DONE else None
    more = f"  +{readiness.more}" if readiness.more and reason else ""
    converted: Cell = None
    if row.error and executed:
        converted = Styled(row.error.code, "bad")
    elif row.converted:
        converted = Styled("yes", "good")
    return (
        row.name,
        row.member_count,
        row.topics,
        _status_cell(readiness.result),
        readiness.how.value,
        f"{reason}{more}" if reason else None,
        converted,
    )


def _after(row: MigrationResult) -> Iterator[Block]:
    """The blocks for one group that was converted."""
    yield LabelledLine("OFFSETS", _offsets((row,)))
    for moved in [r for r in row.rows if r.note][:ROWS_ON_A_PAGE]:
        yield Text((f"         {moved.name}: {moved.note}",))
    if kept_until_ms := row.kept_until_ms:
        expires_ms, now_ms = row.expires_ms, row.evidence.now_ms
        sooner = expires_ms is not None and expires_ms < kept_until_ms - _SHOWN_DIFFERENCE_MS
        ends = f"; would have expired {short_time(expires_ms, now_ms)}" if expires_ms is not None and sooner else ""
        yield LabelledLine(
            "EXPIRES",
            f"{short_time(kept_until_ms, now_ms)} unless a member commits (kgroup committed them again{ends})",
        )
    if (session := row.check("session")) and row.target == "consumer":
        yield LabelledLine("SESSION", session.evidence)
        if session.remedy:
            yield Text((f"         {session.remedy}",))
    yield from _settings(row, executed=True)
    if (hidden := row.check("hidden-commits")) and hidden.status in (CheckStatus.WARNING, CheckStatus.UNKNOWN):
        yield LabelledLine("UNKNOWN", hidden.evidence, "warn")
    yield BlankLine()
    yield Prose((_ACCORDING_TO_KIP_848[row.target],))


def _after_all(rows: Sequence[MigrationResult]) -> Iterator[Block]:
    converted = [row for row in rows if row.converted]
    if not converted:
        return
    yield BlankLine()
    yield LabelledLine("OFFSETS", _offsets(converted))
    if until := [kept for row in converted if (kept := row.kept_until_ms)]:
        yield LabelledLine("EXPIRES", f"{short_time(min(until), converted[0].evidence.now_ms)} unless a member commits")
    yield BlankLine()
    yield Prose((_ACCORDING_TO_KIP_848[converted[0].target],))


def _offsets(rows: Sequence[MigrationResult]) -> str:
    identical, total = sum(row.identical for row in rows), sum(len(row.rows) for row in rows)
    if not total:
        return "no commit to keep: the broker deletes an empty group without commits within minutes"
    groups = f" in {plural(len(rows), 'group')}" if len(rows) > 1 else ""
    if identical < total:
        moved = total - identical
        return f"{identical} of {total}{groups} read back identical; {moved} committed again since, or unknown"
    return f"{identical} of {total}{groups} read back, identical (metadata, leader epochs too)"


def config_blocks(config: ConfigPlan, name: str, written: str | None) -> tuple[Block, ...]:
    """The blocks of the page for one configuration file."""
    if written:
        result = f"written to {written}"
    elif not config.changes:
        result = "no changes needed"
    else:
        result = "make these changes by hand" if config.kind == "yaml" else "--write FILE writes it with these changes"
    changes = Prose(tuple(map(_change_text, config.changes)), 10)
    notes = Prose(tuple(f"- {note}" for note in config.notes), 2)
    texts = (prose for prose in (changes, notes) if prose.sentences)
    return (BlankLine(), LabelledLine("CLIENT", f"{name} ({config.kind}): {result}"), *texts)


def _change_text(change: ConfigChange) -> str:
    where = f"{change.key} (line {change.old.line}: {change.old_value})" if change.old else change.key
    if change.new_value is None:
        return f"  remove  {where}: {change.reason}"
    if change.old is not None:
        return f"  set     {where} to {change.new_value}: {change.reason}"
    return f"  set     {change.key}={change.new_value}: {change.reason}"
