"""Java's share consumers accept, reject, release, are killed and are slow: kgroup concludes what Kafka's tools show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kgroup.cluster.group_partition import partition_of
from tests.helpers.command_line import CommandLine
from tests.helpers.java import JavaClients
from tests.helpers.kafka_tools import SHARE_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

STATES, STATE_PARTITIONS = "__share_group_state", 50
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
AVAILABLE, ARCHIVED = 0, 4
LIMIT, LOCK_MS, SLOW_MS = 4, 1000, 1500


def kind_of(state: int, count: int) -> str:
    return "archived" if state == ARCHIVED else "last-attempt" if count == LIMIT - 1 else "retried"


@dataclass
class Jobs:
    """A share group with one partition of six records, in kgroup's answers and in those of Kafka's tools."""

    kgroup: CommandLine
    kafka_tool: KafkaTools
    world: KafkaWorld
    topic: str
    group: str
    written: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(first offset, last offset, delivery state, delivery count), in the order of the log."""

    def read(self, verb: str, *words: str) -> list[dict[str, Any]]:
        return self.kgroup(verb, self.group, *words, "-o", "json").data

    def row(self) -> dict[str, Any]:
        (document,) = self.read("describe")
        (row,) = document["partitions"]
        return dict(row)

    def findings(self) -> dict[str, dict[str, Any]]:
        (document,) = self.read("doctor")
        assert document["unchecked_rules"] == []
        return {finding["rule"]: finding["numbers"] for finding in document["findings"]}

    def deliveries(self) -> dict[int, tuple[int, int]]:
        """State and delivery count by offset of what came back or is archived: the same in kgroup and Kafka's tools."""
        (document,) = self.read("describe")
        (row,) = document["partitions"]
        ((_, topic, partition, start, lag),) = self.tool("--offsets")
        assert (topic, partition, start, lag) == (self.topic, "0", str(row["committed"]), str(row["lag"]))
        assert [cells[1] for cells in self.tool("--members")] == [each["member_id"] for each in document["members"]]
        assert [each["lag"] for summary in self.read("lag") for each in summary["partitions"]] == [row["lag"]]
        told = self.of_the_formatter()
        peeked = [each for peeked in self.read("peek", "-n", "6") for each in peeked["deliveries"]]
        assert {each["offset"]: (each["kind"], each["delivery_count"]) for each in peeked} == {
            offset: (kind_of(*state), state[1]) for offset, state in told.items()
        }
        counts = Counter(each["kind"] for each in peeked)
        assert row["retried_count"] == counts["retried"] + counts["last-attempt"]
        assert (row["last_attempt_count"], row["archived_count"]) == (counts["last-attempt"], counts["archived"])
        return told

    def of_the_formatter(self) -> dict[int, tuple[int, int]]:
        """What Kafka's formatter shows of ``__share_group_state``: later writes replace earlier ones."""
        number = partition_of(f"{self.group}:{self.world.topic_id(self.topic)}:0", STATE_PARTITIONS)
        count = self.world.end(STATES, number) - self.world.start(STATES, number)
        place = ("--topic", STATES, "--partition", str(number), "--offset", "earliest", "--max-messages", str(count))
        said = self.kafka_tool(
            CONSUMER,
            "--bootstrap-server",
            self.world.bootstrap,
            *place,
            "--formatter",
            FORMATTER,
            "--timeout-ms",
            "9000",
        )
        lines = said.stdout.replace('}{"key"', '}\n{"key"').splitlines()  # it ends no line
        records = [json.loads(line) for line in lines if line.startswith("{")]
        self.written = [
            (batch["firstOffset"], batch["lastOffset"], batch["deliveryState"], batch["deliveryCount"])
            for record in records
            if record["key"]["data"]["groupId"] == self.group
            for batch in record["value"]["data"]["stateBatches"]
        ]
        states = {
            offset: (state, count) for first, last, state, count in self.written for offset in range(first, last + 1)
        }
        return {offset: each for offset, each in states.items() if each[0] in (AVAILABLE, ARCHIVED)}

    def tool(self, part: str) -> list[list[str]]:
        """The rows of kafka-share-groups.sh --describe."""
        words = ("--bootstrap-server", self.world.bootstrap, "--describe", "--group", self.group, part)
        return [
            line.split()
            for line in self.kafka_tool(SHARE_GROUPS, *words).stdout.splitlines()
            if line.startswith(self.group)
        ]


@pytest.mark.soak
def test_killed_and_slow(
    kgroup: CommandLine, kafka_tool: KafkaTools, world: KafkaWorld, name: Name, bystander: str
) -> None:
    """What a killed consumer held comes back at once, and what a slow one has accepted too late is lost in the end."""
    jobs = Jobs(kgroup, kafka_tool, world, world.topic(name("orders")), name("jobs"))
    world.produce(jobs.topic, 6)
    settings = {"share_delivery_count_limit": str(LIMIT), "share_session_timeout_ms": "5000"}
    world.configure_group(jobs.group, share_auto_offset_reset="earliest", **settings)

    with JavaClients(world.bootstrap) as clients:
        clients.share("killed", jobs.topic, jobs.group, does="1:REJECT,2:RELEASE,3:HOLD")
        wait_for(lambda: "holds" in clients.said("killed"), "a record that is held")
        # What is held for the first time is in no answer of a broker.
        assert jobs.deliveries() == {1: (ARCHIVED, 1), 2: (AVAILABLE, 1)}
        assert jobs.row()["lag"] == 2
        clients.kill()
    with JavaClients(world.bootstrap) as clients:
        # Its lock is of 30 s: the broker has seen the connection end.
        wait_for(lambda: jobs.row()["retried_count"] == 2, "the record that it held", 20)
        came_back = jobs.deliveries()
        # It may have fetched 2 once more, for its next poll.
        assert came_back.pop(2) in ((AVAILABLE, 1), (AVAILABLE, 2))
        assert came_back == {1: (ARCHIVED, 1), 3: (AVAILABLE, 1)}
        assert (jobs.row()["committed"], jobs.row()["lag"]) == (2, 2)
        kgroup("wait", jobs.group, "--for", "lag=0", "--within", "100ms", exit_code=8)
        waited = kgroup("wait", jobs.group, "--for", "empty", "--within", "30s").stderr
        assert "killed 127.0.0.1, session ends within 5s if it is gone" in waited
        assert jobs.findings() == {"share-no-reader": {"lag": 2}}

        world.configure_group(jobs.group, share_record_lock_duration_ms=str(LOCK_MS))
        clients.share("slow", jobs.topic, jobs.group, does=f"3:{SLOW_MS}")
        (done,) = kgroup("wait", jobs.group, "--for", "lag=0", "--within", "60s", "-o", "json").data
        # It commits 2 together with 3, if it polled both: then that is too late as well.
        assert done["archived_count"] in (1, 2)
        assert {1: (ARCHIVED, 1), 3: (ARCHIVED, LIMIT)}.items() <= jobs.deliveries().items()
        assert [line for line in clients.said("slow") if line.startswith("3 ")] == ["3 x2", "3 x3", "3 x4"]
        assert [count for first, last, _, count in jobs.written if first <= 3 <= last] == [1, 2, 3, 4]
        assert jobs.findings() == {
            "share-archived": {"offset_count": done["archived_count"], "at_limit_count": done["archived_count"]},
            "share-lock": {"offset_count": done["archived_count"], "lock_ms": LOCK_MS},
        }
