"""Live members of groups: real consumers of both protocols, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

_SCRIPT = Path(__file__).with_name("consumer_process.py")


class Member:
    """One consumer; ``assignment`` is what it holds now, None before its first rebalance.

    ``generation`` and ``member_id`` are what the client itself knows, if it is ``telling``, else None.
    """

    def __init__(self, what: dict[str, Any]) -> None:
        self.what = what
        self._start()

    def _start(self) -> None:
        self.assignment: list[tuple[str, int]] | None = None
        self.generation: int | None = None
        self.member_id: str | None = None
        self.holding = False
        self.commits = 0
        self.process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), json.dumps(self.what)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def may_idle_unseen(self) -> bool:
        """librdkafka calls nothing back when a member of the consumer protocol gets no partitions."""
        return bool(self.what["settings"].get("group.protocol") == "consumer")

    def commit(self) -> None:
        """Commit what it has polled, and wait until that is done."""
        before = self.commits
        self._tell("commit")
        wait_for(lambda: self.commits > before, "a commit")

    def hold(self) -> None:
        """Stop polling, so that it can neither give partitions up nor rejoin; its heartbeats go on."""
        self._tell("hold")
        wait_for(lambda: self.holding, "a held member")

    def go(self) -> None:
        """Poll again."""
        self._tell("go")
        wait_for(lambda: not self.holding, "a member that polls again")

    def _tell(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Leave as a client that is shut down does."""
        assert self.process.stdin
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(30)

    def start_again(self) -> None:
        """End, and join anew."""
        self.end()
        self._start()

    def kill(self) -> None:
        """Die as a client that crashes does: kill -9."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        """Hang: SIGSTOP, no heartbeat any more."""
        self.process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        """Kill it, and give back its pipes."""
        self.kill()
        self._listener.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            said = json.loads(line)
            if "assignment" in said:
                self.generation, self.member_id = said.get("generation"), said.get("member_id")
                self.assignment = [(topic, number) for topic, number in said["assignment"]]
            self.holding = said.get("holding", self.holding)
            self.commits += "committed" in said


def commit_to(world: KafkaWorld, member: Member, offset: int) -> None:
    """Let it commit until all that its group has committed stands there: it may not have polled so far yet."""

    def there() -> bool:
        member.commit()
        return {found for found, _ in world.committed(member.what["group"]).values()} == {offset}

    wait_for(there, f"{member.what['group']} at {offset}")


class Members:
    """Starts members and ends them all when the block ends."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.started: list[Member] = []
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for member in self.started:
            member.end()
        self._admin.close()
        self._admin._net.close()  # which its own close() forgets

    def classic(self, group: str, *topics: str, assignor: str = "range", **settings: Any) -> Member:
        """A classic member (librdkafka). ``group_instance_id`` for ``group.instance.id``."""
        return self._classic(group, topics, assignor, settings, telling=False)

    def telling(self, group: str, *topics: str, assignor: str = "range", **settings: Any) -> Member:
        """A classic member that tells its generation and its member id."""
        return self._classic(group, topics, assignor, settings, telling=True)

    def _classic(
        self, group: str, topics: tuple[str, ...], assignor: str, settings: dict[str, Any], *, telling: bool
    ) -> Member:
        # A machine that stands still for a moment must not expel it: tests that wait for the end of a session say so.
        usual = {"partition.assignment.strategy": assignor, "session.timeout.ms": 15_000, "heartbeat.interval.ms": 100}
        return self._start(group, topics, {**usual, **_dotted(settings)}, telling=telling)

    def consumer(self, group: str, *topics: str, **settings: Any) -> Member:
        """A member of the consumer protocol (KIP-848, librdkafka). ``group_instance_id`` for ``group.instance.id``."""
        return self._start(group, topics, {"group.protocol": "consumer", **_dotted(settings)}, telling=False)

    def stable(self, *members: Member, partitions: int, idle: int | None = None, within_s: float = 40.0) -> None:
        """Wait until these members hold ``partitions`` partitions in all, each at one member only, and are Stable.

        ``idle`` is how many of them hold none; None: only those that are more than there are partitions.
        """
        left_over = max(0, len(members) - partitions) if idle is None else idle

        def settled() -> bool:
            held = [place for member in members for place in member.assignment or ()]
            known = all(member.assignment is not None for member in members if not member.may_idle_unseen)
            without = sum(not member.assignment for member in members)
            agreed = len({member.generation for member in members if member.generation is not None}) <= 1
            return known and agreed and without == left_over and len(held) == partitions == len(set(held))

        what = f"{partitions} partitions over {len(members)} members"
        wait_for(settled, what, within_s)
        for group in {member.what["group"] for member in members if member.may_idle_unseen and not member.assignment}:
            self._have_joined([member for member in members if member.what["group"] == group])
        # The members have settled; the broker may be a moment behind, or a rebalance ahead.
        groups = {member.what["group"] for member in members}
        wait_for(
            lambda: self._states(groups) == dict.fromkeys(groups, "stable") and settled(),
            f"{what}, and Stable",
            within_s,
        )

    def _states(self, groups: Collection[str]) -> dict[str, str]:
        listed = {found["group_id"]: found["group_state"].lower() for found in self._admin.list_groups()}
        return {group: str(listed.get(group)) for group in groups}

    def _have_joined(self, members: Sequence[Member]) -> None:
        """Wait for those of a group that say nothing of their own."""
        group = members[0].what["group"]
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def there() -> bool:
            return len(client.describe_consumer_groups([group])[group].result(30).members) >= len(members)

        wait_for(there, f"{len(members)} members of {group}")

    def _start(self, group: str, topics: tuple[str, ...], settings: dict[str, Any], *, telling: bool) -> Member:
        member = Member(
            {
                "telling": telling,
                "bootstrap": self.bootstrap,
                "group": group,
                "topics": list(topics),
                "settings": settings,
            }
        )
        self.started.append(member)
        return member


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in settings.items()}
