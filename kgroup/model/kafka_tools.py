"""Complete commands of Kafka's own tools, for hints: ``kafka-acls.sh``, ``kafka-transactions.sh``."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.support.quoting import quote

UNKNOWN_PRINCIPAL = "User:..."
UNKNOWN_CLUSTER = "--bootstrap-server BROKER"
_principal, _cluster = UNKNOWN_PRINCIPAL, UNKNOWN_CLUSTER


def log_in_as(user: str | None, tool_flags: str) -> None:
    """Store this process's user and cluster for ``acl_hint``.

    ``user`` is None if only the brokers know it (OAuth, Kerberos). ``tool_flags`` are the connection flags that
    Kafka's own tools need for the same cluster.
    """
    global _principal, _cluster  # one connection per process; about 30 callers of acl_hint have no connection at hand
    _principal = UNKNOWN_PRINCIPAL if user is None else f"User:{user}"
    _cluster = tool_flags


def tool_flags() -> str:
    """The connection flags that Kafka's own tools need for the cluster of this process."""
    return _cluster


def acl_hint(operations: str | Iterable[str], resource: str, *names: str, principal: str | None = None) -> str:
    """The command ``kafka-acls.sh --bootstrap-server b1:9092 --add ... --operation Read --topic orders``.

    Without ``names`` the right is for the cluster itself. Operations may be spelled ``READ`` or ``DescribeConfigs``.
    ``principal`` defaults to the user of this process.
    """
    names_of_operations = [operations] if isinstance(operations, str) else operations
    spelled = (each if not each.isupper() else each.title().replace("_", "") for each in names_of_operations)
    granted = " ".join(f"--operation {each}" for each in spelled)
    resources = " ".join(f"--{resource} {name if name == '...' else quote(name)}" for name in names)
    user = principal or _principal
    user = user if user == UNKNOWN_PRINCIPAL else quote(user)
    return f"kafka-acls.sh {_cluster} --add --allow-principal {user} {granted} {resources or f'--{resource}'}"


def with_principal(hint: str) -> str:
    """Fill the user and the cluster into a hint that another kgroup process made without knowing them."""
    hint = hint.replace(f".sh {UNKNOWN_CLUSTER} ", f".sh {_cluster} ")
    return hint if _principal == UNKNOWN_PRINCIPAL else hint.replace(f" {UNKNOWN_PRINCIPAL} ", f" {quote(_principal)} ")


def find_hanging(topic: str, partition: int) -> str:
    """The command ``kafka-transactions.sh --bootstrap-server BROKER find-hanging --topic orders --partition 7``."""
    where = f"--topic {quote(topic)} --partition {partition}"
    return f"kafka-transactions.sh --bootstrap-server BROKER find-hanging {where}"
