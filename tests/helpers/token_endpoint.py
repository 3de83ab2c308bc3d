"""An OIDC provider and Azure's metadata service in small, on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kgroup.settings.tokens import unsecured_token


@contextmanager
def serve_tokens(life_s: int = 600) -> Iterator[str]:
    """Give unsigned tokens to client ``kg`` with the secret ``oidc-secret``, or for ``api://kg``; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Azure's metadata service."""
            resource = parse_qs(urlsplit(self.path).query)["resource"]
            self._answer(self.headers["Metadata"] == "true" and resource == ["api://kg"])

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            good = self.headers["Authorization"] == "Basic a2c6b2lkYy1zZWNyZXQ="
            assert form["grant_type"] == ["client_credentials"]
            self._answer(good)

        def _answer(self, good: bool) -> None:
            now = int(time.time())
            body: dict[str, Any] = {
                "access_token": unsecured_token({"sub": "alice", "iat": now, "exp": now + life_s}),
                "expires_in": life_s,
            }
            if not good:
                body = {"error": "invalid_client", "error_description": "no such client"}
            payload = json.dumps(body).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()
