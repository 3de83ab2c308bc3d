"""The generated part of docs/reference/conclusions.md: what was said of each situation. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tests.situations.conclude import Worth, named
from tests.situations.harm import Outcome
from tests.situations.results import Result, Tried
from tests.situations.row import Moment, Row

_TRIED: Final = (
    "Commands that only read ran on the group itself. They must answer, and change nothing.",
    "The others ran in a copy of the situation, with `--execute`, as they were printed.",
    "A setting was tried by a rolling restart: each member was started again with it, one after the other.",
    "An eviction or a restart that is known to help was tried though no command printed it.",
    "If the plan needed an empty group, the application was stopped, and started afterwards.",
    "45 seconds later the logs of its members show what became of it, beyond what the group did by itself before:",
    "",
    "- helped: partitions that made no progress make progress, records that were skipped are processed, "
    "or a setting halved how often partitions change hands;",
    "- useless: nothing is better;",
    "- refused: kgroup does not execute it;",
    "- harmed: records were skipped, or repeated beyond what the plan shows, or a working member was evicted.",
)

Played = Mapping[str, Mapping[Moment, Result]]
"""Results by row and moment."""


def by_row(results: Iterable[Result]) -> Played:
    """Results by row and moment."""
    played: dict[str, dict[Moment, Result]] = {}
    for result in results:
        played.setdefault(result.row, {})[result.moment] = result
    return played


def faults(row: Row, results: Mapping[Moment, Result]) -> list[str]:
    """What is wrong with what was said of a row: bad answers, and a cause that is not named when it is due."""
    return [f"{moment}: {fault}" for moment, result in results.items() for fault in _faults_at(row, moment, result)]


def _faults_at(of: Row, moment: Moment, result: Result) -> Iterator[str]:
    row = of.then(moment)
    yield from (tried.line() for tried in result.tried if tried.is_bad)
    if result.void:
        yield f"not judged: {result.void}"
    elif result.is_bad:
        yield from (f"{cell.verb}: {cell.why}" for cell in result.cells if cell.worth in (Worth.WRONG, Worth.HARMFUL))
    elif not row.healthy and not row.unseen and moment.seconds >= row.named_by.seconds and not named(result.cells):
        yield "not named"


def as_markdown(rows: Sequence[Row], results: Iterable[Result]) -> str:
    """Totals, a table of the healthy and one of the sick, what became of printed commands, and each fault."""
    played = by_row(results)
    shown = [row for row in rows if row.id in played]
    wrong = {row.id: found for row in shown if (found := faults(row, played[row.id]))}
    lines = [
        f"{len(shown)} situations were played, {sum(row.healthy for row in shown)} of them healthy; "
        f"{len(shown) - len(wrong)} were answered rightly.",
        "",
    ]
    headings = ["situation", "what is true", *Moment]
    tried = {row.id: [each for result in played[row.id].values() for each in result.tried] for row in shown}
    if any(tried.values()):
        headings.append("commands tried")
    for title, healthy in (("Healthy", True), ("Sick", False)):
        lines += [f"### {title}", "", f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
        for row in shown:
            if row.healthy is healthy:
                cells = [_cell(row, moment, played[row.id].get(moment)) for moment in Moment]
                if any(tried.values()):
                    cells.append(_outcomes(tried[row.id]))
                lines.append(f"| {row.id} | {_truth(row)} | {' | '.join(cells)} |")
        lines.append("")
    if any(tried.values()):
        lines += ["### Commands that were tried", "", *_TRIED, "", "```text"]
        for row_id, commands in tried.items():
            lines += [row_id, *(f"  {each.line()}" for each in commands)] if commands else []
        lines += ["```", ""]
    lines += ["### Not right", "", "```text"]
    for row_id, found in wrong.items():
        lines += [row_id, *(f"  {fault}" for fault in found)]
    return "\n".join([*lines, "```"])


def _truth(row: Row) -> str:
    """`it hangs; at 10m: it has left`."""
    unseen = f" ({row.unseen})" if row.unseen else ""
    return f"{row.cause}; at {row.later.since}: {row.later.cause}" if row.later else row.cause + unseen


def _outcomes(tried: Sequence[Tried]) -> str:
    """`read 3, helped 1`."""
    counts = {outcome: sum(each.outcome is outcome for each in tried) for outcome in Outcome}
    return ", ".join(f"{outcome} {count}" for outcome, count in counts.items() if count) or "-"


def _cell(row: Row, moment: Moment, result: Result | None) -> str:
    if result is None:
        return "-"
    if any(_faults_at(row, moment, result)):
        return "**not right**"
    if row.then(moment).healthy:
        return "right"
    verbs = [cell.verb for cell in result.cells if cell.worth in (Worth.RIGHT, Worth.TOLD_APART)]
    return ", ".join(verbs) or ("not shown" if row.unseen else "not yet")
