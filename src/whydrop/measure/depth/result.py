"""The result of a measurement: the document, and in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whydrop.measure.depth.tracing.place import Place
from whydrop.text.quantities import NO_BREAK, count, duration, interval, percent, plural, rate, size

# Bytes that are counted on top of each IP packet (README of the tables: `byte_basis`).
_OVERHEAD_BYTES = {None: 0, "ip": 0, "ethernet": 14, "wire": 38}

# A law of queue management that drops less than half of what comes lets at least as many in that find more inside than
# those that it drops: half of these, since half of what it drops found less than their median.
_PASSED_FOR_EACH_LOSS = 0.5

_LARGE_BYTES = 1500

# Three digits show the difference of two rates from here on.
_MUCH_FASTER = 1.05

_KINDS = {
    "shallow-queue": "queue",
    "deep-queue": "queue",
    "policer": "policer",
    "aqm": "managed-queue",
    "random-loss": "none",
}


@dataclass(frozen=True)
class Quantity:
    """A value with its 95 % interval; an end that is open is ``None``."""

    value: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> Quantity:
        """The same in another unit."""
        return Quantity(self.value * factor, *(None if end is None else end * factor for end in (self.low, self.high)))


@dataclass(frozen=True)
class Depth:
    """The result. See ``docs/depth.md`` for what each is."""

    kind: str
    cause: str | None
    confidence: float
    rate_bit_s: Quantity | None
    limited_by: str | None
    limit_packets: Quantity | None
    limit_bytes: Quantity | None
    burst_bytes: Quantity | None
    byte_basis: str | None
    line_rate_bit_s: Quantity | None
    large_bytes: int
    packets: int
    lost: int
    marked: int
    # Most losses were of packets that never left the sending host's interface.
    at_sender: bool = False
    # The hop of the queue, where it was looked for.
    trace: Place | None = None

    @property
    def counted_bytes(self) -> int:
        """The bytes of a large packet that rates and sizes count."""
        return self.large_bytes + _OVERHEAD_BYTES[self.byte_basis]

    @property
    def room_bytes(self) -> Quantity | None:
        """The bytes that a burst may bring before packets are dropped, while nothing drains."""
        if self.kind == "policer":
            return self.burst_bytes
        return self.limit_bytes if self.kind in ("queue", "shaper", "managed-queue") else None

    @property
    def burst_time_s(self) -> Quantity | None:
        """The burst tolerance as time: how long packets at line rate take to bring ``room_bytes``."""
        if self.room_bytes is None or self.line_rate_bit_s is None or not self.line_rate_bit_s.value > 0:
            return None
        return self.room_bytes.times(8 / self.line_rate_bit_s.value)

    @property
    def overflow_time_s(self) -> Quantity | None:
        """The time after which a burst at line rate overflows it, as it drains meanwhile; ``None`` if it is not known.

        It is not known of a shaper (its bucket empties beside its queue), nor of a managed queue, which drops before
        it is full.
        """
        room, line, drain = self.room_bytes, self.line_rate_bit_s, self.rate_bit_s
        if room is None or line is None or drain is None or line.value <= drain.value:
            return None
        if self.kind == "managed-queue" or (self.kind != "policer" and self.burst_bytes is not None):
            return None
        ends = (_filled_s(room.low, line.value, drain.low), _filled_s(room.high, line.value, drain.high))
        return Quantity(room.value * 8 / (line.value - drain.value), *ends)

    @property
    def rate_step(self) -> Quantity | None:
        """The share by which packets leave more slowly than they arrive; ``None`` where they do not, or unknown."""
        line, drain = self.line_rate_bit_s, self.rate_bit_s
        if line is None or drain is None or not line.value > drain.value:
            return None
        low, high = (None if end is None else max(1 - end / line.value, 0.0) for end in (drain.high, drain.low))
        return Quantity(1 - drain.value / line.value, low, high)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        times = {name: getattr(self, name) for name in ("burst_time_s", "overflow_time_s", "rate_step")}
        derived = {name: None if value is None else dataclasses.asdict(value) for name, value in times.items()}
        return {**dataclasses.asdict(self), **derived, "trace": None if self.trace is None else self.trace.document()}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Depth:
        """The result that a recording keeps.

        Raises:
            ValueError: it is no such document.
        """
        try:
            # Recordings of before do not say where packets were dropped.
            values = {"at_sender": False, "trace": None, **document}
            values = {one.name: values[one.name] for one in dataclasses.fields(cls)}
            for name, value in values.items():
                if name in _QUANTITIES:
                    values[name] = None if value is None else _of_three(value)
                elif name in _COUNTS:
                    values[name] = int(_number(value))
                elif name in _WORDS:
                    values[name] = None if value is None else str(value)
            known = {
                "kind": str(values["kind"]),
                "confidence": _number(values["confidence"]),
                "trace": None if values["trace"] is None else Place.of_document(values["trace"]),
            }
            return cls(**{**values, **known, "at_sender": values["at_sender"] is True})
        except (KeyError, TypeError, ValueError) as reason:
            raise ValueError(f"not the result of a measurement of a queue's depth: {reason!r}") from None


def _filled_s(room_bytes: float | None, line_bit_s: float, drain_bit_s: float | None) -> float | None:
    """How long a queue takes to fill; ``None`` where an end is open, or it may never fill."""
    if room_bytes is None or drain_bit_s is None or line_bit_s <= drain_bit_s:
        return None
    return room_bytes * 8 / (line_bit_s - drain_bit_s)


_MOST = 1e18
_COUNTS = ("large_bytes", "packets", "lost", "marked")
_WORDS = ("cause", "limited_by", "byte_basis")
_QUANTITIES = ("rate_bit_s", "limit_packets", "limit_bytes", "burst_bytes", "line_rate_bit_s")


def _of_three(interval: Mapping[str, Any]) -> Quantity:
    low, high = (None if interval[end] is None else _number(interval[end]) for end in ("low", "high"))
    return Quantity(_number(interval["value"]), low, high)


def _number(value: Any) -> float:
    """A count, a size, a rate, or a share: none of them is negative, nor as large as what JSON may hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MOST:
        raise ValueError(f"{value!r} is not a count, size, rate or share")
    return float(value)


def depth(analysis: Mapping[str, Any], large_bytes: int) -> Depth:
    """The result of :func:`whydrop._core.explain_bursts`; ``large_bytes``: large packets, IP bytes."""
    verdict = analysis["verdict"]
    cause = None if verdict is None else verdict["cause"]
    kind = _kind(analysis, cause)
    basis = verdict["byte_basis"] if kind == "policer" else analysis["byte_basis"]
    line = analysis["line_rate_bps"]
    counted = (large_bytes + _OVERHEAD_BYTES[basis]) / large_bytes
    packets, held_bytes, limited_by = _limits(analysis, kind)
    drain = _quantity(analysis["drain_rate_bps"])
    return Depth(
        kind=kind,
        cause=cause if analysis["limit"] is None else None,
        confidence=_confidence(analysis),
        rate_bit_s=_policer(analysis, "rate_bps") if kind == "policer" else drain and drain.times(counted),
        limited_by=limited_by,
        limit_packets=packets,
        limit_bytes=held_bytes,
        burst_bytes=_policer(analysis, "burst_bytes") if kind == "policer" else _quantity(analysis["burst_bytes"]),
        byte_basis=basis,
        line_rate_bit_s=None if line is None else Quantity(line * counted, None, None),
        large_bytes=large_bytes,
        packets=analysis["packets"],
        lost=analysis["lost"],
        marked=analysis["marked"],
        at_sender=analysis.get("at_sender", False),
    )


def _kind(analysis: Mapping[str, Any], cause: str | None) -> str:
    if analysis["marked"]:
        # Only what manages its queue marks (RFC 3168 section 5). What cannot be slowed down fills it all the same.
        return "managed-queue"
    if analysis["limit"] is not None:
        return "queue"
    if cause == "aqm" and analysis["passed_with_more"] < _PASSED_FOR_EACH_LOSS * analysis["lost"]:
        return "unknown"
    if cause == "policer" and analysis["bucket"] is None:
        # Hardly anything passed behind the first losses: a rate fitted to that is none.
        return "unknown"
    if cause is not None:
        return _KINDS.get(cause, "unknown")
    if analysis["drain_rate_bps"] is None:
        return "none"
    return "queue" if analysis["burst_bytes"] is None else "shaper"


def _policer(analysis: Mapping[str, Any], name: str) -> Quantity | None:
    """Rate or burst as fitted to the fates of all packets, where what passed before and behind the first losses agrees.

    The fit is the sharper of the two, and on a host that stalls it may follow the stalls.
    """
    fitted, direct = _quantity(analysis["verdict"]["parameters"].get(name)), _quantity(analysis["bucket"][name])
    if fitted is None or direct is None or direct.low is None or direct.high is None:
        return direct
    return fitted if direct.low <= fitted.value / _counted(analysis) <= direct.high else direct


def _counted(analysis: Mapping[str, Any]) -> float:
    """Bytes that a policer counts of a large packet, over its IP bytes."""
    return 1.0 + _OVERHEAD_BYTES[analysis["verdict"]["byte_basis"]] / _LARGE_BYTES


def _confidence(analysis: Mapping[str, Any]) -> float:
    if analysis["limit"] is not None:
        return float(analysis["limit"]["certainty"])
    return 1.0 if analysis["verdict"] is None else float(analysis["verdict"]["confidence"])


def _limits(analysis: Mapping[str, Any], kind: str) -> tuple[Quantity | None, Quantity | None, str | None]:
    """The limit in large packets, in bytes, and which of them it is."""
    if kind in ("policer", "none", "unknown"):
        return None, None, None
    if not analysis["lost"] and kind != "managed-queue":
        # It was never full: its limit is above the most seen in it.
        most = analysis["most_packets"], analysis["most_bytes"]
        return Quantity(most[0], most[0], None), Quantity(most[1], most[1], None), None
    limit = analysis["limit"]
    if limit is None:
        return None, None, None
    return _quantity(limit["packets"]), _quantity(limit["bytes"]), limit["limited_by"]


def _quantity(estimate: Mapping[str, float | None] | None) -> Quantity | None:
    if estimate is None or estimate["value"] is None:
        return None
    return Quantity(estimate["value"], estimate["low"], estimate["high"])


def standing(status: str, whole_rounds: int) -> str | None:
    """The notice on an incomplete measurement; ``None`` where it is complete.

    >>> standing("interrupted", 2)
    'Interrupted: this result is from the 2 rounds before, and may change with more.'
    """
    if status == "complete":
        return None
    ended = {"failed": "Failed", "running": "Still running"}.get(status, "Interrupted")
    if not whole_rounds:
        return f"{ended} before the end of the first round: the queue is not known."
    rounds = f"the {plural(whole_rounds, 'round')}" if whole_rounds > 1 else "the one round"
    return f"{ended}: this result is from {rounds} before, and may change with more."


def sentences(found: Depth) -> list[str]:
    """The result for a person, the answer first."""
    text = [_headline(found)]
    if found.at_sender and found.kind not in ("none", "unknown"):
        text.append("It is in the sending host: most lost packets never left its interface.")
    if found.limited_by == "packets" and found.limit_bytes is not None:
        text.append(f"Its limit counts packets, whatever their size ({size(found.limit_bytes.value)} of large ones).")
    elif found.limited_by == "bytes" and found.limit_packets is not None:
        text.append(f"Its limit counts bytes: {plural(found.limit_packets.value, 'packet')} of full size.")
    elif found.kind == "queue" and found.lost:
        text.append("These bursts do not show whether its limit counts packets or bytes.")
    if found.burst_bytes is not None and found.kind != "policer":
        text.append(
            f"A bucket of {size(found.burst_bytes.value)} lets packets through faster before the queue builds up."
        )
    if found.line_rate_bit_s is not None:
        text.append(_line(found, found.line_rate_bit_s))
    if found.byte_basis is None and found.rate_bit_s is not None:
        text.append("Rate and size are in IP bytes; which headers the queue counts is not known.")
    if found.marked:
        text.append(f"{count(found.marked)} packets were marked (Congestion Experienced) instead of being dropped.")
    return text + ([] if found.trace is None else found.trace.sentences())


def _line(found: Depth, line: Quantity) -> str:
    """The line rate, the step down from it, and the bursts at line rate that there is room for."""
    holds, overflow, step = found.burst_time_s, found.overflow_time_s, found.rate_step
    if holds is None or overflow is None or found.rate_bit_s is None or step is None or not found.lost:
        return f"Bursts entered the path at {rate(line.value)}."
    arrive, leave = _apart(line.value, found.rate_bit_s.value)
    what, room = ("pass", "The bucket") if found.kind == "policer" else ("leave", "The queue")
    return (
        f"Packets of a burst arrive at {arrive} and {what} at {leave}, {percent(step.value)} more slowly. {room} holds "
        f"{duration(holds.value)} of packets at line rate: a burst at line rate loses packets after "
        f"{duration(overflow.value)}."
    )


def _apart(faster_bps: float, slower_bps: float) -> tuple[str, str]:
    """Two rates, with digits that show their difference where it is small.

    >>> [text.replace(NO_BREAK, " ") for text in _apart(10e9, 9.953e9)]
    ['10.000 Gbit/s', '9.953 Gbit/s']
    >>> [text.replace(NO_BREAK, " ") for text in _apart(100e6, 10e6)]
    ['100 Mbit/s', '10.0 Mbit/s']
    """
    if faster_bps >= _MUCH_FASTER * slower_bps:
        return rate(faster_bps), rate(slower_bps)
    scales = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"))
    scale, unit = next((one for one in scales if slower_bps >= one[0]), (1.0, "bit/s"))
    digits = min(max(math.ceil(1 - math.log10((faster_bps - slower_bps) / scale)), 1), 6)
    faster, slower = (f"{bps / scale:.{digits}f}{NO_BREAK}{unit}" for bps in (faster_bps, slower_bps))
    return faster, slower


def _headline(found: Depth) -> str:
    at = None if found.rate_bit_s is None else _within(found.rate_bit_s, rate)
    if found.kind == "policer" and found.burst_bytes is not None:
        return (
            f"A policer: rate {at or 'unknown'}, burst {_within(found.burst_bytes, size)}. "
            "It drops what exceeds them and delays no packet."
        )
    if found.kind in ("queue", "shaper", "managed-queue"):
        return _of_queue(found, at)
    if found.kind == "none" and found.lost:
        return "No queue and no policer: packets were lost at random, whatever their rate."
    if found.kind == "none":
        return "No queue and no policer: the path is as fast as the line from which the bursts were sent."
    return "The cause of the losses is not known: neither a queue nor a policer fits them."


def _of_queue(found: Depth, at: str | None) -> str:
    limit = found.limit_bytes if found.limited_by == "bytes" else found.limit_packets
    unit = size if found.limited_by == "bytes" else lambda packets: plural(packets, "packet")
    never_full = limit is not None and limit.high is None
    of = "" if limit is None or never_full else f" of {_within(limit, unit)}"
    drains = "" if at is None else f" that drains at {at}"
    unknown = "" if at is not None else " Its rate is not known: too few packets of a burst passed."
    if found.kind == "managed-queue":
        # Packets that waited in a long queue before they met a short one that was full look alike, but for marks.
        other = "" if found.marked or limit is not None else ", or a short queue behind a longer one"
        drops = (
            "it drops or marks packets before it is full"
            if not other
            else "packets are lost before the delay is at its most"
        )
        return f"A managed queue{of}{drains}{other}: {drops}.{unknown}"
    if limit is not None and never_full:
        return f"A queue{drains}. It was never full: it holds more than {unit(limit.value)}.{unknown}"
    size_unknown = " Its size is not known." if limit is None and found.lost else ""
    return f"A queue{of}{drains}.{unknown}{size_unknown}"


def _within(one: Quantity, unit: Any) -> str:
    if one.low is None or one.high is None:
        return str(unit(one.value))
    return f"{unit(one.value)} ({interval(unit, one.low, one.high)})"
