"""The page over HTTP, on this computer alone.

A page of another origin can reach a server on loopback: by its address, or by a name that it makes point there. So all
paths begin with a token that is drawn at the start, `Host` has to be this server's, and what asks for work needs an
`Origin` of this server and a content type that no form can send.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from wirespeed.errors import InputError
from wirespeed.explore import answers, talk
from wirespeed.explore.talk import RefusedError, Talk

ADDRESS: Final = "127.0.0.1"
_MOST_BYTES: Final = 1 << 16
# A client that says nothing for so long is hung up on.
_SILENT_S: Final = 30
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class Server(ThreadingHTTPServer):
    """Serves one page until it is shut down."""

    daemon_threads = True

    def __init__(self, about: Talk, given: str, port: int = 0) -> None:
        """Raises InputError for a port that cannot be had."""
        self.about = about
        self.given = given
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as e:
            raise InputError(
                f"--port {port}: cannot be had on {ADDRESS}: {e.strerror}; give another, or leave it out for a free one"
            ) from None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _SILENT_S
    server_version = "wirespeed"
    sys_version = ""

    def do_GET(self) -> None:
        """The page."""
        if self._is_let_in() and self._what() == "":
            try:
                html = answers.page(self.server.about, self.server.given).encode()
            except Exception as e:
                self._json(*_failed(e))
            else:
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", [html], len(html))
        elif not self._answered:
            self._refuse(HTTPStatus.NOT_FOUND, "not found")

    def do_POST(self) -> None:
        """What the page asks."""
        if not self._is_let_in() or not self._is_ours():
            return
        what, about = self._what(), self.server.about
        try:
            document = self._document()
            if what == "scene":
                self._json(HTTPStatus.OK, answers.scene(about, str(document.get("scenario", ""))))
            elif what == "answer":
                self._json(HTTPStatus.OK, answers.first(about, talk.asked(document)))
            elif what == "refine":
                self._stream(answers.finer(about, talk.asked(document)))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "not found")
        except Exception as e:  # whatever it is: who asks waits for an answer
            if not self._answered:
                self._json(*_failed(e))

    def log_message(self, *_: Any) -> None:
        """Says nothing: the token is in each line."""

    _answered = False

    def _is_let_in(self) -> bool:
        port = self.server.port
        if self.headers.get("Host") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "Host: is not this server")
            return False
        token = self.path.split("/")[1] if self.path.startswith("/") else ""
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND, "not found: open the address that the terminal shows")
            return False
        return True

    def _is_ours(self) -> bool:
        host = self.headers.get("Host")
        if self.headers.get("Origin") != f"http://{host}" or self.headers.get("Sec-Fetch-Site", "same-origin") != (
            "same-origin"
        ):
            self._refuse(HTTPStatus.FORBIDDEN, "Origin: is not this server")
            return False
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: must be application/json")
            return False
        return True

    def _what(self) -> str:
        return self.path.partition("?")[0].removeprefix(f"/{self.server.token}/")

    def _document(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        # By its length first: thousands of digits are no number to Python.
        if not length.isdecimal() or len(length) > len(str(_MOST_BYTES)) or int(length) > _MOST_BYTES:
            raise InputError(f"Content-Length: must be a number up to {_MOST_BYTES}")
        try:
            found = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise InputError("the question is no JSON") from None
        if not isinstance(found, dict):
            raise InputError("a question is a JSON object")
        return found

    def _stream(self, pieces: Iterable[answers.Told]) -> None:
        """Piece by piece; what is refused before the first is no stream. A client that leaves ends the run."""
        found = iter(pieces)
        with contextlib.closing(found):  # type: ignore[type-var] # a generator
            begin = next(found, None)
            self._send(HTTPStatus.OK, "application/x-ndjson", _guarded(begin, found), None)

    def _json(self, status: HTTPStatus, told: answers.Told) -> None:
        body = answers.line(told)
        self._send(status, "application/json", [body], len(body))

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        body = f"{words}\n".encode()
        self._send(status, "text/plain; charset=utf-8", [body], len(body))

    def _send(self, status: HTTPStatus, kind: str, pieces: Iterable[bytes], length: int | None) -> None:
        self._answered = True
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()


def _guarded(begin: answers.Told | None, rest: Iterable[answers.Told]) -> Iterable[bytes]:
    """Pieces as lines; an error within them is the last line."""
    try:
        if begin is not None:
            yield answers.line(begin)
        for each in rest:
            yield answers.line(each)
    except Exception as e:
        yield answers.line(_failed(e)[1])


def _failed(error: Exception) -> tuple[HTTPStatus, answers.Told]:
    """How an error is answered: what is not the input's fault, or a file's, is a bug."""
    if isinstance(error, InputError | RefusedError):
        return HTTPStatus.UNPROCESSABLE_ENTITY, answers.refused(error)
    if isinstance(error, OSError):
        return HTTPStatus.UNPROCESSABLE_ENTITY, {"error": f"{error.filename or ''}: {error.strerror or error}"}
    return HTTPStatus.INTERNAL_SERVER_ERROR, answers.bug(error)


def serve(server: Server) -> None:
    """Serves until Ctrl-C; what is under way is ended."""
    beside = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    beside.start()
    try:
        while beside.is_alive():
            beside.join(0.5)
    finally:
        server.shutdown()
        server.server_close()
        server.about.close()
