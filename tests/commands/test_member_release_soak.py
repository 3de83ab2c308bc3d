"""A group with the listener of ``kgroup.consumer`` under load: members die again and again, and no record is lost."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path

import pytest

from kgroup.groups.catchup.model import PlanState
from tests.helpers.catchup.catchups import LOCAL, copied
from tests.helpers.catchup.listeners import PROTOCOLS
from tests.helpers.catchup.listening_group import ROUNDS, Account, ListeningGroup, Round
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import ProxiedBroker
from tests.helpers.running import running

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("importable")]

Name = Callable[[str], str]
Groups = Callable[[str], ListeningGroup]

PLAYED = 8
"""How many rounds of each protocol; 30 need three minutes each."""
LOG = logging.getLogger(__name__)


@pytest.fixture
def groups(proxied: ProxiedBroker, name: Name, ledger: str, tmp_path: Path) -> Groups:
    return lambda protocol: ListeningGroup(proxied, protocol, name("orders"), name("svc"), ledger, tmp_path)


def play(kgroup: CommandLine, group: ListeningGroup, rounds: Iterable[Round]) -> Account:
    """What became of the records, when all rounds are over, and each plan is released or closed."""
    chance = random.Random(group.protocol)
    with group.running() as load:
        for played in rounds:
            group.play(played, load, chance)
    for plan in group.plans():
        if plan.state.state is PlanState.RELEASING:  # the group is Empty: its commits decide
            kgroup("catchup", "resume", plan.plan.id, "--release-only", "--execute", exit_code=None)

    assert group.falls() == []
    account, states = group.account(load), Counter(plan.state.state.value for plan in group.plans())
    LOG.info("%s: %s; plans: %s", group.protocol, account, dict(states))
    assert states.keys() == {"released", "cancelled"}
    return account


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_record_is_lost_and_none_comes_twice(kgroup: CommandLine, groups: Groups, protocol: str) -> None:
    """... but those that a member had processed and not committed."""
    account = play(kgroup, groups(protocol), islice(cycle(ROUNDS.values()), PLAYED))

    assert (account.lost, account.twice) == ([], [])
    assert account.handled
    assert account.gaps


def test_the_application_and_the_replay_have_all_records(
    kgroup: CommandLine, proxied: ProxiedBroker, groups: Groups, name: Name
) -> None:
    group, copy = groups("cooperative"), proxied.world.topic(name("copy"))
    account = play(kgroup, group, [ROUNDS[f"killed {when} its commit"] for when in ("before", "after")])
    words = ("catchup", "resume", "--all-pending", group.group, "--to-topic", copy, *LOCAL, "--execute")

    with running(*words) as replays:
        replays.ends(0, 240)

    again = Counter(" ".join(source.rsplit(":", 1)) for source in copied(proxied.world, copy))
    assert again == account.gaps
    assert account.handled.keys() | again.keys() == account.produced
    assert account.twice == []
