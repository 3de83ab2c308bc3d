"""MSK's IAM in small: TLS before a real broker; a presigned token that is right becomes one that the broker takes.

The broker's listener has OAUTHBEARER with unsecured tokens, which end soon, and the broker ends sessions with them.
Other tokens pass unchanged. Java classes of AWS are not needed, so no test needs a compiler.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from kgroup.sandbox import Sandbox
from kgroup.sandbox.ports import choose, is_free
from kgroup.settings.aws import AwsKeys, signed_token
from kgroup.settings.tokens import unsecured_token
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import Certificates

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
REGION = "eu-west-1"
SESSION_S = 5
_SASL_AUTHENTICATE = 36
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def is_signed(token: str) -> bool:
    """Whether it is signed with KEYS for REGION, and still valid."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    at = datetime.strptime(dict(parse_qsl(url.query))["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return token == signed_token(KEYS, REGION, at) and abs((datetime.now(UTC) - at).total_seconds()) < 900


@dataclass(slots=True)
class IamFront:
    """The front's address, and the tokens that it has seen."""

    certificates: Certificates
    world: KafkaWorld
    bootstrap: str = ""
    logins: list[str] = field(default_factory=list)

    def properties(self, *lines: str) -> str:
        """A properties file of a client."""
        ca = f"ssl.ca.location={self.certificates.certificate('ca')}"
        return "\n".join(("security.protocol=SASL_SSL", ca, *lines, ""))

    def rewritten(self, request: bytes) -> bytes:
        """The request, with an unsecured token instead of a presigned one."""
        (api_key,) = struct.unpack_from(">h", request, 4)
        found = re.search(rb"auth=Bearer ([\w.=-]+)", request)
        if api_key != _SASL_AUTHENTICATE or not found:
            return request
        token = found[1].decode()
        self.logins.append(token)
        if "." in token:
            return request
        now = int(time.time())
        claims = {"sub": "alice", "iat": now, "exp": now + SESSION_S}
        instead = unsecured_token(claims) if is_signed(token) else "refused"
        (version,) = struct.unpack_from(">h", request, 6)
        start = request.index(b"n,,")
        end = request.index(b"\1\1", start) + 2
        payload = request[start:end].replace(found[1], instead.encode())
        if version < 2:
            head, length = request[4 : start - 4], struct.pack(">i", len(payload))
        else:  # the length plus one, as a variable number of 7 bits a byte; a payload here needs two
            head, length = request[4 : start - 2], bytes(((len(payload) + 1) & 0x7F | 0x80, (len(payload) + 1) >> 7))
        body = head + length + payload + request[end:]
        return struct.pack(">i", len(body)) + body


@contextmanager
def iam_front(directory: Path) -> Iterator[IamFront]:
    """A broker with it, for as long as the block runs."""
    certificates, sandbox = Certificates(directory / "certificates"), Sandbox(directory / "sandbox")
    (port, front_port) = choose(2, free=is_free)
    properties = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},IAM://127.0.0.1:{front_port}",
        "listener.name.iam.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.iam.oauthbearer.sasl.jaas.config": f'{_MODULE} required unsecuredLoginStringClaim_sub="broker";',
        "connections.max.reauth.ms": "3600000",
    }
    try:
        status = sandbox.up(
            port=port, listeners={"IAM": "SASL_PLAINTEXT"}, properties=properties, reporter=QuietReporter()
        )
        target = int(status.listeners["IAM"].rpartition(":")[2])
        with KafkaWorld(f"127.0.0.1:{port}") as world:
            front = IamFront(certificates, world, f"127.0.0.1:{front_port}")
            with _served(front, front_port, target):
                yield front
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@contextmanager
def _served(front: IamFront, port: int, target: int) -> Iterator[None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(front.certificates.certificate("server"), front.certificates.key("server"))
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def connected(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        broker, to_broker = await asyncio.open_connection("127.0.0.1", target)

        async def requests() -> None:
            while True:
                head = await client.readexactly(4)
                to_broker.write(front.rewritten(head + await client.readexactly(*struct.unpack(">i", head))))
                await to_broker.drain()

        async def answers() -> None:
            while data := await broker.read(65536):
                to_client.write(data)
                await to_client.drain()

        both = [asyncio.create_task(requests()), asyncio.create_task(answers())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for writer in (to_client, to_broker):
            with suppress(OSError):
                writer.close()

    async def serve() -> None:
        async with await asyncio.start_server(connected, "127.0.0.1", port, ssl=context):
            ready.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Future()

    thread = threading.Thread(target=lambda: _run(loop, serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join(10)


def _run(loop: asyncio.AbstractEventLoop, work: object) -> None:
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(work)  # type: ignore[arg-type]
    loop.close()
