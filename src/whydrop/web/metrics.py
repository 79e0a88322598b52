"""Metrics of the server for Prometheus: requests, streams, jobs, and what it costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whydrop.monitoring.scraping import counter, gauge
from whydrop.web.workers import Worker

if TYPE_CHECKING:
    from prometheus_client import Metric

    from whydrop.web.site import Site

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# The greatest of each bucket, in seconds.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Requests:
    """An application with its requests counted by what it answered; event streams are none of them."""

    def __init__(self, app: ASGIApp) -> None:
        """Count the requests to ``app``."""
        self._app = app
        self.by_status: Counter[tuple[str, str]] = Counter()
        self.by_duration: Counter[float] = Counter()
        self.seconds = 0.0
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status, is_stream = time.perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(b"text/event-stream" in value for _, value in message["headers"])
            await send(message)

        self.running += 1
        try:
            await self._app(scope, receive, sending)
        finally:
            self.running -= 1
            if not is_stream:
                # The methods of clients are without bounds, those of metrics must not be.
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self.by_status[method, str(status or 500)] += 1
                self._took(time.perf_counter() - began_s)

    def _took(self, seconds: float) -> None:
        self.seconds += seconds
        self.by_duration[next((bucket for bucket in _BUCKETS_S if seconds <= bucket), float("inf"))] += 1

    def durations(self) -> Metric:
        """The histogram of their durations."""
        from prometheus_client.core import HistogramMetricFamily

        reached, buckets = 0, []
        for bucket in (*_BUCKETS_S, float("inf")):
            reached += self.by_duration[bucket]
            buckets.append(("+Inf" if bucket == float("inf") else f"{bucket:g}", reached))
        text = "Durations of answered requests; event streams are not counted."
        family = HistogramMetricFamily("whydrop_web_request_duration_seconds", text)
        family.add_metric([], buckets, self.seconds)
        found: Metric = family
        return found


class Metrics:
    """All metrics of a server."""

    def __init__(self, site: Site, requests: Requests) -> None:
        """Of a running server.

        Args:
            site: its state.
            requests: its requests.
        """
        from prometheus_client import CollectorRegistry, ProcessCollector

        self._site = site
        self._requests = requests
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at this moment."""
        site, requests = self._site, self._requests
        by_status: dict[tuple[str, ...], float] = {labels: float(count) for labels, count in requests.by_status.items()}
        yield counter("whydrop_web_requests", "Answered requests.", by_status, ["method", "status"])
        yield requests.durations()
        yield gauge("whydrop_web_requests_running", "Requests without an end so far.", {(): requests.running})
        yield gauge("whydrop_web_event_streams", "Open event streams.", {(): site.events.readers})
        states: dict[tuple[str, ...], float] = {labels: float(count) for labels, count in site.jobs.states().items()}
        yield gauge("whydrop_web_jobs", "Jobs that are kept.", states, ["kind", "state"])
        yield gauge("whydrop_web_library_entries", "Entries of the index.", {(): site.library.count()})
        received = site.uploads.received_bytes
        yield counter("whydrop_web_uploaded_bytes", "Bytes of files that were sent and kept.", {(): received})
        yield counter("whydrop_web_workers_started", "Processes started for jobs.", {(): Worker.started})
        yield counter("whydrop_web_workers_died", "Processes of jobs that ended by themselves.", {(): Worker.died})

    async def answer(self, _request: Request) -> Response:
        """The metrics in the text format of Prometheus."""
        from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
