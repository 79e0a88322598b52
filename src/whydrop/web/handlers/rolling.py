"""Requests about the rolling capture of this host."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from whydrop.monitoring.rolling.roll import interfaces
from whydrop.monitoring.rolling.triggers import LIMITS
from whydrop.web.endpoints import Endpoint, Nothing, RequestError
from whydrop.web.site import Site

_NOT_ALLOWED = (
    "A rolling capture reads the traffic of all users of this host, so this page may not start one: start the server "
    "with `whydrop web --allow-changes`."
)
# Kept captures, below the folder of what pages send.
_FOLDER = "rolled"


class RollOf(BaseModel):
    """A rolling capture to start."""

    interface: str = Field("any", max_length=64)
    filter: str = Field("", max_length=1000)
    seconds: float = Field(30.0, ge=1, le=3600)
    max_bytes: int = Field(256_000_000, ge=1_000_000, le=10_000_000_000)
    snap_bytes: int = Field(256, ge=64, le=262_144)
    loss_packets: int | None = Field(None, ge=1, le=1_000_000)
    delay_s: float | None = Field(None, gt=0, lt=3600)
    limits: list[str] = Field(default_factory=list, max_length=len(LIMITS))
    after_s: float = Field(3.0, ge=0, le=60)
    hold_off_s: float = Field(60.0, ge=0, le=86_400)
    max_kept: int = Field(20, ge=1, le=1000)


class RollingAnswer(BaseModel):
    """The rolling capture of this server: its last state (empty before the first), and what can be chosen.

    ``refused`` says why this page may not start one; it is empty if it may.
    """

    state: dict[str, Any]
    interfaces: list[str]
    limits: list[str]
    refused: str


class RollingHandlers:
    """The rolling capture of this host."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def rolling(self, _given: Nothing) -> RollingAnswer:
        """Its state."""
        return RollingAnswer(
            state=self._site.rolling.state,
            interfaces=interfaces(),
            limits=list(LIMITS),
            refused="" if self._site.settings.allow_changes else _NOT_ALLOWED,
        )

    async def start(self, given: RollOf) -> RollingAnswer:
        """Start it."""
        self._require_changes()
        output = self._site.settings.uploads / _FOLDER
        await self._site.rolling.start({**given.model_dump(), "output": str(output)})
        return await self.rolling(Nothing())

    async def keep(self, _given: Nothing) -> RollingAnswer:
        """Keep its window now."""
        self._require_changes()
        await self._site.rolling.keep()
        return await self.rolling(Nothing())

    async def stop(self, _given: Nothing) -> RollingAnswer:
        """End it; kept captures stay."""
        self._require_changes()
        await self._site.rolling.stop()
        return await self.rolling(Nothing())

    def _require_changes(self) -> None:
        if not self._site.settings.allow_changes:
            raise RequestError(_NOT_ALLOWED, 403)

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        path = "/api/rolling"
        return [
            Endpoint("GET", path, Nothing, RollingAnswer, self.rolling, "Its state."),
            Endpoint("POST", path, RollOf, RollingAnswer, self.start, "Start a rolling capture."),
            Endpoint("POST", f"{path}/keep", Nothing, RollingAnswer, self.keep, "Keep and explain its window now."),
            Endpoint("POST", f"{path}/stop", Nothing, RollingAnswer, self.stop, "End it; kept captures stay."),
        ]
