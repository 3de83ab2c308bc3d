"""``kgroup simulate`` from a file, without a cluster: its formats, and whatever is wrong with what it is given."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import CommandLine


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A server in KGROUP_BOOTSTRAP_SERVER to which nobody may connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", f"127.0.0.1:{server.getsockname()[1]}")
        server.settimeout(0)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def member(number: int, partitions: list[int], **other: Any) -> dict[str, Any]:
    return {
        "member_id": f"app-00000000-0000-4000-8000-{number:012}",
        "instance_id": f"app-{number}",
        "client_id": "app",
        "host": "10.0.0.1",
        "rack": None,
        "epoch": None,
        "protocol": "classic",
        "subscription": ["orders"],
        "assignment": [{"topic": "orders", "partitions": partitions}],
        "target_assignment": None,
        **other,
    }


def described(**other: Any) -> dict[str, Any]:
    """Three static members with twelve partitions, under range."""
    return {
        "group": "svc",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "assignor": "range",
        "members": [member(number, [*range(4 * number, 4 * number + 4)]) for number in range(3)],
        "partitions": [{"topic": "orders", "partition": number} for number in range(12)],
        **other,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, described())


def write(folder: Path, *groups: dict[str, Any]) -> Path:
    path = folder / "svc.json"
    path.write_text(json.dumps({"kind": "kgroup.describe/v1", "data": groups}), encoding="utf-8")
    return path


# What it says


def test_a_page(kgroup_cli: CommandLine, file: Path, silent: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = kgroup_cli("simulate", "--from-file", str(file), "--add", "1").stdout.splitlines()

    assert lines[0].startswith("svc  3 members, 12 partitions, 1 member added")
    assert [line.split("  ")[0] for line in lines[2:5]] == [
        "as it is (range)", "cooperative-sticky", "consumer protocol (uniform)",
    ]  # fmt: skip
    assert lines[2].split()[4:] == ["1", "6", "3", "3", "each", "all", "12", "for", "3s"]
    assert lines[3].split()[1:] == ["2", "3", "0", "3", "each", "3", "for", "3s"]
    assert [line.split() for line in lines[6:11]] == [
        ["MEMBER", "BEFORE", "AFTER", "GETS", "GIVES"],
        ["app-0", "4", "3", "0", "1"],
        ["app-1", "4", "3", "1", "2"],
        ["app-2", "4", "3", "2", "3"],
        ["app-3", "-", "3", "3", "0"],
    ]
    assert "a rebalance takes 3s (default)" in "\n".join(lines)


def test_a_rolling_restart(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket) -> None:
    """Dynamic members as they are, and as if they were static: the remedy with its price."""
    dynamic = [member(number, [*range(4 * number, 4 * number + 4)], instance_id=None) for number in range(3)]
    path = write(tmp_path, described(members=dynamic))
    words = ("--restart-rolling", "--static", "--session-timeout", "60s", "--restart-time", "25s")
    result = kgroup_cli("simulate", "--from-file", str(path), *words, "--rebalance-time", "8s", "-o", "wide")

    rows = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert "all 12 for 8s, 6 times" in rows["as it is (range)"]
    assert rows["static"].split()[1:4] == ["0", "0", "0"]
    assert "4 for 25s, 3 times" in rows["static"]
    assert "assumed: a restart takes 25s, session timeout 1m, a rebalance takes 8s" in result.stdout
    assert "afterwards everybody has what he had" in result.stdout


def test_the_document(kgroup_cli: CommandLine, file: Path, silent: socket.socket) -> None:
    words = ("simulate", "--from-file", str(file), "--remove", "app-1", "--session-timeout", "10s")
    result = kgroup_cli(*words, "-o", "json")

    assert result.json["kind"] == "kgroup.simulate/v1"
    assert result.json["cluster"] is None
    (document,) = result.data
    assert list(document) == ["group", "type", "state", "assignor", "change", "assumed", "scenarios"]
    assert document["change"] == {
        "add": 0,
        "remove": 1,
        "kill": 0,
        "leaving": ["app-00000000-0000-4000-8000-000000000001"],
        "partitions": 0,
        "topics": None,
        "restart": None,
        "static": False,
        "assignor": None,
    }
    assert document["assumed"] == {
        "restart_ms": 30_000,
        "restart_from": "default",
        "session_timeout_ms": 10_000,
        "session_timeout_from": "option",
        "rebalance_ms": 3_000,
        "rebalance_from": "default",
        "handover_ms": 5_000,
        "handover_from": "default",
        "rebalances_seen": None,
        "topic_ids": False,
    }
    first = document["scenarios"][0]
    assert list(first) == [
        "scenario", "protocol", "assignor", "as_it_is", "static", "shown", "runs", "settled", "rebalances", "moved",
        "taken", "needless", "standstills", "partition_seconds", "balance_before", "balance_after", "members",
    ]  # fmt: skip
    assert (first["scenario"], first["shown"], first["runs"]) == ("as it is (range)", True, 1)
    assert first["moved"] == {"least": 4, "most": 4}
    assert [stop["cause"] for stop in first["standstills"]] == ["away", "rebalance"]
    assert first["balance_after"] == {"members": 2, "idle": 0, "fewest": 6, "most": 6}
    assert [(line["name"], line["new"], line["after"]) for line in first["members"]] == [
        ("app-0", False, [{"topic": "orders", "partitions": [0, 1, 2, 3, 4, 5]}]),
        ("app-1", False, None),
        ("app-2", False, [{"topic": "orders", "partitions": [6, 7, 8, 9, 10, 11]}]),
    ]
    assert yaml.safe_load(kgroup_cli(*words, "-o", "yaml").stdout) == result.json


def test_rows_and_a_ticket(kgroup_cli: CommandLine, file: Path, silent: socket.socket) -> None:
    words = ("simulate", "--from-file", str(file), "svc", "--partitions", "orders=+6")
    rows = kgroup_cli(*words, "-o", "csv").rows
    assert [(row["scenario"], row["rebalances_most"], row["most_after"]) for row in rows] == [
        ("as it is (range)", "1", "6"),
        ("cooperative-sticky", "1", "6"),
        ("consumer protocol (uniform)", "1", "6"),
    ]
    ticket = kgroup_cli(*words, "-o", "markdown").stdout.splitlines()
    assert ticket[0] == ticket[-1] == "```"
    assert ticket[2].startswith("svc  3 members, 12 partitions, 6 partitions added to orders")


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        (("--add", "1", "--assignor", "sticky"), ["as it is (range)", "sticky"]),
        (("--add", "1", "--assignor", "range"), ["as it is (range)"]),
        (("--restart-rolling", "--static", "--assignor", "uniform"),
         ["as it is (range)", "static", "consumer protocol (uniform)", "consumer protocol (uniform), static"]),
        (("--assignor", "roundrobin"), ["roundrobin"]),
    ],
    ids=["another", "its own", "static", "alone"],
)  # fmt: skip
def test_which_ways_are_compared(
    kgroup_cli: CommandLine, file: Path, words: tuple[str, ...], titles: list[str]
) -> None:
    (document,) = kgroup_cli("simulate", "--from-file", str(file), *words, "-o", "json").data
    assert [one["scenario"] for one in document["scenarios"]] == titles
    assert [one["shown"] for one in document["scenarios"]] == [False] * (len(titles) - 1) + [True]
    assert all(one["settled"] for one in document["scenarios"])


def test_an_assignor_of_somebody_else(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket) -> None:
    path = write(tmp_path, described(assignor="com.acme.Geo"))
    refused = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", exit_code=6)
    assert "svc is assigned by com.acme.Geo, which only its own clients know [unknown-assignor]" in refused.stderr
    (document,) = kgroup_cli(
        "simulate", "--from-file", str(path), "--add", "1", "--assignor", "sticky", "-o", "json"
    ).data
    assert [one["scenario"] for one in document["scenarios"]] == ["sticky"]


def test_a_group_without_members(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket) -> None:
    """It can be started; as one of many it is left out."""
    empty = described(group="empty", state="Empty", assignor=None, members=[])
    path = write(tmp_path, described(), empty)
    (document,) = kgroup_cli("simulate", "empty", "--from-file", str(path), "--add", "5", "-o", "json").data
    assert [(one["scenario"], one["shown"]) for one in document["scenarios"]] == [
        ("range", True), ("cooperative-sticky", False), ("consumer protocol (uniform)", False),
    ]  # fmt: skip
    assert document["scenarios"][0]["balance_after"] == {"members": 5, "idle": 0, "fewest": 2, "most": 3}

    refused = kgroup_cli("simulate", "empty", "--from-file", str(path), "--restart-rolling", exit_code=6)
    assert "there is nobody to be removed or restarted" in refused.stderr
    result = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", "-o", "json")
    assert [document["group"] for document in result.data] == ["svc"]
    assert "left out, 1 group without members" in result.stderr


def test_one_that_fails_does_not_hide_the_others(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path, described(), described(group="moving", state="PreparingRebalance"))
    result = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", "-o", "json", exit_code=7)
    assert [document["group"] for document in result.data] == ["svc"]
    assert [(error["group"], error["code"]) for error in result.json["errors"]] == [("moving", "rebalancing")]


def test_everybody_goes(kgroup_cli: CommandLine, file: Path) -> None:
    result = kgroup_cli("simulate", "--from-file", str(file), "--remove", "3")
    assert "nobody is left: no partition is read" in result.stdout


# What is wrong


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        ((), 2, "nothing is to be simulated"),
        (("--add", "0"), 2, "--add"),
        (("--add", "1", "--static"), 2, "--static is about restarts"),
        (("--assignor", "unifrom"), 2, "did you mean uniform?"),
        (("--assignor", "com.acme.Geo"), 2, "one of range, roundrobin, sticky"),
        (("--remove", "0"), 2, "that is nobody"),
        (("--remove", "-1"), 2, "a number of members, or who it is"),
        (("--remove", "1", "--remove", "app-1"), 2, "a number, or names"),
        (("--partitions", "6"), 2, "Write +6, or orders=+6"),
        (("--partitions", "orders=12"), 2, "Write +6, or orders=+6"),
        (("--partitions", "+0"), 2, "how many more?"),
        (("--partitions", "+99999"), 2, "more than 10000"),
        (("--partitions", "+1", "--partitions", "orders=+1"), 2, "no other beside it"),
        (("--partitions", "a=+1", "--partitions", "orders=+2"), 2, "the same number"),
        (("--restart-rolling", "--restart-time", "30"), 2, "30 what?"),
        (("--remove", "4"), 6, "svc: 3 members are there, 4 can't be removed [too-few-members]"),
        (("--remove", "2", "--kill", "2"), 6, "svc: 3 members are there, 2 can't be killed [too-few-members]"),
        (("--remove", "app-11"), 5, "Near: app-1"),
        (("--remove", "app"), 5, "3 members have the client id app"),
        (("--partitions", "order=+1"), 5, "Near: orders"),
        (("scv", "--add", "1"), 5, "Near: svc"),
        (("--add", "1", "--expect", "2"), 6, "1 group chosen, 2 expected"),
    ],
)  # fmt: skip
def test_bad_input(
    kgroup_cli: CommandLine, file: Path, silent: socket.socket, words: tuple[str, ...], exit_code: int, said: str
) -> None:
    result = kgroup_cli("simulate", "--from-file", str(file), *words, exit_code=exit_code)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"state": "PreparingRebalance"}, "rebalancing"),
        ({"state": "CompletingRebalance"}, "rebalancing"),
        ({"type": "consumer", "state": "Assigning"}, "rebalancing"),
        ({"members": [member(0, [0, 1]), member(1, [1])]}, "rebalancing"),
        ({"members": None}, "members-hidden"),
        ({"protocol_type": "connect"}, "foreign-owner"),
        ({"protocol_type": "sr"}, "foreign-owner"),
        ({"assignor": "stream"}, "unknown-assignor"),
        ({"partitions": [], "members": [member(0, [])]}, "not-found"),
        ({"partitions": [], "members": [], "state": "Empty"}, "not-found"),
    ],
)
def test_groups_of_which_nothing_can_be_said(
    kgroup_cli: CommandLine, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    path = write(tmp_path, described(**change))
    simulate = ("simulate", "svc", "--from-file", str(path), "--add", "1", "-o", "json")
    result = kgroup_cli(*simulate, exit_code=5 if code == "not-found" else 6)
    assert result.json["errors"][0]["code"] == code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the document is not an object"),
        ('"svc"', "the document is not an object"),
        ("{}", "type is not a text"),
        ('{"kind": "kgroup.list/v1", "data": []}', "is of kind kgroup.list/v1"),
        ('{"kind": "kgroup.describe/v1"}', "data is not a list"),
        ('{"kind": "kgroup.describe/v1", "data": []}', "there is no group in it"),
        ('{"kind": "kgroup.describe/v1", "data": [7]}', "data[0] is not an object"),
        ('{"type": "share"}', "only classic and consumer groups"),
        ('{"type": "classic", "group": "svc", "state": 7}', "state is not a text"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "members": {}}', "members is not a list"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "members": [{}]}',
         "members[0].member_id is not a text"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "partitions": [{"topic": "t", "partition": -1}]}',
         "partitions[0] is -1, which is no partition"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "partitions": [{"topic": "t", "partition": 1e3}]}',
         "is not a whole number"),
    ],
)  # fmt: skip
def test_broken_files(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket, text: str, said: str) -> None:
    path = tmp_path / "svc.json"
    path.write_text(text, encoding="utf-8")
    result = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", exit_code=2)
    assert said in result.stderr
    assert str(path) in result.stderr


def test_files_that_cannot_be_read(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert "No such file" in kgroup_cli("simulate", "--from-file", str(missing), "--add", "1", exit_code=2).stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in kgroup_cli("simulate", "--from-file", str(binary), "--add", "1", exit_code=2).stderr


def test_members_and_groups_twice(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path, described(), described())
    assert "svc is in it twice" in kgroup_cli("simulate", "--from-file", str(path), "--add", "1", exit_code=2).stderr
    path = write(tmp_path, described(members=[member(0, [0]), member(0, [1])]))
    assert "a member id twice" in kgroup_cli("simulate", "--from-file", str(path), "--add", "1", exit_code=2).stderr
