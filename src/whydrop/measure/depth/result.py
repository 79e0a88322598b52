"""The result of a measurement: the document, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whydrop.text.quantities import count, rate, size

# Bytes that are counted on top of each IP packet (README of the tables: `byte_basis`).
_OVERHEAD_BYTES = {None: 0, "ip": 0, "ethernet": 14, "wire": 38}

# A law of queue management that drops less than half of what comes lets at least as many in that find more inside than
# those that it drops: half of these, since half of what it drops found less than their median.
_PASSED_FOR_EACH_LOSS = 0.5

_LARGE_BYTES = 1500

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
        scaled = [None if end is None else end * factor for end in (self.low, self.high)]
        return Quantity(self.value * factor, *scaled)


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

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)

    @classmethod
    def of_document(cls, told: Mapping[str, Any]) -> Depth:
        """The result that a recording keeps.

        Raises:
            ValueError: it is no such document.
        """
        try:
            # Recordings of before do not say where packets were dropped.
            told = {"at_sender": False, **told}
            values = {one.name: told[one.name] for one in dataclasses.fields(cls)}
            for name in _QUANTITIES:
                values[name] = None if values[name] is None else _of_three(values[name])
            for name in ("large_bytes", "packets", "lost", "marked"):
                values[name] = int(_number(values[name]))
            for name in _WORDS:
                values[name] = None if values[name] is None else str(values[name])
            values |= {"kind": str(values["kind"]), "confidence": _number(values["confidence"])}
            return cls(**{**values, "at_sender": values["at_sender"] is True})
        except (KeyError, TypeError, ValueError) as reason:
            raise ValueError(f"not the result of a measurement of a queue's depth: {reason!r}") from None


_MOST = 1e18
_WORDS = ("cause", "limited_by", "byte_basis")
_QUANTITIES = ("rate_bit_s", "limit_packets", "limit_bytes", "burst_bytes", "line_rate_bit_s")


def _of_three(told: Mapping[str, Any]) -> Quantity:
    low, high = (None if told[end] is None else _number(told[end]) for end in ("low", "high"))
    return Quantity(_number(told["value"]), low, high)


def _number(told: Any) -> float:
    """A count, a size, a rate, or a share: none of them is negative, nor as large as what JSON may hold."""
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not 0 <= told < _MOST:
        raise ValueError(f"{told!r} is no such number")
    return float(told)


def depth(told: Mapping[str, Any], large_bytes: int) -> Depth:
    """The result of what :func:`whydrop._core.explain_bursts` told; ``large_bytes``: large packets, IP bytes."""
    verdict = told["verdict"]
    cause = None if verdict is None else verdict["cause"]
    kind = _kind(told, cause)
    basis = verdict["byte_basis"] if kind == "policer" else told["byte_basis"]
    line = told["line_rate_bps"]
    counted = (large_bytes + _OVERHEAD_BYTES[basis]) / large_bytes
    packets, held_bytes, limited_by = _limits(told, kind)
    drain = _quantity(told["drain_rate_bps"])
    return Depth(
        kind=kind,
        cause=cause if told["limit"] is None else None,
        confidence=_confidence(told),
        rate_bit_s=_policer(told, "rate_bps") if kind == "policer" else drain and drain.times(counted),
        limited_by=limited_by,
        limit_packets=packets,
        limit_bytes=held_bytes,
        burst_bytes=_policer(told, "burst_bytes") if kind == "policer" else _quantity(told["burst_bytes"]),
        byte_basis=basis,
        line_rate_bit_s=None if line is None else Quantity(line * counted, None, None),
        large_bytes=large_bytes,
        packets=told["packets"],
        lost=told["lost"],
        marked=told["marked"],
        at_sender=told.get("at_sender", False),
    )


def _kind(told: Mapping[str, Any], cause: str | None) -> str:
    if told["marked"]:
        # Only what manages its queue marks (RFC 3168 section 5). What cannot be slowed down fills it all the same.
        return "managed-queue"
    if told["limit"] is not None:
        return "queue"
    if cause == "aqm" and told["passed_with_more"] < _PASSED_FOR_EACH_LOSS * told["lost"]:
        return "unknown"
    if cause == "policer" and told["bucket"] is None:
        # Hardly anything passed behind the first losses: a rate fitted to that is none.
        return "unknown"
    if cause is not None:
        return _KINDS.get(cause, "unknown")
    if told["drain_rate_bps"] is None:
        return "none"
    return "queue" if told["burst_bytes"] is None else "shaper"


def _policer(told: Mapping[str, Any], name: str) -> Quantity | None:
    """Rate or burst as fitted to the fates of all packets, where what passed before and behind the first losses agrees.

    The fit is the sharper of the two, and on a host that stalls it may follow the stalls.
    """
    fitted, direct = _quantity(told["verdict"]["parameters"].get(name)), _quantity(told["bucket"][name])
    if fitted is None or direct is None or direct.low is None or direct.high is None:
        return direct
    return fitted if direct.low <= fitted.value / _counted(told) <= direct.high else direct


def _counted(told: Mapping[str, Any]) -> float:
    """Bytes that a policer counts of a large packet, over its IP bytes."""
    return 1.0 + _OVERHEAD_BYTES[told["verdict"]["byte_basis"]] / _LARGE_BYTES


def _confidence(told: Mapping[str, Any]) -> float:
    if told["limit"] is not None:
        return float(told["limit"]["certainty"])
    return 1.0 if told["verdict"] is None else float(told["verdict"]["confidence"])


def _limits(told: Mapping[str, Any], kind: str) -> tuple[Quantity | None, Quantity | None, str | None]:
    """The limit in large packets, in bytes, and which of them it is."""
    if kind in ("policer", "none", "unknown"):
        return None, None, None
    if not told["lost"] and kind != "managed-queue":
        # It was never full: it holds more than was seen in it.
        most = told["most_packets"], told["most_bytes"]
        return Quantity(most[0], most[0], None), Quantity(most[1], most[1], None), None
    limit = told["limit"]
    if limit is None:
        return None, None, None
    return _quantity(limit["packets"]), _quantity(limit["bytes"]), limit["limited_by"]


def _quantity(told: Mapping[str, float | None] | None) -> Quantity | None:
    if told is None or told["value"] is None:
        return None
    return Quantity(told["value"], told["low"], told["high"])


def standing(status: str, whole_rounds: int) -> str | None:
    """The first words of a measurement that did not come to its end; ``None`` where it did.

    >>> standing("interrupted", 2)
    'Interrupted: what follows is from the 2 rounds before, and may change with more.'
    """
    if status == "complete":
        return None
    ended = {"failed": "Broken off", "running": "Not over yet"}.get(status, "Interrupted")
    if not whole_rounds:
        return f"{ended} before a round was over: nothing is known of the queue."
    rounds = f"the {count(whole_rounds)} rounds" if whole_rounds > 1 else "the one round"
    return f"{ended}: what follows is from {rounds} before, and may change with more."


def sentences(found: Depth) -> list[str]:
    """The result for a person, the answer first."""
    text = [_headline(found)]
    if found.at_sender and found.kind not in ("none", "unknown"):
        text.append("It is the sending host's own: most lost packets never left its interface.")
    if found.limited_by == "packets" and found.limit_bytes is not None:
        text.append(
            f"Its limit is counted in packets: small ones fill it as large ones do ({size(found.limit_bytes.value)})."
        )
    elif found.limited_by == "bytes" and found.limit_packets is not None:
        text.append(f"Its limit is counted in bytes: {count(found.limit_packets.value)} packets of full size.")
    elif found.kind == "queue" and found.lost:
        text.append("Whether its limit is counted in packets or in bytes cannot be told from what was sent.")
    if found.burst_bytes is not None and found.kind != "policer":
        text.append(
            f"A bucket of {size(found.burst_bytes.value)} lets packets through faster before the queue builds up."
        )
    if found.line_rate_bit_s is not None:
        text.append(f"Bursts entered the path at {rate(found.line_rate_bit_s.value)}.")
    if found.byte_basis is None and found.rate_bit_s is not None:
        text.append("Rate and size count IP bytes, as what the queue counts of each packet is not known.")
    if found.marked:
        text.append(f"{count(found.marked)} packets were marked (Congestion Experienced) instead of being dropped.")
    return text


def _headline(found: Depth) -> str:
    at = None if found.rate_bit_s is None else _within(found.rate_bit_s, rate)
    if found.kind == "policer" and found.burst_bytes is not None:
        return (
            f"A policer: rate {at or 'unknown'}, burst {_within(found.burst_bytes, size)}. "
            "What exceeds it is dropped, nothing waits."
        )
    if found.kind in ("queue", "shaper", "managed-queue"):
        return _of_queue(found, at)
    if found.kind == "none":
        if found.lost:
            return "No queue and no policer: packets were lost by chance, whatever was sent."
        return "Nothing held up or dropped the bursts: the path is as fast as the line they were sent from."
    return "What dropped packets is not known: it fits neither a queue nor a policer."


def _of_queue(found: Depth, at: str | None) -> str:
    limit = found.limit_bytes if found.limited_by == "bytes" else found.limit_packets
    unit = size if found.limited_by == "bytes" else lambda packets: f"{count(packets)} packet{'s' * (packets != 1)}"
    never_full = limit is not None and limit.high is None
    of = "" if limit is None or never_full else f" of {_within(limit, unit)}"
    drains = "" if at is None else f" that drains at {at}"
    unknown = "" if at is not None else " Its rate is not known: too few packets of a burst passed."
    if found.kind == "managed-queue":
        return f"A managed queue{of}{drains}: it drops or marks before it is full.{unknown}"
    if limit is not None and never_full:
        return f"A queue{drains}. It was never full: it holds more than {unit(limit.value)}.{unknown}"
    size_unknown = " Its size is not known." if limit is None and found.lost else ""
    return f"A queue{of}{drains}.{unknown}{size_unknown}"


def _within(one: Quantity, unit: Any) -> str:
    if one.low is None or one.high is None:
        return str(unit(one.value))
    return f"{unit(one.value)} ({unit(one.low)} to {unit(one.high)})"
