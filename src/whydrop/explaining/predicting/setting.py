"""The setting of a prediction: the fitted path, and senders as the captures show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from whydrop.explaining.document import Verdict
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting import recorded
from whydrop.explaining.predicting.running import Json, PredictionError

if TYPE_CHECKING:
    from polars import DataFrame

# A limit that a connection met for this share of its time is part of its setting.
_LIMITED_SHARE = 0.05
# An application that writes a little at a time is the limit for this share at least. Below, it may also have paused.
_STARVED_SHARE = 0.5
_PACED_SHARE = 0.1
# Causes other than the path.
_SENDER_LIMITS = ("sender", "none")
# A receive window that is smaller than this share of its largest for a quarter of the time fills: the receiver's
# application reads slowly.
_SMALL_WINDOW, _SMALL_FOR = 0.6, 0.25
# A connection has ended if all of its data are acknowledged, and it sends nothing for so long until the end.
_SILENT_NS = 500_000_000
# Connections with fewer data packets are left out.
_LEAST_PACKETS = 10
# Packets that come together within this time left the sender as one large segment.
_TOGETHER_NS = 2_000
# RFC 5681; and what receive offload joins at most (64 kB).
_LEAST_PER_ACK, _MOST_PER_ACK = 2, 44
_JOINED_SHARE = 0.9
# The line is as fast as the fastest runs of so many segments.
_RUN = 8
# Behind a shaper, the first packets of a run are faster than its rate.
_LONG_RUN = 64
_FASTEST_RUNS = 0.999
_ETHERNET_BYTES = 24
_FASTEST_LINE_BPS = 100e9
_FULL_BYTES = 1_000
_FULL_SHARE = 0.9
# Fewer losses that the path does not explain are errors of its parameters.
_LEAST_OTHER_LOSSES = 3
_BUCKETS = ("burst_bytes", "peak_burst_bytes")
# Elements that pass a packet at once, unless many came before it.
_BURSTS = ("policer", "linux-police", "shaper", "tick-shaper")
_LEAST_PROPAGATION = 10
# Linux's defaults of queue management, and RED's usual proportion of its thresholds.
_QUEUE_PACKETS = 1_000
_FAIR_PACKETS = 10_240
_CAKE_BYTES = 4_000_000
# With 250 ticks a second.
_PERIOD_NS = 20_000_000
_RED_SPAN = 3.0
_RED_PROBABILITY = 0.1
# An interval with an end this far from the value is wide.
_WIDE = 0.02
# Parameters of a verdict that elements call otherwise.
_FIELDS = {"drain_rate_bps": "rate_bps"}
# Queues; where no loss shows their limit, a fitted path has none.
QUEUES = ("fifo", "shaper", "tick-shaper")
_LIMITS = ("limit_packets", "limit_bytes")

Assumed = Literal["nothing", "limit", "law"]


@dataclass(frozen=True)
class Candidate:
    """A setting that may have been.

    Attributes:
        setting: the path and the senders.
        assumed: ``limit``: the captures do not show how much its queue can contain; ``law``: of queue management only
            the rate is known.
        bounds: paths that the captures do not exclude either: with each wide 95 % interval of a parameter at its ends.
    """

    setting: Json
    assumed: Assumed
    bounds: tuple[Json, ...] = ()


def settings(found: Explained, controls: Sequence[str], named: Mapping[int, str]) -> list[Candidate]:
    """The settings that may have been, one for each congestion control and each path that explains the packets.

    Args:
        controls: congestion controls that the senders that are not in ``named``, by their flow, may have.

    Raises:
        PredictionError: nothing was found that a path could be made of.
    """
    verdict = found.verdicts[0] if found.verdicts else None
    if verdict is None or not found.flows:
        raise PredictionError("no TCP connection with data: nothing to predict")
    if verdict.flows and not set(verdict.flows) & set(found.table("flows")["name"]):
        raise PredictionError(
            f"the headline, {verdict.cause}, is of packets without data, as {verdict.flows[0]}: a path that data take "
            "was expected"
        )
    # Where neither path nor window shows as the limit, it may be the application, which writes a little at a time.
    least_shares = (_STARVED_SHARE, 0.0 if verdict.cause in _SENDER_LIMITS else _LIMITED_SHARE)
    line_bps = _rate_bps(recorded.arrivals(found))
    senders = [
        _senders(found, _flows(found, control, named, least_share), line_bps)
        for control in controls
        for least_share in least_shares
    ]
    paths, bounds = _paths(found, verdict), tuple(bounding(found, verdict))
    return [_candidate(path, one, assumed, bounds) for one in senders for path, assumed in paths]


def _candidate(path: Json, senders: Json, assumed: Assumed, bounds: Sequence[Json]) -> Candidate:
    packet_bytes = max(flow["mss_bytes"] + flow["header_bytes"] for flow in senders["flows"])
    # A fitted bucket, or one at an end of its interval, may be smaller than a packet, which no element can pass.
    elements = [_with_room(one, packet_bytes) for one in path["elements"]]
    setting = _joined({**path, "elements": elements}, senders, packet_bytes)
    return Candidate(setting, assumed, tuple(_with_room(one, packet_bytes) for one in bounds))


def _joined(path: Json, senders: Json, packet_bytes: int) -> Json:
    """Path and senders; full packets had the least round trip, and their time on the path's link is a part of it."""
    rates_bps = [one["rate_bps"] for one in path["elements"] if "rate_bps" in one and one["element"] not in _BURSTS]
    link_ns = round(sum(packet_bytes * 8e9 / rate_bps for rate_bps in (*rates_bps, senders["line_bps"] or math.inf)))
    round_trip_ns = senders["round_trip_ns"]
    # A part, however slow the link: the least round trip is that of a packet.
    propagation_ns = max(round_trip_ns - link_ns, round_trip_ns // _LEAST_PROPAGATION)
    return {"path": path, **senders, "round_trip_ns": propagation_ns}


def _with_room(element: Json, packet_bytes: int) -> Json:
    least_bytes = float(packet_bytes + (element.get("overhead_bytes") or 0))
    burst = {name: max(element[name], least_bytes) for name in _BUCKETS if element.get(name) is not None}
    return {**element, **burst}


def _senders(found: Explained, flows: list[Json], line_bps: float | None) -> Json:
    """The senders, with all that a setting has besides the path."""
    first_ns = min(flow["start_ns"] for flow in flows)
    setting = {
        "line_bps": line_bps,
        "round_trip_ns": min(flow.pop("rtt_ns") for flow in flows),
        "duration_ns": int(found.table("segments")["time_ns"].max()) - first_ns,  # type: ignore[arg-type]
        "flows": flows,
    }
    for flow in flows:
        flow["start_ns"] -= first_ns
    return setting


def _paths(found: Explained, verdict: Verdict) -> list[tuple[Json, Assumed]]:
    """Paths, and what of each is assumed."""
    if verdict.cause in ("random-loss", *_SENDER_LIMITS, "receiver-window"):
        element = {"element": "delay", "time_ns": 0} if verdict.path is None else verdict.path["elements"][0]
        # Behind it may be a link with a queue that never was full.
        rate_bps = _rate_bps(recorded.departures(found), _LONG_RUN)
        link = [] if rate_bps is None else [{"element": "fifo", "rate_bps": rate_bps, "limit_packets": _QUEUE_PACKETS}]
        return [({"elements": [element]}, "nothing"), *(({"elements": [element, one]}, "limit") for one in link)]
    if verdict.path is not None:
        elements = verdict.path["elements"]
        assumed: Assumed = "limit" if any(_has_no_limit(one) for one in elements) else "nothing"
        return [(one, assumed) for one in (dict(verdict.path), *with_other_losses(found, verdict, elements))]
    rate = verdict.parameters.get("drain_rate_bps")
    if verdict.cause != "aqm" or rate is None:
        raise PredictionError(
            f"the headline is {verdict.cause}, and the captures show no path of it that could be run: the parameters "
            "of a policer, a queue, a shaper or queue management, random loss or no loss at all were expected"
        )
    return [({"elements": [element]}, "law") for element in _managed(verdict, rate.value)]


def bounding(found: Explained, verdict: Verdict) -> Iterator[Json]:
    """The first element of the fitted path with one parameter at an end of its interval, if that is wide.

    Where an interval has no upper end, a rate is bounded by the greatest load that was seen.
    """
    if verdict.path is None:
        return
    element = verdict.path["elements"][0]
    for name, parameter in verdict.parameters.items():
        field = _FIELDS.get(name, name)
        value = element.get(field)
        if not value:
            continue
        high = parameter.high
        if high is None and field == "rate_bps":
            high = max(value, recorded.greatest_load_bps(found))
        for end in (parameter.low, high):
            if end and abs(end / value - 1) > _WIDE:
                yield {**element, field: float(end)}


def _has_no_limit(element: Json) -> bool:
    return element["element"] in QUEUES and all(element.get(limit) is None for limit in _LIMITS)


def with_other_losses(found: Explained, verdict: Verdict, elements: list[Json]) -> list[Json]:
    """The path with random losses too, if some are not explained by it."""
    packets = recorded.arrivals(found).height
    others = round(verdict.lost * (1 - verdict.explained))
    if others < _LEAST_OTHER_LOSSES or packets <= others:
        return []
    return [{"elements": [*elements, {"element": "random-loss", "probability": others / packets}]}]


def _managed(verdict: Verdict, rate_bps: float) -> list[Json]:
    """Laws of queue management with Linux's defaults: which one it is shows only when they are run."""
    elements: list[Json] = [
        {"element": "codel", "rate_bps": rate_bps, "limit_packets": _QUEUE_PACKETS, "linux": True},
        {
            "element": "pie",
            "rate_bps": rate_bps,
            "limit_packets": _QUEUE_PACKETS,
            "linux": True,
            "period_ns": _PERIOD_NS,
        },
        {"element": "fq-codel", "rate_bps": rate_bps, "limit_packets": _FAIR_PACKETS, "linux": True},
        {"element": "cake", "rate_bps": rate_bps, "limit_bytes": _CAKE_BYTES},
    ]
    threshold = verdict.parameters.get("threshold_s")
    if threshold is not None:
        packets = max(1.0, threshold.value * rate_bps / 8 / 1500)
        red = {"min_packets": packets, "max_packets": _RED_SPAN * packets, "max_probability": _RED_PROBABILITY}
        elements.append({"element": "red", "rate_bps": rate_bps, "limit_packets": _QUEUE_PACKETS, **red})
    return elements


def _flows(found: Explained, control: str, named: Mapping[int, str], least_share: float) -> list[Json]:
    """The connections.

    Args:
        least_share: applications that limit their connection for this share of its time write at a rate.
    """
    segments, acks = found.table("segments"), found.table("acks")
    last_ns = int(segments["time_ns"].max() or 0)  # type: ignore[arg-type]
    flows = []
    for row in found.table("flows").to_dicts():
        own = segments.filter(pl.col("flow") == row["flow"])
        if own.height >= _LEAST_PACKETS and row["rtt_min_ns"] is not None:
            own_acks = acks.filter(pl.col("flow") == row["flow"])
            flows.append(_flow(row, own, own_acks, named.get(row["flow"], control), least_share, last_ns))
    if not flows:
        raise PredictionError(
            f"no connection has {_LEAST_PACKETS} data packets with a round-trip time; "
            "a capture with acknowledgments, at the sender or before the path, was expected"
        )
    least_ns = min(flow["rtt_ns"] for flow in flows)
    for flow in flows:
        flow["extra_rtt_ns"] = flow["rtt_ns"] - least_ns
    return flows


def _flow(row: Json, own: DataFrame, acks: DataFrame, control: str, least_share: float, last_ns: int) -> Json:
    shares = row["limits"] or {}
    limited = {name for name, share in shares.items() if share is not None and share > _LIMITED_SHARE}
    time_ns = max(1, row["end_ns"] - row["start_ns"])
    header = (own["ip_bytes"] - own["payload_bytes"]).mode()[0]
    is_paced = (shares.get("pacing") or 0.0) > _PACED_SHARE
    # A sender that a buffer or a window limits needs no other reason, unless its application mostly pauses.
    if limited & {"send-buffer", "receive-window"}:
        least_share = _STARVED_SHARE
    is_starved = sum(shares.get(name) or 0.0 for name in ("application", "peer-application")) >= least_share
    full = own.filter(pl.col("payload_bytes") >= _FULL_SHARE * pl.col("payload_bytes").max())
    reads_slowly = "receive-window" in limited and _reads_slowly(acks)
    return {
        "start_ns": row["start_ns"],
        "rtt_ns": full["rtt_ns"].min() or row["rtt_min_ns"],
        "extra_rtt_ns": 0,
        "control": control,
        "mss_bytes": int(own["payload_bytes"].max()),  # type: ignore[arg-type]
        "header_bytes": int(header),
        "receive_window_bytes": int(acks["window_bytes"].max()) if "receive-window" in limited else None,  # type: ignore[arg-type]
        "send_buffer_bytes": int(own["in_flight_bytes"].quantile(0.95) or 0) if "send-buffer" in limited else None,
        "segments_per_ack": segments_per_ack(own, acks),
        "pace_bps": float(own["ip_bytes"].sum()) * 8e9 / time_ns if is_paced else None,
        "ecn": row["ecn"] not in (None, "off"),
        "sack": True,
        "load": _at_rate(row) if is_starved or reads_slowly else whole_transfer(own, acks, last_ns) or "full",
    }


def segments_per_ack(own: DataFrame, acks: DataFrame) -> int:
    """The segments of a burst that a receiver acknowledges together: all but a tenth are in acknowledgments of fewer.

    Acknowledgments that fill a hole are left out: they cover what had arrived before.
    """
    before = pl.col("acknowledged").shift(1)
    covers = acks.sort("time_ns").select(
        bytes=pl.col("acknowledged").cast(pl.Int64) - before.cast(pl.Int64),
        fills=before == pl.col("acknowledged").shift(2),
    )
    new = covers.filter((pl.col("bytes") > 0) & ~pl.col("fills").fill_null(value=True))["bytes"].sort()
    if new.is_empty():
        return _LEAST_PER_ACK
    share = new.cum_sum() / new.sum()
    most_bytes = float(new.filter(share >= _JOINED_SHARE)[0])
    segments = round(most_bytes / float(own["payload_bytes"].max()))  # type: ignore[arg-type]
    return min(max(_LEAST_PER_ACK, segments), _MOST_PER_ACK)


def _at_rate(row: Json) -> Json:
    time_ns = max(1, row["end_ns"] - row["start_ns"])
    return {"rate": {"rate_bps": row["payload_bytes"] * 8e9 / time_ns}}


def whole_transfer(own: DataFrame, acks: DataFrame, last_ns: int) -> Json | None:
    """The load of a connection that had sent all of its data long before the end of the captures, else ``None``."""
    sent_until = int((own["sequence"].cast(pl.Int64) + own["payload_bytes"].cast(pl.Int64)).max() or 0)  # type: ignore[arg-type]
    is_acknowledged = int(acks["acknowledged"].max() or 0) >= sent_until  # type: ignore[arg-type]
    is_silent = last_ns - int(own["time_ns"].max() or 0) > _SILENT_NS  # type: ignore[arg-type]
    return {"transfer": {"bytes": sent_until}} if is_acknowledged and is_silent else None


def _reads_slowly(acks: DataFrame) -> bool:
    windows = acks["window_bytes"]
    return float(windows.quantile(_SMALL_FOR) or 0) < _SMALL_WINDOW * float(windows.max() or 0)  # type: ignore[arg-type]


def _rate_bps(packets: DataFrame, run: int = _RUN) -> float | None:
    """The rate of the link over which packets came; ``None`` where they do not show it.

    Args:
        packets: ``time_ns`` and ``ip_bytes``, in order of time.
        run: so many segments one after the other.
    """
    full = packets.filter(pl.col("ip_bytes") > _FULL_BYTES)
    times_ns = full["time_ns"].to_numpy()
    if len(times_ns) < 4 * run:
        return None
    firsts = np.flatnonzero(np.diff(times_ns, prepend=times_ns[0] - 2 * _TOGETHER_NS) > _TOGETHER_NS)
    if len(firsts) < 4 * run:
        return None
    sizes = np.add.reduceat(full["ip_bytes"].to_numpy().astype(float) + _ETHERNET_BYTES, firsts)
    counted = np.concatenate([[0.0], np.cumsum(sizes)])
    spans_ns = times_ns[firsts][run:] - times_ns[firsts][:-run]
    rates_bps = (counted[run:-1] - counted[: -run - 1]) * 8e9 / spans_ns
    rate_bps = float(np.quantile(rates_bps, _FASTEST_RUNS))
    return rate_bps if rate_bps < _FASTEST_LINE_BPS else None
