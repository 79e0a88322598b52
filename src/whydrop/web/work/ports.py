"""The ports of a store's switches as values of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

_SEARCHED = ("switch", "site", "port", "machine", "state", "poll")
COLUMNS = (
    "switch", "site", "port", "machine", "state", "read_s", "received_mbps", "sent_mbps", "discards_rx", "discards_tx",
    "errors_rx", "errors_tx", "poll", "message",
)  # fmt: skip
# Counters with charts, each with its series there and the factor to its unit.
_CHARTS = {
    "octets.rx": ("rate/received by the switch", 8e-6), "octets.tx": ("rate/sent by the switch", 8e-6),
    "discards.rx": ("discards/received by the switch", 1.0), "discards.tx": ("discards/sent by the switch", 1.0),
    "errors.rx": ("errors/received by the switch", 1.0), "errors.tx": ("errors/sent by the switch", 1.0),
}  # fmt: skip


def states(path: Path, words: str, sort: str, most: int, window_s: float) -> dict[str, Any]:
    """The ports of a store: see :func:`whydrop.port_states`.

    Args:
        path: of the store.
        words: all of which a port must have in its names and its state.
        sort: a column, with ``-`` before it for the greatest first; by default by name.
        most: rows.
        window_s: for which discards are counted.
    """
    import whydrop

    found = whydrop.port_states(path, window_s=window_s)
    ports = found.ports.with_columns(
        read_s=pl.col("read_ns") / 1e9, received_mbps=pl.col("received_bps") / 1e6, sent_mbps=pl.col("sent_bps") / 1e6
    ).select(COLUMNS)
    total, counts = ports.height, ports["state"].value_counts(sort=True).rows()
    text = pl.concat_str([pl.col(name).fill_null("") for name in _SEARCHED], separator=" ").str.to_lowercase()
    for word in words.lower().split():
        ports = ports.filter(text.str.contains(word, literal=True))
    if sort.removeprefix("-") in COLUMNS:
        ports = ports.sort(
            sort.removeprefix("-"), descending=sort.startswith("-"), nulls_last=True, maintain_order=True
        )
    return {
        "total": total, "found": ports.height, "columns": COLUMNS, "rows": ports.head(most).rows(), "states": counts,
        "polled_s": None if found.polled_ns is None else found.polled_ns / 1e9, "interval_s": found.interval_s,
        "is_written": found.is_written, "notes": list(found.notes),
    }  # fmt: skip


def history(path: Path, switch: str, port: str, machine: str | None, window_s: float) -> dict[str, Any]:
    """Points of the charts of one port: seconds since the Unix epoch, and a value."""
    import whydrop

    found = whydrop.port_history(path, switch, port, machine, window_s=window_s)
    return {
        name: rows.select(pl.col("time_ns") / 1e9, pl.col("per_second") * factor).rows()
        for counter, (name, factor) in _CHARTS.items()
        if (rows := found.filter(pl.col("counter") == counter)).height
    }
