"""The present state of each connection, for live views: its limit and rate, from two readings of ``tcp_info``.

The kernel counts for how long it was busy sending (``tcpi_busy_time``), and of that for how long the other end's
receive window or its own send buffer stopped it; in the rest of the busy time it waits for the congestion window or for
its pacing. The limit that applied for more than half of the time between the readings is named. (`whydrop explain`
computes the same for a whole recording, with confidence intervals; this is for a live view.)
"""

from __future__ import annotations

import polars as pl

from whydrop.monitoring.sockets.connections import Connections
from whydrop.recording import tables

# The share of the time above which a limit is named.
_MOST = 0.5

RECEIVE_WINDOW = "receive window"
SEND_BUFFER = "send buffer"
APPLICATION = "application"
LOSS_RECOVERY = "loss recovery"
SLOW_START = "slow start"
CONGESTION_WINDOW = "congestion window"
PACING = "pacing"
IDLE = "idle"
RECEIVING = "receiving"
UNKNOWN = "unknown"

# Congestion controls that set a rate and keep no slow start threshold.
_BY_RATE = ("bbr", "bbr1", "bbr2", "bbr3")

_CONTROLS = {"flow": pl.Int32(), "congestion_control": pl.String()}
_GROWTHS = (
    "acked_bytes",
    "received_bytes",
    "retransmitted_packets",
    "busy_ns",
    "receive_window_limited_ns",
    "send_buffer_limited_ns",
)


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


def limits(before: pl.DataFrame, now: pl.DataFrame, controls: pl.DataFrame) -> pl.DataFrame:
    """Compute the rate of each connection from one reading to the next, and its limit.

    Args:
        before, now: rows of ``tcp_info``, one for each flow; where both have the same one, nothing moved.
        controls: ``flow`` and ``congestion_control``.

    Returns:
        ``now`` with ``sent_bps``, ``received_bps`` (payload), ``retransmitted`` (packets since ``before``; null for a
        new flow) and ``limit``, one of the words above.
    """
    old = before.select("flow", "time_ns", *_GROWTHS).rename({name: f"old_{name}" for name in ("time_ns", *_GROWTHS)})
    elapsed_ns = pl.col("time_ns") - pl.col("old_time_ns")
    frame = now.join(old, on="flow", how="left").join(controls, on="flow", how="left")
    # A counter that falls belongs to another connection.
    grown = {name: (pl.col(name) - pl.col(f"old_{name}")).clip(0) for name in _GROWTHS}
    frame = frame.with_columns(
        _elapsed_ns=elapsed_ns,
        _sent=grown["acked_bytes"],
        _received=grown["received_bytes"],
        retransmitted=grown["retransmitted_packets"],
        _busy=_share(grown["busy_ns"], elapsed_ns),
        _window=_share(grown["receive_window_limited_ns"], elapsed_ns),
        _buffer=_share(grown["send_buffer_limited_ns"], elapsed_ns),
    )
    rate = {name: _rate_bps(pl.col(name), pl.col("_elapsed_ns")) for name in ("_sent", "_received")}
    found = frame.with_columns(sent_bps=rate["_sent"], received_bps=rate["_received"], limit=_limit())
    return found.drop(name for name in found.columns if name.startswith(("_", "old_")))


def _rate_bps(grown_bytes: pl.Expr, elapsed_ns: pl.Expr) -> pl.Expr:
    moved = pl.when(elapsed_ns > 0).then(grown_bytes * 8e9 / elapsed_ns)
    return moved.when(elapsed_ns == 0).then(0.0)


def _share(grown_ns: pl.Expr, elapsed_ns: pl.Expr) -> pl.Expr:
    return pl.when(elapsed_ns > 0).then((grown_ns / elapsed_ns).clip(0.0, 1.0))


def _limit() -> pl.Expr:
    full = pl.col("unacked_packets") >= pl.col("congestion_window_packets")
    by_rate = pl.col("congestion_control").is_in(_BY_RATE).fill_null(False)
    # A threshold that was never set is null: the connection is still in its first slow start.
    slow_start = pl.col("congestion_window_packets") < pl.col("slow_start_threshold_packets").fill_null(1 << 31)
    little = pl.col("_busy") < _MOST
    # The first that applies; one that is null does not.
    limits = (
        (pl.col("_elapsed_ns") == 0, IDLE),
        (pl.col("_busy").is_null(), UNKNOWN),
        (pl.col("_window") > _MOST, RECEIVE_WINDOW),
        (pl.col("_buffer") > _MOST, SEND_BUFFER),
        (little & (pl.col("_received") > pl.col("_sent")), RECEIVING),
        (little & (pl.col("_sent") == 0), IDLE),
        (little, APPLICATION),
        (pl.col("congestion_state").is_in(["recovery", "loss"]), LOSS_RECOVERY),
        (by_rate & ~full, PACING),
        (~by_rate & slow_start, SLOW_START),
        (full | pl.col("pacing_rate_bps").is_null(), CONGESTION_WINDOW),
    )
    return pl.coalesce(*(pl.when(applies).then(pl.lit(limit)) for applies, limit in limits), pl.lit(PACING))
