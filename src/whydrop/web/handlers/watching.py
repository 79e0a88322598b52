"""Requests about this host's connections."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from whydrop.monitoring.sockets.live import VERDICTS
from whydrop.web.endpoints import Endpoint
from whydrop.web.site import Site
from whydrop.web.work.watching import COLUMNS


class Connections(BaseModel):
    """Which connections, and how many of them."""

    q: str = Field("", max_length=500, description="Words that a row must have: ends, process, state, limit")
    sort: str = Field("", pattern=rf"^(-?({'|'.join(COLUMNS)}))?$", description="A column; - before it is descending")
    limit: int = Field(300, ge=1, le=1000)


class ConnectionsAnswer(BaseModel):
    """Connections of this host now: ``found`` of all ``total``, and the values of ``columns`` of some of them.

    ``sent_mbps`` and ``received_mbps`` are payload in Mbit/s; ``retransmitted`` are packets since the state
    before. ``verdicts`` are sentences on each limit.
    """

    time_s: float
    total: int
    found: int
    columns: list[str]
    rows: list[list[str | float | int | None]]
    limits: list[tuple[str, int]]
    verdicts: dict[str, str]
    warnings: list[str]


class OneConnection(BaseModel):
    """A connection by its ends."""

    local: str = Field(max_length=100, description="ADDRESS:PORT of this host")
    remote: str = Field(max_length=100)


class HistoryAnswer(BaseModel):
    """Points of one connection by column, for the last five minutes: seconds since the Unix epoch, and a value."""

    series: dict[str, list[tuple[float, float]]]


class WatchHandlers:
    """This host's connections."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def connections(self, given: Connections) -> ConnectionsAnswer:
        """The connections now."""
        found = await self._site.watcher.ask("state", words=given.q, sort=given.sort, most=given.limit)
        return ConnectionsAnswer(**found, verdicts=VERDICTS)

    async def history(self, given: OneConnection) -> HistoryAnswer:
        """The points of one connection."""
        return HistoryAnswer(series=await self._site.watcher.ask("history", local=given.local, remote=given.remote))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint(
                "GET", "/api/watch/connections", Connections, ConnectionsAnswer, self.connections,
                "List this host's TCP connections with what limits each.",
            ),
            Endpoint(
                "GET", "/api/watch/history", OneConnection, HistoryAnswer, self.history,
                "Points of one connection.",
            ),
        ]  # fmt: skip
