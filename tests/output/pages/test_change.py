"""The end of a plan's page: what makes it pass, and each refusal once."""

from __future__ import annotations

import io
import sys
from itertools import pairwise

import pytest
from msgspec.structs import replace

from kgroup.cli.refusals import REFUSALS
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import Refusal, Result
from kgroup.model.accept_codes import ACCEPTED
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.pages.change import Wording, outcome, passing_command, start_text
from kgroup.output.present import present
from kgroup.output.reporter import StderrReporter
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import Refused
from kgroup.support.quoting import join
from tests.helpers.cases.lag import Part, group
from tests.helpers.pages import drawn

TYPED = CommandLine(("kgroup", "reset"), ("orders-enrich",), {"--to-latest": ("--to-latest",)})
ROW = ChangeRow("orders-enrich", "orders", 0, Commit(5, None, ""), Commit(9, None, ""), LogRange(0, 9))
GONE = ROW.failing(RowError("unknown-topic", "the topic does not exist"))
DONE = replace(ROW, done=True, read_back=ROW.new)
COMMAND = lambda *words: join(("kgroup", *words))  # noqa: E731
MEMBERS = ("pod-0  10.0.3.4  session ends in 10s",)


def refusal(code: str, name: str | None = "orders-enrich", details: tuple[str, ...] = ()) -> Refusal:
    return Refusal(name, Refused(f"why {code}", code=code, details=details, hint=f"next {code}"))


def planned(*refusals: Refusal, rows: tuple[ChangeRow, ...] = (ROW,), typed: CommandLine = TYPED) -> Outcome:
    result = Result(ChangePlan((group([Part(0, 4)]),), rows), refusals)
    wording = Wording("reset", "orders-enrich", typed, instead="The same:  kgroup reset --to-offset 9")
    return outcome(result, wording, ClusterRef("id", "b1:9092"), StderrReporter(io.StringIO()), COMMAND, nothing=None)


@pytest.mark.parametrize(
    ("refusals", "end"),
    [
        ((), ["Nothing was changed. To apply:", "  kgroup reset orders-enrich --to-latest --execute"]),
        (
            (refusal("not-empty"),),
            [
                "Nothing was changed. To apply once the members are stopped:",
                "  kgroup reset orders-enrich --to-latest --wait-empty --execute",
            ],
        ),
        (
            (refusal("active-committer"),),
            [
                "Nothing was changed. To apply despite the refusal:",
                "  kgroup reset orders-enrich --to-latest --accept active-committer --execute",
            ],
        ),
        (
            (refusal("foreign-owner"), refusal("active-committer"), refusal("not-empty")),
            [
                "Nothing was changed. To apply once the members are stopped, despite the refusal:",
                "  kgroup reset orders-enrich --to-latest --wait-empty --accept active-committer "
                "--accept foreign-owner --execute",
            ],
        ),
    ],
    ids=["nothing is refused", "members", "a refusal", "both"],
)
def test_a_plan_ends_with_the_command_that_passes(refusals: tuple[Refusal, ...], end: list[str]) -> None:
    assert drawn(planned(*refusals))[-3:] == [*end, "The same:  kgroup reset --to-offset 9"]


UNDO = ["To undo it:", "  kgroup undo ch-7k2f --execute"]


@pytest.mark.parametrize(
    ("plan", "start", "end"),
    [
        (ChangePlan((), (DONE,)), "Start the consumers",
         ["Done. Start the consumers, then:", "  kgroup wait orders-enrich --for stable --hold 15s", *UNDO]),
        (ChangePlan((), (DONE,), converted={"orders-enrich": "consumer"}), "Start the consumers with X",
         ["Done. Start the consumers with X, then:",
          "  kgroup wait orders-enrich --for type=consumer --for stable --hold 15s", *UNDO]),
        (ChangePlan((), tuple(replace(DONE, group=f"g{n}") for n in range(5))), "Start the consumers",
         ["Done. Start the consumers, then:", "  kgroup wait GROUP --for stable --hold 15s", *UNDO]),
        (ChangePlan((), (DONE,)), None, ["Done.", *UNDO]),
        (ChangePlan((), (DONE,), deleted=frozenset({"orders-enrich"})), "Start the consumers", ["Done.", *UNDO]),
        (ChangePlan((), (DONE, replace(GONE, done=False))), "Start the consumers", ["Done for 1 row.", *UNDO]),
    ],
    ids=["reset", "migrate", "many groups", "nothing follows", "deleted", "partly"],
)  # fmt: skip
def test_a_change_ends_with_what_follows(plan: ChangePlan, start: str | None, end: list[str]) -> None:
    whole = dict.fromkeys(plan.whole)
    result = Result(plan, (), executed=True, id="ch-7k2f", whole=whole)
    wording = Wording("reset", "orders-enrich", TYPED, start=start)
    shown = outcome(result, wording, ClusterRef("id", "b1:9092"), StderrReporter(io.StringIO()), COMMAND, nothing=None)

    assert drawn(shown)[-len(end) :] == end


@pytest.mark.parametrize(
    ("groups", "converted", "text"),
    [
        (("a", "b"), {}, "Start the consumers"),
        (("a", "b"), {"a": "classic", "b": "classic"}, "Start the consumers with group.protocol=classic"),
        (("a", "b"), {"a": "classic", "b": "consumer"}, "Start the consumers"),
        (("spark:/lake/q",), {}, "Start the query"),
        (("spark:/lake/q", "a"), {}, "Start the consumers"),
    ],
)
def test_what_is_to_be_started(groups: tuple[str, ...], converted: dict[str, str], text: str) -> None:
    plan = ChangePlan((), tuple(replace(DONE, group=group) for group in groups), converted=converted)

    assert start_text(plan) == text


@pytest.mark.parametrize("refusals", [(refusal("read-only", None),), (refusal("active-committer"), refusal("blocked"))])
def test_a_plan_that_nothing_lets_pass_ends_without_a_command(refusals: tuple[Refusal, ...]) -> None:
    assert drawn(planned(*refusals))[-1] == "Nothing was changed."


def test_the_rest_of_a_plan() -> None:
    lines = drawn(planned(rows=(ROW, GONE)))

    assert lines[-3:-1] == [
        "Nothing was changed: some rows cannot be applied. To apply the others:",
        "  kgroup reset orders-enrich --to-latest --partial --execute",
    ]


def test_what_was_accepted_already_stays_in_the_command() -> None:
    typed = TYPED.with_option("--accept", "foreign-owner")
    lines = drawn(planned(refusal("active-committer"), typed=typed))

    assert lines[-2] == (
        "  kgroup reset orders-enrich --to-latest --accept foreign-owner --accept active-committer --execute"
    )


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("in_terminal", [True, False])
def test_a_refusal_is_shown_once_in_a_terminal(in_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe both streams have it: each may be read alone."""
    kind = _Terminal if in_terminal else io.StringIO
    stdout, stderr = kind(), kind()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("COLUMNS", "120")
    shown = planned(refusal("active-committer"), refusal("not-empty", details=MEMBERS), rows=(ROW, GONE))

    present("reset", (shown,), Format.TABLE, (), StderrReporter(stderr))

    for text in ("why active-committer", "next active-committer", MEMBERS[0], "next not-empty"):
        assert stdout.getvalue().count(text) == 1
        assert stderr.getvalue().count(text) == (0 if in_terminal else 1)
    assert "the topic does not exist [unknown-topic]" in stderr.getvalue(), "of a row: the page has no next step"


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("verb", ACCEPTED)
def test_a_plan_shows_only_what_accept_of_its_verb_passes(verb: str, code: str) -> None:
    """Any other code of --accept is a usage error; not-in-ledger has another command in its hint."""
    made = refusal(code)

    passing = passing_command(CommandLine(("kgroup", *verb.split()), ("orders-enrich",)), [made.row], [made])

    words = () if passing is None else passing.command.words
    assert (("--accept", code) in pairwise(words)) == (code in ACCEPTED[verb] and code != "not-in-ledger")
    assert (passing is None) == ("--accept" not in words and "--wait-empty" not in words)


def test_a_page_has_errors_first_then_the_largest_moves_in_the_order_of_the_plan() -> None:
    log = LogRange(0, 100)
    moves = [*range(1, 31), 30, 30]
    rows = [ChangeRow("g", "orders", n, Commit(0, None, ""), Commit(by, None, ""), log) for n, by in enumerate(moves)]
    failed = ChangeRow("g", "orders", 99, Commit(0, None, ""), None).failing(RowError("no-leader", "has no leader"))

    lines = drawn(planned(rows=(*rows, failed)))

    shown = [line.split()[0] for line in lines if line.startswith("orders:")]
    assert shown == [f"orders:{n}" for n in (99, 29, 30, 31, *range(28, 12, -1))]
    assert "13 more: --verbose" in lines
