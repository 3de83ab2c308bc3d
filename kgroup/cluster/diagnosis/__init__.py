"""Diagnose a failed connection: both Kafka clients retry until the time limit and then only report a timeout.

So this package makes one more connection itself: TCP, TLS, ApiVersions, SASL, step by step until one fails. Each
step's failure has its own message. If the host answers, this takes a few milliseconds.
"""

from __future__ import annotations

from kgroup.cluster.diagnosis.probe import probe
from kgroup.cluster.diagnosis.tcp import DiagnosisTarget
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.redact import redact

__all__ = ["certain_fault", "explain"]


def explain(
    settings: Settings, host: str, port: int, error: BaseException | None, *, deadline_s: float = 1.5
) -> KgroupError:
    """The reason why connecting to ``host:port`` with these settings failed, as an error to raise.

    ``error`` is what the client raised; it is quoted only if the connection works now. Takes at most ``deadline_s``.
    The result never holds a secret. It is Unreachable with code unreachable, timed-out, tls or not-kafka;
    AuthenticationFailed; or ConfigError if a file that the settings name cannot be used.
    """
    target = DiagnosisTarget(settings, host, port, deadline_s)
    try:
        probe(target)
    except KgroupError as fault:
        return fault
    client_error = f"{error}".strip() or type(error).__name__ if error is not None else "no answer within the timeout"
    return Unreachable(
        f"{target.where} answers, but a request to the cluster failed",
        details=(
            redact(client_error, settings.secrets),
            f"{target.where} is from {settings.source('bootstrap.servers')}.",
        ),
        hint="It may be starting or overloaded: try again with a longer --timeout.",
        code="timed-out",
    )


def certain_fault(settings: Settings, host: str, port: int, *, deadline_s: float = 0.8) -> KgroupError | None:
    """The lasting fault of ``host:port``; None if it works or a longer wait may help.

    For use while a client still waits: an HTTP server never answers it, a slow broker does in the end.
    """
    target = DiagnosisTarget(settings, host, port, deadline_s)
    try:
        probe(target)
    except KgroupError as fault:
        return None if target.may_pass else fault
    return None
