"""``kgroup catchup`` while its ledger takes no records, since too few of its replicas are in sync: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroup.sandbox import Sandbox
from tests.commands.test_broker_faults import three_replicas_needed
from tests.commands.test_catchup_cluster import committed, leader
from tests.support.catchup.catchups import copied, own_ledger, written
from tests.support.command_line import CommandLine
from tests.support.kafka_world import KafkaWorld
from tests.support.running import running
from tests.support.three_brokers import BROKERS, in_sync, killed, replicated
from tests.support.waiting import wait_for

pytestmark = pytest.mark.soak

Name = Callable[[str], str]


def test_a_ledger_that_takes_no_records(
    three: KafkaWorld, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Each command that has to write to it exits with 3 and changes nothing, and is done when it takes records again.

    One broker is dead all the time, and all else goes on without it.
    """
    kgroup, ledger = CommandLine(), own_ledger(monkeypatch, name("ledger"))
    topic, copy, group = replicated(three, name("orders"), 300), replicated(three, name("copy"), 0), name("svc")
    here, head = {(topic, 0): 100, (topic, 1): 100}, {(topic, 0): 300, (topic, 1): 300}
    three.commit(group, here)

    def catchup(verb: str, *words: str, exit_code: int = 0) -> str:
        return kgroup("catchup", verb, group, *words, "--execute", "--timeout", "5s", exit_code=exit_code).stderr

    def states() -> list[str]:
        return [plan["state"] for plan in kgroup("catchup", "list", group, "-o", "json").data]

    kgroup("catchup", "start", group, "--release-only", "--execute")
    victim = min(BROKERS - {three.coordinator(group), leader(three, ledger)})
    with killed(sandbox, victim):
        wait_for(lambda: not in_sync(three, ledger), "too few replicas", 60)

        with three_replicas_needed(three, ledger):
            said = catchup("cancel", exit_code=3)
            assert f"{ledger}: 1 record not acknowledged" in said
            assert f"too few replicas in sync (min.insync.replicas) rejects them: {ledger}" in said
            assert (committed(three, group), states()) == (head, ["released"])
        catchup("cancel")
        assert (committed(three, group), states()) == (here, ["cancelled"])

        with three_replicas_needed(three, ledger):
            assert f"{ledger}: 2 records not acknowledged" in catchup("start", "--release-only", exit_code=3)
            assert committed(three, group) == here
        assert states() == ["cancelled"]
        catchup("start", "--release-only")

        to = ("--to-topic", copy, "--master", "local[2]")
        with three_replicas_needed(three, ledger):
            catchup("resume", *to, exit_code=3)
            catchup("stop", exit_code=3)
        catchup("stop")
        assert committed(three, group) == head
        assert written(three, copy) == 0

        resume = ("catchup", "resume", group, *to, "--rate", "60/s", "--execute", "--timeout", "5s")
        with running(*resume) as process:
            wait_for(lambda: written(three, copy) > 0, "records", 60)
            with three_replicas_needed(three, ledger):
                stopped = process.ends(3)
        assert "400 offsets not delivered; to continue: kgroup catchup resume" in stopped.stderr
        assert copied(three, copy) == []
        assert "VERIFIED" in catchup("resume", "--master", "local[2]", "--rate", "none")

    places = [f"{topic}:{partition}:{offset}" for partition in (0, 1) for offset in range(100, 300)]
    assert copied(three, copy) == sorted(places)
    assert committed(three, group) == head
