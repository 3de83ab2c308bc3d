"""When ``--watch`` looks again, and which looks end it."""

from __future__ import annotations

import pytest

from kgroup.output.watch.refresh import RefreshResult, next_start_s
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode, KgroupError


@pytest.mark.parametrize(
    ("every_s", "took_s", "due_s"),
    [(2.0, 0.1, 2.0), (2.0, 1.0, 2.0), (2.0, 1.5, 2.5), (2.0, 10.0, 11.0), (0.5, 3.0, 3.25), (60.0, 10.0, 60.0)],
)
def test_a_slow_cluster_is_left_alone_for_half_the_time(every_s: float, took_s: float, due_s: float) -> None:
    assert next_start_s(0.0, took_s, every_s) == due_s


@pytest.mark.parametrize("code", list(ExitCode))
def test_which_failure_is_the_end(code: ExitCode) -> None:
    class Failure(KgroupError):
        exit_code = code

    failed = RefreshResult(utc_now(), error=Failure("no"))

    assert failed.ends_watch(first=True)
    assert failed.ends_watch(first=False) == (code in (ExitCode.USAGE, ExitCode.NOT_AUTHORIZED))
    assert not RefreshResult(utc_now()).ends_watch(first=True), "nothing is chosen yet"
