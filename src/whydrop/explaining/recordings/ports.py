"""A switch's port on the path, by its counters in a store: what it discarded, and whether flows lost packets then.

The caller names the port: no measurement shows that a path goes through it. Each sample of its counters is a bin, in
which the port discarded or not, and a flow retransmitted or not. That bins in which both happened are as many by chance
has the probability of Fisher's exact test (R. A. Fisher, 1935).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from whydrop.explaining.recordings.causes.sides import Side
from whydrop.explaining.recordings.findings import Fact, Finding
from whydrop.explaining.recordings.measures.series import Flow, Values
from whydrop.explaining.recordings.thresholds import COINCIDENCE, COMING_TOGETHER
from whydrop.recording.errors import RecordingError

_DISCARDS = "discards.tx"
_PACKETS = ("unicast.tx", "multicast.tx", "broadcast.tx")
# Samples that are kept of one recording: a day at one a second.
_MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class Port:
    """Counters of one port, in the direction in which it sends.

    Attributes:
        name: switch and port.
        starts_ns, ends_ns: of each bin, in order.
        discards, packets, octets: in each; NaN where the counter was not read.
    """

    name: str
    starts_ns: Values
    ends_ns: Values
    discards: Values
    packets: Values
    octets: Values

    def while_(self, first_ns: float, last_ns: float) -> Port:
        """The bins that lie in a time, but for their edges."""
        kept = (self.ends_ns > first_ns) & (self.starts_ns < last_ns)
        parts = (self.starts_ns, self.ends_ns, self.discards, self.packets, self.octets)
        return Port(self.name, *(part[kept] for part in parts))


def read(store: str | PathLike[str], name: str, first_ns: int, last_ns: int) -> Port:
    """The samples of a port, named ``SWITCH/PORT``, that lie in a time.

    Raises:
        RecordingError: the store cannot be read, has no such port, or nothing of that time.
    """
    from whydrop.store.store import Store

    switch, _, port = name.rpartition("/")
    rows = Store.open(store).scan("counters")
    there = rows.select("switch", "port").unique().collect().sort("switch", "port")
    if (switch, port) not in there.rows():
        has = ", ".join(f"{one}/{other}" for one, other in there.head(10).rows()) or "none"
        raise RecordingError(f"{store}: no counters of a port {name!r} (SWITCH/PORT); it has those of {has}")
    counters = pl.col("counter").is_in([_DISCARDS, *_PACKETS, "octets.tx"])
    wanted = (pl.col("switch") == switch) & (pl.col("port") == port) & counters
    # A growth over a time that is not known, or after a reset, is none.
    grown = pl.col("value").is_not_null() & (pl.col("span_ns") > 0)
    within = (pl.col("end_ns") > first_ns) & (pl.col("end_ns") - pl.col("span_ns") < last_ns)
    found = rows.filter(wanted & grown & within).head(_MOST_SAMPLES).collect()
    # Several machines may poll one switch, with the same counts.
    wide = found.pivot("counter", index=["end_ns", "span_ns"], values="value", aggregate_function="max").sort("end_ns")
    if _DISCARDS not in wide.columns:
        raise RecordingError(f"{store}: the counters of {name} do not cover the time of the recording")
    columns = {key: wide[key].cast(pl.Float64).fill_null(math.nan).to_numpy() for key in wide.columns}
    nothing = np.full(wide.height, math.nan)
    packets = [columns[key] for key in _PACKETS if key in columns]
    return Port(
        name,
        columns["end_ns"] - columns["span_ns"],
        columns["end_ns"],
        columns[_DISCARDS],
        np.sum(packets, axis=0) if packets else nothing,
        columns.get("octets.tx", nothing),
    )


def findings(port: Port, side: Side) -> list[Finding]:
    """The findings of the counters of the port about one side."""
    found = _coincidence(port, [flow for load in side.loads for flow in load.flows])
    fact = Fact.of("port-not-known-then", port=port.name) if found is None else Fact("port-discards", found)
    unknown = side.finding("unknown", 0.0, facts=(fact,), source="switch")
    if found is None or not found["with_both"] or found["chance"] > COMING_TOGETHER:
        return [unknown]
    # A port that discards has a full queue (ifOutDiscards, RFC 2863). Where the flows' packets wait
    # long it is a long one. That the two came together by chance is never ruled out beyond one in a thousand.
    return [
        replace(
            unknown,
            cause="deep-queue" if side.is_deep else "shallow-queue",
            nats=min(-math.log(COINCIDENCE), -math.log(max(found["chance"], 1e-300))),
            detail="bufferbloat" if side.is_deep else None,
            lost=side.lost,
            explained=found["with_both"] / found["with_losses"],
        )
    ]


def _coincidence(port: Port, flows: Sequence[Flow]) -> dict[str, Any] | None:
    """The discards of a port while flows ran that count retransmissions, and how often both came together.

    ``chance`` is that as many bins or more have both, were they independent; ``highest_bps`` is of Ethernet frames, as
    the switch counts them. ``None`` without a bin in the time of such flows.
    """
    telling = [flow for flow in flows if np.isfinite(flow.counted["retransmitted_packets"]).sum() > 1]
    if not telling:
        return None
    seen = port.while_(min(flow.start_ns for flow in telling), max(flow.end_ns for flow in telling))
    known = np.isfinite(seen.discards)
    if not known.any():
        return None
    again = np.sum([_sent_again(flow, seen) for flow in telling], axis=0)[known] > 0
    discards = seen.discards[known] > 0
    seconds = (seen.ends_ns - seen.starts_ns) / 1e9
    bins, with_discards, with_losses = int(known.sum()), int(discards.sum()), int(again.sum())
    with_both = int((again & discards).sum())
    rates = seen.octets * 8 / seconds
    return {
        "port": port.name,
        "span_s": float(seconds[known].sum()),
        "discards": float(seen.discards[known].sum()),
        "packets": float(np.nansum(seen.packets[known])),
        "bins": bins,
        "with_discards": with_discards,
        "with_losses": with_losses,
        "with_both": with_both,
        "chance": _chance(bins, with_discards, with_losses, with_both),
        "highest_bps": float(np.nanmax(rates)) if np.isfinite(rates).any() else None,
    }


def _sent_again(flow: Flow, port: Port) -> Values:
    """Segments that a flow retransmitted in each bin, and until the round trip after it in which that shows."""
    counts, times = flow.counted["retransmitted_packets"], flow.counted.times_ns.astype(float)
    known = np.isfinite(counts)
    rtt = flow.counted["srtt_ns"]
    late = float(np.nanmax(rtt)) if np.isfinite(rtt).any() else 0.0
    until, since = (np.interp(edge, times[known], counts[known]) for edge in (port.ends_ns + late, port.starts_ns))
    return np.asarray(until - since)


def _chance(bins: int, first: int, second: int, both: int) -> float:
    """The upper tail of the hypergeometric distribution.

    >>> _chance(10, 2, 2, 2) == 1 / 45, _chance(10, 2, 2, 0)
    (True, 1.0)
    """
    ways = [math.comb(first, k) * math.comb(bins - first, second - k) for k in range(both, min(first, second) + 1)]
    return min(1.0, sum(ways) / math.comb(bins, second))
