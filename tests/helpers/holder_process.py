"""A process that holds a group as a run of a catch-up does, told what to be by JSON in its argument.

``{"bootstrap", "group", "kind", "places": [[topic, partition], ...], "session_ms"}``. It prints a JSON line
``{"held": true}`` when it does, or the error; for each line of its standard input it answers: ``commit OFFSET`` with
what became of it (null, or the error's code), ``alone`` likewise; it leaves when that ends, and prints
``{"left": true}``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kgroup.cluster.membership import exclusive
from kgroup.cluster.membership.exclusive import ExclusiveMembership
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import KgroupError
from tests.helpers.command_line import QuietReporter


def main() -> None:
    """Hold until standard input ends."""
    what = json.loads(sys.argv[1])
    settings = resolve(Connection(bootstrap_server=what["bootstrap"], timeout="8s"), QuietReporter(), environ={})
    places = [TopicPartition(topic, number) for topic, number in what["places"]]
    if what["session_ms"]:
        exclusive._SESSION_TIMEOUTS_MS = (what["session_ms"],)
    with ChangingCluster(settings) as cluster:
        try:
            with cluster.join_exclusively(what["group"], what["kind"], places) as membership:
                _say(held=True)
                for line in sys.stdin:
                    _say(answer=_answer(membership, places, line.split()))
        except KgroupError as error:
            _say(error=error.code, message=error.message)
        except KeyboardInterrupt:
            _say(interrupted=True)
    _say(left=True)


def _answer(membership: ExclusiveMembership, places: list[TopicPartition], words: list[str]) -> str | None:
    try:
        if words[0] == "alone":
            membership.verify_only_member()
            return None
        results = membership.commit({place: Commit(int(words[1]), None, "held") for place in places})
    except KgroupError as error:
        return error.code
    return next((error.code for error in results.values() if error), None)


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
