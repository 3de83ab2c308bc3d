"""Every verb on Kafka 4.3.1, and share groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.versions.shares import check_share_group
from tests.versions.smoke import SMOKE, Stage
from tests.versions.streams import check_application

VERSION = "4.3.1"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", SMOKE)
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)


def test_a_share_group(stage: Stage) -> None:
    check_share_group(stage.kafka)


def test_a_streams_application(stage: Stage, tmp_path: Path) -> None:
    check_application(stage.kafka, tmp_path)
