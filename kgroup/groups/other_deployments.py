"""Members of another deployment in a group, as of a staging system in the group of production. Pure.

They take partitions, and what they read the others do not: the group looks healthy. Only client ids and hosts show
them. Client ids of one deployment differ in numbers, letters and generated ids alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from kgroup.groups.member_labels import labels
from kgroup.groups.thresholds import SETTLED
from kgroup.model.group_log import Event, GenerationWritten, MemberWritten
from kgroup.model.groups import Group, Member
from kgroup.model.migration_facts import is_own_member
from kgroup.support.instants import short_time
from kgroup.support.units import some_of

ClientWords: TypeAlias = tuple[str, ...]
"""What is left of a client id without numbers and generated ids."""

TEST_WORDS = frozenset(
    {"acceptance", "dev", "develop", "development", "local", "localhost", "loadtest", "preprod", "qa", "sandbox"}
    | {"stage", "staging", "stg", "test", "testing", "tst", "uat"}
)
"""ClientWords by which a deployment that is not production is named. A canary belongs to production."""

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"
"""Of these Kubernetes makes the 5 letters of a pod, and the 8 to 10 of its template: none is a vowel."""


class OtherDeployment(msgspec.Struct, frozen=True):
    """The members of another deployment, with their hosts, and how many partitions they have of how many.

    ``since_ms`` is when the first of them joined; None: before what was read. ``sure`` is whether a word of their
    client ids names another environment.
    """

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    partitions: int
    of: int
    since_ms: int | None
    sure: bool

    def words(self, now_ms: int) -> str:
        """``orders-staging-0 (10.0.3.4) is of another deployment by its client id: it has 2 of 4 partitions ...``."""
        one = len(self.names) == 1
        since = "" if self.since_ms is None else f" since {short_time(self.since_ms, now_ms)}"
        what = "by its client id" if one else "by their client ids"
        doubt = "" if self.sure else ", or one that names its members so, the log does not show which"
        are, have = ("is", "it has") if one else ("are", "they have")
        return (
            f"{some_of(self.names)} ({some_of(self.hosts)}) {are} of another deployment {what}{doubt}: {have} "
            f"{self.partitions} of {self.of} partitions{since}, whose records no other member gets"
        )


def deployment_words(client_id: str) -> ClientWords:
    """``("orders", "staging")`` of ``orders-staging-7f9c6d5b8-x2x4z``, ``Orders_Staging_b``."""
    tokens = re.split(r"[^a-z0-9]+", re.sub(_UUID, "", client_id.lower()))
    words = (_word(token) for token in tokens)
    return tuple(word for word in words if word)


def _word(token: str) -> str:
    """A token without the number at its end; empty if it is a letter, a number or an id."""
    if re.fullmatch(f"{_GENERATED}{{5}}|{_GENERATED}{{8,10}}", token):
        return ""
    word = token.rstrip("0123456789")
    return "" if len(word) < 2 or re.search(r"\d", word) or (word != token and len(word) < 3) else word


def other_deployment(group: Group, events: Iterable[Event], now_ms: int) -> OtherDeployment | None:
    """The members whose client ids have other words, if they have partitions; None without any.

    A word of another environment is enough. Otherwise they came later, from other hosts, and the ones before are still
    there after longer than a rollout pauses. If each member has words of its own, they are names.
    """
    by_words: dict[ClientWords, list[Member]] = {}
    for member in group.members or ():
        if not is_own_member(member) and (words := deployment_words(member.client_id)):
            by_words.setdefault(words, []).append(member)
    if len(by_words) < 2 or group.is_rebalancing:
        return None
    since_ms = _since_ms(events)
    # A group may be that of a test itself, and then its own name, or most of its members, have such a word.
    test_words = TEST_WORDS.difference(deployment_words(group.name))
    test = {words for words in by_words if not test_words.isdisjoint(words)}
    count = sum(len(members) for words, members in by_words.items() if words in test)
    if 0 < 2 * count <= sum(map(len, by_words.values())) and len(test) < len(by_words):
        return _found(group, by_words, test, since_ms, sure=True)
    if group.type == "consumer" and not by_words.keys() <= since_ms.keys():
        return None  # who came first is unknown: a member that restarts has a new record, one that stays has none
    if len(by_words) > 2 and all(len(members) == 1 for members in by_words.values()):
        return None
    first = min(by_words, key=lambda words: (since_ms.get(words) or 0, -len(by_words[words]), words))
    hosts = {member.host for member in by_words[first]}
    later = {
        words
        for words, members in by_words.items()
        if (came_ms := since_ms.get(words)) is not None
        and came_ms > (since_ms.get(first) or 0)
        and now_ms - came_ms > SETTLED.value
        and hosts.isdisjoint(member.host for member in members)
    }
    return _found(group, by_words, later, since_ms, sure=False)


def _found(
    group: Group,
    by_words: Mapping[ClientWords, list[Member]],
    others: set[ClientWords],
    since_ms: Mapping[ClientWords, int | None],
    *,
    sure: bool,
) -> OtherDeployment | None:
    members = [member for words in sorted(others) for member in by_words[words] if member.partition_count]
    if not members:
        return None
    names = labels(group)
    times_ms = [since_ms.get(words) for words in others]
    known_ms = [at_ms for at_ms in times_ms if at_ms is not None]
    return OtherDeployment(
        tuple(names[member.member_id] for member in members),
        tuple(dict.fromkeys(member.host.removeprefix("/") for member in members)),
        sum(member.partition_count or 0 for member in members),
        sum(member.partition_count or 0 for member in group.members or ()),
        min(known_ms) if known_ms and len(known_ms) == len(times_ms) else None,
        sure,
    )


def _since_ms(events: Iterable[Event]) -> dict[ClientWords, int | None]:
    """When client ids with these words first joined; None: they were there in the oldest generation that was read."""
    since_ms: dict[ClientWords, int | None] = {}
    begun = False
    for event in events:
        if isinstance(event, GenerationWritten):
            at_ms = event.at_ms if begun or event.generation <= 1 else None
            for member in event.members:
                since_ms.setdefault(deployment_words(member.client_id), at_ms)
            begun = True
        elif isinstance(event, MemberWritten) and event.details is not None:
            since_ms.setdefault(deployment_words(event.details.client_id), event.at_ms)
    return since_ms
