"""The broker of a module's VERSION, with groups of each kind that this version has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.versions.kafka import Kafka, running_kafka
from tests.versions.smoke import Stage, staged


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """``sandbox up --jars`` with the jars of that version."""
    with running_kafka(request.module.VERSION, tmp_path_factory.mktemp("state")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def scene(kafka: Kafka) -> Stage:
    """What the verbs that only look are about."""
    return staged(kafka)


@pytest.fixture
def stage(scene: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The same, for the command line of one test."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", scene.kafka.bootstrap)
    return scene
