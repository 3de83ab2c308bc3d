"""What is read besides the logs: how fast a group committed; and rates as they are typed."""

from __future__ import annotations

import pytest

from kgroup.catchup.service.read_gap import _rates
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.gap_request import parse_rate
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError


def made(at_s: float, offset: int | None, metadata: str = "") -> CommitWritten:
    return CommitWritten(0, round(at_s * 1000), "orders", 0, offset, metadata, None, None, TransactionEnd.PLAIN)


OWN = CatchupCommitTag("cu-7f3a", 1, TagPurpose.RELEASE).metadata


@pytest.mark.parametrize(
    ("commits", "rate"),
    [
        ([], None),
        ([made(0, 5)], None),
        ([made(0, 0), made(5, 50), made(10, 200)], 20.0),
        ([made(0, 0), made(100, 1000), made(110, 1100)], 10.0),  # of the last minute
        ([made(0, 0), made(1, 900, OWN), made(2, 910), made(4, 930)], 10.0),  # another life before the release
        ([made(0, 0), made(1, None), made(2, 10)], None),  # deleted meanwhile
        ([made(0, 50), made(10, 20)], None),  # set back
        ([made(0, 7), made(10, 7)], 0.0),
    ],
)
def test_the_rate_of_the_last_commits(commits: list[CommitWritten], rate: float | None) -> None:
    assert _rates(commits).get(TopicPartition("orders", 0)) == rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("500/s", RateLimit(records_per_s=500)),
        ("2.5k/s", RateLimit(records_per_s=2500)),
        ("20MiB/s", RateLimit(bytes_per_s=20 * 1024**2)),
        ("20MB/s", RateLimit(bytes_per_s=20e6)),
        ("512B/s", RateLimit(bytes_per_s=512)),
    ],
)
def test_rates(text: str, rate: RateLimit) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["500", "0/s", "-1/s", "5/m", "fast", "", "1e9/s", "20MiB"])
def test_no_rates(text: str) -> None:
    with pytest.raises(UsageError, match="not a rate"):
        parse_rate(text)
