"""Verbs that read whole records, with tokens that end in their middle: AWS's IAM and OIDC; in workers too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import programs
from tests.helpers.catchup.catchups import Crash, copied, crash, gap_of, offsets, own_ledger
from tests.helpers.command_line import CommandLine
from tests.helpers.iam_front import KEYS, REGION, SESSION_S, IamFront, iam_front
from tests.helpers.places import ROOT
from tests.helpers.token_endpoint import serve_tokens

pytestmark = pytest.mark.soak

Name = Callable[[str], str]
TOKEN_S = 10


@pytest.fixture(scope="module")
@programs.needs("openssl")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IamFront]:
    with iam_front(tmp_path_factory.mktemp("iam")) as front:
        yield front


@pytest.fixture
def crashed(front: IamFront, name: Name, monkeypatch: pytest.MonkeyPatch) -> Crash:
    front.logins.clear()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    own_ledger(monkeypatch, name("ledger"))
    return crash(front.world, name("orders"), name("svc"))


@pytest.fixture
def as_iam(front: IamFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, ...]]:
    """Connect with IAM, and an access key that is in AWS's file."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def connection(secret: str | None = KEYS.secret_key) -> tuple[str, ...]:
        keys = f"aws_access_key_id={KEYS.access_key}\naws_secret_access_key={secret}\n" if secret else ""
        (tmp_path / "credentials").write_text(f"[default]\n{keys}")
        java = "software.amazon.msk.auth.iam.IAM"
        (tmp_path / "client.properties").write_text(
            front.properties(
                "sasl.mechanism=AWS_MSK_IAM",
                f"sasl.jaas.config={java}LoginModule required;",
                f"sasl.client.callback.handler.class={java}ClientCallbackHandler",
            )
        )
        return ("-b", front.bootstrap, "--command-config", str(tmp_path / "client.properties"))

    return connection


def test_iam_for_what_needs_whole_records(
    front: IamFront, crashed: Crash, as_iam: Callable[..., tuple[str, ...]], tmp_path: Path
) -> None:
    kgroup, where = CommandLine(), as_iam()
    assert {row["group"] for row in kgroup("describe", crashed.group, "-o", "json", *where).data} == {crashed.group}
    shown = kgroup("peek", crashed.group, "--topic", f"{crashed.topic}:1", "-o", "json", *where)
    assert shown.data[0]["offset"] == 20
    saved = tmp_path / "skipped.jsonl"
    moves = ("reset", crashed.group, "--topic", f"{crashed.topic}:1", "--to-latest", "--save-skipped", str(saved))
    kgroup(*moves, "--execute", *where)
    assert len(saved.read_text().splitlines()) == 30
    kgroup("undo", "--execute", *where)
    assert offsets(front.world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


@pytest.fixture
def as_oidc(front: IamFront, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Connect with tokens that librdkafka gets itself."""
    with serve_tokens(TOKEN_S) as url:
        lines = (
            "sasl.oauthbearer.method=oidc",
            "sasl.oauthbearer.client.id=kg",
            "sasl.oauthbearer.client.secret=oidc-secret",
            f"sasl.oauthbearer.token.endpoint.url={url}",
        )
        file = tmp_path / "client.properties"
        file.write_text(front.properties("sasl.mechanism=OAUTHBEARER", *lines))
        yield ("-b", front.bootstrap, "--command-config", str(file))


@pytest.mark.parametrize("how", ["iam", "oidc"])
def test_a_replay_that_lasts_for_several_tokens(
    front: IamFront, crashed: Crash, as_iam: Callable[..., tuple[str, ...]],
    as_oidc: tuple[str, ...], name: Name, tmp_path: Path, how: str,
) -> None:  # fmt: skip
    """The broker ends IAM's sessions after SESSION_S; the other tokens themselves end after TOKEN_S."""
    where, lasts_s = (as_iam(), 5 * SESSION_S) if how == "iam" else (as_oidc, 4 * TOKEN_S)
    copy, events, debug = front.world.topic(name("copy"), 2), tmp_path / "events", tmp_path / "debug"
    events.mkdir()
    conf = ("spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{events}", "spark.eventLog.compress=false")
    shown = ("--spark-log", "--debug", str(debug), *(word for one in conf for word in ("--conf", one)))

    done = CommandLine().process(
        "catchup", "start", crashed.group, "--to-topic", copy, "--rate", f"{80 / lasts_s:g}/s", "--master", "local[2]",
        "--execute", *shown, *where,
    )  # fmt: skip

    assert "VERIFIED" in done.stdout
    assert copied(front.world, copy) == gap_of(crashed)
    assert offsets(front.world, crashed.group) == crashed.released
    # Each client logs in again; with new tokens where the tokens themselves end.
    assert len(front.logins) > 2 * len(set(front.logins)) if how == "iam" else len(set(front.logins)) > 8
    texts = [done.stdout, done.stderr, debug.read_text()]
    logged = [path.read_text() for path in events.rglob("*") if path.is_file()]
    assert any("SparkListenerTaskEnd" in text for text in logged)
    for secret in (KEYS.secret_key, "oidc-secret", *front.logins):
        assert not any(secret in text for text in texts + logged)


def test_workers_without_credentials_are_found_before_anything_moves(
    front: IamFront, crashed: Crash, as_iam: Callable[..., tuple[str, ...]], name: Name, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Temporary keys do not travel: this machine has a program that knows them, the workers do not."""
    where, copy, before = as_iam(None), front.world.topic(name("copy"), 2), front.world.exact(crashed.group)
    keys = {"Version": 1, "AccessKeyId": KEYS.access_key, "SecretAccessKey": KEYS.secret_key}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    prints = f"{sys.executable} -c 'import sys; print(open(sys.argv[1]).read())'"
    (tmp_path / "config").write_text(f"[profile ops]\ncredential_process = {prints} {tmp_path}/keys.json\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "ops")
    (tmp_path / "python").write_text(f'#!/bin/sh\nAWS_CONFIG_FILE=/dev/null exec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    words = ("catchup", "start", crashed.group, "--to-topic", copy, "--master", "local[1]", "--execute", *where)

    refused = CommandLine().process(*words, "--conf", f"spark.pyspark.python={tmp_path}/python", exit_code=2)

    assert "Spark's workers cannot log in: AWS's files have no profile ops" in refused.stderr
    assert front.world.exact(crashed.group) == before
    assert "RELEASED" not in refused.stderr


@pytest.mark.parametrize("verb", ["describe", "peek"])
@pytest.mark.parametrize(
    ("secret", "said"),
    [("not-" + KEYS.secret_key, "refused the token: invalid_token"), (None, "no AWS credentials were found")],
    ids=["wrong", "none"],
)
def test_credentials_that_are_wrong(
    crashed: Crash, as_iam: Callable[..., tuple[str, ...]], verb: str, secret: str | None, said: str
) -> None:
    failed = CommandLine()(verb, crashed.group, *as_iam(secret), exit_code=4)

    assert said in failed.stderr
    assert KEYS.secret_key not in failed.stderr


def test_no_token_endpoint(front: IamFront, crashed: Crash, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    oidc = ("method=oidc", "client.id=kg", "client.secret=geheim", "token.endpoint.url=http://127.0.0.1:1/token")
    file.write_text(front.properties("sasl.mechanism=OAUTHBEARER", *(f"sasl.oauthbearer.{one}" for one in oidc)))
    for words in (("peek", crashed.group), ("catchup", "start", crashed.group, "--release-only", "--execute")):
        failed = CommandLine()(*words, "-b", front.bootstrap, "--command-config", str(file), exit_code=3)
        assert "127.0.0.1 gave no token" in failed.stderr
        assert "geheim" not in failed.stderr
