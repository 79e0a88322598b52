"""The application: pages and the API, with what answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import whydrop
from whydrop.web import defects, pages
from whydrop.web.access import Guard
from whydrop.web.endpoints import openapi
from whydrop.web.handlers.analyses import AnalysisHandlers
from whydrop.web.handlers.batches import BatchHandlers
from whydrop.web.handlers.comparisons import ComparisonHandlers
from whydrop.web.handlers.contents import ContentHandlers
from whydrop.web.handlers.library import LibraryHandlers
from whydrop.web.handlers.marking import MarkingHandlers
from whydrop.web.handlers.ports import PortHandlers
from whydrop.web.handlers.rolling import RollingHandlers
from whydrop.web.handlers.runs import RunHandlers
from whydrop.web.handlers.streams import Streams
from whydrop.web.handlers.studies import StudyHandlers
from whydrop.web.handlers.watching import WatchHandlers
from whydrop.web.metrics import Metrics, Requests
from whydrop.web.site import Settings, Site

# Each answers for one subject.
_HANDLERS = (
    ContentHandlers,
    MarkingHandlers,
    LibraryHandlers,
    AnalysisHandlers,
    ComparisonHandlers,
    RunHandlers,
    BatchHandlers,
    StudyHandlers,
    WatchHandlers,
    PortHandlers,
    RollingHandlers,
)


def application(settings: Settings) -> Requests:
    """The application, which opens its folders when it starts."""
    routes: list[Route] = []

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            site = Site(settings, tasks)
            app.router.routes.extend([*_routes(site), Route("/metrics", Metrics(site, requests).answer)])
            tasks.start_soon(site.keep_up)
            tasks.start_soon(site.watcher.run)
            try:
                yield
            finally:
                await site.rolling.end()
                await site.jobs.end_all()
                tasks.cancel_scope.cancel()
        site.library.close()

    async def defect(request: Request, reason: Exception) -> Response:
        return defects.answer(request, reason)

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={Exception: defect})
    requests = Requests(Guard(app, settings.access, open_paths=["/health"]))
    return requests


def _routes(site: Site) -> list[Route]:
    endpoints = [endpoint for one in _HANDLERS for endpoint in one(site).endpoints()]
    streams = Streams(site)
    described = openapi(endpoints, whydrop.__version__, streams.described())

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def api(_request: Request) -> Response:
        return JSONResponse(described)

    async def first(_request: Request) -> Response:
        return RedirectResponse("/browse", 303)

    async def view(request: Request) -> Response:
        return HTMLResponse(pages.view(request.url.path.strip("/")))

    async def asset(request: Request) -> Response:
        return pages.asset(request.path_params["name"])

    return [
        *(one.route() for one in endpoints),
        Route("/", first), Route("/health", health), Route("/api", api),
        *streams.routes(),
        *(Route(f"/{name}", view) for name in pages.VIEWS),
        Route("/assets/{name}", asset),
    ]  # fmt: skip
