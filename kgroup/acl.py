"""The command that grants a missing right, for errors to name."""

from __future__ import annotations

import shlex


def acl_hint(operation: str, resource: str, name: str | None = None) -> str:
    """``kafka-acls.sh --add ... --operation Read --topic orders``; ``name`` None is for the cluster itself."""
    what = f"--{resource}" if name is None else f"--{resource} {name if name == '...' else shlex.quote(name)}"
    return f"kafka-acls.sh --add --allow-principal User:... --operation {operation} {what}"
