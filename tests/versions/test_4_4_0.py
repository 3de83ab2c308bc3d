"""Every verb on Kafka 4.4.0, the sandbox's own, which all other tests run on too."""

from __future__ import annotations

import pytest

from tests.versions.smoke import SMOKE, Stage

VERSION = "4.4.0"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", SMOKE)
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)
