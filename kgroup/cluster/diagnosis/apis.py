"""The four requests of a diagnosis, in their oldest useful versions, and the decoding of their responses.

Messages: https://kafka.apache.org/protocol (versions of the old dialect, not flexible).
"""

from __future__ import annotations

import struct

from kgroup.cluster.diagnosis.wire import Wire, sized, string

METADATA = 3
_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36

NO_ERROR, UNSUPPORTED_MECHANISM, ILLEGAL_SASL_STATE = 0, 33, 34


def send_api_versions(wire: Wire) -> None:
    """Send ApiVersions (version 0), the one request that every listener answers; ``offered_apis`` decodes it."""
    wire.send(_API_VERSIONS, 0)


def offered_apis(answer: bytes) -> frozenset[int]:
    """The API keys in an ApiVersions version 0 response, also if it has an error code."""
    (count,) = struct.unpack_from(">i", answer, 2)
    return frozenset(struct.unpack_from(">h", answer, 6 + 6 * place)[0] for place in range(count))


def metadata(wire: Wire) -> None:
    """Send Metadata (version 1, no topics); it matters only whether a response comes."""
    wire.ask(METADATA, 1, struct.pack(">i", 0))


def sasl_handshake(wire: Wire, mechanism: str) -> tuple[int, tuple[str, ...]]:
    """(error code, enabled mechanisms) from SaslHandshake version 1."""
    answer = wire.ask(_SASL_HANDSHAKE, 1, string(mechanism))
    code, count = struct.unpack_from(">hi", answer)
    offered, at = [], 6
    for _ in range(max(count, 0)):
        (length,) = struct.unpack_from(">h", answer, at)
        offered.append(answer[at + 2 : at + 2 + length].decode("utf-8", "replace"))
        at += 2 + length
    return code, tuple(offered)


def sasl_authenticate(wire: Wire, proof: bytes) -> tuple[int, str | None, bytes]:
    """(error code, the broker's message, the mechanism's bytes) from SaslAuthenticate version 0."""
    answer = wire.ask(_SASL_AUTHENTICATE, 0, sized(proof))
    code, length = struct.unpack_from(">hh", answer)
    at = 4 + max(length, 0)
    message = answer[4:at].decode("utf-8", "replace") if length >= 0 else None
    (size,) = struct.unpack_from(">i", answer, at)
    return code, message, answer[at + 4 : at + 4 + max(size, 0)]
