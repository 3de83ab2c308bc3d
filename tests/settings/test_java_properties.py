"""The syntax of Java's properties files, and what its client settings become."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kgroup.settings.java import translate
from kgroup.settings.java_properties import PropertiesError, decode, parse_jaas, parse_properties
from kgroup.settings.model import Setting
from kgroup.support.errors import ConfigError

SYNTAX: dict[str, tuple[str, dict[str, str]]] = {
    "equals": ("a=b", {"a": "b"}),
    "colon": ("a:b", {"a": "b"}),
    "blank": ("a b", {"a": "b"}),
    "blanks-around": ("  a \t=  b c  ", {"a": "b c  "}),
    "only-key": ("a", {"a": ""}),
    "only-separator": ("a=", {"a": ""}),
    "second-separator-is-value": ("a==b", {"a": "=b"}),
    "colon-after-equals": ("a = :b", {"a": ":b"}),
    "equals-in-value": ("a=b=c", {"a": "b=c"}),
    "comments": ("# x=1\n  ! y=2\na=b # no comment", {"a": "b # no comment"}),
    "blank-lines": ("\n  \n\t\na=b\n\n", {"a": "b"}),
    "continued": ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
    "continued-comment": ("# x\\\na=b", {"a": "b"}),
    "comment-mark-in-continuation": ("a=b\\\n#c", {"a": "b#c"}),
    "blank-line-in-continuation": ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    "continued-key": ("a\\\n  b=c", {"ab": "c"}),
    "two-backslashes-do-not-continue": ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    "three-backslashes-do": ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
    "continued-at-the-end": ("a=b\\", {"a": "b"}),
    "escaped-separators": ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
    "escapes": ("a=\\t\\n\\r\\f\\\\\\q\\\"", {"a": '\t\n\r\f\\q"'}),
    "unicode": ("a=\\u00e4\\u20AC", {"a": "ä€"}),
    "surrogates": ("a=\\ud83d\\ude00", {"a": "😀"}),
    "escaped-blank-leads-value": ("a=\\ b", {"a": " b"}),
    "crlf": ("a=b\r\nc=d\\\r\n  e\r\n", {"a": "b", "c": "de"}),
    "cr": ("a=b\rc=d", {"a": "b", "c": "d"}),
    "last-wins": ("a=1\na=2", {"a": "2"}),
    "no-break-space-is-text": ("a=\u00a0b", {"a": "\u00a0b"}),
    "empty": ("", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", SYNTAX)
def test_syntax(case: str) -> None:
    text, expected = SYNTAX[case]
    assert {entry.key: entry.value for entry in parse_properties(text)} == expected


@pytest.fixture(scope="module")
def java() -> str:
    java = shutil.which("java")
    assert java is not None, "the tests need Java 17+, as the sandbox does"
    return java


def test_java_itself_reads_the_same(java: str, tmp_path: Path) -> None:
    """The oracle: java.util.Properties on the same texts."""
    source = tmp_path / "Oracle.java"
    source.write_text(
        "import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;\n"
        "public class Oracle { public static void main(String[] a) throws Exception { for (String f : a) {\n"
        "  Properties p = new Properties();\n"
        "  try (Reader r = new InputStreamReader(new FileInputStream(f), StandardCharsets.UTF_8)) { p.load(r); }\n"
        "  StringBuilder b = new StringBuilder(f);\n"
        "  for (String k : new TreeSet<>(p.stringPropertyNames())) {\n"
        "    b.append('\\u0001'); for (char c : k.toCharArray()) b.append((int) c).append(' ');\n"
        "    b.append('\\u0002'); for (char c : p.getProperty(k).toCharArray()) b.append((int) c).append(' '); }\n"
        "  System.out.println(b); } } }\n"
    )
    for case, (text, _) in SYNTAX.items():
        (tmp_path / case).write_bytes(text.encode())
    files = [str(tmp_path / case) for case in SYNTAX]
    printed = subprocess.run([java, str(source), *files], check=True, capture_output=True, text=True).stdout
    for line, (case, (_, expected)) in zip(printed.splitlines(), SYNTAX.items(), strict=True):
        name, *entries = line.split("\x01")
        assert name == str(tmp_path / case)
        read = {}
        for entry in entries:
            key, value = entry.split("\x02")
            read[_characters(key)] = _characters(value)
        assert read == expected, case


def _characters(numbers: str) -> str:
    units = b"".join(int(number).to_bytes(2, "big") for number in numbers.split())
    return units.decode("utf-16-be")


def test_lines_are_counted_from_the_first_natural_one() -> None:
    entries = parse_properties("# c\na=b\\\n  c\n\nd=e")
    assert [(entry.key, entry.line) for entry in entries] == [("a", 2), ("d", 5)]


@pytest.mark.parametrize(
    ("text", "line"), [("a=b\nc=\\u12", 2), ("a=\\uzzzz", 1), ("a=\\ud83d", 1), ("\n\na=\\", None)]
)
def test_broken_escapes(text: str, line: int | None) -> None:
    if line is None:
        assert parse_properties(text)[0].value == ""
        return
    with pytest.raises(PropertiesError) as raised:
        parse_properties(text)
    assert raised.value.line == line


@pytest.mark.parametrize(("data", "text"), [("ä".encode(), "ä"), ("ä".encode("latin-1"), "ä"), (b"\xef\xbb\xbfa", "a")])
def test_encodings(data: bytes, text: str) -> None:
    assert decode(data) == text


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ('a.b.PlainLoginModule required username="u" password="p";', "PlainLoginModule",
         {"username": "u", "password": "p"}),
        ("PlainLoginModule REQUIRED username=u password=p ;", "PlainLoginModule", {"username": "u", "password": "p"}),
        ('M required password="a;b=c \\"d\\" \\\\";', "M", {"password": 'a;b=c "d" \\'}),
        ("M required password='a b';", "M", {"password": "a b"}),
        ('M required\n  // comment\n  a="1" /* more */ b="2";', "M", {"a": "1", "b": "2"}),
        ("M required;", "M", {}),
        ('M required a="1"', "M", {"a": "1"}),
        ('M required a="";', "M", {"a": ""}),
        ('M required a="=";', "M", {"a": "="}),
    ],
)  # fmt: skip
def test_jaas(text: str, name: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.name, module.options) == (name, options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M",
        'M username="geheim";',
        'M required username "geheim";',
        'M required password="geheim;',
        "M required password=geheim extra;",
        "M required a=b; N required c=geheim;",
        "KafkaClient { M required a=geheim; };",
    ],
)
def test_broken_jaas_is_never_quoted(text: str) -> None:
    with pytest.raises(PropertiesError) as raised:
        parse_jaas(text)
    assert "geheim" not in str(raised.value)


def given(**properties: str) -> dict[str, Setting]:
    return {
        key.replace("_", "."): Setting(key.replace("_", "."), value, "c.props:1") for key, value in properties.items()
    }


PEM = "-----BEGIN CERTIFICATE-----\n" + "A" * 64 + "\nBB==\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nCCCC\n-----END PRIVATE KEY-----\n"
OAUTH = "x.OAuthBearerLoginModule required "
OIDC_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
TRANSLATED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing-of-java": ({"sasl_username": "u"}, {"sasl.username": "u"}),
    "own-spelling-wins": (
        {"sasl_jaas_config": "M.PlainLoginModule required username=a password=b;", "sasl_password": "c"},
        {"sasl.username": "a", "sasl.password": "c"},
    ),
    "truststore-inline": ({"ssl_truststore_certificates": PEM}, {"ssl.ca.pem": PEM}),
    "truststore-on-one-line": ({"ssl_truststore_certificates": PEM.replace("\n", " ")}, {"ssl.ca.pem": PEM}),
    "truststore-run-together": (
        {"ssl_truststore_certificates": PEM.replace("\n", "")},
        {"ssl.ca.pem": PEM},
    ),
    "truststore-two": ({"ssl_truststore_certificates": PEM + PEM}, {"ssl.ca.pem": PEM + PEM}),
    "truststore-file": (
        {"ssl_truststore_type": "pem", "ssl_truststore_location": "/ca"},
        {"ssl.ca.location": "/ca"},
    ),
    "keystore-inline": (
        {"ssl_keystore_certificate_chain": PEM, "ssl_keystore_key": KEY, "ssl_keystore_type": "PEM"},
        {"ssl.certificate.pem": PEM, "ssl.key.pem": KEY},
    ),
    "keystore-file": (
        {"ssl_keystore_type": "PEM", "ssl_keystore_location": "/k", "ssl_key_password": "p"},
        {"ssl.certificate.location": "/k", "ssl.key.location": "/k", "ssl.key.password": "p"},
    ),
    "names-unchecked": (
        {"ssl_endpoint_identification_algorithm": ""},
        {"ssl.endpoint.identification.algorithm": "none"},
    ),
    "names-checked": (
        {"ssl_endpoint_identification_algorithm": "HTTPS"},
        {"ssl.endpoint.identification.algorithm": "https"},
    ),
    "unsecured-token": (
        {"sasl_jaas_config": OAUTH + 'unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="60";'},
        {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=a lifeSeconds=60",
        },
    ),
    "client-credentials": (
        {
            "sasl_jaas_config": OAUTH + 'clientId="i" clientSecret="s" scope="x" extension_logicalCluster="l";',
            "sasl_login_callback_handler_class": OIDC_HANDLER,
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "i",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "x",
            "sasl.oauthbearer.extensions": "logicalCluster=l",
        },
    ),
    "kerberos-ticket": (
        {
            "sasl_jaas_config": 'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true '
            'serviceName="kafka2";'
        },
        {"sasl.kerberos.service.name": "kafka2"},
    ),
    "msk": (
        {
            "sasl_jaas_config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "sasl_client_callback_handler_class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        },
        {},
    ),
    "msk-profile": (
        {"sasl_jaas_config": f'{IAM_MODULE} required awsProfileName="ops" awsDebugCreds=true;'},
        {"sasl.oauthbearer.config": "profile=ops"},
    ),
    "strimzi": (
        {
            "sasl_jaas_config": OAUTH + 'oauth.client.id="i" oauth.client.secret="s" oauth.scope="x" '
            'oauth.token.endpoint.uri="https://idp/token";',
            "sasl_login_callback_handler_class": "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "i",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "x",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRANSLATED)
def test_translation(case: str) -> None:
    properties, expected = TRANSLATED[case]
    assert {key: setting.value for key, setting in translate(given(**properties)).items()} == expected


def test_a_translation_says_where_it_is_from() -> None:
    made = translate(given(sasl_jaas_config="M.PlainLoginModule required username=a password=b;"))
    assert made["sasl.username"].source == "c.props:1 (sasl.jaas.config)"


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "jks-truststore": (
        {"ssl_truststore_location": "/etc/my trust.jks"},
        "keytool -list -rfc -keystore '/etc/my trust.jks' | sed -n '/BEGIN CERT/,/END CERT/p' > ca.pem",
    ),
    "pkcs12-truststore": (
        {"ssl_truststore_location": "/t.p12", "ssl_truststore_type": "PKCS12"},
        "keytool -list -rfc -keystore /t.p12",
    ),
    "jks-keystore": (
        {"ssl_keystore_location": "/k.jks"},
        "keytool -importkeystore -srckeystore /k.jks -destkeystore key.p12 -deststoretype PKCS12 "
        "&& openssl pkcs12 -in key.p12 -nodes -out key.pem",
    ),
    "pkcs12-keystore": (
        {"ssl_keystore_location": "/k.p12", "ssl_keystore_type": "PKCS12"},
        "openssl pkcs12 -in /k.p12 -nodes -out key.pem",
    ),
    "chain-without-key": ({"ssl_keystore_certificate_chain": PEM}, "only work together"),
    "no-pem": ({"ssl_truststore_certificates": "MIIB"}, "no PEM block"),
    "unknown-module": ({"sasl_jaas_config": 'a.LdapLoginModule required password="geheim";'}, "LdapLoginModule"),
    "no-password": ({"sasl_jaas_config": "a.PlainLoginModule required username=u;"}, "no password"),
    "broken-jaas": ({"sasl_jaas_config": 'a.PlainLoginModule required password="geheim;'}, "not closed"),
    "keytab": (
        {"sasl_jaas_config": 'Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p";'},
        "kinit -kt",
    ),
    "google-handler": (
        {"sasl_login_callback_handler_class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"},
        "Google's local server",
    ),
    "msk-role": (
        {"sasl_jaas_config": f'{IAM_MODULE} required awsRoleArn="arn:aws:iam::1:role/r";'},
        "give awsRoleArn of IAMLoginModule to a profile",
    ),
    "login-handler": ({"sasl_login_callback_handler_class": "com.acme.H"}, "Java class"),
    "client-handler": ({"sasl_client_callback_handler_class": "com.acme.H"}, "Java class"),
    "other-claims": (
        {"sasl_jaas_config": OAUTH + 'unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_x="1";'},
        "unsecuredLoginNumberClaim_x",
    ),
    "names": ({"ssl_endpoint_identification_algorithm": "ldaps"}, "https or none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_translated(case: str) -> None:
    properties, words = REFUSED[case]
    with pytest.raises(ConfigError) as raised:
        translate(given(**properties))
    text = "\n".join((raised.value.message, *raised.value.details, raised.value.hint or ""))
    assert words in text
    assert "c.props:1" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    ("head", "kind"),
    [(b"\xfe\xed\xfe\xed", "JKS"), (b"\x30\x82", "PKCS12")],
)
def test_an_undeclared_store_is_looked_into(head: bytes, kind: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_bytes(head + b"x" * 80)
    with pytest.raises(ConfigError, match=f"a {kind} store"):
        translate(given(ssl_keystore_location=str(store)))
    store.write_text(PEM)
    assert translate(given(ssl_truststore_location=str(store)))["ssl.ca.location"].value == str(store)
