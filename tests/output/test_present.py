"""One envelope for success, part success and failure; csv, yaml and markdown; the exit code of several outcomes."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from kgroup.model.blocks import BlankLine, Column, LabelledLine, Records, Screen, Table, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.metrics import ExportedMetrics, Metric, MetricSample
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.present import combined, present, present_error
from kgroup.output.reporter import StderrReporter
from kgroup.output.terminal.draw import title_lines
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, NotFound, Unreachable, UsageError
from tests.helpers.command_line import CommandLine

ENVELOPE = ["kind", "cluster", "executed", "data", "errors", "warnings", "notes"]
CLUSTER = ClusterRef("cluster-1", "b1:9092,b2:9092", "prod")
AT = datetime(2026, 11, 21, 9, 14, 30, tzinfo=UTC)
NASTY = ("plain", 'quote"d', "comma, and\nline", "=SUM(1)", "注文", "\U0001f980", "tab\t", "nul\x00", "back\\slash")


class Thing(msgspec.Struct):
    """A subject with a name."""

    group: str
    lag: int | None = None


def an_outcome(*names: str, errors: tuple[RowError, ...] = (), **other: Any) -> Outcome:
    columns = (Column("GROUP", fold=True), Column("LAG", right=True))
    return Outcome(
        data=tuple(map(Thing, names)),
        screen=lambda: Screen(
            (
                Title(names[0] if names else "nothing"),
                LabelledLine("LAG", "unknown: nothing is read"),
                BlankLine(),
                Table(columns, [(name, None) for name in names]),
                Text(("done",)),
            )
        ),
        records=lambda: Records(("group", "lag"), [(name, None) for name in names]),
        cluster=CLUSTER,
        errors=errors,
        at=AT,
        **{"exported": exported(*names)} | other,
    )


def exported(*names: str, path: str | None = None) -> ExportedMetrics:
    """A metric with a sample for each name."""
    return ExportedMetrics(
        lambda: (Metric("seen", "Seen.", tuple(MetricSample((("group", name),), 1) for name in names)),), path
    )


@dataclass(frozen=True)
class Shown:
    """What came out."""

    code: ExitCode
    stdout: str
    stderr: str


def show(
    outcomes: Iterable[Outcome],
    form: Format,
    argv: tuple[str, ...] = ("kgroup", "list"),
    *,
    with_headers: bool = True,
) -> Shown:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = present("list", outcomes, form, argv, StderrReporter(err), with_headers=with_headers)
    return Shown(code, out.getvalue(), err.getvalue())


def test_names_are_alone_and_one_a_line() -> None:
    outcomes = [
        an_outcome(*names, names=lambda names=names: names) for names in (("pay", "or ders"), ("a\nb\x1b[31m",))
    ]
    shown = show(outcomes, Format.NAME)

    assert shown.stdout == "pay\nor ders\na\\nb\\x1b[31m\n", "a name cannot be two lines"


@pytest.mark.parametrize(("form", "row"), [(Format.TABLE, "pay    -"), (Format.WIDE, "pay    -"), (Format.CSV, "pay,")])
def test_without_headers(form: Format, row: str) -> None:
    headed = show([an_outcome("pay")], form).stdout.splitlines()
    bare = show([an_outcome("pay")], form, with_headers=False).stdout.splitlines()

    assert len(headed) == len(bare) + 1
    assert any(line.lower().split() == ["group", "lag"] or line == "group,lag" for line in headed)
    assert not any("LAG" in line and "GROUP" in line for line in bare)
    assert [line.replace(" ", "") for line in bare if line.startswith("pay") and "Z" not in line] == [
        row.replace(" ", "")
    ]


def show_error(error: KgroupError, form: Format, verb: str = "list") -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        error.cluster = CLUSTER
        present_error(verb, error, form)
    return out.getvalue()


FORBIDDEN = RowError.of(NotAuthorized("no DESCRIBE on Topic"), group="g", topic="audit", partition=3)
SUCCESS = [an_outcome("a", "b")]
PART = [an_outcome("a", errors=(FORBIDDEN,))]
NOTHING = [an_outcome(errors=(FORBIDDEN,))]
EMPTY = [an_outcome()]


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML])
@pytest.mark.parametrize(
    ("outcomes", "data", "errors", "code"),
    [
        (SUCCESS, ["a", "b"], 0, ExitCode.DONE),
        (PART, ["a"], 1, ExitCode.PARTLY),
        (NOTHING, [], 1, ExitCode.NOT_AUTHORIZED),
        (EMPTY, [], 0, ExitCode.DONE),
        ([], [], 0, ExitCode.DONE),
        ([*SUCCESS, *PART, *EMPTY], ["a", "b", "a"], 1, ExitCode.PARTLY),
    ],
)
def test_the_envelope_has_one_shape(
    form: Format, outcomes: list[Outcome], data: list[str], errors: int, code: ExitCode
) -> None:
    shown = show(outcomes, form)

    document = json.loads(shown.stdout) if form is Format.JSON else yaml.safe_load(shown.stdout)
    assert list(document) == ENVELOPE
    assert document["kind"] == "kgroup.list/v1"
    assert document["executed"] is False
    assert [row["group"] for row in document["data"]] == data
    assert len(document["errors"]) == errors
    if outcomes:
        assert document["cluster"] == {"id": "cluster-1", "context": "prod", "bootstrap_servers": "b1:9092,b2:9092"}
    assert shown.code == code


def test_a_failure_has_the_envelope_of_a_success() -> None:
    error = NotFound('no group "order-svc"', details=("Near: orders-svc",), hint="kgroup list")

    failed, part = json.loads(show_error(error, Format.JSON)), json.loads(show(PART, Format.JSON).stdout)

    assert list(failed) == ENVELOPE
    assert (failed["kind"], failed["executed"], failed["data"]) == ("kgroup.list/v1", False, [])
    assert failed["cluster"] == part["cluster"]
    assert list(failed["errors"][0]) == list(part["errors"][0])
    (found,) = failed["errors"]
    assert (found["code"], found["message"], found["hint"]) == ("not-found", 'no group "order-svc"', "kgroup list")
    assert found["details"] == ["Near: orders-svc"]


def test_a_row_error_names_group_topic_and_partition() -> None:
    (found,) = json.loads(show(PART, Format.JSON).stdout)["errors"]

    assert (found["code"], found["group"], found["topic"], found["partition"]) == ("not-authorized", "g", "audit", 3)


@pytest.mark.parametrize("form", [Format.TABLE, Format.WIDE, Format.CSV, Format.MARKDOWN])
def test_a_failure_leaves_stdout_empty_in_the_other_formats(form: Format) -> None:
    assert show_error(Unreachable("gone"), form) == ""


@pytest.mark.parametrize("verb", ["catchup start", "context use"])
def test_the_kind_of_a_verb_below_a_verb(verb: str) -> None:
    kind = json.loads(show_error(UsageError("no"), Format.JSON, verb))["kind"]

    assert kind == f"kgroup.{verb.replace(' ', '.')}/v1"


def test_executed_is_said() -> None:
    assert json.loads(show([an_outcome("a", executed=True)], Format.JSON).stdout)["executed"] is True


def test_json_keeps_other_scripts_as_they_are() -> None:
    text = show([an_outcome(*NASTY)], Format.JSON).stdout

    assert "注文" in text
    assert [row["group"] for row in json.loads(text)["data"]] == list(NASTY)
    assert text.endswith("}\n")


def test_yaml_is_the_same_document() -> None:
    outcomes = [an_outcome(*NASTY, errors=(FORBIDDEN,))]

    assert yaml.safe_load(show(outcomes, Format.YAML).stdout) == json.loads(show(outcomes, Format.JSON).stdout)


def test_csv_has_one_header_over_several_outcomes() -> None:
    shown = show([an_outcome("a"), an_outcome(), an_outcome("b", "c", errors=(FORBIDDEN,))], Format.CSV)

    assert shown.stdout.splitlines() == ["group,lag", "a,", "b,", "c,"]
    assert shown.code == ExitCode.PARTLY
    assert "audit" in shown.stderr


def test_csv_has_its_header_even_where_there_is_nothing() -> None:
    assert show(EMPTY, Format.CSV).stdout == "group,lag\n"


def test_csv_comes_back_as_it_went_in() -> None:
    text = show([an_outcome(*NASTY)], Format.CSV).stdout

    assert [row["group"] for row in csv.DictReader(io.StringIO(text, newline=""))] == list(NASTY)
    assert "\r" not in text


def test_csv_is_written_as_the_outcomes_arrive() -> None:
    out = io.StringIO()
    seen: list[str] = []

    def outcomes() -> Iterator[Outcome]:
        yield an_outcome("a")
        seen.append(out.getvalue())
        yield an_outcome("b")

    with redirect_stdout(out):
        present("list", outcomes(), Format.CSV, ["kgroup"], StderrReporter(io.StringIO()))

    assert seen == ["group,lag\na,\n"]


@pytest.mark.parametrize("count", [999, 1_000, 1_001, 2_500])
def test_csv_has_every_row_before_an_error(count: int) -> None:
    def rows() -> Iterator[tuple[str, None]]:
        yield from ((str(number), None) for number in range(count))
        raise Unreachable("gone")

    out = io.StringIO()
    broken = replace(an_outcome(), records=lambda: Records(("group", "lag"), rows()))
    with pytest.raises(Unreachable), redirect_stdout(out):
        present("list", (broken,), Format.CSV, ["kgroup"], StderrReporter(io.StringIO()))

    assert out.getvalue().splitlines() == ["group,lag", *(f"{number}," for number in range(count))]


def test_csv_does_not_repeat_rows_whose_writing_was_interrupted() -> None:
    class Interrupting(io.StringIO):
        def write(self, text: str) -> int:
            super().write(text)
            raise KeyboardInterrupt

    out, names = Interrupting(), [str(number) for number in range(999)]
    with pytest.raises(KeyboardInterrupt), redirect_stdout(out):
        present("list", (an_outcome(*names),), Format.CSV, ["kgroup"], StderrReporter(io.StringIO()))

    assert out.getvalue().splitlines() == ["group,lag", *(f"{name}," for name in names)]


@pytest.mark.parametrize("form", list(Format))
def test_an_error_in_the_midst_is_raised(form: Format) -> None:
    def outcomes() -> Iterator[Outcome]:
        yield an_outcome("a")
        raise Unreachable("gone")

    with pytest.raises(Unreachable):
        show(outcomes(), form)


def test_of_a_verb_that_goes_on_an_error_is_a_line_too() -> None:
    def outcomes() -> Iterator[Outcome]:
        yield an_outcome("svc", going_on=True)
        raise NotAuthorized("may not read any more")

    shown = show(outcomes(), Format.JSON)
    first, last = map(json.loads, shown.stdout.splitlines())
    assert (shown.code, first["data"][0]["group"], last["kind"]) == (ExitCode.NOT_AUTHORIZED, "svc", first["kind"])
    assert [error["message"] for error in last["errors"]] == ["may not read any more"]
    assert shown.stderr.startswith("kgroup: may not read any more")


class Pipe(io.StringIO):
    """Its reader is gone after the first line."""

    def write(self, text: str) -> int:
        if self.getvalue():
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.parametrize("form", [Format.TABLE, Format.CSV, Format.JSON, Format.YAML])
def test_a_reader_that_goes_in_the_midst_is_no_failure(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr("kgroup.output.present.drop_stdout", lambda: None)
    outcomes = (an_outcome(f"svc-{number}") for number in range(60))
    with redirect_stdout(Pipe()):
        code = present("list", outcomes, form, (), StderrReporter(err))
    assert (code, err.getvalue()) == (ExitCode.DONE, "")


def test_where_nobody_reads_that_line_the_words_are_said_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes() -> Iterator[Outcome]:
        yield an_outcome("svc", going_on=True)
        raise NotAuthorized("may not read any more")

    err = io.StringIO()
    monkeypatch.setattr("kgroup.output.present.drop_stdout", lambda: None)
    with redirect_stdout(Pipe()):
        code = present("history", outcomes(), Format.JSON, (), StderrReporter(err))
    assert (code, err.getvalue()) == (ExitCode.NOT_AUTHORIZED, "kgroup: may not read any more [not-authorized]\n")


def test_what_was_said_beside_the_result_is_part_of_every_document() -> None:
    """Whoever reads only stdout must not take for known what is not; each sentence stands there once."""

    def remarking() -> Iterator[Outcome]:
        for _ in range(2):
            reporter.note("rights are unknown")
            reporter.warn("the clock is wrong")
            yield an_outcome("a")

    shown = {}
    for form in (Format.JSON, Format.YAML, Format.MARKDOWN):
        out, reporter = io.StringIO(), StderrReporter(io.StringIO())
        with redirect_stdout(out):
            present("list", remarking(), form, ["kgroup"], reporter)
        shown[form] = out.getvalue()
    for document in (json.loads(shown[Format.JSON]), yaml.safe_load(shown[Format.YAML])):
        assert (document["warnings"], document["notes"]) == (["the clock is wrong"], ["rights are unknown"])
    assert shown[Format.MARKDOWN].endswith("\n\nWARNING the clock is wrong\nnote: rights are unknown\n```\n")


def test_a_line_of_a_verb_that_goes_on_has_what_was_said_since_the_line_before() -> None:
    def outcomes() -> Iterator[Outcome]:
        for number in (1, 2):
            reporter.note(f"note {number}")
            yield an_outcome("svc", going_on=True)
        reporter.note("note 3")
        raise NotAuthorized("may not read any more")

    out, reporter = io.StringIO(), StderrReporter(io.StringIO())
    with redirect_stdout(out):
        present("history", outcomes(), Format.JSON, (), reporter)
    assert [json.loads(line)["notes"] for line in out.getvalue().splitlines()] == [["note 1"], ["note 2"], ["note 3"]]


def test_metrics_go_to_stdout_or_whole_into_the_place_of_a_file(tmp_path: Path) -> None:
    text = '# HELP seen Seen.\n# TYPE seen gauge\nseen{group="grüße"} 1\n'
    assert show([an_outcome("grüße")], Format.PROMETHEUS).stdout == text

    file = tmp_path / "kgroup.prom"
    file.write_text("what was there before, and is longer than what comes: " + text)
    assert show([an_outcome("a", exported=exported("grüße", path=str(file)))], Format.PROMETHEUS).stdout == ""
    assert file.read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["kgroup.prom"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644, "the collector is another user"


def test_screens_of_several_outcomes_have_a_gap_between_them() -> None:
    lines = show([an_outcome("a"), an_outcome("b")], Format.TABLE).stdout.split("\n")

    second = next(at for at, line in enumerate(lines) if line.startswith("b  "))
    assert lines[second - 1] == ""


def test_row_errors_go_to_stderr_once_a_kind() -> None:
    many = tuple(RowError.of(NotAuthorized("no DESCRIBE on Topic"), topic=f"audit-{n}", partition=0) for n in range(14))
    shown = show([an_outcome("a", errors=many)], Format.TABLE)

    assert "audit" not in shown.stdout
    (line,) = [line for line in shown.stderr.splitlines() if line.startswith("kgroup:")]
    assert "audit-0:0" in line
    assert "4 more" in line
    assert line.endswith("[not-authorized]")


def test_markdown_is_one_fenced_block_with_command_and_time() -> None:
    outcomes = [an_outcome("a"), an_outcome("b")]

    lines = show(outcomes, Format.MARKDOWN, ("kgroup", "describe", "a b", "-o", "markdown")).stdout.splitlines()

    assert (lines[0], lines[-1]) == ("```", "```")
    assert not any(line.startswith("```") for line in lines[1:-1])
    assert lines[1].startswith("$ kgroup describe 'a b' -o markdown")
    assert "2026-11-21T09:14:30Z" in lines[1]
    assert sum(line.startswith("$ ") for line in lines) == 1
    assert any(line.startswith("LAG") and line.endswith("unknown: nothing is read") for line in lines)
    assert any(re.fullmatch(r"a +-", line) for line in lines)
    assert any(re.fullmatch(r"b +-", line) for line in lines)


def test_markdown_separates_the_groups() -> None:
    lines = show([an_outcome("a"), an_outcome("b")], Format.MARKDOWN).stdout.splitlines()

    second = next(at for at, line in enumerate(lines) if line.startswith("b  ") and "prod" in line)
    assert lines[second - 1] == ""


def test_markdown_has_its_command_even_where_there_is_nothing() -> None:
    assert "$ kgroup list" in show([], Format.MARKDOWN).stdout


def test_markdown_has_no_colour_and_no_control_character() -> None:
    text = show([an_outcome("a\x1b[31mb")], Format.MARKDOWN).stdout

    assert "\x1b" not in text
    assert "a\\x1b[31mb" in text


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], ExitCode.DONE),
        ([0, 0], ExitCode.DONE),
        ([3, 3], ExitCode.UNREACHABLE),
        ([0, 3], ExitCode.PARTLY),
        ([3, 4], ExitCode.PARTLY),
        ([0, 8], ExitCode.CHECK_FAILED),
        ([0, 7], ExitCode.PARTLY),
    ],
)
def test_the_exit_code_of_several_outcomes(codes: list[int], code: ExitCode) -> None:
    assert combined([ExitCode(number) for number in codes]) == code


WRONG = [
    (["list", "--bogus"], "kgroup.list/v1"),
    (["lst"], None),
    (["context", "use"], "kgroup.context.use/v1"),
    (["context", "use", "a", "b"], "kgroup.context.use/v1"),
    (["describe", "--expect", "many"], "kgroup.describe/v1"),
    (["describe", "--members", "--offsets", "-b", "x:1"], "kgroup.describe/v1"),
    (["list", "--timeout", "5x", "-b", "x:1"], "kgroup.list/v1"),
    (["list"], "kgroup.list/v1"),
    (["help", "no-such-topic"], "kgroup.help/v1"),
]
SPELLINGS = [
    (["-o", "json"], []),
    ([], ["-o", "json"]),
    (["--output", "json"], []),
    ([], ["--output=json"]),
    ([], ["-ojson"]),
    (["-ojson"], []),
]


@pytest.mark.parametrize(("before", "after"), SPELLINGS)
@pytest.mark.parametrize(("wrong", "kind"), WRONG)
def test_usage_errors_give_the_envelope_too(
    kgroup_cli: CommandLine, wrong: list[str], kind: str | None, before: list[str], after: list[str]
) -> None:
    result = kgroup_cli(*before, *wrong, *after, exit_code=5 if "no-such-topic" in wrong else 2)

    document = result.json
    assert list(document) == ENVELOPE
    assert document["data"] == []
    (error,) = document["errors"]
    assert error["message"]
    assert error["message"] in result.stderr
    assert f"[{error['code']}]" in result.stderr
    if kind is not None:
        assert document["kind"] == kind


def test_the_format_of_the_environment_counts_for_usage_errors_too(
    kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_OUTPUT", "json")

    assert list(kgroup_cli("list", exit_code=2).json) == ENVELOPE
    assert list(kgroup_cli("list", "--bogus", exit_code=2).json) == ENVELOPE


@pytest.mark.parametrize("verb", ["list", "help"])
def test_a_format_of_the_environment_that_does_not_exist_is_a_usage_error(
    kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("KGROUP_OUTPUT", "xml")

    result = kgroup_cli(verb, exit_code=2)

    assert "KGROUP_OUTPUT" in result.stderr


@pytest.mark.parametrize("arguments", [["-o", "xml", "list"], ["list", "-o", "xml"]])
def test_a_format_that_does_not_exist_is_named(kgroup_cli: CommandLine, arguments: list[str]) -> None:
    result = kgroup_cli(*arguments, exit_code=2)

    assert "xml" in result.stderr
    assert "output" in result.stderr
    assert "verb" not in result.stderr
    assert "markdown" in result.stderr, "the formats that exist"
    assert "kcg" not in result.stderr, "a format of another verb"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, ["orders-svc  Stable for 4m42s  classic  generation 1              prod  09:14:30Z"]),
        (45, ["orders-svc  Stable for 4m42s  prod  09:14:30Z", "   classic  generation 1"]),
        (30, ["orders-svc     prod  09:14:30Z", "   Stable for 4m42s  classic", "   generation 1"]),
        (20, ["     prod  09:14:30Z", "orders-svc  Stable", "   for 4m42s"]),
    ],
)
def test_what_a_title_has_no_room_for_gets_whole_lines(width: int, lines: list[str]) -> None:
    title = Title("orders-svc  Stable for 4m42s  classic  generation 1")

    assert title_lines(title, an_outcome(), width)[: len(lines)] == lines


HOSTILE = "del\x7f csi\x9b31m bidi\u202eab\u2066 zero\u200b sep\u2028 tag\U000e0041 sad\udcff"


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML])
def test_json_and_yaml_have_no_character_that_a_terminal_acts_upon(form: Format) -> None:
    text = show([an_outcome(f"Grüße 漢 {HOSTILE[:-5] if form is Format.YAML else HOSTILE}")], form).stdout
    assert all(char.isprintable() or char == "\n" for char in text)
    if form is Format.JSON:
        assert "Grüße 漢" in text
        assert HOSTILE in json.dumps(json.loads(text), ensure_ascii=False)
