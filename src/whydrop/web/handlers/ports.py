"""Requests about ports of switches: their states in a store, and one port over time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from whydrop.web.endpoints import Endpoint
from whydrop.web.site import Site
from whydrop.web.work import ports

_WEEK_S = 604_800.0


class Ports(BaseModel):
    """Which ports of a store, and how many of them."""

    store: str = Field(description="Identifier of the store's entry")
    q: str = Field("", max_length=500, description="Words that a row must have: switch, site, port, machine, state")
    sort: str = Field("", pattern=rf"^(-?({'|'.join(ports.COLUMNS)}))?$", description="A column; - is descending")
    limit: int = Field(500, ge=1, le=2000)
    window_s: float = Field(3600, gt=0, le=_WEEK_S, description="Discards and errors are counted for this time")


class PortsAnswer(BaseModel):
    """Ports of a store: ``found`` of all ``total``, and the values of ``columns`` of some of them.

    ``polled_s`` is when a switch was polled last, null without samples; rates are in Mbit/s, as the switch sees them;
    discards and errors are packets in the window before ``polled_s``.
    """

    total: int
    found: int
    columns: list[str]
    rows: list[list[str | float | int | None]]
    states: list[tuple[str, int]]
    polled_s: float | None
    interval_s: float | None
    is_written: bool
    notes: list[str]


class OnePort(BaseModel):
    """A port by its names in a store."""

    store: str
    switch: str = Field(max_length=500)
    port: str = Field(max_length=500)
    machine: str | None = Field(None, max_length=500)
    window_s: float = Field(3600, gt=0, le=_WEEK_S)


class PortAnswer(BaseModel):
    """Points of a port by CHART/NAME: seconds since the Unix epoch, and Mbit/s or packets/s."""

    series: dict[str, list[tuple[float, float]]]


class PortHandlers:
    """Ports of switches."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def ports(self, given: Ports) -> PortsAnswer:
        """The ports of a store."""
        path = self._site.library.path(given.store)
        found = await self._site.keeper.ask(ports.states, path, given.q, given.sort, given.limit, given.window_s)
        return PortsAnswer(**found)

    async def port(self, given: OnePort) -> PortAnswer:
        """One port over time."""
        path = self._site.library.path(given.store)
        arguments = (given.switch, given.port, given.machine, given.window_s)
        return PortAnswer(series=await self._site.keeper.ask(ports.history, path, *arguments))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint(
                "GET", "/api/watch/ports", Ports, PortsAnswer, self.ports, "List the ports of a store's switches."
            ),
            Endpoint("GET", "/api/watch/port", OnePort, PortAnswer, self.port, "Points of one port."),
        ]
