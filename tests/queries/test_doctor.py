"""The doctor reads many groups in parts, which share its time limits."""

from __future__ import annotations

import io
from typing import Any, cast

from kgroup.cluster.snapshot import Cluster
from kgroup.output.reporter import StderrReporter
from kgroup.queries.doctor import GroupsReader, ScanDepth


class Read:
    """A group, as far as its log is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_what_the_parts_did_not_read_is_noted_once() -> None:
    reader = GroupsReader(cast(Cluster, None), ScanDepth(0, 0.0), 3)

    for name in ("a", "b", "c"):
        assert list(reader.logs([cast(Any, Read(name))], 1, 0).unread) == [name]

    stderr = io.StringIO()
    reader.note(StderrReporter(stderr))
    assert stderr.getvalue() == (
        "note: the past of 3 of 3 groups was not read back to --since: "
        "__consumer_offsets was not read (--scan-time 0s)\n"
    )
