"""What all contracts are made on: a sandbox of their own, a set of groups, and the command line on it, recorded."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contracts.placeholders import Placeholders
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members, commit_to

ORDERS, PAYMENTS = "orders", "payments"
IDLE, NEXT, LIVE, NEW_LIVE = "c-idle", "c-next", "c-live", "c-new-live"
STREAMS, GONE = "c-streams", "c-gone"
FORMATS = ("csv", "table")

_FIRST_RECORD_MS = 1_767_225_600_000  # 2026-01-01
_MINUTE_MS = 60_000
_ENDS = (100, 50, 0)


@dataclass
class Stage:
    """The command line on the groups; every call is recorded, for the file of its verb."""

    world: KafkaWorld
    members: Members
    directory: Path
    topic: str
    """Of the verb's own: what other verbs do does not show in its groups' siblings."""
    placeholders: Placeholders
    recorded: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, words: str, output: str = "json") -> Result:
        """Run in this process, and record it: ``stage("describe c-idle")``."""
        arguments = [*shlex.split(words), "-o", output]
        return self.record(arguments, CommandLine()(*arguments, exit_code=None))

    def forms(self, words: str, formats: tuple[str, ...] = FORMATS) -> Result:
        """... as JSON, and then what is fixed of other formats: their headings."""
        result = self(words)
        for output in formats:
            self(words, output)
        return result

    def record(self, arguments: list[str], result: Result) -> Result:
        """Record what came of these arguments, the last of which is the format."""
        case: dict[str, Any] = {"exit_code": result.exit_code}
        output = arguments[-1]
        if output == "json":
            case["json"] = json.loads(result.stdout) if result.stdout else None
        elif output == "csv":
            case["csv_header"] = result.stdout.partition("\n")[0]
        elif output == "jsonl":
            case["lines"] = [json.loads(line) for line in result.stdout.splitlines()]
        elif output == "kcg":
            case["stdout"] = result.stdout.splitlines()
        elif output == "prometheus":
            case["metrics"] = [line for line in result.stdout.splitlines() if line.startswith("# TYPE")]
        else:
            case["headings"] = _headings(result.stdout)
        case = {"command": self.placeholders.command(arguments), **self.placeholders.put_into(case)}
        self.recorded.append(case)
        return result

    def file(self, path: Path) -> None:
        """Record a file of JSON that a command has written."""
        self.recorded.append(self.placeholders.put_into({"file": path.name, "json": json.loads(path.read_text())}))

    def lines(self, path: Path) -> None:
        """... the first line of one that has a document a line."""
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        self.recorded.append(self.placeholders.put_into({"file": path.name, "first_line": json.loads(first)}))

    def commit(self, group: str, *offsets: int, kind: str = "classic") -> str:
        """A group of the verb's own, on its topic."""
        if self.topic not in self.world.topics():
            fill(self.world, self.topic, *_ENDS)
        commit(self.world, group, self.topic, *offsets)
        if kind == "consumer":
            to_consumer(self.world, group)
        return group


def _headings(text: str) -> list[str]:
    """Lines of a text for people that are headings: what else it says is not fixed."""
    return [" ".join(line.split()) for line in text.splitlines() if re.fullmatch(r"[A-Z][A-Z() -]+", line)]


def set_up(world: KafkaWorld, members: Members) -> None:
    """A group of each kind, two of them running, and one whose static member is dead."""
    fill(world, ORDERS, *_ENDS)
    fill(world, PAYMENTS, 10, 10)
    live = members.classic(LIVE, PAYMENTS, client_id="live", group_instance_id="live-1")
    new = members.consumer(NEW_LIVE, PAYMENTS, client_id="new", group_instance_id="new-1")
    gone = members.classic(GONE, PAYMENTS, client_id="gone", group_instance_id="gone-1", session_timeout_ms=300_000)
    commit(world, IDLE, ORDERS, 70, 50)
    commit(world, NEXT, ORDERS, 10, 0)
    to_consumer(world, NEXT)
    world.streams_group(STREAMS, PAYMENTS, stopped=True)
    for member in (live, new, gone):
        members.stable(member, partitions=2)
    gone.kill()
    for member in (live, new):
        commit_to(world, member, 10)


def fill(world: KafkaWorld, topic: str, *ends: int) -> str:
    """A topic whose records are old, a minute apart, and stay; returns its name."""
    world.topic(topic, len(ends), {"retention.ms": "-1"})
    for partition, end in enumerate(ends):
        world.produce_at(topic, partition, [_FIRST_RECORD_MS + _MINUTE_MS * number for number in range(end)])
    return topic


def commit(world: KafkaWorld, group: str, topic: str, *offsets: int) -> None:
    """What a group has committed on the first partitions of a topic."""
    world.commit(group, {(topic, number): (offset, "the app's own", 0) for number, offset in enumerate(offsets)})
