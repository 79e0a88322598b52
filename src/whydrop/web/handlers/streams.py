"""Uploads, and the events that pages follow; neither is JSON."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from whydrop.web.endpoints import RequestError
from whydrop.web.events import TooManyReadersError
from whydrop.web.site import Site


class Streams:
    """Messages that are sent and received in pieces."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def upload(self, request: Request) -> Response:
        """Keep a file, and give its entry."""
        length = request.headers.get("content-length", "0")
        try:
            path = await self._site.uploads.keep(
                request.stream(), request.query_params.get("name", ""), int(length) if length.isdecimal() else 0
            )
            return JSONResponse({"id": await self._site.accept(path)})
        except RequestError as reason:
            return JSONResponse({"error": str(reason)}, reason.status)
        except ClientDisconnect:
            return PlainTextResponse("the connection ended before the file did\n", 400)

    async def stream(self, request: Request) -> Response:
        """Server-sent events of some topics."""
        topics = request.query_params.getlist("topic")
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        reading = self._site.events.read(topics, after)
        try:
            first = await anext(reading)
        except TooManyReadersError:
            return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "10"})

        async def rest() -> AsyncIterator[str]:
            async with contextlib.aclosing(reading):
                yield first
                async for one in reading:
                    yield one

        return StreamingResponse(rest(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    def routes(self) -> list[Route]:
        """Those outside the API's document."""
        return [
            Route("/api/events", self.stream),
            Route("/api/uploads", self.upload, methods=["POST"]),
        ]
