"""Translates Java client settings to librdkafka's: login modules, stores, PEM inside values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from kgroup.settings.java_properties import LoginModule, PropertiesError, parse_jaas
from kgroup.settings.keys import JAVA_KEYS
from kgroup.settings.model import Setting
from kgroup.support.errors import ConfigError
from kgroup.support.quoting import quote

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.S)
_OIDC_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_INSTEAD = {
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": (
        "use sasl.mechanism=PLAIN with a service account, or sasl.oauthbearer.method=oidc with Google's local server"
    ),
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": "write sasl.mechanism=AWS_MSK_IAM",
}
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def translate(given: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings of one source with all Java keys replaced; the others are left unchanged.

    Raises ConfigError for what cannot be translated: binary stores, callback handlers, unknown login modules.
    """
    translated: dict[str, Setting] = {}
    for step in (_callback_handlers, _jaas, _truststore, _keystore, _host_names):
        translated |= step(given)
    # A key in librdkafka's own spelling, from the same source, wins.
    return translated | {key: setting for key, setting in given.items() if key not in JAVA_KEYS}


def _callback_handlers(given: Mapping[str, Setting]) -> dict[str, Setting]:
    login = given.get("sasl.login.callback.handler.class")
    client = given.get("sasl.client.callback.handler.class")
    if login is not None and login.value not in (*_OIDC_HANDLERS, _STRIMZI_HANDLER):
        raise _unusable(login, _INSTEAD.get(login.value, "a Java class cannot be used from here"))
    if client is not None and client.value != _MSK_HANDLER:
        raise _unusable(client, "a Java class cannot be used from here")
    if login is None:
        return {}
    return {"sasl.oauthbearer.method": _derived(login, "sasl.oauthbearer.method", "oidc")}


def _jaas(given: Mapping[str, Setting]) -> dict[str, Setting]:
    setting = given.get("sasl.jaas.config")
    if setting is None:
        return {}
    try:
        module = parse_jaas(setting.value)
    except PropertiesError as problem:
        raise ConfigError(f"sasl.jaas.config from {setting.source}: {problem}") from None
    translate_module = _LOGIN_MODULES.get(module.name)
    if translate_module is None:
        raise _unusable(setting, f"the login module {module.name} cannot be used from here")
    values = translate_module(module, setting)
    return {key: _derived(setting, key, value) for key, value in values.items()}


def _user_and_password(module: LoginModule, setting: Setting) -> dict[str, str]:
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise ConfigError(f"sasl.jaas.config from {setting.source} has no {' and no '.join(missing)}")
    return {"sasl.username": module.options["username"], "sasl.password": module.options["password"]}


_UNSECURED_CLAIM = "unsecuredLoginStringClaim_"
_EXTENSION = "extension_"
_UNSECURED_EXTENSION = "unsecuredLoginExtension_"
_OAUTH_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "oauth.client.id": "sasl.oauthbearer.client.id",
    "oauth.client.secret": "sasl.oauthbearer.client.secret",
    "oauth.scope": "sasl.oauthbearer.scope",
    "oauth.token.endpoint.uri": "sasl.oauthbearer.token.endpoint.url",
}
"""Kafka's own options, and Strimzi's."""


def _oauth(module: LoginModule, setting: Setting) -> dict[str, str]:
    """Unsecured tokens (of their claims only ``sub`` is translated, others are refused) or client credentials."""
    options = module.options
    subject = options.get(_UNSECURED_CLAIM + "sub")
    known = set(_OAUTH_OPTIONS) | {_UNSECURED_CLAIM + "sub", "unsecuredLoginLifetimeSeconds"}
    for name in options:
        if name not in known and not name.startswith((_EXTENSION, _UNSECURED_EXTENSION)):
            raise _unusable(setting, f"the option {name} of OAuthBearerLoginModule cannot be translated")
    if subject is not None:
        config = f"principal={subject}"
        if "unsecuredLoginLifetimeSeconds" in options:
            config += f" lifeSeconds={options['unsecuredLoginLifetimeSeconds']}"
        for name, value in options.items():
            if name.startswith(_UNSECURED_EXTENSION):
                config += f" extension_{name.removeprefix(_UNSECURED_EXTENSION)}={value}"
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": config}
    values = {key: options[option] for option, key in _OAUTH_OPTIONS.items() if option in options}
    if values:
        values["sasl.oauthbearer.method"] = "oidc"
    extensions = [
        f"{name.removeprefix(_EXTENSION)}={value}" for name, value in options.items() if name.startswith(_EXTENSION)
    ]
    if extensions:
        values["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return values


def _kerberos(module: LoginModule, setting: Setting) -> dict[str, str]:
    if module.options.get("useKeyTab", "false").lower() == "true":
        raise ConfigError(
            f"sasl.jaas.config from {setting.source}: kgroup cannot read a keytab",
            hint="Get a ticket first: kinit -kt KEYTAB PRINCIPAL (or set KRB5_CLIENT_KTNAME), "
            "and write useTicketCache=true",
        )
    service = module.options.get("serviceName")
    return {} if service is None else {"sasl.kerberos.service.name": service}


def _iam(module: LoginModule, setting: Setting) -> dict[str, str]:
    for name in module.options:
        if name not in ("awsProfileName", "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"):
            raise _unusable(setting, f"give {name} of IAMLoginModule to a profile of ~/.aws/config, and name that one")
    profile = module.options.get("awsProfileName")
    return {"sasl.oauthbearer.config": f"profile={profile}"} if profile else {}


_LOGIN_MODULES: dict[str, Callable[[LoginModule, Setting], dict[str, str]]] = {
    "PlainLoginModule": _user_and_password,
    "ScramLoginModule": _user_and_password,
    "OAuthBearerLoginModule": _oauth,
    "Krb5LoginModule": _kerberos,
    "IAMLoginModule": _iam,
}


def _truststore(given: Mapping[str, Setting]) -> dict[str, Setting]:
    inline = given.get("ssl.truststore.certificates")
    if inline is not None:
        return {"ssl.ca.pem": _derived(inline, "ssl.ca.pem", normalize_pem(inline))}
    location = given.get("ssl.truststore.location")
    if location is None:
        return {}
    if _store_type(location, given.get("ssl.truststore.type")) != "PEM":
        raise ConfigError(
            f"{location.value}: a JKS or PKCS12 store cannot be read; kgroup needs PEM",
            details=(f"ssl.truststore.location is from {location.source}.",),
            hint=f"Convert it:  {truststore_command(location.value)}\n"
            "then write ssl.truststore.type=PEM and ssl.truststore.location=ca.pem",
        )
    return {"ssl.ca.location": _derived(location, "ssl.ca.location", location.value)}


def _keystore(given: Mapping[str, Setting]) -> dict[str, Setting]:
    chain, key = given.get("ssl.keystore.certificate.chain"), given.get("ssl.keystore.key")
    if chain is not None or key is not None:
        if chain is None or key is None:
            present = chain or key
            assert present is not None
            raise ConfigError(
                f"{present.key} from {present.source}: ssl.keystore.certificate.chain and ssl.keystore.key "
                "only work together"
            )
        return {
            "ssl.certificate.pem": _derived(chain, "ssl.certificate.pem", normalize_pem(chain)),
            "ssl.key.pem": _derived(key, "ssl.key.pem", normalize_pem(key)),
        }
    location = given.get("ssl.keystore.location")
    if location is None:
        return {}
    kind = _store_type(location, given.get("ssl.keystore.type"))
    if kind == "PEM":
        # Key and certificate are in one file; both clients accept it for either.
        return {
            key: _derived(location, key, location.value) for key in ("ssl.certificate.location", "ssl.key.location")
        }
    raise keystore_error(location, kind)


def _host_names(given: Mapping[str, Setting]) -> dict[str, Setting]:
    """Java switches the host name check off with an empty value."""
    key = "ssl.endpoint.identification.algorithm"
    if key not in given:
        return {}
    value = given[key].value.strip().lower()
    if value not in ("", "none", "https"):
        raise ConfigError(f"{key}={given[key].value} from {given[key].source}: it must be https or none")
    return {key: _derived(given[key], key, value or "none")}


def _store_type(location: Setting, declared: Setting | None) -> str:
    """PEM, PKCS12 or JKS: as declared, else by the first bytes of the file, else Java's default."""
    if declared is not None and declared.value.strip():
        return declared.value.strip().upper()
    try:
        with Path(location.value).open("rb") as file:
            head = file.read(64)
    except OSError:
        return "PEM" if location.value.endswith(".pem") else "JKS"
    if head.lstrip().startswith(b"-----BEGIN"):
        return "PEM"
    return "JKS" if head.startswith(_JKS_MAGIC) else "PKCS12"


def truststore_command(path: str) -> str:
    """The command that converts a truststore of any type to PEM."""
    return f"keytool -list -rfc -keystore {quote(path)} | sed -n '/BEGIN CERT/,/END CERT/p' > ca.pem"


def keystore_command(path: str, kind: str) -> str:
    """The command that converts a keystore to PEM."""
    quoted = quote(path)
    if kind == "PKCS12":
        return f"openssl pkcs12 -in {quoted} -nodes -out key.pem"
    return (
        f"keytool -importkeystore -srckeystore {quoted} -destkeystore key.p12 -deststoretype PKCS12 "
        "&& openssl pkcs12 -in key.p12 -nodes -out key.pem"
    )


def keystore_error(location: Setting, kind: str) -> ConfigError:
    """The error for a keystore that is not PEM, with the command that converts it."""
    return ConfigError(
        f"{location.value}: a {kind} store cannot be read; kgroup needs PEM",
        details=(f"{location.key} is from {location.source}.",),
        hint=f"Convert it:  {keystore_command(location.value, kind)}\n"
        "then write ssl.keystore.type=PEM and ssl.keystore.location=key.pem",
    )


def normalize_pem(setting: Setting) -> str:
    """PEM with its line breaks, which properties files often lose. Raises ConfigError without a PEM block."""
    blocks = []
    for match in _PEM_BLOCK.finditer(setting.value):
        label, body = match.groups()
        if ":" in body:
            blocks.append(match.group())
            continue
        packed = "".join(body.split())
        lines = [packed[at : at + 64] for at in range(0, len(packed), 64)]
        blocks.append("\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----")))
    if not blocks:
        raise ConfigError(f"{setting.key} from {setting.source} has no PEM block (-----BEGIN ...-----)")
    return "\n".join(blocks) + "\n"


def _derived(origin: Setting, key: str, value: str) -> Setting:
    source = origin.source if key == origin.key else f"{origin.source} ({origin.key})"
    return Setting(key, value, source)


def _unusable(setting: Setting, why: str) -> ConfigError:
    return ConfigError(f"{setting.key} from {setting.source} cannot be honoured: {why}")
