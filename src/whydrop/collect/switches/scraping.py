"""The HTTP server of the exporter: whoever asks slowly, or not at all, costs it little and not for long."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# Who has not sent a question, or taken the whole answer, in this time is hung up on (Prometheus waits 10 s by default).
PATIENCE_S = 30.0
# Each takes a thread, and all of them together the time of polls: Prometheus asks once at a time.
AT_ONCE = 8


class Server(WSGIServer):
    """Answers a few at a time, each in a thread that does not keep the process from ending.

    Attributes:
        patience_s: how long to wait for who asks.
    """

    patience_s = PATIENCE_S
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.Semaphore(AT_ONCE)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()
        except RuntimeError:  # no more threads
            self._room.release()
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hung up meanwhile is no news."""

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)
            self._room.release()


class _ServerOfIPv6(Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        assert isinstance(self.server, Server)
        self.request.settimeout(self.server.patience_s)
        super().setup()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def listen(address: str, port: int, registry: CollectorRegistry) -> Server:
    """A server of what a registry holds; it answers once it is told to ``serve_forever``.

    Raises:
        OSError: the address cannot be listened at.
        OverflowError: the port is no port.
    """
    from prometheus_client import make_wsgi_app

    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = found[0]
    kind = _ServerOfIPv6 if family == socket.AF_INET6 else Server
    return make_server(str(place[0]), port, make_wsgi_app(registry), kind, _Handler)
