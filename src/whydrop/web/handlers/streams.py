"""Uploads, and the events that pages follow; neither is JSON."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

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
            ids = await self._site.accept_all(path)
            return JSONResponse({"id": ids[0], "ids": ids})
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

    def described(self) -> dict[str, dict[str, Any]]:
        """Those for scripts as OpenAPI has them, by path and method."""
        return {
            "/api/events": {"get": _described("get_events", "Follow events.", _EVENTS, "text/event-stream", _TEXT)},
            "/api/uploads": {
                "post": {
                    **_described("post_uploads", "Send a file, and get its entry.", _NAME, "application/json", _ENTRY),
                    "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {}}}},
                }
            },
        }


_TEXT = {"type": "string"}
_ENTRY = {"type": "object", "properties": {"id": _TEXT}, "required": ["id"]}
_NAME = [{"name": "name", "in": "query", "schema": _TEXT, "description": "Of the file"}]
_EVENTS = [
    {
        "name": "topic", "in": "query", "schema": {"type": "array", "items": _TEXT},
        "description": "library, jobs, or jobs/ID; each with all that is below it",
    },
    {
        "name": "after", "in": "query", "schema": _TEXT,
        "description": "Identifier of the last event that was read; also as the header Last-Event-ID",
    },
]  # fmt: skip


def _described(
    own: str, summary: str, parameters: list[dict[str, Any]], media: str, schema: dict[str, Any]
) -> dict[str, Any]:
    problem = {"$ref": "#/components/schemas/Problem"}
    return {
        "operationId": own,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": {media: {"schema": schema}}},
            "default": {"description": "Why it failed.", "content": {"application/json": {"schema": problem}}},
        },
    }
