"""Every verb on Kafka 4.3.1."""

from __future__ import annotations

import pytest

from tests.versions.smoke import SMOKE, Stage

VERSION = "4.3.1"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", SMOKE)
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)
