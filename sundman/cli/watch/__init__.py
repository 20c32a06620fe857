"""``sundman watch``: how a run goes, from another terminal or in a browser.

The page of ``--serve`` is one file that refreshes itself. It answers on the loopback interface and
to its own name alone, so that no page of another site can read it through the browser, and it loads
nothing but its numbers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sundman._types import Json
from sundman.cli import options
from sundman.cli.errors import UserError, one_line
from sundman.cli.output import RESULTS, console, print_line, runs_in
from sundman.cli.settings import SETTINGS
from sundman.cli.watch.view import RunView

_PORT = 8717
_REFRESH = 1.0  # seconds
HOST = "127.0.0.1"
_PAGE = Path(__file__).with_name("live.html")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)


class Watched:
    """The runs in a directory, of which there may be more with time; or one log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._views: dict[str, RunView] = {}
        if not path.exists():
            raise UserError(f"there is nothing at {path}; give the directory of a run")
        results = (path / SETTINGS).is_file() or (path / "runs").is_dir()
        if path.is_dir() and not results and not runs_in(path):
            raise UserError(
                f"{path} is not a run; give the --output of sundman toy or bnn, the store= of a "
                "run, or a log of sundman.JsonLines"
            )

    def refresh(self) -> list[RunView]:
        """The runs as they are now, the one that was written last at the end."""
        runs = runs_in(self.path) if self.path.is_dir() else {self.path.name: self.path}
        for name, path in runs.items():
            if name not in self._views:
                self._views[name] = RunView(name, path, self.path if path.is_dir() else None)
        for view in self._views.values():
            try:
                view.refresh()
            except (ValueError, OSError) as error:
                raise UserError(f"{one_line(error)}; give the directory of a run") from None
        return sorted(self._views.values(), key=lambda view: (not view.over, view.written))

    def over(self, views: list[RunView]) -> bool:
        """Whether nothing more is to be expected."""
        if not views or not all(view.over for view in views):
            return False
        last = views[-1]
        if last.state != "finished" or (self.path / RESULTS).is_file():
            return True
        of_command = (self.path / SETTINGS).is_file()  # scores and other runs may follow
        return not of_command or last.process_is_gone

    def lines(self, views: list[RunView], width: int) -> list[str]:
        """The runs for a terminal: the last one in full, a line for each of the others."""
        if not views:
            return [f"{self.path} has no run yet"]
        return [*(view.title() for view in views[:-1]), *views[-1].lines(width)]

    def as_json(self) -> Json:
        """The runs for the page."""
        try:
            views = self.refresh()
        except UserError as error:
            return {"path": str(self.path), "error": str(error), "runs": []}
        return {"path": str(self.path), "runs": [view.as_json() for view in reversed(views)]}


def watch(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="What --output is, the store= of a run in Python, or a log.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int | None,
        typer.Argument(
            metavar="PORT",
            help="Of --serve; 0 is any that is free. [default: 8717]",
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, options.output("--once", text="Print how it stands, and exit.")] = False,
    serve: Annotated[
        bool,
        options.output("--serve", text="Serve a page that refreshes itself, on this machine only."),
    ] = False,
) -> None:
    """How a run goes, or went: reads only what it writes, so that it does not notice.

    Without options, a display that is renewed each second until the run ends; where the output is
    no terminal, as with --once.

    For example:

    sundman watch star

    sundman watch star --serve 8717
    """
    if port is not None and not serve:
        raise UserError(
            f"a port, {port}, is for the page; write sundman watch {run} --serve {port}"
        )
    if once and serve:
        raise UserError("--once and --serve exclude each other; give one of them")
    watched, out = Watched(run.expanduser()), console()
    views = watched.refresh()
    if serve:
        _serve(watched, _PORT if port is None else port, out)
    elif once or not out.is_terminal:
        for line in watched.lines(views, out.width):
            print_line(out, line)
    else:
        _show(watched, out)


def _show(watched: Watched, out: Console) -> None:
    """A live display until nothing more is to be expected, or Ctrl-C."""
    try:
        with Live(console=out, auto_refresh=False) as live:
            while True:
                views = watched.refresh()
                text = "\n".join(watched.lines(views, out.width))
                live.update(Text(text, overflow="fold"), refresh=True)
                if watched.over(views):
                    return
                time.sleep(_REFRESH)
    except KeyboardInterrupt:
        return


def _serve(watched: Watched, port: int, out: Console) -> None:
    try:
        server = make_server(watched.as_json, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen on port {port}: {reason}; give another port") from None
    with server:
        address = f"http://{HOST}:{server.server_port}/"
        print_line(out, f"Watching {watched.path} at {address}; Ctrl-C ends it.")
        out.file.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


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
