"""The connections of this host while pages look at them: states as JSON, and points of charts."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

# Rows that every page is sent each second; a page with a filter or an order of its own asks for others.
_MOST_LISTED = 300
# Connections with points for charts, and for how many states: five minutes.
_MOST_KEPT = 1000
_STATES_KEPT = 300
_EVERY_S = 1.0

# Columns that pages are sent, each with the name there and the factor to its unit.
_SENT: Mapping[str, tuple[str, float | None]] = {
    "local": ("local", None), "remote": ("remote", None), "process": ("process", None), "pid": ("pid", None),
    "state": ("state", None), "limit": ("limit", None), "congestion_control": ("congestion_control", None),
    "sent_mbps": ("sent_bps", 1e-6), "received_mbps": ("received_bps", 1e-6), "retransmitted": ("retransmitted", None),
    "retransmitted_in_all": ("retransmitted_packets", None), "rtt_ms": ("srtt_ns", 1e-6),
    "lowest_rtt_ms": ("min_rtt_ns", 1e-6), "cwnd_packets": ("congestion_window_packets", None),
}  # fmt: skip
COLUMNS = tuple(_SENT)
_POINTS = ("sent_mbps", "received_mbps", "rtt_ms", "lowest_rtt_ms", "cwnd_packets", "retransmitted")
_SEARCHED = ("local", "remote", "process", "pid", "state", "limit", "congestion_control")


class Watching:
    """The connections of this host, in this process."""

    def __init__(self, emit: Callable[[Any], None]) -> None:
        """Begin.

        Args:
            emit: given each state as JSON.

        Raises:
            Error: the kernel does not list its sockets.
        """
        import whydrop

        self._emit = emit
        self._lock = threading.Lock()
        self._now = pl.DataFrame()
        self._time_s = 0.0
        self._warnings: tuple[str, ...] = ()
        self._kept: deque[pl.DataFrame] = deque(maxlen=_STATES_KEPT)
        self._has_state = threading.Event()
        self._watch = whydrop.watch_live(every_s=_EVERY_S)
        self._is_open = True
        self._thread = threading.Thread(target=self._follow, name="connections", daemon=True)
        self._thread.start()

    def state(self, words: str = "", sort: str = "", most: int = _MOST_LISTED) -> dict[str, Any]:
        """The connections now, as values of JSON.

        Args:
            words: all of which a connection must have in its ends, process, state, limit or congestion control.
            sort: a column, with ``-`` before it for the greatest first; by default those that carry most come first.
            most: rows.

        Returns:
            ``time_s``, ``total`` connections, ``found`` of them with the words, ``columns`` and ``rows``, ``limits``
            (the number of those found by limit), ``warnings``.
        """
        self._has_state.wait(10)
        with self._lock:
            now, time_s, warnings = self._now, self._time_s, self._warnings
        found = now
        for word in words.lower().split():
            found = found.filter(_text().str.contains(word, literal=True))
        if sort.removeprefix("-") in COLUMNS:
            found = found.sort(sort.removeprefix("-"), descending=sort.startswith("-"), nulls_last=True)
        counts = found["limit"].value_counts(sort=True).rows() if found.height else []
        return {
            "time_s": time_s, "total": now.height, "found": found.height, "columns": COLUMNS,
            "rows": found.head(most).rows(), "limits": counts, "warnings": [*warnings, *_not_seen()],
        }  # fmt: skip

    def history(self, local: str, remote: str) -> dict[str, list[tuple[float, float]]]:
        """Points of the charts of a connection, for the last five minutes: seconds since the Unix epoch and a value."""
        with self._lock:
            kept = list(self._kept)
        own = (pl.col("local") == local) & (pl.col("remote") == remote)
        rows = pl.concat([frame.filter(own) for frame in kept]) if kept else pl.DataFrame()
        if not rows.height:
            return {}
        return {
            name: rows.select("time_s", name).drop_nulls().rows()
            for name in _POINTS
            if rows[name].null_count() < rows.height
        }

    def close(self) -> None:
        """End it; nothing is kept."""
        self._is_open = False
        self._watch.close()

    def _follow(self) -> None:
        for state in self._watch:
            sent = [
                pl.col(of).alias(name) if factor is None else (pl.col(of) * factor).round(3).alias(name)
                for name, (of, factor) in _SENT.items()
            ]
            frame = state.connections.select(sent)
            kept = frame.head(_MOST_KEPT).select("local", "remote", *_POINTS, time_s=pl.lit(state.time_ns / 1e9))
            with self._lock:
                self._now, self._time_s, self._warnings = frame, state.time_ns / 1e9, state.warnings
                self._kept.append(kept)
            self._has_state.set()
            self._emit(json.dumps(self.state(), separators=(",", ":"), allow_nan=False))


def _text() -> pl.Expr:
    parts = [pl.col(name).cast(pl.String()).fill_null("") for name in _SEARCHED]
    return pl.concat_str(parts, separator=" ").str.to_lowercase()


def _not_seen() -> list[str]:
    if os.geteuid() == 0:
        return []
    return ["not root: connections of other users have no process names"]
