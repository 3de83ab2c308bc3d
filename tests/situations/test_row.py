"""The table itself."""

import re

import pytest

from tests.situations.programs.member import Life
from tests.situations.row import Action, Later, Moment, Row, Says
from tests.situations.table import ROWS

COMMITS = re.compile(r"auto|store|each|batch|(timer|last):\d+|none|flip|txn|fixed:\d+@\d+s")
WAYS = re.compile(r"none|seek|seek\+commit|pause|block|close-exit|kill9|dlq|(retry|slow):\d+|abort")
OF_JAVA = {
    "java": re.compile(r"none|seek(:\d+)?|pause|throw"),
    "streams": re.compile(r"none|throw:(REPLACE_THREAD|SHUTDOWN_CLIENT)"),
    "connect": re.compile(r"none|fail"),
}
SUBSCRIBES = re.compile(r"topics|assign(:\d+(,\d+)*)?|typo")
SUBSCRIBES_JAVA = re.compile(r"topics|assign|pattern")
CLOSES = {"term", "end", "start"}
DONE = re.compile(
    r"poison|quiet|feed|kill|term|end|stop|cont|start|break|mend|reset|partitions|delete-records|delete|recreate"
    r"|records|keyed|old-records|open-transaction|hang-transaction|pending|quota|kgroup|(kill|freeze)-broker|start-brokers"
)
OFFSET = re.compile(r"[PBCE]([+-]\d+)?")


def test_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_row_is_of_one_piece(row: Row) -> None:
    """Its programs read its topics, its places are of its topics, its offsets are symbols."""
    assert {topic for program in row.programs for topic in program.topics} <= set(row.topics)
    names = [program.name for program in row.programs]
    assert len(names) == len(set(names))
    later = row.later.at if row.later else ()
    assert not later or later[0].place == row.at[0].place  # of which P, B, C and E are
    for at in (*row.at, *later):
        topic, _, partition = at.place.rpartition(":")
        assert int(partition) < row.topics[topic]
        for offset in (*at.offset.split(), *at.committed.split()):
            assert OFFSET.fullmatch(offset), offset
    assert row.id.startswith("h-") == row.healthy
    assert not {program.group for program in row.programs} & set(row.topics)  # words of `kgroup` have both
    assert {program.out for program in row.programs if program.commit == "txn"} <= set(row.topics)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_row_asks_for_what_programs_can_do(row: Row) -> None:
    """A member would take a word that it does not know for `seek`."""
    for program in row.programs:
        assert COMMITS.fullmatch(program.commit), program.commit
        assert OF_JAVA.get(program.client, WAYS).fullmatch(program.bad), program.bad
        ways = SUBSCRIBES_JAVA if program.client == "java" else SUBSCRIBES
        assert ways.fullmatch(program.subscribe), program.subscribe
        assert not program.life or Life(program.life)
    assert row.replicas or not any("broker" in action.do for action in row.begin)
    assert all(len(row.replicas) == partitions for partitions in row.topics.values() if row.replicas)
    assert all(DONE.fullmatch(action.do) for action in row.begin)
    poisoned = {action.what.rpartition(":")[0] for action in row.begin if action.do == "poison"}
    for program in row.programs:
        fails = not poisoned.isdisjoint(program.topics) or Action(0, "break", program.name) in row.begin
        assert fails is (program.bad != "none"), program.name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_members_that_share_a_process_are_asked_for_what_they_can(row: Row) -> None:
    """They are no processes: one that is killed alone would take all others with it."""
    for program in row.programs:
        if program.client != "librdkafka":
            assert program.client in OF_JAVA
            assert program.commit in ("auto", "each", "batch", "none") or program.commit.startswith("timer:")
            assert (program.life, program.batch) == ("", 1)
            for action in row.begin:
                if action.what in ("", program.name, *(f"{program.name}-{n}" for n in range(program.members))):
                    assert action.do in CLOSES | {"quiet"}, action


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_sick_row_says_where_and_what_is_right(row: Row) -> None:
    for then in (row.then(moment) for moment in Moment):
        if then.healthy:
            assert not then.at
            assert then.right == Says()
            assert not row.begin or then.cause
        else:
            right = then.right
            assert row.unseen or any((right.lag, right.rules, right.describe, right.doctor, right.history))


def test_what_is_true_later_takes_the_place_of_what_was() -> None:
    row = Row("r", "hangs", (), harms=("reset",), later=Later(Moment.TWO_MINUTES, "goes on", healthy=True))
    early, late = row.then(Moment.HALF_A_MINUTE), row.then(Moment.TEN_MINUTES)
    assert (early.cause, early.harms, early.named_by) == ("hangs", ("reset",), Moment.TWO_MINUTES)
    assert (late.cause, late.harms, late.healthy) == ("goes on", (), True)
    assert late.then(Moment.HALF_A_MINUTE) == late


def test_only_a_row_that_is_sick_is_over_later() -> None:
    assert [row.id for row in ROWS if row.later and row.healthy] == []
