"""Every verb on Kafka 4.2.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.versions.shares import check_share_group
from tests.versions.smoke import SMOKE, Stage
from tests.versions.streams import check_application

VERSION = "4.2.0"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", SMOKE)
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)


def test_a_share_group(stage: Stage) -> None:
    check_share_group(stage.kafka, counts_unread=False)


def test_a_streams_application(stage: Stage, tmp_path: Path) -> None:
    """Its tool shows no commits on repartition topics, and their lag from the log start on (seen)."""
    check_application(stage.kafka, tmp_path, shows_repartitions=False)
