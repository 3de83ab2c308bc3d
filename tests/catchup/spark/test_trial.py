"""What a worker of Spark tries before anything moves. The tests call what runs in a worker."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kgroup.catchup.service.rehearsal import _errors
from kgroup.catchup.spark.trial import TriedWorker, WorkerTrial, marked, try_worker
from kgroup.cluster.topic_admin import reach_brokers
from kgroup.support.errors import ExitCode, Unreachable

CLOSED = {"bootstrap.servers": "127.0.0.1:1"}


def problems(monkeypatch: pytest.MonkeyPatch, *, config: dict[str, Any] | None = None, **given: Any) -> list[str]:
    """What a worker answers that reaches three brokers."""
    monkeypatch.setattr("kgroup.cluster.topic_admin.reach_brokers", lambda *_, **__: 3)
    asked = WorkerTrial(0, given.pop("modules", ()), config or {}, 5.0, **given)
    tried = try_worker(asked)
    assert tried.brokers in (0, 3)
    return [problem.message for problem in tried.problems]


def test_a_worker_that_has_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = tmp_path / "client.pem"
    certificate.touch()
    config = {"ssl.certificate.location": str(certificate), "ssl.ca.location": "probe"}

    with marked(tmp_path / "new" / "gap") as mark:
        found = problems(
            monkeypatch,
            config=config,
            modules=("kgroup.catchup.sinks.run_task",),
            directory=str(tmp_path / "new" / "gap"),
            mark=mark,
            command="read line",
            function="json:dumps",
        )

    assert found == []
    assert [path.name for path in tmp_path.iterdir()] == ["client.pem"], "the directory was made for the trial alone"


def test_each_thing_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from json import nothing\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = problems(
        monkeypatch,
        config={"ssl.key.location": f"{tmp_path}/key.pem"},
        modules=("broken",),
        directory=str(tmp_path),
        mark=".of-another-disk",
        command="no-such-program --fast",
    )

    assert [text.split(":")[0] for text in found] == [
        "Spark's workers cannot import broken",
        f"Spark's workers cannot read {tmp_path}/key.pem (ssl.key.location)",
        f"--to-files {tmp_path}",
        "--to-command",
    ]
    assert found[2].endswith("this is not the directory of this machine")
    assert problems(monkeypatch, modules=("nowhere",)) == ["ModuleNotFoundError: No module named 'nowhere'"]
    assert "could not be imported" in problems(monkeypatch, function="json:nothing")[0]


@pytest.mark.parametrize(
    "command", ["read l", "/bin/sh -c x", "while read l; do :; done", "(cat)", "A=1 nope", "$X", "'n o'"]
)
def test_a_command_that_may_exist_passes(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Only a plain name is looked for: the shell decides what the rest means."""
    assert problems(monkeypatch, command=command) == []


def test_a_directory_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with marked(tmp_path) as mark:
        monkeypatch.setattr(Path, "touch", refuse)
        (found,) = problems(monkeypatch, directory=str(tmp_path), mark=mark)

    assert "not writable: Permission denied" in found


def test_a_worker_that_reaches_no_broker() -> None:
    tried = try_worker(WorkerTrial(0, (), CLOSED, 0.5))

    assert [problem.message.split(":")[0] for problem in tried.problems] == [
        "from Spark's workers, no broker can be reached"
    ]


def test_a_broker_answers(bootstrap: str) -> None:
    assert reach_brokers({"bootstrap.servers": bootstrap}, timeout_s=30) == 1
    with pytest.raises(Unreachable):
        reach_brokers(CLOSED, timeout_s=0.5)


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 1 answers, 2 refuses, 3 is silent, and 4 has ended: it is not listed any more."""
    listings = [{1: "a", 2: "b", 3: "c", 4: "d"}, {1: "a", 2: "b", 3: "c"}]
    codes = {2: KafkaError.CLUSTER_AUTHORIZATION_FAILED, 3: KafkaError._TIMED_OUT, 4: KafkaError._TIMED_OUT}

    def answered(result: object, code: int | None = None) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(result) if code is None else future.set_exception(KafkaException(KafkaError(code)))
        return future

    class Admin:
        def describe_cluster(self, **_: object) -> Future[Any]:
            nodes = [SimpleNamespace(id=number, host=host, port=9092) for number, host in listings.pop(0).items()]
            return answered(SimpleNamespace(nodes=nodes))

        def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
            return {one: answered({}, codes.get(int(one.name))) for one in resources}

    monkeypatch.setattr("kgroup.cluster.topic_admin.admin_client", lambda *_: Admin())

    with pytest.raises(Unreachable, match=r"^brokers cannot be reached: c:9092\n"):
        reach_brokers({}, timeout_s=1)
    assert listings == []


def test_a_problem_of_several_machines_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(host: str, module: str | None) -> TriedWorker:
        monkeypatch.setattr("kgroup.catchup.spark.trial.socket.gethostname", lambda: host)
        return try_worker(WorkerTrial(0, () if module is None else (module,), CLOSED, 0.01))

    monkeypatch.setattr("kgroup.cluster.topic_admin.reach_brokers", lambda *_, **__: 1)
    (error,) = _errors([tried("a", "nowhere"), tried("b", None), tried("c", "nowhere"), tried("a", "nowhere")])

    assert (error.code, error.exit_code) == ("spark-workers", ExitCode.REFUSED)
    assert error.message == "Spark's workers have no Python package nowhere"
    assert error.details == ("on a, c, of 3 machines with workers",)
