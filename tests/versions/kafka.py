"""A real broker of another version: jars, pinned as the sandbox's own are, and ``sandbox up --jars``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgroup.sandbox import ports
from kgroup.sandbox.cluster import cache_directory, find_distribution
from kgroup.sandbox.distribution import Distribution, fetch_distribution
from kgroup.sandbox.manifest import Manifest, parse_manifest, sandbox_manifest
from kgroup.support.java_home import find_java
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_tools import run_tool
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.versions.zookeeper import broker_with_zookeeper

MANIFESTS = Path(__file__).parent / "jars"
FIRST_KRAFT = "3.3"
"""The first release whose KRaft is for production; the sandbox knows no ZooKeeper."""

_TOOL_OF_OLD = "kafka.admin.ConsumerGroupCommand"
_TOOLS = "org.apache.kafka.tools"
_TOOL = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
"""kafka-consumer-groups.sh, before Kafka 3.5 and since."""
_OF_KINDS = {
    "share": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "streams": f"{_TOOLS}.streams.StreamsGroupCommand",
}
"""kafka-share-groups.sh and kafka-streams-groups.sh. They list their own kind; kafka-groups.sh lists all."""

Cell = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(frozen=True)
class Described:
    """A partition of a group in the own tool's ``--describe``; what it has no number for is ``-``."""

    committed: str
    end: str
    lag: str
    client_id: str


@dataclass(frozen=True)
class Kafka:
    """A running broker of ``version``, its own tool, and plain clients of it."""

    version: str
    bootstrap: str
    world: KafkaWorld
    members: Members
    distribution: Distribution
    state_directory: Path

    @property
    def kraft(self) -> bool:
        """Whether it runs without ZooKeeper."""
        return self.version >= FIRST_KRAFT

    @property
    def new_protocol(self) -> bool:
        """Whether it speaks the consumer protocol (KIP-848), as 4.0 and later do by default."""
        return self.version >= "4"

    def __call__(self, *arguments: str) -> str:
        """What its own kafka-consumer-groups.sh prints."""
        return self._run(_TOOL_OF_OLD if self.version < "3.5" else _TOOL, *arguments)

    def _run(self, main: str, *arguments: str) -> str:
        done = run_tool(main, ["--bootstrap-server", self.bootstrap, *arguments], kafka=self.distribution)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Error" not in done.stdout, done.stdout
        return done.stdout

    def listed(self) -> set[tuple[str, str]]:
        """(group, state) of ``--list --state``, in lower case."""
        rows = _table(self("--list", "--state", "--timeout", "30000"))
        return {(row["GROUP"], row["STATE"].lower()) for row in rows}

    def of_all_kinds(self) -> set[tuple[str, str, str]]:
        """(group, type, protocol) of kafka-groups.sh, the type in lower case; the protocol is "" if it shows none."""
        rows = [line.split() for line in self._run(f"{_TOOLS}.GroupsCommand", "--list").splitlines()]
        return {(row[0], row[1].lower(), "".join(row[2:])) for row in rows if row and row[0] != "GROUP"}

    def of_kind(self, kind: str) -> set[str]:
        """What kafka-share-groups.sh or kafka-streams-groups.sh lists."""
        return set(self._run(_OF_KINDS[kind], "--list").split())

    def of_share_group(self, group: str) -> dict[tuple[str, int], tuple[int, int | None]]:
        """Start offset and lag by partition, of kafka-share-groups.sh --describe, where there are any."""
        rows = _table(self._run(_OF_KINDS["share"], "--describe", "--group", group, "--timeout", "30000"))
        return {
            (row["TOPIC"], int(row["PARTITION"])): (
                int(row["START-OFFSET"]),
                int(row["LAG"]) if row["LAG"] != "-" else None,
            )
            for row in rows
            if row["START-OFFSET"] != "-"
        }

    def lines_of_streams(self, group: str, word: str) -> list[str]:
        """Those of kafka-streams-groups.sh ``--describe --verbose`` and this option, without the header."""
        said = self._run(_OF_KINDS["streams"], "--describe", "--group", group, "--verbose", word)
        return [line for line in said.splitlines() if line.split()[:1] == [group]]

    def states(self) -> dict[str, tuple[str, str, int]]:
        """``--describe --state``: state in lower case, assignor or ``-``, number of members."""
        rows = _table(self("--describe", "--all-groups", "--state", "--timeout", "30000"))
        return {row["GROUP"]: (row["STATE"].lower(), row["ASSIGNMENT-STRATEGY"], int(row["#MEMBERS"])) for row in rows}

    def members_of(self, group: str) -> set[tuple[str, str, str, int]]:
        """``--describe --members``: id, host, client id and number of partitions of each."""
        rows = _table(self("--describe", "--group", group, "--members", "--timeout", "30000"))
        return {(row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"], int(row["#PARTITIONS"])) for row in rows}

    def described(self) -> dict[Cell, Described]:
        """``--describe --all-groups``."""
        rows = _table(self("--describe", "--all-groups", "--timeout", "30000"))
        return {
            (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): Described(
                row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"], row["CLIENT-ID"]
            )
            for row in rows
        }

    def planned(self, group: str, topic: str, *scenario: str) -> dict[Cell, int]:
        """The offsets of ``--reset-offsets --dry-run``, exported: the table of 3.9.1 is one line (seen)."""
        words = ("--group", group, "--topic", topic, *scenario, "--dry-run", "--export", "--timeout", "30000")
        lines = [line.split(",") for line in self("--reset-offsets", *words).splitlines() if line.count(",") == 2]
        return {(group, name, int(partition)): int(offset) for name, partition, offset in lines}


def _table(text: str) -> list[dict[str, str]]:
    """Rows by heading; a heading begins each group's part, and lines that are not as long are said in between."""
    heading: list[str] = []
    rows = []
    for line in text.splitlines():
        cells = line.split()
        if cells[:1] == ["GROUP"]:
            heading = cells
        elif heading and len(cells) == len(heading):
            rows.append(dict(zip(heading, cells, strict=True)))
    return rows


def manifest_of(version: str) -> Manifest:
    """The jars of a version; those of the sandbox's own are the sandbox's."""
    own = sandbox_manifest()
    if version == own.kafka_version:
        return own
    return parse_manifest((MANIFESTS / f"{version}.txt").read_text(encoding="utf-8"))


@contextmanager
def running_kafka(version: str, directory: Path) -> Iterator[Kafka]:
    """Fetched where it is not there yet (a failure, where that can't be), and up while the block runs."""
    found = fetch_distribution(cache_directory(), find_java(os.environ), QuietReporter(), manifest_of(version))
    jars = found.classpath[0].parent
    kraft = version >= FIRST_KRAFT
    broker = _sandbox(version, jars, directory) if kraft else broker_with_zookeeper(found, directory)
    with broker as bootstrap, KafkaWorld(bootstrap) as world, Members(bootstrap) as members:
        # The sandbox has made a class data archive for these jars, with which the tool starts faster.
        tool = find_distribution(jars, QuietReporter()) if kraft else found
        yield Kafka(version, bootstrap, world, members, tool, directory)


@contextmanager
def _sandbox(version: str, jars: Path, directory: Path) -> Iterator[str]:
    kgroup = CommandLine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGROUP_STATE_DIR", str(directory))
        settings = [word for key, value in BROKER_PROPERTIES.items() for word in ("--set", f"{key}={value}")]
        try:
            # Not the port that every user's sandbox prefers: other tests have theirs there.
            (port,) = ports.choose(1)
            up = ("sandbox", "up", "--jars", str(jars), "--port", str(port), *settings)
            (status,) = kgroup(*up, "-o", "json").data
            assert status["version"] == version
            yield status["bootstrap_servers"]
        finally:
            kgroup("sandbox", "down", "--wipe")
