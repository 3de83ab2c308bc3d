"""Invented ids for members that do not exist yet, in the same form as those of the group.

A member id ends with a random UUID, on which range, round robin and all hash orders depend. A simulation thus shows
one of the possible results. Another ``seed`` gives another result, the same seed always the same one.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Sequence

_NAMESPACE = uuid.UUID("a3d1f0f6-4a53-5a4e-9c1c-1d4c6b1f7a10")
_WITH_UUID = re.compile(r"(?P<stem>.*-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.DOTALL)
_UUID_LENGTH = 36
_BASE64_UUID = re.compile(r"[A-Za-z0-9_+/-]{22}")
"""Java uses the URL-safe base64 alphabet, librdkafka the standard one."""
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]+)", re.DOTALL)


def member_id_like(pattern: str, instance_id: str | None, seed: int, count: int) -> str:
    """The ``count``-th new member id of a simulation, in the form of ``pattern``.

    Classic: client id (static: instance id) and a UUID. Consumer protocol: a base64 UUID that the client creates.
    """
    made_up = made_up_uuid(seed, count)
    if parsed := _WITH_UUID.fullmatch(pattern):
        stem = f"{instance_id}-" if instance_id is not None else parsed["stem"]
        return f"{stem}{made_up}"
    if _BASE64_UUID.fullmatch(pattern):
        return base64.urlsafe_b64encode(made_up.bytes).decode().rstrip("=")
    return f"{instance_id or 'member'}-{made_up}"


def made_up_uuid(seed: int, count: int) -> uuid.UUID:
    """The ``count``-th new Uuid of a simulation."""
    return uuid.uuid5(_NAMESPACE, f"{seed}/{count}")


def own_client_ids(member_ids: Sequence[str]) -> bool:
    """Whether each of several classic members has its own client id, such as the name of its pod."""
    stems = [parsed["stem"] for name in member_ids if (parsed := _WITH_UUID.fullmatch(name))]
    return len(stems) > 1 and len(set(stems)) == len(stems) == len(member_ids)


def following_client(member_ids: Sequence[str]) -> str | None:
    """The pattern of the next member id if client ids are numbered: app-0-UUID, app-1-UUID -> app-2-UUID; else None.

    Its UUID is copied from a present member.
    """
    clients = [name[: -_UUID_LENGTH - 1] for name in member_ids]
    numbered = [parsed for client in clients if (parsed := _NUMBERED.fullmatch(client))]
    if len(numbered) < len(member_ids) or len({parsed["stem"] for parsed in numbered}) != 1:
        return None
    return f"{next_instance_id(clients)}-{member_ids[0][-_UUID_LENGTH:]}"


def numbers_apart(name: str) -> list[tuple[bool, int, str]]:
    """Sort key of a name that compares its numbers as numbers: app-9 before app-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def next_instance_id(instance_ids: list[str]) -> str:
    """The next instance id: app-0, app-1 -> app-2; if none has a number, the last one with ``-1`` appended."""
    numbered = [parsed for name in instance_ids if (parsed := _NUMBERED.fullmatch(name))]
    if numbered:
        last = max(numbered, key=lambda parsed: int(parsed["number"]))
        return f"{last['stem']}{int(last['number']) + 1:0{len(last['number'])}}"
    return f"{max(instance_ids, default='member')}-1"
