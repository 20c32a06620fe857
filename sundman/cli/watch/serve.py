"""The page of ``sundman watch --serve``: one file, on this machine only, that refreshes itself.

It answers on the loopback interface and to its own name alone, so that no page of another site can
read it through the browser. The page loads nothing but its numbers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sundman._types import Json

HOST = "127.0.0.1"
_PAGE = Path(__file__).with_name("live.html")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)


def make_server(state: Callable[[], Json], port: int) -> ThreadingHTTPServer:
    """A server of the page, not running yet; port 0 takes any that is free.

    Args:
      state: what the page shows, as JSON can hold it; asked for at each refresh.
      port: where to listen.

    Returns:
      The server; ``serve_forever`` runs it.
    """
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        """Answers for the page and its numbers."""

        def do_GET(self) -> None:
            """Send what was asked for."""
            own = f"{HOST}:{server.server_port}"
            if self.headers.get("Host") not in (own, own.replace(HOST, "localhost")):
                self.send_error(403)
            elif self.path == "/":
                self._send(_PAGE.read_bytes(), "text/html")
            elif self.path == "/state":
                with one_at_a_time:
                    content = json.dumps(state(), allow_nan=False)
                self._send(content.encode(), "application/json")
            else:
                self.send_error(404)

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", _POLICY)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a line each second would hide the address."""

    server = ThreadingHTTPServer((HOST, port), Handler)
    return server
