"""Commands in refusals and notes reach the cluster of the command that was typed: they have its connection options."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgroup.catchup.ledger.view import no_plan
from kgroup.changes.execute import journaled
from kgroup.cluster.broker_errors import NON_EMPTY_GROUP, behind_group, change_error
from kgroup.cluster.lost_responses import unknown_outcome
from kgroup.cluster.membership import refusals
from kgroup.cluster.membership.conversion_result import refuse_conversion
from kgroup.groups.doctor.finding import kgroup_command
from kgroup.groups.selection import Selection, select_groups, unknown_groups
from kgroup.model.reporter import NullReporter
from kgroup.settings.connection import Connection
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.command_line import CommandLine as TypedLine
from kgroup.support.errors import KgroupError
from kgroup.support.hint import Hint, hints_with_options
from tests.helpers.command_line import CommandLine
from tests.helpers.parsing import parsed

SOURCE = Path(__file__).parents[2] / "kgroup"
FLAGS = "-b b1:9092 --command-config 'my client.properties' -X 'sasl.password=[hidden]'"
LEDGER = "--ledger-topic books"


def typed(*ledger: str) -> Invocation:
    """A call with all connection options, and ``--ledger-topic``."""
    connection = Connection("b1:9092", Path("my client.properties"), ["sasl.password=geheim"])
    line = TypedLine(("kgroup", "catchup", "list"), options={"--ledger-topic": ledger} if ledger else {})
    return Invocation(connection, Presentation(), NullReporter(), line=line)


def _raised(call: Callable[[], object]) -> KgroupError:
    with pytest.raises(KgroupError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("make", "commands"),
    [
        (lambda: unknown_groups(["svc"], (), "here").hint, ("list",)),
        (lambda: _raised(lambda: select_groups(Selection(regex="svc.*"), (), "here")).hint, ("list",)),
        (lambda: change_error(NON_EMPTY_GROUP, "my svc").hint, ("describe 'my svc' --members",)),
        (lambda: behind_group().hint, ("doctor",)),
        (lambda: unknown_outcome(KgroupError("lost")).hint, ("undo",)),
        (lambda: refusals.not_empty("svc", ()).hint, ("wait svc --for empty",)),
        (lambda: refusals.superseded("svc").hint, (f"catchup list svc {LEDGER}",)),
        (
            lambda: refusals.unknown_commit_outcome("svc", KgroupError("lost")).hint,
            (f"catchup resume svc --execute {LEDGER}",),
        ),
        (lambda: getattr(refuse_conversion("svc", None), "hint", None), ("list",)),
        (lambda: no_plan("cu-1").hint, (f"catchup list {LEDGER}",)),
        (journaled, ("undo",)),
        (lambda: kgroup_command("history", "svc"), ("history svc",)),
        (lambda: Hint("{}; or {}", ("lag", "a"), ("lag", "b")), ("lag a", "lag b")),
    ],
)
def test_refusals_have_the_options(make: Callable[[], str | None], commands: tuple[str, ...]) -> None:
    with hints_with_options(typed("--ledger-topic", "books").command):
        hint = make()

    assert hint is not None
    assert re.findall(r"kgroup .*?\[hidden\]'", hint) == [f"kgroup {command} {FLAGS}" for command in commands]


def test_verbs_without_a_cluster_have_no_options() -> None:
    with hints_with_options(typed().command):
        assert Hint("{}", ("context", "list")) == "kgroup context list"


@pytest.mark.parametrize(
    "words",
    [("describe",), ("lag",), ("history", "--since", "1m"), ("export",), ("doctor",), ("delete",)],
)
def test_an_unknown_group_is_looked_for_on_the_same_cluster(
    bootstrap: str, name: Callable[[str], str], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER", raising=False)

    refused = CommandLine()(words[0], name("svc"), *words[1:], "-b", bootstrap, "-o", "json", exit_code=5)

    assert refused.stderr.endswith(f"  kgroup list -b {bootstrap}\n")
    (error,) = refused.json["errors"]
    assert error["hint"] == f"kgroup list -b {bootstrap}"


VERBS = "list|describe|lag|history|doctor|simulate|export|peek|wait|reset|undo|migrate|evict|delete|catchup"
FORM = r"(catchup |-)?[^;,]*\b(GROUP|NEW|TOPIC|TIME|FILE)\b"
COMMAND = re.compile(rf"\bkgroup ({VERBS})\b(?! {FORM})")
"""A command of kgroup, but not a form of one in a usage error: ``kgroup undo GROUP --as-of TIME``."""

NO_HINTS = (
    "held by kgroup catchup",  # what the broker's log says of a member that left, here and in the next two
    "converted with kgroup migrate",
    "kgroup undo restores the offsets only ",
    "removed with kgroup evict",
    "what kgroup history shows by default",
    "(kgroup migrate ",  # an option that keeps a value, without a group
    "which kgroup export -o json writes",
    "kgroup doctor --explain ",  # asks no cluster
    "of kgroup export, --backup",  # in the help of options, as the next
    "Read groups from kgroup describe -o json",
    "try: kgroup list -b ",  # the sandbox's own address
    "Use kgroup reset. --partial skips",  # of kgroup help above-log-end
)
"""Parts of texts with the name of a verb that are no commands to paste."""
SPARK_APPLICATION = "kgroup catchup"


def _texts(path: Path) -> Iterator[str]:
    """The string constants of a module, without its docstrings."""
    tree = parsed(path)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value


def test_no_command_is_written_without_the_options() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "cli"]
    found = [text for path in modules for text in _texts(path) if COMMAND.search(text)]

    assert [text for text in found if not any(part in text for part in NO_HINTS) and text != SPARK_APPLICATION] == []
