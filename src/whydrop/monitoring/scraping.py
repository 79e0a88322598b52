"""The HTTP server of exporters. Slow and silent clients take few resources, for a limited time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from whydrop.errors import Error

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

# A client that has not sent its request, or read the whole answer, within this time is disconnected (Prometheus waits
# 10 s by default).
PATIENCE_S = 30.0
# Each request takes a thread, and time that polls need; Prometheus sends one at a time.
AT_ONCE = 8


class Server(ThreadingMixIn, WSGIServer):
    """Answers a few requests at a time, each in a daemon thread.

    Attributes:
        patience_s: how long to wait for a client.
    """

    patience_s = PATIENCE_S
    request_queue_size = 64
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.Semaphore(AT_ONCE)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._room.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected."""


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
    """A server of the metrics of a registry; it answers once ``serve_forever`` runs.

    Raises:
        OSError: the address cannot be listened at.
        OverflowError: the port is out of range.
    """
    from prometheus_client import make_wsgi_app

    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = found[0]
    kind = _ServerOfIPv6 if family == socket.AF_INET6 else Server
    return make_server(str(place[0]), port, make_wsgi_app(registry), kind, _Handler)


def counter(name: str, text: str, values: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()) -> Metric:
    """A metric that only grows: its values by those of its labels."""
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, text, labels=labels), values)


def gauge(name: str, text: str, values: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()) -> Metric:
    """A metric that rises and falls: its values by those of its labels."""
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, text, labels=labels), values)


def _filled(family: Any, values: Mapping[tuple[str, ...], float]) -> Metric:
    for labels, value in values.items():
        family.add_metric(list(labels), value)
    filled: Metric = family
    return filled


def not_shown(samples: float) -> Metric:
    """The metric of samples beyond an exporter's limit of series."""
    text = "Samples of series that are not shown, because there are too many."
    return counter("whydrop_samples_not_shown", text, {(): samples})


class ExporterError(Error):
    """The exporter cannot listen at the given address; the message says why and what to do."""


class Serving:
    """Serves the metrics that :meth:`collect` yields at ``http://ADDRESS:PORT/metrics``, in a thread of its own.

    Attributes:
        address: that it listens at.
        port: TCP.
    """

    def __init__(self, address: str, port: int) -> None:
        """Listen; what :meth:`collect` reads must be there before.

        Args:
            address: of this machine; ``127.0.0.1`` lets only itself ask.
            port: TCP; 0 takes a free one.

        Raises:
            ExporterError: the address cannot be listened at.
        """
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server = listen(address, port, registry)
        except (OSError, OverflowError) as reason:
            words = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
            raise ExporterError(
                f"exporter: cannot listen at {address} port {port}: {words}. Choose another address or port"
            ) from reason
        self._thread = threading.Thread(target=self._server.serve_forever, name="whydrop exporter", daemon=True)
        self._thread.start()
        self.address: str = address
        self.port: int = self._server.server_address[1]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at this moment."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
