"""What is in force, where it came from, and what both clients are given."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider

from kgroup.cluster.login import client_arguments
from kgroup.settings import clients
from kgroup.settings.clients import kafka_python_config, librdkafka_config, replay_config
from kgroup.settings.connection import Connection
from kgroup.settings.keys import (
    ALIASES,
    EXCLUSIVE,
    FILE_KEYS,
    HONOURED,
    IGNORED,
    KAFKA_PYTHON_ARGUMENTS,
    ONLY_VALUES,
    UNSUPPORTED,
)
from kgroup.settings.model import Settings
from kgroup.settings.sources import resolve
from kgroup.settings.tls import client_context
from kgroup.support.errors import ConfigError, KgroupError, NotFound, Refused, UsageError
from tests.helpers import programs
from tests.helpers.settings_cases import Notes

CONTEXTS = """
contexts:
  prod:
    bootstrap.servers: prod:9093
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: oncall
    sasl.password: prod-secret
    explicit: true
    timeout: 20s
  dev:
    bootstrap.servers: dev:9092
    read_only: true
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A contexts file, and a state directory of its own."""
    path = tmp_path / "config.yaml"
    path.write_text(CONTEXTS)
    path.chmod(0o600)
    monkeypatch.setenv("KGROUP_CONFIG", str(path))
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "state"))
    return path


def choose(name: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "state" / "context").write_text(name + "\n")


def settle(notes: Notes | None = None, environ: dict[str, str] | None = None, **flags: Any) -> Settings:
    return resolve(Connection(**flags), notes or Notes(), environ or {})


ADDRESSES: dict[str, tuple[dict[str, Any], dict[str, str], str | None, str, str, str | None]] = {
    # flags, environment, remembered context -> address, source, context in force
    "flag": ({"bootstrap_server": "f:1"}, {}, None, "f:1", "-b", None),
    "environment": ({}, {"KGROUP_BOOTSTRAP_SERVER": "e:1"}, None, "e:1", "KGROUP_BOOTSTRAP_SERVER", None),
    "flag-over-environment": (
        {"bootstrap_server": "f:1"}, {"KGROUP_BOOTSTRAP_SERVER": "e:1"}, None, "f:1", "-b", None,
    ),
    "b-over-X": ({"bootstrap_server": "f:1", "property": ["bootstrap.servers=x:1"]}, {}, None, "f:1", "-b", None),
    "X-over-environment": (
        {"property": ["bootstrap.servers=x:1"]}, {"KGROUP_BOOTSTRAP_SERVER": "e:1"}, None, "x:1", "-X", None,
    ),
    "X-alias": ({"property": ["metadata.broker.list=x:1"]}, {}, None, "x:1", "-X", None),
    "last-X-wins": ({"property": ["bootstrap.servers=x:1", "bootstrap.servers=y:1"]}, {}, None, "y:1", "-X", None),
    "properties-variable": ({}, {"KGROUP_PROPERTIES": "bootstrap.servers=p:1"}, None, "p:1", "KGROUP_PROPERTIES", None),
    "empty-variable-is-unset": (
        {}, {"KGROUP_BOOTSTRAP_SERVER": "", "KGROUP_CONTEXT": "dev"}, None, "dev:9092", "dev", "dev",
    ),
    "remembered": ({}, {}, "prod", "prod:9093", "prod", "prod"),
    "named-by-flag": ({"context": "dev"}, {}, "prod", "dev:9092", "dev", "dev"),
    "named-by-variable": ({}, {"KGROUP_CONTEXT": "dev"}, "prod", "dev:9092", "dev", "dev"),
    "flag-names-over-variable": ({"context": "dev"}, {"KGROUP_CONTEXT": "prod"}, None, "dev:9092", "dev", "dev"),
    "remembered-gives-way-to-flag": ({"bootstrap_server": "f:1"}, {}, "prod", "f:1", "-b", None),
    "remembered-gives-way-to-X": ({"property": ["bootstrap.servers=x:1"]}, {}, "prod", "x:1", "-X", None),
    "remembered-gives-way-to-variable": (
        {}, {"KGROUP_BOOTSTRAP_SERVER": "e:1"}, "prod", "e:1", "KGROUP_BOOTSTRAP_SERVER", None,
    ),
    "named-keeps-all-but-the-address": ({"context": "prod", "bootstrap_server": "f:1"}, {}, None, "f:1", "-b", "prod"),
    "several": ({"bootstrap_server": " a:1, b:2 ,"}, {}, None, "a:1,b:2", "-b", None),
    "no-port": ({"bootstrap_server": "a"}, {}, None, "a", "-b", None),
    "ipv6": ({"bootstrap_server": "[::1]:9092"}, {}, None, "[::1]:9092", "-b", None),
}  # fmt: skip


@pytest.mark.parametrize("case", ADDRESSES)
def test_which_cluster(case: str, config: Path, tmp_path: Path) -> None:
    flags, environ, chosen, address, source, context = ADDRESSES[case]
    if chosen:
        choose(chosen, tmp_path)
    settings = settle(environ=environ, **flags)
    assert settings.bootstrap_servers == address
    assert source in settings.source("bootstrap.servers")
    assert settings.context == context


def test_the_passwords_of_a_remembered_context_go_nowhere_else(config: Path, tmp_path: Path) -> None:
    choose("prod", tmp_path)
    settings = settle(bootstrap_server="elsewhere:9092")
    assert set(settings.entries) == {"bootstrap.servers"}
    assert not settings.secrets
    assert (settings.explicit, settings.timeout_s) == (False, 10.0)


def test_a_named_context_whose_address_is_replaced_by_a_variable_warns(config: Path) -> None:
    notes = Notes()
    settings = settle(notes, {"KGROUP_BOOTSTRAP_SERVER": "left-over:9092"}, context="prod")
    assert (settings.bootstrap_servers, settings.get("sasl.username")) == ("left-over:9092", "oncall")
    assert notes.warnings == ['the address is from KGROUP_BOOTSTRAP_SERVER, not from context "prod"']


def test_settings_are_merged_key_by_key(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.props"
    file.write_text("# c\nsasl.username=from-file\nclient.id=file\n")
    settings = settle(
        environ={"KGROUP_PROPERTIES": "sasl.mechanism=PLAIN client.id=environment", "KGROUP_CONTEXT": "prod"},
        command_config=file,
        property=["sasl.password=from-X"],
    )
    assert {key: (entry.value, entry.source) for key, entry in settings.entries.items()} == {
        "bootstrap.servers": ("prod:9093", f'context "prod" ({config}:4)'),
        "security.protocol": ("SASL_SSL", f'context "prod" ({config}:5)'),
        "sasl.mechanism": ("PLAIN", "KGROUP_PROPERTIES"),
        "sasl.username": ("from-file", f"--command-config, {file}:2"),
        "sasl.password": ("from-X", "-X"),
        "client.id": ("file", f"--command-config, {file}:3"),
    }


def test_a_flag_s_file_replaces_the_variable_s(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("client.id=one\nbootstrap.servers=one:1\n")
    second.write_text("bootstrap.servers=two:1\n")
    settings = settle(environ={"KGROUP_COMMAND_CONFIG": str(first)}, command_config=second)
    assert set(settings.entries) == {"bootstrap.servers"}
    assert settings.bootstrap_servers == "two:1"


@pytest.mark.parametrize(
    ("low", "high", "present"),
    [
        ("ssl.ca.location=/a", "ssl.ca.pem=x", "ssl.ca.pem"),
        ("ssl.ca.pem=x", "ssl.ca.location=/a", "ssl.ca.location"),
        ("ssl.key.pem=x", "ssl.key.location=/a", "ssl.key.location"),
    ],
)
def test_of_two_ways_to_say_one_thing_the_later_counts(low: str, high: str, present: str) -> None:
    settings = settle(
        environ={"KGROUP_PROPERTIES": low}, bootstrap_server="a:1", property=[high, "security.protocol=SSL"]
    )
    assert {key for key in settings.entries if key.startswith("ssl.")} == {present}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("client.id=a security.protocol=SSL", {"client.id": "a", "security.protocol": "SSL"}),
        ("client.id='a b'\nsecurity.protocol=SSL\n", {"client.id": "a b", "security.protocol": "SSL"}),
        ('client.id="a=b;c"', {"client.id": "a=b;c"}),
    ],
)
def test_the_properties_variable(text: str, values: dict[str, str]) -> None:
    settings = settle(environ={"KGROUP_PROPERTIES": text, "KGROUP_BOOTSTRAP_SERVER": "a:1"})
    assert {key: settings.get(key) for key in values} == values


TIMEOUTS: dict[str, tuple[dict[str, Any], dict[str, str], float, str]] = {
    "default": ({"bootstrap_server": "a:1"}, {}, 10.0, "default"),
    "flag": ({"bootstrap_server": "a:1", "timeout": "5s"}, {"KGROUP_TIMEOUT": "6s"}, 5.0, "--timeout"),
    "variable": ({"bootstrap_server": "a:1"}, {"KGROUP_TIMEOUT": "6000"}, 6.0, "KGROUP_TIMEOUT"),
    "context": ({"context": "prod"}, {}, 20.0, 'context "prod"'),
    "variable-over-context": ({"context": "prod"}, {"KGROUP_TIMEOUT": "6s"}, 6.0, "KGROUP_TIMEOUT"),
    "java": ({"bootstrap_server": "a:1", "property": ["default.api.timeout.ms=7000"]}, {}, 7.0, "-X"),
    "flag-over-java": (
        {"bootstrap_server": "a:1", "timeout": "5s", "property": ["default.api.timeout.ms=7000"]}, {}, 5.0, "--timeout",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TIMEOUTS)
def test_timeouts(case: str, config: Path) -> None:
    flags, environ, seconds, source = TIMEOUTS[case]
    settings = settle(environ=environ, **flags)
    assert settings.timeout_s == seconds
    assert source in settings.timeout_source
    assert kafka_python_config(settings)["request_timeout_ms"] == seconds * 1000
    assert librdkafka_config(settings)["socket.timeout.ms"] == str(round(seconds * 1000))


SASL = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=u", "sasl.password=geheim"]
REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], type[KgroupError], str]] = {
    "no-address": ({}, {}, UsageError, "no cluster is named"),
    "no-address-names-the-flag": ({}, {}, UsageError, "-b HOST:PORT"),
    "no-address-names-the-variable": ({}, {}, UsageError, "KGROUP_BOOTSTRAP_SERVER"),
    "no-address-names-the-context": ({}, {}, UsageError, "--context"),
    "no-address-names-the-sandbox": ({}, {}, UsageError, "kgroup sandbox up"),
    "port": ({"bootstrap_server": "a:b"}, {}, UsageError, "'a:b' from -b is not HOST:PORT"),
    "port-zero": ({"bootstrap_server": "a:0"}, {}, UsageError, "'a:0'"),
    "url": ({"bootstrap_server": "http://a:1"}, {}, UsageError, "HOST:PORT"),
    "only-commas": ({"bootstrap_server": ","}, {}, UsageError, "names no broker"),
    "X-without-value": ({"property": ["geheim"]}, {}, UsageError, "KEY=VALUE"),
    "variable-without-value": ({}, {"KGROUP_PROPERTIES": "geheim"}, UsageError, "KGROUP_PROPERTIES requires"),
    "variable-unquoted": ({}, {"KGROUP_PROPERTIES": "a='geheim"}, UsageError, "quotation mark"),
    "no-such-file": ({"command_config": Path("/no/such")}, {}, ConfigError, "/no/such (--command-config)"),
    "no-such-file-of-variable": ({}, {"KGROUP_COMMAND_CONFIG": "/no/such"}, ConfigError, "(KGROUP_COMMAND_CONFIG)"),
    "a-directory": ({"command_config": Path("/tmp")}, {}, ConfigError, "Is a directory"),
    "protocol": ({"property": ["security.protocol=TLS"]}, {}, ConfigError, "SASL_SSL"),
    "no-mechanism": ({"property": ["security.protocol=SASL_SSL"]}, {}, ConfigError, "needs sasl.mechanism"),
    "mechanism": ({"property": [SASL[0], "sasl.mechanism=DIGEST-MD5"]}, {}, ConfigError, "DIGEST-MD5"),
    "no-user": ({"property": SASL[:2]}, {}, ConfigError, "needs sasl.username and sasl.password"),
    "iam-without-tls": ({"property": [SASL[0], "sasl.mechanism=AWS_MSK_IAM"]}, {}, ConfigError, "SASL_SSL"),
    "handler-class": ({"property": ["sasl.login.class=com.acme.L"]}, {}, ConfigError, "Java class"),
    "engine": ({"property": ["ssl.engine.location=/e"]}, {}, ConfigError, "only one of the two clients"),
    "protocols": ({"property": ["ssl.enabled.protocols=TLSv1"]}, {}, ConfigError, "TLSv1.2,TLSv1.3"),
    "jks": ({"property": ["ssl.truststore.location=/t.jks"]}, {}, ConfigError, "keytool"),
    "timeout": ({"timeout": "soon"}, {}, UsageError, "--timeout soon"),
    "java-timeout": ({"property": ["default.api.timeout.ms=1s"]}, {}, ConfigError, "milliseconds"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used(case: str, config: Path) -> None:
    flags, environ, kind, words = REFUSED[case]
    if not case.startswith("no-address"):
        flags = {"bootstrap_server": "a:1", **flags}
    with pytest.raises(kind) as raised:
        settle(environ=environ, **flags)
    text = "\n".join((raised.value.message, *raised.value.details, raised.value.hint or ""))
    assert words in text
    assert "geheim" not in text
    assert raised.value.exit_code == 2


def test_an_address_never_repeats_a_password(config: Path) -> None:
    for given in ("admin:geheim@host:9092", "SASL_SSL://u:geheim@h:1", "a:1,u:gehe,im@h:1", "u:geh eim@h:1"):
        for flags, environ in (({"bootstrap_server": given}, {}), ({}, {"KGROUP_BOOTSTRAP_SERVER": given})):
            with pytest.raises(UsageError) as raised:
                settle(environ=environ, **flags)  # type: ignore[arg-type]
            said = f"{raised.value.message} {raised.value.details} {raised.value.hint}"
            assert "an address is HOST:PORT" in said
            assert "geh" not in said


@pytest.mark.parametrize("line", ["S3cr3t", "geheim", "Geheim=x", "a b", "S3c=r3t", "correct.horse"])
def test_a_file_that_is_nothing_but_a_password_is_not_repeated(line: str, config: Path, tmp_path: Path) -> None:
    (tmp_path / "pw.txt").write_text(line + "\n")
    notes = Notes()
    settings = resolve(Connection(bootstrap_server="a:1", command_config=tmp_path / "pw.txt"), notes, {})
    (said,) = notes.warnings
    assert said == f"unknown setting [hidden] from --command-config, {tmp_path / 'pw.txt'}:1 has no effect"
    assert [setting.named for setting in settings.unknown] == ["[hidden]"]


WARNED: dict[str, tuple[list[str], list[str]]] = {
    "unknown": (["foo.bar=1"], ["unknown setting foo.bar from -X has no effect"]),
    "misspelt": (
        ["sasl.usrname=u"], ["unknown setting sasl.usrname from -X has no effect; did you mean sasl.username"],
    ),
    "known-elsewhere": (
        ["group.id=g", "acks=all", "key.deserializer=x", "linger.ms=5", "schema.registry.url=http://s"], [],
    ),
    "harmless-values": (["ssl.protocol=TLSv1.3", "ssl.enabled.protocols=TLSv1.2, TLSv1.3"], []),
    "empty-unusable": (["sasl.login.class="], []),
    "idle-user": (
        ["sasl.username=u", "sasl.password=geheim"],
        ["sasl.username from -X has no effect: security.protocol is PLAINTEXT, the default"],
    ),
    "idle-ca": (
        ["security.protocol=plaintext", "ssl.ca.location=/c"],
        ["ssl.ca.location from -X has no effect: security.protocol is PLAINTEXT (from -X)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_warnings(case: str) -> None:
    properties, warnings = WARNED[case]
    notes = Notes()
    settings = settle(notes, bootstrap_server="a:1", property=properties)
    assert notes.warnings == warnings
    assert [entry.key for entry in settings.unknown] == (
        ["foo.bar"] if case == "unknown" else ["sasl.usrname"] if case == "misspelt" else []
    )


@pytest.mark.parametrize("key", ["fetch.wait.max.ms", "linger.ms", "queued.max.messages.kbytes", "isolation.level"])
def test_tuning_reaches_no_client(key: str) -> None:
    """Spark's workers get the same configuration."""
    settings = settle(bootstrap_server="a:1", property=[f"{key}=5"])

    assert key not in librdkafka_config(settings)


def test_no_key_stands_in_two_tables() -> None:
    tables = (HONOURED, UNSUPPORTED.keys(), ONLY_VALUES.keys(), IGNORED, ALIASES.keys())
    seen: set[str] = set()
    for table in tables:
        assert not seen & set(table)
        seen |= set(table)
    assert HONOURED >= FILE_KEYS
    assert all(group <= HONOURED for group in EXCLUSIVE)


def test_librdkafka_knows_every_key_that_it_is_given() -> None:
    """Its own words: "No such configuration property"."""
    for key in HONOURED:
        said = ""
        try:
            AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": "0", key: "1"})
        except KafkaException as error:
            said = str(error)
        assert "No such configuration property" not in said, key


def test_kafka_python_knows_every_argument_that_it_is_given(tmp_path: Path) -> None:
    names = {name for name, _ in KAFKA_PYTHON_ARGUMENTS.values()}
    names |= {"bootstrap_servers", "ssl_context", "sasl_oauth_token_provider"}
    assert names <= set(KafkaAdminClient.DEFAULT_CONFIG)
    # The manager retries by itself, and takes no retry_backoff_ms; it leaves unknown arguments alone.
    assert names - {"retry_backoff_ms"} <= set(KafkaConnectionManager.DEFAULT_CONFIG)


def test_the_clients_for_a_password() -> None:
    settings = settle(
        bootstrap_server="a:1,b:2", property=[*SASL, "request.timeout.ms=3000", "metadata.max.age.ms=60000"]
    )
    assert kafka_python_config(settings) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "kgroup",
        "request_timeout_ms": 3000,
        "metadata_max_age_ms": 60000,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "geheim",
    }
    assert librdkafka_config(settings) == {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "kgroup",
        "log_level": "0",
        "socket.timeout.ms": "3000",
        "metadata.max.age.ms": "60000",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "geheim",
    }


@pytest.mark.parametrize(("given", "client_id"), [([], "kgroup-catchup"), (["client.id=ours"], "ours-catchup")])
def test_a_replay_has_a_client_id_of_its_own_and_reads_in_its_rack(given: list[str], client_id: str) -> None:
    notes = Notes()
    settings = settle(notes, bootstrap_server="a:1", property=[*given, "client.rack=eu-1a"])
    assert (notes.warnings, librdkafka_config(settings)["client.rack"]) == ([], "eu-1a")
    assert "client_rack" not in kafka_python_config(settings)
    assert replay_config(settings) == {**librdkafka_config(settings), "client.id": client_id}


def test_tls_is_one_context(tmp_path: Path) -> None:
    base = ["security.protocol=SSL"]
    checked = kafka_python_config(settle(bootstrap_server="a:1", property=base))["ssl_context"]
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert checked.minimum_version == ssl.TLSVersion.TLSv1_2
    names = client_context(settle(bootstrap_server="a:1", property=[*base, "ssl.endpoint.identification.algorithm="]))
    assert (names.check_hostname, names.verify_mode) == (False, ssl.CERT_REQUIRED)
    never = client_context(
        settle(bootstrap_server="a:1", property=[*base, "enable.ssl.certificate.verification=false"])
    )
    assert (never.check_hostname, never.verify_mode) == (False, ssl.CERT_NONE)


TLS_FAULTS: dict[str, tuple[list[str], str]] = {
    "no-ca": (["ssl.ca.location=/no/ca.pem"], "cannot read CA certificates /no/ca.pem: No such file"),
    "no-pem": (["ssl.ca.pem=rubbish"], "ssl.ca.pem cannot be used: it has no PEM certificate"),
    "ca-no-pem": (["ssl.ca.location={rubbish}"], "it has no PEM certificate"),
    "no-certificate": (
        ["ssl.certificate.location=/no/c", "ssl.key.location=/no/k"], "cannot read the client certificate",
    ),
    "key-alone": (["ssl.key.location=/no/k"], "there is a key, but no certificate"),
    "certificate-alone": (["ssl.certificate.pem=x"], "there is a certificate, but no key"),
    "no-key": (["ssl.certificate.location={rubbish}"], "it has no PEM key; set ssl.key.location"),
    "no-pem-pair": (["ssl.certificate.location={rubbish}", "ssl.key.location={rubbish}"], "no PEM certificate and key"),
    "ciphers": (["ssl.cipher.suites=TLS_RSA_NONSENSE"], "OpenSSL knows none of them"),
    "wrong-key": (["ssl.certificate.location={cert}", "ssl.key.location={other}"], "it is not the key of"),
    "no-key-password": (
        ["ssl.certificate.location={cert}", "ssl.key.location={locked}"], "ssl.key.password is missing",
    ),
    "key-password": (
        ["ssl.certificate.location={cert}", "ssl.key.location={locked}", "ssl.key.password=geheim"],
        "ssl.key.password is wrong",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
@programs.needs("openssl")
def pem_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("pem")
    paths = {name: str(directory / name) for name in ("cert", "key", "other", "locked", "rubbish")}
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    for command in (
        ("genpkey", *curve, "-out", paths["key"]),
        ("genpkey", *curve, "-out", paths["other"]),
        ("pkcs8", "-topk8", "-in", paths["key"], "-passout", "pass:right", "-out", paths["locked"]),
        ("req", "-x509", "-new", "-key", paths["key"], "-subj", "/CN=x", "-out", paths["cert"]),
    ):
        subprocess.run(("openssl", *command), check=True, capture_output=True)
    Path(paths["rubbish"]).write_text("rubbish")
    return paths


@pytest.mark.parametrize("case", TLS_FAULTS)
def test_files_that_cannot_be_used(case: str, pem_files: dict[str, str]) -> None:
    properties, words = TLS_FAULTS[case]
    filled = [text.format(**pem_files) for text in properties]
    settings = settle(bootstrap_server="a:1", property=["security.protocol=SSL", *filled])
    with pytest.raises(ConfigError) as raised:
        kafka_python_config(settings)
    text = "\n".join((raised.value.message, *raised.value.details))
    assert words in text
    assert "from -X" in text
    assert "geheim" not in text


OAUTH = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER"]
UNSECURED = [*OAUTH, "enable.sasl.oauthbearer.unsecure.jwt=true"]
AZURE = [*OAUTH, "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.metadata.authentication.type=azure_imds"]
IAM = ["security.protocol=SASL_SSL", "sasl.mechanism=AWS_MSK_IAM"]
TOKEN_FAULTS: dict[str, tuple[list[str], str]] = {
    "no-method": (OAUTH, "needs a way to get tokens"),
    "no-principal": (UNSECURED, "needs principal=NAME"),
    "no-number": ([*UNSECURED, "sasl.oauthbearer.config=principal=a lifeSeconds=x"], "lifeSeconds"),
    "unknown-option": ([*UNSECURED, "sasl.oauthbearer.config=principal=a foo=b"], "unknown foo"),
    "not-pairs": ([*UNSECURED, "sasl.oauthbearer.config=geheim"], "name=value"),
    "oidc-incomplete": (
        [*OAUTH, "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.client.id=i"],
        "needs sasl.oauthbearer.token.endpoint.url and sasl.oauthbearer.client.secret",
    ),
    "oidc-url": (
        [*OAUTH, "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.client.id=i",
         "sasl.oauthbearer.client.secret=geheim", "sasl.oauthbearer.token.endpoint.url=file:///etc/passwd"],
        "http or https",
    ),
    "oidc-user": (
        [*OAUTH, "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.client.id=i",
         "sasl.oauthbearer.client.secret=geheim", "sasl.oauthbearer.token.endpoint.url=https://i:geheim2@idp/token"],
        "without a user",
    ),
    "azure-incomplete": (AZURE, "needs sasl.oauthbearer.config=query=..."),
    "metadata-of-others": (
        [*AZURE[:-1], "sasl.oauthbearer.metadata.authentication.type=aws_iam"],
        "must be none or azure_imds",
    ),
    "no-region": (IAM, "needs the region of the cluster"),
    "unknown-iam-option": ([*IAM, "sasl.oauthbearer.config=role=a"], "unknown role"),
}  # fmt: skip


@pytest.mark.parametrize("client", ["kafka_python", "librdkafka"])
@pytest.mark.parametrize("case", TOKEN_FAULTS)
def test_tokens_that_cannot_be_had(case: str, client: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    properties, words = TOKEN_FAULTS[case]
    settings = settle(bootstrap_server="a:1", property=properties)
    with pytest.raises(ConfigError) as raised:
        getattr(clients, f"{client}_config")(settings)
    assert words in raised.value.message
    assert "geheim" not in raised.value.message


def test_a_token_is_kept_and_has_extensions() -> None:
    settings = settle(
        bootstrap_server="a:1", property=[*UNSECURED, "sasl.oauthbearer.config=principal=a extension_x=1"]
    )
    provider = client_arguments(settings)["sasl_oauth_token_provider"]
    assert isinstance(provider, AbstractTokenProvider)
    assert provider.token() == provider.token()
    assert provider.extensions() == {"x": "1"}
    assert provider.token() not in repr(provider)


def test_one_login_for_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers see OAUTHBEARER; what librdkafka can get for itself, it gets."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    oidc = [*OAUTH, "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.client.id=i",
            "sasl.oauthbearer.client.secret=geheim", "sasl.oauthbearer.token.endpoint.url=http://idp/"]  # fmt: skip
    for properties, by_callback in (
        ([*IAM, "sasl.oauthbearer.config=region=eu-west-1"], True),
        ([*UNSECURED, "sasl.oauthbearer.config=principal=a"], True),
        (oidc, False),
    ):
        settings = settle(bootstrap_server="a:1", property=properties)
        ours, theirs = client_arguments(settings), librdkafka_config(settings)
        assert ours["sasl_mechanism"] == theirs["sasl.mechanism"] == "OAUTHBEARER"
        assert ("oauth_cb" in theirs) is by_callback
        assert any(key.startswith("sasl.oauthbearer.") for key in theirs) is not by_callback
        assert "geheim" not in repr(ours) + repr(theirs.get("oauth_cb"))
    assert theirs["sasl.oauthbearer.client.secret"] == "geheim"


def block(kind: str, text: str = "MIIB") -> str:
    return f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n"


def test_pem_files_are_sent_to_workers_as_text(tmp_path: Path) -> None:
    """Those machines do not have the files; the system's own bundle they have, and each task would carry it."""
    own, of_system, der = tmp_path / "own.pem", tmp_path / "bundle.pem", tmp_path / "key.der"
    chain, key = block("CERTIFICATE", "one") + block("CERTIFICATE", "two"), block("ENCRYPTED PRIVATE KEY")
    own.write_text(f"Bag Attributes\n{key}{chain}{block('X509 CRL')}rest")
    of_system.write_text(block("CERTIFICATE") * 2_000)
    der.write_bytes(b"\x30\x82")
    for words, expected in (
        ([f"ssl.ca.location={own}"], {"ssl.ca.pem": chain}),
        ([f"ssl.ca.location={of_system}"], {"ssl.ca.location": str(of_system)}),
        ([f"ssl.ca.location={tmp_path}"], {"ssl.ca.location": str(tmp_path)}),
        (["ssl.ca.location=probe"], {"ssl.ca.location": "probe"}),
        ([f"ssl.certificate.location={own}"], {"ssl.certificate.pem": chain, "ssl.key.pem": key}),
        (
            [f"ssl.certificate.location={own}", f"ssl.key.location={der}", f"ssl.crl.location={own}"],
            {"ssl.certificate.pem": chain, "ssl.key.location": str(der), "ssl.crl.location": str(own)},
        ),
    ):
        found = librdkafka_config(settle(bootstrap_server="a:1", property=["security.protocol=SSL", *words]))
        assert {key: value for key, value in found.items() if key.startswith("ssl.")} == expected


@pytest.mark.parametrize(
    ("mechanism", "client", "words"),
    [
        ("GSSAPI", "kafka_python", "the package gssapi is not installed"),
        ("GSSAPI", "librdkafka", "without Kerberos"),
    ],
)
def test_mechanisms_that_need_more(mechanism: str, client: str, words: str) -> None:
    settings = settle(bootstrap_server="a:1", property=["security.protocol=SASL_SSL", f"sasl.mechanism={mechanism}"])
    with pytest.raises(ConfigError) as raised:
        getattr(clients, f"{client}_config")(settings)
    text = "\n".join((raised.value.message, *raised.value.details))
    assert words in text
    assert "from -X" in text


def test_changes_that_a_context_forbids(config: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused) as raised:
        settle(context="dev").require_change_allowed()
    assert (raised.value.code, raised.value.exit_code) == ("read-only", 6)
    choose("prod", tmp_path)
    with pytest.raises(Refused) as raised:
        settle().require_change_allowed()
    assert raised.value.code == "context-not-named"
    settle(context="prod").require_change_allowed()
    settle(environ={"KGROUP_CONTEXT": "prod"}).require_change_allowed()
    settle(bootstrap_server="a:1").require_change_allowed()


def test_read_only_holds_also_where_the_address_is_replaced(config: Path) -> None:
    with pytest.raises(Refused):
        settle(context="dev", bootstrap_server="a:1").require_change_allowed()


def test_a_named_context_that_is_missing(config: Path) -> None:
    with pytest.raises(NotFound) as raised:
        settle(context="prdo")
    assert raised.value.message == 'no context "prdo" (from --context)'
    assert raised.value.details == ("Near: prod",)
    with pytest.raises(NotFound) as raised:
        settle(context="S3cr3t-Pa55")
    assert raised.value.message == "no context of that name (from --context)"
    assert "S3cr3t" not in f"{raised.value.details} {raised.value.hint}"


def test_importing_settings_is_cheap() -> None:
    heavy = ("kafka", "confluent_kafka", "yaml", "ssl", "urllib.request", "rich")
    script = f"import sys, kgroup.settings; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
