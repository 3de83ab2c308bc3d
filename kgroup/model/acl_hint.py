"""The command that grants missing rights, for errors to name."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.support.quoting import quote

UNKNOWN_PRINCIPAL = "User:..."
UNKNOWN_CLUSTER = "--bootstrap-server BROKER"
_principal, _cluster = UNKNOWN_PRINCIPAL, UNKNOWN_CLUSTER


def log_in_as(user: str | None, tool_flags: str) -> None:
    """Remember who this process is to the brokers, for ``acl_hint``; None where only they know (OAuth, Kerberos).

    ``tool_flags`` are those by which Kafka's own tools reach the same cluster.
    """
    global _principal, _cluster  # a process has one connection; 30 places that know none name its user
    _principal = UNKNOWN_PRINCIPAL if user is None else f"User:{user}"
    _cluster = tool_flags


def tool_flags() -> str:
    """How Kafka's own tools reach the cluster of this process."""
    return _cluster


def acl_hint(operations: str | Iterable[str], resource: str, *names: str, principal: str | None = None) -> str:
    """``kafka-acls.sh --bootstrap-server b1:9092 --add ... --operation Read --topic orders``.

    Without a name it is for the cluster itself.

    Operations may be spelled as in ``READ`` or ``DescribeConfigs``. ``principal`` is the own one by default.
    """
    wanted = [operations] if isinstance(operations, str) else operations
    spelled = (each if not each.isupper() else each.title().replace("_", "") for each in wanted)
    granted = " ".join(f"--operation {each}" for each in spelled)
    what = " ".join(f"--{resource} {name if name == '...' else quote(name)}" for name in names)
    who = principal or _principal
    who = who if who == UNKNOWN_PRINCIPAL else quote(who)
    return f"kafka-acls.sh {_cluster} --add --allow-principal {who} {granted} {what or f'--{resource}'}"


def with_principal(hint: str) -> str:
    """The hint of another process of ours, which was not told who the user is, nor of which cluster."""
    hint = hint.replace(f".sh {UNKNOWN_CLUSTER} ", f".sh {_cluster} ")
    return hint if _principal == UNKNOWN_PRINCIPAL else hint.replace(f" {UNKNOWN_PRINCIPAL} ", f" {quote(_principal)} ")
