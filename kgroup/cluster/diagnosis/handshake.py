"""The TLS handshake with the settings' context, and why it failed, at once or at the first read."""

from __future__ import annotations

import ssl
from contextlib import closing

from kgroup.cluster.diagnosis import tcp, tls
from kgroup.cluster.diagnosis.certificates import certificate_refused, client_certificate_refused
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.cluster.wire import Closed, Foreign, Wire
from kgroup.settings.tls import client_context
from kgroup.support.errors import KgroupError


def connect(target: DiagnosisTarget) -> ssl.SSLSocket:
    """A TLS connection as the settings require it. Raises the reason if there is none."""
    context = client_context(target.settings)
    try:
        return tls.encrypted(target, context)
    except ssl.SSLCertVerificationError as error:
        raise certificate_refused(target, error) from None
    except OSError as error:
        raise _failure(target, error) from None


def ended(target: DiagnosisTarget, error: ssl.SSLError | None) -> KgroupError:
    """Why the other side ended TLS at our first read. ``error`` None: it closed the connection.

    With TLS 1.3 a refused client certificate shows only at the first read.
    """
    reason = (error.reason or "") if error is not None else ""
    if error is None or _is_about_client_certificate(reason):
        return client_certificate_refused(target, tls.alert_text(reason))
    return tls.fault(f"no TLS with {target.where}: {tls.alert_text(reason)}", target.protocol_origin)


def _failure(target: DiagnosisTarget, error: OSError) -> KgroupError:
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if _is_about_client_certificate(reason):
        return client_certificate_refused(target, tls.alert_text(reason))
    if isinstance(error, TimeoutError):
        # The handshake used all of the time: a second connection would time out and wrongly suggest a firewall.
        return tcp.silent(target)
    try:
        with closing(tcp.connect(target)) as connection:
            tcp.first_answer(target, Wire(connection, target.deadline))
    except Foreign as foreign:
        if not tcp.is_tls(foreign):
            return tcp.not_kafka(target, foreign.said)
    except (Closed, TimeoutError):
        pass
    else:
        return tls.fault(
            f"{target.where} does not speak TLS; it looks like a plaintext port",
            target.protocol_origin,
            "Other listeners cannot be seen from here; brokers often have TLS on 9093.",
        )
    return tls.fault(
        f"no TLS with {target.where}: {tls.alert_text(reason) or 'it ended the handshake'}",
        target.protocol_origin,
        hint="Check that the port is a TLS listener of a Kafka broker, and not a web server or a plaintext port.",
    )


def _is_about_client_certificate(reason: str) -> bool:
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)
