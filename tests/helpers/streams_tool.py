"""What kafka-streams-groups.sh describes of a streams group, compared with kgroup's document of the same moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

Described = Callable[[str], list[str]]
"""The lines of ``--describe --verbose`` with one more option, without the header."""


def assert_same_figures(document: dict[str, Any], described: Described, uncommitted: Collection[str] = ()) -> None:
    """State, epochs, members and their tasks, and offsets are those of the tool.

    ``uncommitted`` are topics of which the tool shows no commits, though there are some.
    """
    (state,) = described("--state")
    assert state.split()[3:] == [
        *([document["assignor"]] if document["assignor"] else []),  # which neither broker nor tool knows before 4.4
        document["state"],
        *(str(document[key]) for key in ("group_epoch", "assignment_epoch")),
        str(len(document["members"])),
    ]
    of_members = {line.split()[3]: line for line in described("--members")}
    shown = {member["member_id"]: member for member in document["streams"]["members"]}
    assert shown.keys() == of_members.keys()
    for member in document["members"]:
        words, known = of_members[member["member_id"]], shown[member["member_id"]]
        assert words.split()[1:8] == [
            str(document["assignment_epoch"]),
            str(known["topology_epoch"]),
            member["member_id"],
            member["protocol"],
            str(member["member_epoch"]),
            known["process_id"],
            member["client_id"],
        ]
        for role in ("active", "standby", "warmup"):
            assert known["tasks"][role] == _tasks_of(words, role.upper())
            assert known["target_tasks"][role] == _tasks_of(words, f"TARGET-{role.upper()}")
    offsets = {tuple(line.split()[1:]) for line in described("--offsets")}
    assert offsets == {
        (
            row["topic"],
            str(row["partition"]),
            str(row["committed"]) if row["topic"] not in uncommitted else "-",
            str(row["leader_epoch"]) if row["leader_epoch"] is not None and row["topic"] not in uncommitted else "-",
            str(row["log_end"]),
            str(row["lag"] if row["topic"] not in uncommitted else row["log_end"] - row["log_start"]),
        )
        for row in document["partitions"]
    }


def _tasks_of(text: str, role: str) -> list[str]:
    """``ACTIVE: 0:[0,1]; 1:[0]; `` of Kafka's tool as the names of tasks."""
    found = re.search(rf"(?<![A-Z-]){role}: ((?:\d+:\[[\d,]+\]; )+)", text + " ")
    parts = re.findall(r"(\d+):\[([\d,]+)\]", found[1]) if found else []
    return sorted(f"{subtopology}_{number}" for subtopology, numbers in parts for number in numbers.split(","))
