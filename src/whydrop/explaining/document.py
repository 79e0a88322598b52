"""The result of an analysis as Python values: one class for each kind of entry in the JSON document.

Times are seconds since the Unix epoch (float, UTC), rates bit/s, sizes bytes, shares and confidences 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

#: What a verdict may name; `docs/causes.md` says what each means.
Cause = Literal[
    "policer",
    "shallow-queue",
    "deep-queue",
    "shaper",
    "aqm",
    "random-loss",
    "reordering",
    "receiver-window",
    "sender",
    "capture-loss",
    "outage",
    "no-answer",
    "refused",
    "reset",
    "mtu",
    "idle-timeout",
    "delayed-ack",
    "peer-application",
    "window-scaling",
    "sack",
    "ecn",
    "duplicate",
    "checksum",
    "batching",
    "jitter",
    "unfairness",
    "host-drop",
    "none",
    "unknown",
]


class Entry:
    """Builds itself from one object of the document; a key that this version does not know is left out."""

    # Without this the slots of the entries would be no use.
    __slots__ = ()

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Self:
        """Build the entry from its JSON object, with the entries in it."""
        known = _builders(cls)  # type: ignore[arg-type]
        return cls(**{name: build(entry[key]) for name, key, build in known if key in entry})


@cache
def _builders(entry: type[Entry]) -> list[tuple[str, str, Callable[[Any], Any]]]:
    """The name of each field, its key in the document, and what makes its value of the one there."""
    hints = get_type_hints(entry)
    known: tuple[Field[Any], ...] = fields(entry)  # type: ignore[arg-type]
    return [(one.name, one.metadata.get("key", one.name), _builder(hints[one.name])) for one in known]


def _builder(hint: Any) -> Callable[[Any], Any]:
    kind, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Entry):
        return hint.from_json
    if kind is UnionType:
        build = _builder(inner[0])
        return lambda value: None if value is None else build(value)
    if kind is tuple and inner[-1] is ...:
        build = _builder(inner[0])
        return lambda values: tuple(map(build, values))
    if kind is tuple:
        return tuple
    if kind is Mapping and inner[1] is Parameter:
        return lambda values: {name: Parameter.from_json(value) for name, value in values.items()}
    return lambda value: value


@dataclass(frozen=True, slots=True)
class Hosts(Entry):
    """The hosts at one end of many connections.

    ``hosts`` is right within some percent where ``is_estimate``; ``busiest`` is the address with most connections, at
    least ``busiest_connections`` of them, and ``None`` where none stands out.
    """

    hosts: int
    is_estimate: bool
    busiest: str | None
    busiest_connections: int | None


@dataclass(frozen=True, slots=True)
class SmallConnections(Entry):
    """TCP connections that are too small and too many to be among the flows, summed up over both directions.

    ``flows`` counts their directions with data, ``attempts`` those with a captured SYN, ``answered`` those with
    packets in both directions. ``initiators`` sent the SYN, or the first packet seen.
    """

    connections: int
    flows: int
    packets: int
    payload_bytes: int
    lost: int
    retransmitted: int
    spurious: int
    reordered: int
    attempts: int
    answered: int
    start: float
    end: float
    initiators: Hosts
    responders: Hosts


@dataclass(frozen=True, slots=True)
class Capture(Entry):
    """One capture file, as it was read."""

    path: str
    format: str
    packets: int
    first: float | None
    last: float | None
    link_type: str
    snaplen: int | None
    truncated: bool
    packets_by_kind: Mapping[str, int]
    duplicates: int
    out_of_order: int
    notes: tuple[str, ...] = ()
    small_connections: SmallConnections | None = None
    link_retries: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    dropped_by_capture: int | None = None
    timeless: str | None = None
    left_out: int = 0
    control_connections: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Flow(Entry):
    """One direction of one TCP connection that carried data.

    ``lost`` counts transmissions that never arrived, ``spurious`` retransmissions of data that had arrived. Where
    senders without SACK leave the number open, ``lost_low`` and ``lost_high`` are the fewest and the most.
    """

    flow: str
    packets: int
    payload_bytes: int
    lost: int
    retransmitted: int
    spurious: int
    reordered: int
    rtt_min_s: float | None
    rtt_median_s: float | None
    mss: int | None
    vantage: str
    start: float
    end: float
    missed_by_capture_bytes: int
    retransmitted_by_kind: Mapping[str, int]
    ce_marked: int
    ecn_echoes: int
    zero_windows: int
    window_limited_share: float | None
    window_scale: int | None
    ecn: str = "unknown"
    accecn: bool = False
    ect0: int = 0
    ect1: int = 0
    ce_reported: int = 0
    ce_reported_bytes: int = 0
    windows_reduced: int = 0
    window_closed_s: float = 0.0
    window_closures: int = 0
    window_probes: int = 0
    outstanding_at_loss_mean_bytes: float | None = None
    outstanding_at_loss_deviation_bytes: float | None = None
    limits: Mapping[str, Any] | None = None
    lost_low: int | None = None
    lost_high: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer(Entry):
    """Data of a flow between data in the other direction, such as one response, and what limited it."""

    flow: str
    start: float
    end: float
    payload_bytes: int
    packets: int
    lost: int
    goodput_bps: float | None
    cause: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Parameter(Entry):
    """A fitted value with its 95 % interval; a bound is ``None`` where the evidence leaves that end open."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Against(Entry):
    """A cause that competed and lost, and why: in words, and as the fact that they are made of."""

    cause: str
    why: str
    fact: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ThroughputLost(Entry):
    """Throughput lost to a cause, in bit/s and as a share of what was possible, and how it was estimated."""

    bps: float
    share: float
    method: str


@dataclass(frozen=True, slots=True)
class Model(Entry):
    """A model of a path element, replayed over the packets that came to it, and how it did.

    ``role`` is ``winner``, ``rival``, ``given`` for a model of the user, or ``fitted`` beside such for what one capture
    shows. It dropped ``dropped`` packets, of which ``hits`` were really lost, and let
    ``passed_right`` of the ``passed`` pass. ``longest_wait_s`` is the longest that it holds a packet,
    ``seen_longest_wait_s`` the longest delay of a packet, ``wait_error_s`` the median distance between the two over
    all packets. ``why`` says why it is ruled out, ``fact`` in codes and numbers. A given or fitted model has its
    ``path``, and ``fates`` says whether those of the packets were ``captured`` or ``inferred``.
    """

    role: str
    element: str
    title: str
    rate_bps: float | None
    limit_bytes: float | None
    limit_packets: float | None
    dropped: int
    hits: int
    passed_right: int
    lost: int
    passed: int
    longest_wait_s: float | None
    seen_longest_wait_s: float | None
    wait_error_s: float | None
    why: str | None
    peak_rate_bps: float | None = None
    peak_burst_bytes: float | None = None
    fact: Mapping[str, Any] | None = None
    path: Mapping[str, Any] | None = None
    fates: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict(Entry):
    """A cause, how sure, and why.

    ``explained`` is the share of the flows' losses that the cause accounts for, ``limited_share`` the share of their
    active time that it limits. ``parameters`` follow the names of the design: a policer has ``rate_bps`` and
    ``burst_bytes``, a queue ``drain_rate_bps`` and ``limit_packets`` or ``limit_bytes``; ``path`` has the element
    that they describe, for :meth:`Explanation.replay`. ``place`` says between which captures it is, where there are
    two; ``family`` which kind of queue management; ``models`` holds the model that won and those that were ruled out,
    replayed over the packets between two captures. ``facts`` are what ``sentence`` and ``evidence`` say, in codes and
    numbers.
    """

    cause: Cause
    confidence: float
    flows: tuple[str, ...]
    lost: int
    explained: float
    limited_share: float
    parameters: Mapping[str, Parameter]
    byte_basis: str | None
    sentence: str
    evidence: tuple[str, ...]
    against: tuple[Against, ...]
    advice: tuple[str, ...]
    throughput_lost: ThroughputLost | None
    place: str | None = None
    family: str | None = None
    models: tuple[Model, ...] = ()
    detail: str | None = None
    facts: tuple[Mapping[str, Any], ...] = ()
    path: Mapping[str, Any] | None = None
