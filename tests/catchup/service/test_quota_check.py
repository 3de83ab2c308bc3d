"""The line of a plan about quotas."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgroup.catchup.service.quota_check import quota_finding
from kgroup.support.errors import KgroupError, NotAuthorized

SET = "--entity-type clients --entity-name kgroup-catchup --add-config consumer_byte_rate=20971520"


@pytest.mark.parametrize(
    ("quotas", "text"),
    [
        (
            {"consumer_byte_rate": 5 * 2**20},
            "a quota of each broker limits client id kgroup-catchup: consumer_byte_rate 5.0 MiB/s",
        ),
        (
            {"producer_byte_rate": 1e9, "consumer_byte_rate": 1024.0, "request_percentage": 50.0},
            "a quota of each broker limits client id kgroup-catchup: consumer_byte_rate 1.0 KiB/s, "
            "producer_byte_rate 954 MiB/s, request_percentage 50",
        ),
        ({}, "no quota limits client id kgroup-catchup; to set one:  kafka-configs.sh "),
        (
            NotAuthorized("quotas may not be read"),
            "unknown whether a quota limits client id kgroup-catchup (quotas may not be read); to set one:  ",
        ),
    ],
)
def test_the_quota_or_the_command_that_sets_one(quotas: Mapping[str, float] | KgroupError, text: str) -> None:
    message = quota_finding(quotas, "kgroup-catchup").message
    assert message.startswith(text)
    assert message.endswith(SET) is ("to set one" in text)
