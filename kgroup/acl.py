"""The command that grants missing rights, for errors to name."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.quoting import quote

UNKNOWN_PRINCIPAL = "User:..."
_principal = UNKNOWN_PRINCIPAL


def log_in_as(user: str | None) -> None:
    """Remember who this process is to the brokers, for ``acl_hint``; None where only they know (OAuth, Kerberos)."""
    global _principal  # a process has one connection's user; 30 places that know no connection name it
    _principal = UNKNOWN_PRINCIPAL if user is None else f"User:{user}"


def acl_hint(operations: str | Iterable[str], resource: str, *names: str, principal: str | None = None) -> str:
    """``kafka-acls.sh --add ... --operation Read --topic orders``; without a name it is for the cluster itself.

    Operations may be spelled as in ``READ`` or ``DescribeConfigs``. ``principal`` is the own one by default.
    """
    wanted = [operations] if isinstance(operations, str) else operations
    spelled = (each if not each.isupper() else each.title().replace("_", "") for each in wanted)
    granted = " ".join(f"--operation {each}" for each in spelled)
    what = " ".join(f"--{resource} {name if name == '...' else quote(name)}" for name in names)
    who = principal or _principal
    who = who if who == UNKNOWN_PRINCIPAL else quote(who)
    return f"kafka-acls.sh --add --allow-principal {who} {granted} {what or f'--{resource}'}"


def with_principal(hint: str) -> str:
    """The hint of another process of ours, which was not told who the user is."""
    return hint if _principal == UNKNOWN_PRINCIPAL else hint.replace(f" {UNKNOWN_PRINCIPAL} ", f" {quote(_principal)} ")
