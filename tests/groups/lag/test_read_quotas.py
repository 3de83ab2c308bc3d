"""Quotas that may be why a group reads slowly, and those that cannot be."""

from __future__ import annotations

import pytest

from kgroup.groups.lag.read_quotas import LARGEST_RECORD_BYTES, quota_words
from kgroup.model.read_quota import EACH, ReadQuota
from tests.helpers.cases.lag import group, member

PAY = ReadQuota(300, "pay-0")
MEMBERS = (member("pay-0"), member("pay-1"))


@pytest.mark.parametrize(
    ("quotas", "begins"),
    [
        ((), None),
        ((PAY,), "client id pay-0 may read 300 B/s at each broker (quota): that slows its members, or"),
        ((ReadQuota(200, "other"), PAY), "client id pay-0 may read 300 B/s"),
        ((ReadQuota(200, "other"),), None),
        ((ReadQuota(5 * 2**20, "pay-1"), PAY), "client id pay-0 may read 300 B/s"),
        # Of each client id, unless all have their own.
        ((ReadQuota(200, EACH), PAY), "each client id may read 200 B/s"),
        ((ReadQuota(200, EACH), PAY, ReadQuota(900, "pay-1")), "client id pay-0 may read 300 B/s"),
        # Of a user: nothing shows that it is theirs. Each user is some user.
        ((ReadQuota(200, user="alice"), ReadQuota(100, EACH, "alice")), None),
        ((ReadQuota(200, user=EACH),), "each user may read 200 B/s at each broker (quota): that slows its members, "
                                       "whose user is not shown, or"),
        ((ReadQuota(200, EACH, EACH),), "each client id of each user may read 200 B/s"),
        ((ReadQuota(200, "other", "alice"),), None),
        # What it reads, 2 records a second, cannot use it up.
        ((ReadQuota(2 * LARGEST_RECORD_BYTES, "pay-0"),), "client id pay-0 may read 2.0 MiB/s"),
        ((ReadQuota(2 * LARGEST_RECORD_BYTES + 1, "pay-0"),), None),
    ],
)  # fmt: skip
def test_which_quota_may_slow_it(quotas: tuple[ReadQuota, ...], begins: str | None) -> None:
    words = quota_words(quotas, group([], MEMBERS), 2.0)

    assert (None if words is None else words[: len(begins or "")]) == begins
    assert words is None or words.endswith("or they are too slow themselves, the log does not show which")
