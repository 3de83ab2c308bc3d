"""Builds one ``ssl.SSLContext`` from the settings, for kafka-python and for the diagnosis of failed connections."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from kgroup.settings.model import Settings
from kgroup.support.errors import ConfigError

_LABELS = {
    "ssl.ca.location": "CA certificates",
    "ssl.certificate.location": "the client certificate",
    "ssl.crl.location": "revoked certificates",
    "ssl.key.location": "the client key",
}


def client_context(settings: Settings, *, verify: bool = True) -> ssl.SSLContext:
    """A TLS context for these settings; ``verify=False`` accepts any broker, and is for diagnosis only.

    Raises ConfigError, with the setting and its source, for files that are missing, unreadable or not PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = (settings.get("ssl.endpoint.identification.algorithm") or "https") == "https"
    if not verify or (settings.get("enable.ssl.certificate.verification") or "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, settings)
    ciphers = settings.get("ssl.cipher.suites")
    if ciphers:
        try:
            context.set_ciphers(ciphers.replace(",", ":"))
        except ssl.SSLError:
            raise _unusable(
                settings, "ssl.cipher.suites", "OpenSSL knows none of them (it has its own names)"
            ) from None
    load_client_certificate(context, settings)
    return context


def has_client_certificate(settings: Settings) -> bool:
    return bool(settings.get("ssl.certificate.location") or settings.get("ssl.certificate.pem"))


def load_client_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Load the client certificate and key, if there are any, into ``context``. Raises ConfigError."""
    if not has_client_certificate(settings):
        for key in ("ssl.key.location", "ssl.key.pem"):
            if settings.get(key):
                raise _unusable(settings, key, "there is a key, but no certificate (ssl.certificate.location)")
        return
    # ssl loads keys from files only. A PEM text in a setting is written to a directory that only we can read,
    # and that is removed after the key is loaded.
    with tempfile.TemporaryDirectory(prefix="kgroup-") as directory:
        certificate_key, certificate = _as_file(settings, "ssl.certificate", Path(directory))
        key_key, key_file = _as_file(settings, "ssl.key", Path(directory))
        try:
            # Without a password OpenSSL would ask for one in the terminal.
            context.load_cert_chain(certificate, key_file, password=settings.get("ssl.key.password") or "")
        except ssl.SSLError as error:
            raise _load_failure(settings, certificate_key, key_key, key_file, error) from None


def _as_file(settings: Settings, stem: str, directory: Path) -> tuple[str, Path]:
    """The setting in use, ``stem``.pem or ``stem``.location, and a file with its content."""
    pem = settings.get(f"{stem}.pem")
    if pem is None:
        location = settings.get(f"{stem}.location")
        if location is None:
            # As in Java's PEM stores: the key is in the certificate's file.
            location = settings.get("ssl.certificate.location")
        if location is None:
            raise _unusable(settings, "ssl.certificate.pem", "there is a certificate, but no key (ssl.key.pem)")
        key = f"{stem}.location" if settings.get(f"{stem}.location") else "ssl.certificate.location"
        return key, require_readable(settings, key)
    path = directory / f"{stem}.pem"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(pem)
    return f"{stem}.pem", path


def _load_failure(
    settings: Settings, certificate_key: str, key_key: str, key_file: Path, error: ssl.SSLError
) -> ConfigError:
    if "MISMATCH" in (error.reason or ""):
        return _unusable(settings, key_key, f"it is not the key of {certificate_key}")
    # OpenSSL reports a wrong password only as "PEM lib".
    if b"ENCRYPTED" in key_file.read_bytes():
        wrong = "is wrong" if settings.get("ssl.key.password") else "is missing"
        return _unusable(settings, key_key, f"the key is encrypted, and ssl.key.password {wrong}")
    if key_key == certificate_key:
        return _unusable(settings, key_key, "it has no PEM key; set ssl.key.location where that is in another file")
    return _unusable(settings, certificate_key, "no PEM certificate and key could be read")


def _trust(context: ssl.SSLContext, settings: Settings) -> None:
    pem, location = settings.get("ssl.ca.pem"), settings.get("ssl.ca.location")
    try:
        if pem:
            context.load_verify_locations(cadata=pem)
        elif location and location != "probe":
            path = require_readable(settings, "ssl.ca.location")
            if path.is_dir():
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        else:
            context.load_default_certs()
    except ssl.SSLError:
        raise _unusable(settings, "ssl.ca.pem" if pem else "ssl.ca.location", "it has no PEM certificate") from None
    if settings.get("ssl.crl.location"):
        try:
            context.load_verify_locations(cafile=require_readable(settings, "ssl.crl.location"))
        except ssl.SSLError:
            raise _unusable(settings, "ssl.crl.location", "it has no PEM revocation list") from None
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def require_readable(settings: Settings, key: str) -> Path:
    """The file that a setting names. Raises ConfigError if it cannot be read."""
    path = Path(settings.get(key) or "")
    try:
        if not path.is_dir():
            with path.open("rb"):
                pass
    except OSError as error:
        raise ConfigError(
            f"cannot read {_LABELS.get(key, key)} {path}: {error.strerror}",
            details=(f"{key} is from {settings.source(key)}.",),
        ) from None
    return path


def _unusable(settings: Settings, key: str, why: str) -> ConfigError:
    return ConfigError(f"{key} cannot be used: {why}", details=(f"{key} is from {settings.source(key)}.",))
