"""The samples of a recording in arrays: streams of probes with their losses, and what each flow of load did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording import access_point, document
from whydrop.recording.troubles import NOT_OF_PATH

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]
Times = NDArray[np.int64]

# A flow of ours that is asked for one of these has times without anything to send.
_PAUSING = frozenset({"rate_bps", "on_s", "off_s", "payload_bytes"})

LOADING = ("tcp", "udp", "burst", "http")
# Probes that are missing by their numbers are filled in up to this many times those that are there: what jumps
# farther is a counter that was reset.
_MOST_MISSING = 10

# Payload of full segments of Ethernet with timestamps (RFC 7323), where it is not known; and their headers.
_USUAL_MSS = 1448
_HEADERS_BYTES = {4: 52, 6: 72}


@dataclass(frozen=True)
class Stream:
    """Probes of one stream in order of sending.

    Attributes:
        times_ns: when each was sent.
        delays_s: by direction (``both`` is the round trip); NaN where no answer came, or the direction is not known.
        lost: 1 or 0; NaN where it is not known.
        directions: of the lost ones: ``up``, ``down``, or empty.
    """

    name: str
    host: str
    dscp: int
    times_ns: Times
    delays_s: dict[str, Values]
    lost: Values
    directions: NDArray[np.str_]

    def only(self, kept: NDArray[np.bool_]) -> Stream:
        """Some of the probes."""
        delays_s = {way: values[kept] for way, values in self.delays_s.items()}
        lost, directions = self.lost[kept], self.directions[kept]
        return replace(self, times_ns=self.times_ns[kept], delays_s=delays_s, lost=lost, directions=directions)


@dataclass(frozen=True)
class Counted:
    """The sender's TCP_INFO of one flow; counters grow, NaN where the kernel did not report it."""

    times_ns: Times
    columns: dict[str, Values]

    def __getitem__(self, name: str) -> Values:
        return self.columns[name]

    def only(self, kept: NDArray[np.bool_]) -> Counted:
        """Some of the samples."""
        return Counted(self.times_ns[kept], {name: values[kept] for name, values in self.columns.items()})

    def grown(self, name: str) -> Values:
        """How much a counter grew from each sample to the next, wraps of 32 bits undone; NaN where it went back."""
        steps = np.diff(self.columns[name])
        wrapped = (steps < -(2.0**31)) & (self.columns[name][:-1] < 2.0**32)
        steps = np.where(wrapped, steps + 2.0**32, steps)
        return np.asarray(np.where(steps >= 0, steps, math.nan))

    def growth(self, name: str) -> float:
        """How much a counter grew from its first value to its last; NaN where it is not known."""
        values = self.columns[name]
        known = values[np.isfinite(values)]
        return float(known[-1] - known[0]) if len(known) >= 2 and known[-1] >= known[0] else math.nan


@dataclass(frozen=True)
class Flow:
    """One flow that made load.

    Attributes:
        intervals: start, end (ns) and bytes of payload of each interval, one row each.
        makes_load: not so of the end of a connection that receives more than it sends, where both are known.
        events: of TCP in its kernel, in order of time; ``None`` where none were recorded.
        polls_ns: when the polls began that its samples are of, in order of time; empty where that is not known.
        is_whole: its connection was opened for the test, so that its kernel's counters began at zero.
        runner_facts: what its runner said once, such as ``TCP_RETRANSMIT``.
        datagrams: of a stream of UDP, sent and lost, where its receiver counted.
        is_greedy: its sender always had more to send: one of whydrop's own, without a rate, pauses or an end by bytes.
        set_send_buffer_bytes: the send buffer that its test asked for; the kernel's own choice where ``None``.
        set_rate_bps: the rate above which its test lets it not send; none where ``None``.
    """

    name: str
    kind: str
    direction: str
    host: str
    dscp: int
    control: str
    start_ns: int
    end_ns: int
    intervals: Values
    counted: Counted
    mss_bytes: float
    headers_bytes: float
    runner_facts: dict[str, Any] = field(default_factory=dict)
    makes_load: bool = True
    datagrams: tuple[float, float] | None = None
    is_greedy: bool = False
    set_send_buffer_bytes: int | None = None
    set_rate_bps: float | None = None
    is_whole: bool = False
    events: pl.DataFrame | None = None
    polls_ns: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def retransmitted(self) -> float:
        """Segments that its kernel retransmitted: all, or since its first sample; NaN where it does not count them."""
        growth = self.counted.growth("retransmitted_packets")
        is_known = self.is_whole and math.isfinite(growth)
        return float(np.nanmax(self.counted["retransmitted_packets"])) if is_known else growth

    @property
    def connection(self) -> str | None:
        """Its name in a capture, where its ports are known."""
        ends = self.runner_facts.get("sender"), self.runner_facts.get("receiver")
        return f"{ends[0]} > {ends[1]}" if all(ends) else None

    @property
    def carried_bytes(self) -> float:
        """Payload in all."""
        return float(self.intervals[:, 2].sum())

    @property
    def to_ip(self) -> float:
        """Bytes of IP packets for each byte of payload, in full segments."""
        return (self.mss_bytes + self.headers_bytes) / self.mss_bytes


_COUNTED = (
    "srtt_ns",
    "min_rtt_ns",
    "mss_bytes",
    "congestion_window_packets",
    "retransmitted_packets",
    "delivered_packets",
    "delivered_ce_packets",
    "busy_ns",
    "receive_window_limited_ns",
    "send_buffer_limited_ns",
    "congestion_limited_ns",
    "sender_limited_ns",
    "acked_bytes",
    "unacked_packets",
    "sacked_packets",
    "lost_packets",
    "in_retransmission_packets",
    "not_sent_bytes",
    "send_window_bytes",
    "send_memory_bytes",
    "send_buffer_bytes",
    "slow_start_threshold_packets",
    "pacing_rate_bps",
    "max_pacing_rate_bps",
    "timeouts",
    "timeouts_in_a_row",
    "backoff",
    "duplicate_sacks",
    "congestion_signals",
    "congestion_over_count",
    "fast_retransmits",
    "send_stalls",
    "ece_received",
    "duplicate_acks",
)


# Of the congestion control, in numbers as Linux has them (enum tcp_ca_state).
STATE = "congestion_state"
STATES = {"open": 0.0, "disorder": 1.0, "reduced": 2.0, "recovery": 3.0, "loss": 4.0}
# What flows are made of, by table.
COLUMNS = {
    "tcp_info": ("flow", "time_ns", *_COUNTED, STATE),
    "tcp_events": (
        "flow",
        "time_ns",
        "event",
        "cause",
        "congestion_state",
        "srtt_ns",
        "duplicate_acks",
        "duplicate_acks_of_reordering",
    ),
    "intervals": ("flow", "start_ns", "end_ns", "payload_bytes", "goodput_bps", "packets", "lost"),
}


def streams(recording: Recording) -> list[Stream]:
    """All streams of probes to far ends that were answered at least once."""
    near = access_point.probe(recording)
    flows = {row["flow"]: row for row in recording.table("flows").to_dicts() if row["name"] != near}
    found = []
    for (flow,), rows in _by_flow(recording.table("probes")):
        told = flows.get(flow)
        if told is not None and rows["rtt_ns"].is_not_null().any():
            found.append(_stream(told, rows))
    return found


def _by_flow(frame: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    return iter(sorted(frame.drop_nulls("flow").partition_by("flow", as_dict=True).items()))


def _stream(told: dict[str, Any], rows: pl.DataFrame) -> Stream:
    answered_ns = pl.col("received_ns") - pl.col("rtt_ns").fill_null(0)
    rows = rows.filter(~pl.col("fate").fill_null("").is_in(NOT_OF_PATH))
    rows = rows.with_columns(at=pl.coalesce("sent_ns", "scheduled_ns", answered_ns)).drop_nulls("at").sort("at")
    fate = rows["fate"].fill_null("")
    lost = np.where(fate.str.starts_with("lost").to_numpy(), 1.0, 0.0)
    if bool((fate == "").all()):
        lost[:] = math.nan
    directions = np.where((fate == "lost-up").to_numpy(), "up", np.where((fate == "lost-down").to_numpy(), "down", ""))
    stream = Stream(
        str(told["name"]),
        str(told["host"] or ""),
        int(told["dscp"] or 0),
        rows["at"].to_numpy().astype(np.int64),
        {way: _seconds(rows[column]) for way, column in (("both", "rtt_ns"), ("up", "up_ns"), ("down", "down_ns"))},
        lost,
        directions.astype(np.str_),
    )
    return _with_missing(stream, rows["sequence"]) if bool((fate == "").all()) else stream


def _seconds(column: pl.Series) -> Values:
    return column.cast(pl.Float64).fill_null(math.nan).to_numpy() / 1e9


def _with_missing(stream: Stream, sequence: pl.Series) -> Stream:
    """With the probes that are missing by their numbers, as lost; unchanged where the numbers do not show it."""
    if sequence.null_count() or len(sequence) < 2:
        return stream
    numbers = sequence.to_numpy().astype(np.int64)
    if (np.diff(numbers) <= 0).any() or numbers[-1] - numbers[0] > _MOST_MISSING * len(numbers):
        return stream
    every = np.arange(numbers[0], numbers[-1] + 1)
    place = numbers - numbers[0]

    def spread(values: Values) -> Values:
        wide = np.full(len(every), math.nan)
        wide[place] = values
        return wide

    times_ns = np.interp(every, numbers, stream.times_ns.astype(float) - stream.times_ns[0]).astype(np.int64)
    lost = np.ones(len(every))
    lost[place] = 0.0
    delays_s = {way: spread(values) for way, values in stream.delays_s.items()}
    directions = np.full(len(every), "", dtype=np.str_)
    return replace(stream, times_ns=times_ns + stream.times_ns[0], delays_s=delays_s, lost=lost, directions=directions)


def begins_of_polls_ns(recording: Recording) -> Times:
    """When the polls of a recording began, in order of time; empty where that is not known."""
    return recording.table("polls")["start_ns"].drop_nulls().sort().to_numpy().astype(np.int64)


def read_from_ns(times_ns: Times, polls_ns: Times) -> Times:
    """The earliest times at which the kernel read samples: their own times are taken when it had read them."""
    if not polls_ns.size:
        return times_ns
    places = np.searchsorted(polls_ns, times_ns, "right") - 1
    return np.where(places >= 0, polls_ns[np.maximum(places, 0)], times_ns)


def flows(recording: Recording) -> list[Flow]:
    """All flows that made load and say when."""
    found = []
    has_events = _has_events(recording)
    polls_ns = begins_of_polls_ns(recording)
    for row in recording.table("flows").sort("flow").to_dicts():
        if row["kind"] not in LOADING or row["start_ns"] is None or row["end_ns"] is None:
            continue
        if row["end_ns"] <= row["start_ns"]:
            continue
        own = _counted(recording.of_flow("tcp_info", row["flow"], *COLUMNS["tcp_info"]))
        rows = recording.of_flow("intervals", row["flow"], *COLUMNS["intervals"])
        carried = _intervals(rows)
        facts, settings = document.json_object(row["facts"]), document.json_object(row["settings"])
        told = facts.get("flent", facts)
        told = told if isinstance(told, dict) else {}
        found.append(
            Flow(
                str(row["name"]),
                str(row["kind"]),
                str(row["direction"] or "both"),
                str(row["host"] or ""),
                int(row["dscp"] or 0),
                str(row["congestion_control"] or ""),
                _begun_ns(row["start_ns"], rows, carried),
                row["end_ns"],
                carried,
                own,
                _mss(own, told),
                float(_HEADERS_BYTES.get(row["ip_version"] or 4, 52)),
                told,
                datagrams=_datagrams(rows, told),
                is_greedy=row["kind"] == "tcp" and row["runner"] == "engine" and not _PAUSING & settings.keys(),
                set_send_buffer_bytes=_whole(settings.get("send_buffer_bytes")),
                set_rate_bps=_rate(settings.get("rate_bps")),
                is_whole=row["runner"] == "engine",
                polls_ns=polls_ns,
                events=_events(recording, row["flow"]) if has_events and row["direction"] == "up" else None,
            )
        )
    return _without_requests(found)


def _has_events(recording: Recording) -> bool:
    test = recording.metadata.get("test")
    parameters = test.get("parameters") if isinstance(test, dict) else None
    return isinstance(parameters, dict) and parameters.get("events") is True


def _events(recording: Recording, flow: int) -> pl.DataFrame:
    return recording.of_flow("tcp_events", flow, *COLUMNS["tcp_events"]).drop_nulls("time_ns").sort("time_ns")


def _whole(told: Any) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def _rate(told: Any) -> float | None:
    is_number = isinstance(told, int | float) and not isinstance(told, bool)
    return float(told) if is_number and 0 < told < math.inf else None


def _without_requests(found: list[Flow]) -> list[Flow]:
    """Flows of connections that were watched at one end: which of the two directions makes load."""
    carried = {(flow.runner_facts.get("cookie"), flow.direction): flow.carried_bytes for flow in found}

    def makes_load(flow: Flow) -> bool:
        opposite = {"up": "down", "down": "up"}.get(flow.direction, "")
        return flow.carried_bytes > 0 and flow.carried_bytes >= carried.get(
            (flow.runner_facts["cookie"], opposite), 0.0
        )

    return [replace(flow, makes_load=makes_load(flow)) if "cookie" in flow.runner_facts else flow for flow in found]


def _begun_ns(told_ns: int, rows: pl.DataFrame, carried: Values) -> int:
    """When a flow began. Other tools record only the end of its first interval, which was as long as the others."""
    if not len(carried):
        return told_ns
    first_ns = float(carried[0, 0])
    if rows["start_ns"].null_count():
        first_ns -= float(np.median(carried[:, 1] - carried[:, 0]))
    return min(told_ns, int(first_ns))


def _counted(rows: pl.DataFrame) -> Counted:
    rows = rows.drop_nulls("time_ns").sort("time_ns")
    columns = {name: rows[name].cast(pl.Float64).fill_null(math.nan).to_numpy() for name in _COUNTED}
    columns[STATE] = (
        rows[STATE].replace_strict(STATES, default=None, return_dtype=pl.Float64).fill_null(math.nan).to_numpy()
    )
    return Counted(rows["time_ns"].to_numpy().astype(np.int64), columns)


def _intervals(rows: pl.DataFrame) -> Values:
    """Start, end and bytes; where the start is not known, the end of the one before."""
    rows = rows.drop_nulls("end_ns").sort("end_ns")
    rows = rows.with_columns(start=pl.coalesce("start_ns", pl.col("end_ns").shift(1))).drop_nulls("start")
    span_s = (pl.col("end_ns") - pl.col("start")) / 1e9
    rows = rows.with_columns(
        size=pl.coalesce(pl.col("payload_bytes").cast(pl.Float64), pl.col("goodput_bps") * span_s / 8)
    )
    rows = rows.filter((pl.col("end_ns") > pl.col("start")) & pl.col("size").is_finite() & (pl.col("size") >= 0))
    return np.column_stack([rows[name].cast(pl.Float64).to_numpy() for name in ("start", "end_ns", "size")])


def _datagrams(rows: pl.DataFrame, told: dict[str, Any]) -> tuple[float, float] | None:
    known = rows.drop_nulls(["packets", "lost"])
    if known.is_empty():
        return None
    # What the responder's own receive buffer lost (of all flows together) is no loss of the path.
    there = told.get("packets_lost_in_responders_receive_buffer")
    of_end = float(there) if isinstance(there, str) and there.isdecimal() and len(there) < 19 else 0.0
    lost = max(0.0, float(known["lost"].sum()) - of_end)
    return float(known["packets"].sum()) + lost, lost


def _mss(counted: Counted, told: dict[str, Any]) -> float:
    sizes = counted["mss_bytes"]
    sizes = sizes[np.isfinite(sizes)]
    size = float(np.median(sizes)) if len(sizes) else told.get("TCP_MSS")
    try:
        usable = 0 < float(size) < 1e6  # type: ignore[arg-type]
    except (TypeError, ValueError):
        usable = False
    return float(size) if usable else float(_USUAL_MSS)  # type: ignore[arg-type]
