"""``kgroup wait`` for a user who may not see everything: what can't be known is not believed, nor waited for."""

from __future__ import annotations

from tests.commands.test_rights import CLUSTER, EVERYTHING, HISTORY, Bob, bob, broker, group, settled, topic, without

__all__ = ("bob", "broker", "settled")


def test_unknown_sessions(bob: Bob) -> None:
    """Neither the classic group's history nor the consumer group's settings may be read."""
    bob.may(*without(HISTORY))
    result = bob("wait", "old", "new", "--for", "empty", "--within", "0s", "-o", "json", exit_code=8)
    assert result.stderr.count("session timeout unknown") == 2
    assert [found["remaining"][0]["session_ends_in_ms"] for found in result.data] == [None, None]
    held = bob("wait", "idle", "--for", "empty", "--hold", "300ms", "--within", "9s")
    assert "DONE" in held.stdout


def test_group_that_may_not_be_described(bob: Bob) -> None:
    """The listing still tells its state; without that no right comes by waiting: 4 at once."""
    bob.may(*without(group("old")))
    bob("wait", "old", "idle", "--for", "empty", "--within", "0s", exit_code=8)
    bob.may(*without(group("old"), CLUSTER))
    assert "no DESCRIBE on this group" in bob("wait", "old", "idle", "--for", "empty", exit_code=4).stderr


def test_members_that_may_not_be_seen(bob: Bob) -> None:
    """A topic of a consumer group hides its members; its state is known all the same."""
    bob.may(*without(topic("secret")))
    bob("wait", "new", "--for", "stable", "--within", "9s")
    bob("wait", "new", "--for", "empty", "--within", "0s", exit_code=8)
    bob("wait", "new", "--for", "members=1", exit_code=4)
    for name in ("old", "new"):
        bob("wait", name, "--for", "lag=1000", exit_code=4)


def test_hidden_commits_are_said(bob: Bob) -> None:
    """The broker leaves out commits on topics that may not be described: no bound of a lag holds, and 4 at once."""
    bob.may(*without(topic("secret")))
    for bound in ("lag=1000", "lag-time=1h"):
        named = bob("wait", "idle", "--for", bound, "-o", "json", exit_code=4)
        assert "idle: 1 commit on secret hidden: no DESCRIBE on Topic" in named.stderr
    bob.may(*without(topic("secret"), HISTORY))
    unknown = bob("wait", "idle", "--for", "lag=1000", exit_code=4)
    assert "commits on topics that you may not describe may be missing" in unknown.stderr
    bob("wait", "idle", "--for", "empty")
    bob.may(*EVERYTHING)
    assert "note:" not in bob("wait", "idle", "--for", "lag=1000", "--within", "2s").stderr
