"""The present state of each connection, for live views: one row each, however many rows were sampled."""

from __future__ import annotations

import polars as pl

from whydrop.monitoring.sockets.connections import Connections
from whydrop.monitoring.sockets.limits import limits
from whydrop.recording import tables

_CONTROLS = {"flow": pl.Int32(), "congestion_control": pl.String()}


class Board:
    """The latest reading of each open connection, and the one before."""

    def __init__(self) -> None:
        self._now = tables.empty("tcp_info")
        self._before = self._now

    def take(self, readings: pl.DataFrame | None, connections: Connections) -> None:
        """Take what was sampled since the last call."""
        self._before = self._now
        if readings is not None:
            new = tables.conform("tcp_info", readings)
            self._now = pl.concat([self._now, new]).unique("flow", keep="last", maintain_order=True)
        there = pl.Series(list(connections.there), dtype=pl.Int32())
        self._now = self._now.filter(pl.col("flow").is_in(there.implode()))

    def rows(self, connections: Connections) -> pl.DataFrame:
        """One row for each connection: see :func:`limits`."""
        controls = [(flow, connection.sampled["congestion_control"]) for flow, connection in connections.there.items()]
        return limits(self._before, self._now, pl.DataFrame(controls, schema=_CONTROLS, orient="row"))
