"""``kgroup simulate`` from a file, without a cluster: its formats, and whatever is wrong with what it is given."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine


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
    assert lines[2].split()[4:] == ["1", "6", "3", "3", "each", "all", "12", "partitions", "for", "3s"]
    assert lines[3].split()[1:] == ["2", "3", "0", "3", "each", "3", "partitions", "for", "3s"]
    assert [line.split() for line in lines[6:11]] == [
        ["MEMBER", "BEFORE", "AFTER", "GETS", "GIVES"],
        ["app-0", "4", "3", "0", "1"],
        ["app-1", "4", "3", "1", "2"],
        ["app-2", "4", "3", "2", "3"],
        ["app-3", "-", "3", "3", "0"],
    ]
    assert "rebalance time 3s (default)" in "\n".join(lines)


@pytest.mark.parametrize(
    "change",
    [("--restart-rolling", "--static"), ("--add", "12"), ("--kill", "2"), ("--remove", "2", "--partitions", "+7")],
    ids=" ".join,
)
def test_a_page_fits_in_80_columns(
    kgroup_cli: CommandLine, file: Path, silent: socket.socket, monkeypatch: pytest.MonkeyPatch, change: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = kgroup_cli("simulate", "--from-file", str(file), *change).stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert any("STANDSTILLS" in line for line in lines[1:3])


def test_idle_members_are_named_in_a_sentence(kgroup_cli: CommandLine, file: Path, silent: socket.socket) -> None:
    def said(*change: str) -> str:
        return " ".join(kgroup_cli("simulate", "--from-file", str(file), *change).stdout.split())

    assert "idle: 1 of 13 members has no partition, because there are only 12" in said("--add", "10")
    assert "idle: 3 of 15 members have no partition, because there are only 12" in said("--add", "12")
    assert "idle:" not in said("--add", "9")


def test_a_rolling_restart(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket) -> None:
    """Dynamic members as they are, and as if they were static: the remedy with its price."""
    dynamic = [member(number, [*range(4 * number, 4 * number + 4)], instance_id=None) for number in range(3)]
    path = write(tmp_path, described(members=dynamic))
    words = ("--restart-rolling", "--static", "--session-timeout", "60s", "--restart-time", "25s")
    result = kgroup_cli("simulate", "--from-file", str(path), *words, "--rebalance-time", "8s", "-o", "wide")

    rows = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert "all 12 partitions for 8s, 6 times" in rows["as it is (range)"]
    assert rows["static"].split()[1:4] == ["0", "0", "0"]
    assert "4 partitions for 25s, 3 times" in rows["static"]
    assert "assumed: restart time 25s, session timeout 1m, rebalance time 8s" in result.stdout
    assert "no member gets or loses a partition" in result.stdout


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
    assert "svc uses the assignor com.acme.Geo, which only its own clients know [unknown-assignor]" in refused.stderr
    streams = write(tmp_path, described(assignor="stream"))
    told = kgroup_cli("simulate", "--from-file", str(streams), "--add", "1", exit_code=6).stderr
    assert "is a Streams application, and the file does not have the tasks of its instances" in told
    path = write(tmp_path, described(assignor="com.acme.Geo"))
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
    assert document["scenarios"][0]["balance_after"] == balance(5, 2, 3)

    refused = kgroup_cli("simulate", "empty", "--from-file", str(path), "--restart-rolling", exit_code=6)
    assert "it has no members to remove or restart" in refused.stderr
    result = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", "-o", "json")
    assert [document["group"] for document in result.data] == ["svc"]
    assert "1 group left out: no members" in result.stderr


def test_one_that_fails_does_not_hide_the_others(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path, described(), described(group="moving", state="PreparingRebalance"))
    result = kgroup_cli("simulate", "--from-file", str(path), "--add", "1", "-o", "json", exit_code=7)
    assert [document["group"] for document in result.data] == ["svc"]
    assert [(error["group"], error["code"]) for error in result.json["errors"]] == [("moving", "rebalancing")]


def test_everybody_goes(kgroup_cli: CommandLine, file: Path) -> None:
    result = kgroup_cli("simulate", "--from-file", str(file), "--remove", "3")
    assert "no member is left: no partition is read" in result.stdout


# What is wrong


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        ((), 2, "the change to simulate is missing"),
        (("--add", "0"), 2, "--add"),
        (("--add", "1", "--static"), 2, "--static requires --restart-rolling"),
        (("--assignor", "unifrom"), 2, "did you mean uniform?"),
        (("--assignor", "com.acme.Geo"), 2, "choose one of: range, roundrobin, sticky"),
        (("--remove", "0"), 2, "--remove must be at least 1"),
        (("--remove", "-1"), 2, "not a number of members and not a name"),
        (("--remove", "1", "--remove", "app-1"), 2, "give one number, or names"),
        (("--partitions", "6"), 2, "write how many partitions to add: +6, or orders=+6"),
        (("--partitions", "orders=12"), 2, "write how many partitions to add: +6, or orders=+6"),
        (("--partitions", "+0"), 2, "write how many partitions to add"),
        (("--partitions", "+99999"), 2, "more than 10000"),
        (("--partitions", "+1", "--partitions", "orders=+1"), 2, "no other --partitions is possible"),
        (("--partitions", "a=+1", "--partitions", "orders=+2"), 2, "the same number"),
        (("--restart-rolling", "--restart-time", "30"), 2, "the unit is missing"),
        (("--remove", "4"), 6, "svc has 3 members: 4 cannot be removed [too-few-members]"),
        (("--remove", "2", "--kill", "2"), 6, "svc has 3 members: 2 cannot be killed [too-few-members]"),
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
    result = kgroup_cli(*simulate, exit_code={"not-found": 5, "rebalancing": 9}.get(code, 6))
    assert result.json["errors"][0]["code"] == code


def test_a_broken_file(kgroup_cli: CommandLine, tmp_path: Path, silent: socket.socket) -> None:
    path = tmp_path / "svc.json"
    path.write_text("{", encoding="utf-8")
    assert f"{path} is not JSON" in kgroup_cli("simulate", "--from-file", str(path), "--add", "1", exit_code=2).stderr


def test_files_that_cannot_be_read(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert "No such file" in kgroup_cli("simulate", "--from-file", str(missing), "--add", "1", exit_code=2).stderr
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in kgroup_cli("simulate", "--from-file", str(binary), "--add", "1", exit_code=2).stderr


def balance(members: int, fewest: int, most: int) -> dict[str, int]:
    """The balance of an assignment without idle members, as a document has it."""
    return {
        "member_count": members,
        "idle_member_count": 0,
        "fewest_partition_count": fewest,
        "most_partition_count": most,
    }
