"""The pages of ``kgroup doctor``: one subject with its findings, a summary of several, and one rule in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.doctor.diagnose import finding_summary, unchecked_summary, worst_first
from kgroup.groups.doctor.finding import Diagnosis, Finding, RuleScope, Severity
from kgroup.groups.doctor.rules import BY_ID, RULES, RuleExplanation
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    LabelledLine,
    Prose,
    Records,
    Screen,
    Style,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.verdict import past_line
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.hint import Hint
from kgroup.support.json_types import Count
from kgroup.support.units import plural, some_of

ROWS_ON_A_PAGE = 20
_REASONS = 5
HEADER = ("group", "severity", "rule", "evidence", "affected", "remedy", "commands", "source")
_STYLES: dict[Severity, Style | None] = {
    Severity.CRITICAL: "bad",
    Severity.WARNING: "warn",
    Severity.INFO: None,
}
_FINDINGS = (Column("SEVERITY"), Column("RULE"), Column("EVIDENCE", fold=True))
_SUMMARY = (Column("SEVERITY"), Column("RULE"), Column("COUNT", right=True), Column("WORST", fold=True))
_SUBJECTS = (
    Column("GROUP", fold=True),
    Column("CRITICAL", right=True),
    Column("WARNING", right=True),
    Column("INFO", right=True),
    Column("WORST", fold=True),
)
_RULES = (Column("RULE"), Column("ABOUT", drop=1), Column("MEANING", fold=True))


class UncheckedRule(msgspec.Struct, frozen=True):
    """A rule that could not be checked."""

    rule: Annotated[str, "The id of the rule."]
    reason: Annotated[str, "Why it could not be checked."]
    partly: Annotated[bool, "Whether a part of it was checked."]


class DiagnosisDocument(msgspec.Struct, frozen=True):
    """What is wrong with a group or the cluster."""

    group: Annotated[str | None, "The group; null for the cluster."]
    scope: Annotated[RuleScope, "What was checked."]
    worst_severity: Annotated[Severity | None, "The worst severity; null without a finding."]
    finding_counts: Annotated[Mapping[str, Count], "Number of findings for each severity."]
    findings: Annotated[tuple[Finding, ...], "Findings, the worst first."]
    checked_rule_count: Annotated[Count, "Number of rules that were checked."]
    unchecked_rules: Annotated[tuple[UncheckedRule, ...], "Rules that could not be checked."]


def diagnosis_document(diagnosis: Diagnosis) -> DiagnosisDocument:
    return DiagnosisDocument(
        group=diagnosis.group,
        scope=RuleScope.CLUSTER if diagnosis.group is None else RuleScope.GROUP,
        worst_severity=diagnosis.worst,
        finding_counts={severity.value: diagnosis.count(severity) for severity in Severity},
        findings=diagnosis.findings,
        checked_rule_count=diagnosis.checked_count,
        unchecked_rules=tuple(UncheckedRule(each.rule, each.why, each.partly) for each in diagnosis.not_checked),
    )


def outcome(
    diagnoses: Sequence[Diagnosis],
    cluster: ClusterRef,
    errors: tuple[RowError, ...] = (),
    *,
    check_failed: bool = False,
    verbose: bool = False,
) -> Outcome:
    """Diagnoses as the command's outcome, worst first."""
    ordered = worst_first(diagnoses)
    return Outcome(
        data=tuple(map(diagnosis_document, ordered)),
        screen=lambda: screen(ordered, verbose=verbose),
        records=lambda: records(ordered),
        cluster=cluster,
        errors=errors,
        check_failed=check_failed,
        names=lambda: (each.group for each in ordered if each.group is not None and each.findings),
    )


def screen(diagnoses: Sequence[Diagnosis], *, verbose: bool = False) -> Screen:
    """One subject in full, several as a summary; with ``verbose`` the summary and then each subject in full."""
    if not diagnoses:
        return Screen(())
    if len(diagnoses) == 1:
        return Screen(tuple(_subject(diagnoses[0], verbose=verbose)))
    blocks = list(_many(diagnoses, verbose=verbose))
    if verbose:
        for diagnosis in diagnoses:
            blocks += [BlankLine(), *_subject(diagnosis, verbose=True)]
    return Screen(tuple(blocks))


def counts(diagnosis: Diagnosis) -> str:
    """``4 findings: 1 critical, 2 warnings, 1 info``; ``nothing found``, or ``nothing found yet``."""
    if not diagnosis.findings:
        return "nothing found yet" if diagnosis.is_early else "nothing found"
    return f"{plural(len(diagnosis.findings), 'finding')}: {_by_severity((diagnosis,))}"


def _by_severity(diagnoses: Sequence[Diagnosis]) -> str:
    parts = []
    for severity in reversed(Severity):
        count = sum(diagnosis.count(severity) for diagnosis in diagnoses)
        if count:
            parts.append(plural(count, severity.value) if severity is Severity.WARNING else f"{count} {severity}")
    return ", ".join(parts)


def _subject(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Block]:
    yield Title(f"{diagnosis.subject}  {counts(diagnosis)}")
    if (text := past_line(diagnosis.past)) is not None:
        yield LabelledLine("PAST", text)
    if diagnosis.findings:
        yield Table(_FINDINGS, [(_severity(f.severity), f.rule, f.evidence) for f in diagnosis.findings])
        yield BlankLine()
        for finding in diagnosis.findings:
            if verbose or finding.severity is not Severity.INFO or finding.rule == diagnosis.findings[0].rule:
                yield from _remedy(finding, verbose=verbose)
        yield BlankLine()
    yield from _unchecked_blocks(diagnosis, verbose=verbose)
    if diagnosis.findings:
        yield Text((f"One in full: kgroup doctor --explain {diagnosis.findings[0].rule}",))


def _remedy(finding: Finding, *, verbose: bool) -> Iterator[Block]:
    """What to do, then the commands, each on its own line so that it can be pasted."""
    yield Prose((f"{finding.rule}: {finding.remedy}",), 4)
    yield Text(tuple(f"  {command}" for command in finding.commands))
    if verbose:
        if finding.affected:
            yield Prose((f"  all: {', '.join(finding.affected)}",), 4)
        yield Prose((f"  source: {finding.source}",), 4)


def _unchecked_blocks(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Block]:
    """The unchecked rules by reason (one missing right affects several); partly checked ones only if ``verbose``."""
    missing = [item for item in diagnosis.not_checked if verbose or not item.partly]
    parts = sum(item.partly for item in diagnosis.not_checked) - sum(item.partly for item in missing)
    reasons: dict[str, list[str]] = {}
    for item in missing:
        reasons.setdefault(item.why, []).append(f"{item.rule} (in part)" if item.partly else item.rule)
    lines = tuple(f"{', '.join(rules)}: {reason}" for reason, rules in reasons.items())
    if lines:
        unchecked = len(diagnosis.not_checked) - sum(item.partly for item in diagnosis.not_checked)
        in_part = f", {len(missing) - unchecked} in part" if len(missing) > unchecked else ""
        yield LabelledLine("UNCHECKED", f"{unchecked} of {unchecked + diagnosis.checked_count} rules{in_part}", "dim")
        yield Prose(lines, 2)
    if diagnosis.is_early and diagnosis.group is not None:
        yield Text((Hint("-> {} shows its status, lag and rates now", ("lag", diagnosis.group)),))
    if parts:
        yield Text((f"{plural(parts, 'rule')} checked only a part: --verbose",))
    if lines or parts:
        yield BlankLine()


def _severity(severity: Severity) -> Cell:
    style = _STYLES[severity]
    return Styled(severity.value, style) if style else severity.value


def _many(diagnoses: Sequence[Diagnosis], *, verbose: bool) -> Iterator[Block]:
    groups = sum(diagnosis.group is not None for diagnosis in diagnoses)
    with_findings = sum(bool(diagnosis.findings) for diagnosis in diagnoses if diagnosis.group is not None)
    subject = plural(groups, "group") + (" and the cluster" if groups < len(diagnoses) else "")
    severities = _by_severity(diagnoses)
    nothing = "nothing found yet" if any(diagnosis.is_early for diagnosis in diagnoses) else "nothing found"
    yield Title(f"{subject}  {severities or nothing}")
    rows = finding_summary(diagnoses)
    if rows:
        yield Table(_SUMMARY, [(_severity(r.severity), r.rule, r.count, some_of(r.subjects)) for r in rows])
        yield BlankLine()
        subjects = [diagnosis for diagnosis in diagnoses if diagnosis.findings]
        shown = subjects if verbose else subjects[:ROWS_ON_A_PAGE]
        yield Table(_SUBJECTS, [_row(diagnosis) for diagnosis in shown])
        if more := len(subjects) - len(shown):
            yield Text((f"{more} more: --verbose, or -o csv",))
        worst = next((diagnosis.group for diagnosis in subjects if diagnosis.group is not None), None)
        closing = [f"{with_findings} of {plural(groups, 'group')} with findings"]
        if worst is not None:
            closing.append(Hint("-> {}", ("doctor", worst)))
        yield Text(tuple(closing))
    yield from _unchecked_summary(diagnoses, verbose=verbose)
    if rows:
        yield BlankLine()
        yield Text((f"One in full: kgroup doctor --explain {rows[0].rule}",))


def _unchecked_summary(diagnoses: Sequence[Diagnosis], *, verbose: bool) -> Iterator[Block]:
    """The rules that were not checked, grouped by reason, the most frequent reason first."""
    rows = unchecked_summary(diagnoses, partly=verbose)
    if not rows:
        return
    shown = rows if verbose else rows[:_REASONS]
    yield BlankLine()
    yield LabelledLine("UNCHECKED", "number of subjects, rules, reason", "dim")
    yield Prose(tuple(f"{r.count:>5}  {', '.join(r.rules)}: {r.why}" for r in shown), 7)
    if len(shown) < len(rows):
        yield Text((f"{len(rows) - len(shown)} more: --verbose",))


def _row(diagnosis: Diagnosis) -> tuple[Cell, ...]:
    worst = diagnosis.findings[0]
    critical = diagnosis.count(Severity.CRITICAL)
    return (
        diagnosis.subject,
        Styled(str(critical), "bad") if critical else 0,
        diagnosis.count(Severity.WARNING),
        diagnosis.count(Severity.INFO),
        worst.rule,
    )


def records(diagnoses: Sequence[Diagnosis]) -> Records:
    """One row per finding for CSV; ``group`` is empty for the cluster. Lists are separated by ``; ``."""
    rows = [
        (
            diagnosis.group,
            finding.severity.value,
            finding.rule,
            finding.evidence,
            "; ".join(finding.affected),
            finding.remedy,
            "; ".join(finding.commands),
            finding.source,
        )
        for diagnosis in diagnoses
        for finding in diagnosis.findings
    ]
    return Records(HEADER, rows)


def explanation_outcome(explanation: RuleExplanation) -> Outcome:
    """``--explain ID``: one rule in full."""
    rule = BY_ID[explanation.rule]
    return Outcome(
        data=(explanation,),
        kind="doctor rules",
        screen=lambda: _explanation(explanation),
        records=lambda: Records(("rule", "meaning", "source"), [(rule.id, rule.meaning, rule.source)]),
        names=lambda: (rule.id,),
    )


def _explanation(explanation: RuleExplanation) -> Screen:
    rule = BY_ID[explanation.rule]
    blocks: list[Block] = [Title(f"{rule.id}  {rule.meaning}")]
    blocks.append(Prose((explanation.description,)))
    parts: list[tuple[str, Sequence[str]]] = [
        ("IMPACT", (explanation.impact,)),
        ("HOW-TO-SEE", explanation.how_to_see),
        ("FIX", explanation.how_to_fix),
        ("THRESHOLDS", tuple(f"{t.name}: {t.text} ({t.reason})" for t in rule.thresholds)),
        ("SOURCE", (rule.source,)),
    ]
    for word, texts in parts:
        if texts:
            blocks += [BlankLine(), Text((word,)), Prose(tuple(f"  {text}" for text in texts), 4)]
    return Screen(tuple(blocks))


def rules_outcome(explanations: Sequence[RuleExplanation]) -> Outcome:
    """``--rules``: all rules, one line each; ``--explain`` accepts their ids."""
    return Outcome(
        data=tuple(explanations),
        kind="doctor rules",
        screen=rules_screen,
        records=lambda: Records(
            ("rule", "scope", "meaning", "source"), [(r.id, r.scope, r.meaning, r.source) for r in RULES]
        ),
        names=lambda: (r.id for r in RULES),
    )


def rules_screen() -> Screen:
    """All rules, one line each."""
    rows = [(rule.id, rule.scope, rule.meaning) for rule in RULES]
    return Screen((Title(plural(len(RULES), "rule")), Table(_RULES, rows)))
