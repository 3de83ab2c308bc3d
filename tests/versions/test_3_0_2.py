"""Every verb on Kafka 3.0.2, the oldest release that kgroup supports, on ZooKeeper."""

from __future__ import annotations

import pytest

from tests.versions.smoke import SMOKE, Stage

VERSION = "3.0.2"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", [verb for verb in SMOKE if not verb.startswith("sandbox")])
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)
