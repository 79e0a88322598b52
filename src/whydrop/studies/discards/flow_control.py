"""Ports at which flow control (IEEE 802.3, annex 31B) could replace discards, and what else a pause would stop.

A port that drains more slowly than packets arrive from faster ports overflows. With flow control the switch pauses the
ports that feed it. A pause holds up everything that enters by such a port, also what leaves by other ports:
head-of-line blocking. A switch does not count which port's packets leave where. Conservation of octets bounds it: of
what entered by a port, no more can have left by the slow port than left there at all, and no less than what the other
ports cannot have brought. Both are computed over the samples with discards alone, in which all ports were read at the
same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards.watch import USUAL_SPEEDS_BPS
from whydrop.text.phrases import listed
from whydrop.text.quantities import share

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.store.engines import Backend
    from whydrop.studies.discards.parameters import Parameters

_I64, _F64, _TEXT, _BOOL = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()
_SECOND = 1_000_000_000
_COUNTERS = ("octets.rx", "octets.tx", "discards.rx", "discards.tx", "pause.rx", "pause.tx")
_PLACE = ("site", "switch", "machine", "port")
_OTHERS = ("from_machine", "from_port", "to_machine", "to_port")
# Days of one switch that are read at once.
_DAYS_AT_ONCE = 7
# Ports are read at the same time if their samples end so close, as a share of a sample.
_ALIGNED = 0.02
# Of discarded packets only the number is known; the longest frame bounds their octets.
_LONGEST_FRAME_BYTES = 9216
# A port that brings less than this share feeds the slow one at most by chance.
FEEDS = 0.05
# Less than this of a port's traffic goes elsewhere: nothing. More than this, for sure: it is shared.
_NOTHING, _SHARED = 0.01, 0.1
# What enters a switch and what leaves it may differ by this: floods, its own packets, moments of reading.
_BALANCED = 0.05
_MOST_UNUSED = 0.5

# One row for each port that discarded what should leave. `speed_from`: parameters, or rates (the smallest usual speed
# above the highest rate: an estimate). `utilisation` of the speed, `pause_rx` (pause frames received) in the samples
# with discards. `used`: those of them in which all ports were read at the same time. `conclusion`: candidate, no
# faster port, paused already, unknown (`why`).
PORTS = {
    "site": _TEXT, "switch": _TEXT, "machine": _TEXT, "port": _TEXT, "speed_bps": _F64, "speed_from": _TEXT,
    "samples": _I64, "with_discards": _I64, "used": _I64, "discards": _F64, "utilisation": _F64, "pause_rx": _F64,
    "conclusion": _TEXT, "why": _TEXT,
}  # fmt: skip

# One row for each slow port and each other port (`from_`) of its switch by which packets enter, in the used samples.
# `entered_share`: of all that entered the switch by ports in the store. `pause_tx`: pause frames that the switch sent
# there. `elsewhere_low`, `elsewhere_high`: bounds of the share of what entered that did not leave by the slow port.
# `blocking`: shared, alone, unknown (`why`).
FEEDERS = {
    "site": _TEXT, "switch": _TEXT, "machine": _TEXT, "port": _TEXT, "from_machine": _TEXT, "from_port": _TEXT,
    "speed_bps": _F64, "speed_from": _TEXT, "is_faster": _BOOL, "entered_bps": _F64, "entered_share": _F64,
    "pause_tx": _F64, "elsewhere_low": _F64, "elsewhere_high": _F64, "blocking": _TEXT, "why": _TEXT,
}  # fmt: skip

# One row for each slow port and other port by which packets left (`to_`) in the used samples. `left_share`: of all that
# left the switch.
LEFT = {
    "site": _TEXT, "switch": _TEXT, "machine": _TEXT, "port": _TEXT, "to_machine": _TEXT, "to_port": _TEXT,
    "left_bps": _F64, "left_share": _F64,
}  # fmt: skip


# Machine and port.
Key = tuple[str | None, str]


@dataclass(frozen=True)
class FlowControl:
    """Where flow control could replace discards.

    Attributes:
        ports: a row for each port that discarded.
        feeders: a row for each port that feeds such a port.
        left: a row for each other port by which packets left at the same time.
        notes: sentences on what is unknown and why.
        is_counted: whether the store has discards of packets that should leave, be they 0.
    """

    ports: pl.DataFrame
    feeders: pl.DataFrame
    left: pl.DataFrame
    notes: list[str]
    is_counted: bool = True


@dataclass
class Sums:
    """Sums over the samples of a slow port: all, those with discards, the used ones, and others' in the used ones."""

    samples: int = 0
    with_discards: int = 0
    used: int = 0
    discards: float = 0.0
    discarding_s: float = 0.0
    sent_while_discarding: float = 0.0
    pause_rx: float | None = None
    used_s: float = 0.0
    used_discards: float = 0.0
    used_sent: float = 0.0
    used_received: float = 0.0
    others: dict[Key, dict[str, float]] = field(default_factory=dict)

    def of(self, key: Key, name: str) -> float | None:
        """A counter of another port in all used samples; None where one of them lacks it."""
        values = self.others[key]
        return values[name] if values[_counted(name)] == self.used else None


def find(backend: Backend, parameters: Parameters) -> FlowControl:
    """Find the ports at which flow control could replace discards, and what else a pause would stop.

    Args:
        backend: an open store.
        parameters: the days, the metros, and the speeds of ports (``watch.port_speed_bps``).
    """
    from whydrop.studies.discards import diagnosis, queries

    parameters, notes = diagnosis.fitted(backend, parameters)
    counters = queries.Tables.of(backend, parameters.days).counters
    if parameters.metros:
        counters = counters.filter(counters.metro.isin(list(parameters.metros)))
    known = counters.filter(counters.counter.isin(list(_COUNTERS)), counters.value.notnull(), counters.span_ns > 0)
    ports: list[dict[str, Any]] = []
    feeders: list[dict[str, Any]] = []
    left: list[dict[str, Any]] = []
    for site, switch, days in _switches(backend, known):
        sums, highest = _of_switch(backend, known, (site, switch), days, parameters)
        for (machine, port), found in sums.items():
            place = {"site": site, "switch": switch, "machine": machine, "port": port}
            judged = Judged.of(port, machine, found, highest, parameters.watch.port_speed_bps)
            ports.append(place | judged.port)
            feeders += [place | one for one in judged.feeders]
            left += [place | one for one in judged.left]
    is_counted = bool(ports) or _has_any(backend, known.filter(known.counter == "discards.tx"))
    if not ports:
        notes = [*notes, _nothing(parameters, is_counted=is_counted)]
    frames = [
        pl.DataFrame(rows, schema=schema).sort(
            [name for name in schema if name in (*_PLACE, *_OTHERS)], nulls_last=False
        )
        for rows, schema in ((ports, PORTS), (feeders, FEEDERS), (left, LEFT))
    ]
    return FlowControl(frames[0], frames[1], frames[2], notes, is_counted)


def _has_any(backend: Backend, rows: ir.Table) -> bool:
    return bool(backend.run(rows.select("day").limit(1)).height)


def _nothing(parameters: Parameters, *, is_counted: bool) -> str:
    days = f"{parameters.days.first} to {parameters.days.last}"
    where = f" of {', '.join(parameters.metros)}" if parameters.metros else ""
    if is_counted:
        return f"No port{where} discarded packets that should leave by it, from {days}."
    return f"Whether ports discard is unknown: the store has no values of the counter discards.tx{where} from {days}."


def _switches(backend: Backend, known: ir.Table) -> Iterator[tuple[Any, Any, list[str]]]:
    """Switches with a port that discarded, and the days on which one did."""
    discarded = known.filter(known.counter == "discards.tx", known.value > 0)
    found = backend.run(discarded.select("site", "switch", "day").distinct().order_by("site", "switch", "day"))
    for (site, switch), own in found.group_by("site", "switch", maintain_order=True):
        yield site, switch, own["day"].to_list()


def _of_switch(
    backend: Backend, known: ir.Table, place: tuple[str | None, str | None], days: list[str], parameters: Parameters
) -> tuple[dict[Key, Sums], dict[Key, float]]:
    """Sums of each port that discarded, and the highest rate of each port in either direction."""
    sums: dict[Key, Sums] = {}
    highest: dict[Key, float] = {}
    for some in _together(days):
        # A store may name no site.
        own = [known[name].fill_null("") == (value or "") for name, value in zip(_PLACE[:2], place, strict=True)]
        rows = known.filter(*own, known.day.isin(some))
        frame = backend.run(rows.select("machine", "port", "counter", "end_ns", "span_ns", "value"))
        ports = samples_of_ports(frame, parameters.port)
        for key, samples in ports.items():
            rate = samples.select(
                (pl.max_horizontal("octets.rx", "octets.tx") * 8 * _SECOND / pl.col("span_ns")).max()
            ).item()
            highest[key] = max(highest.get(key, 0.0), rate or 0.0)
        for key in ports:
            add(sums, key, ports)
    return {key: one for key, one in sums.items() if one.with_discards}, highest


def _together(days: list[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for day in days:
        if group and date.fromisoformat(day) >= date.fromisoformat(group[0]) + timedelta(days=_DAYS_AT_ONCE):
            yield group
            group = []
        group.append(day)
    if group:
        yield group


def samples_of_ports(frame: pl.DataFrame, uplink: str) -> dict[Key, pl.DataFrame]:
    """The samples of each port in columns of counters, in order of time.

    Several machines may read the same uplink: of these, the one with most samples stands.
    """
    found: dict[Key, pl.DataFrame] = {}
    for (machine, port), rows in frame.group_by("machine", "port", maintain_order=True):
        values = [pl.col("value").filter(pl.col("counter") == name).first().alias(name) for name in _COUNTERS]
        found[machine, str(port)] = rows.group_by("end_ns", "span_ns").agg(values).sort("end_ns")
    of_uplink = sorted((key for key in found if key[1] == uplink), key=lambda key: (-found[key].height, key[0] or ""))
    for key in of_uplink[1:]:
        del found[key]
    return found


def add(sums: dict[Key, Sums], key: Key, ports: dict[Key, pl.DataFrame]) -> None:
    """Add the samples of a port to its sums, with those of the others at the same time."""
    own = ports[key].filter(pl.col("discards.tx").is_not_null() & pl.col("octets.tx").is_not_null())
    one = sums.setdefault(key, Sums())
    one.samples += own.height
    discarding = own.filter(pl.col("discards.tx") > 0)
    one.with_discards += discarding.height
    one.discards += _total(discarding, "discards.tx")
    one.discarding_s += _total(discarding, "span_ns") / _SECOND
    one.sent_while_discarding += _total(discarding, "octets.tx")
    if discarding["pause.rx"].null_count() < discarding.height:
        one.pause_rx = (one.pause_rx or 0.0) + _total(discarding, "pause.rx")
    others = {other: frame for other, frame in ports.items() if other != key}
    if not others or discarding.is_empty():
        return
    joined = {other: _beside(discarding, frame) for other, frame in others.items()}
    used = pl.Series([True] * discarding.height)
    for frame in joined.values():
        used &= frame["octets.rx"].is_not_null() & frame["octets.tx"].is_not_null()
    kept = discarding.filter(used)
    one.used += kept.height
    one.used_s += _total(kept, "span_ns") / _SECOND
    one.used_discards += _total(kept, "discards.tx")
    one.used_sent += _total(kept, "octets.tx")
    one.used_received += _total(kept, "octets.rx")
    for other, frame in joined.items():
        there = frame.filter(used)
        values = one.others.setdefault(other, dict.fromkeys((*_COUNTERS, *map(_counted, _COUNTERS)), 0.0))
        for name in _COUNTERS:
            values[name] += _total(there, name)
            values[_counted(name)] += there.height - there[name].null_count()


def _counted(name: str) -> str:
    """The key of the number of samples that have a counter."""
    return f"samples of {name}"


def _total(frame: pl.DataFrame, column: str) -> float:
    return float(frame[column].sum())


def _beside(discarding: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The samples of another port that cover the same time; nulls where there is none."""
    there = other.rename({"span_ns": "other_span_ns"}).with_columns(other_end_ns="end_ns")
    own = discarding.select("end_ns", "span_ns")
    near = own.join_asof(there, on="end_ns", strategy="nearest")
    most = pl.col("span_ns") * _ALIGNED
    same = ((pl.col("other_end_ns") - pl.col("end_ns")).abs() <= most) & (
        (pl.col("other_span_ns") - pl.col("span_ns")).abs() <= most
    )
    return near.select(pl.when(same).then(pl.col(name)).alias(name) for name in _COUNTERS)


@dataclass(frozen=True)
class Judged:
    """A port that discarded, in rows of `PORTS`, `FEEDERS` and `LEFT` without the place."""

    port: dict[str, Any]
    feeders: list[dict[str, Any]]
    left: list[dict[str, Any]]

    @classmethod
    def of(
        cls, port: str, machine: str | None, sums: Sums, highest: dict[Key, float], speeds: dict[str, float]
    ) -> Judged:
        """Judge the sums of a port."""
        speed, source = _speed(port, highest.get((machine, port)), speeds)
        feeders = list(_feeders(sums, (speed, source), highest, speeds))
        conclusion, why = _conclusion(port, source, sums, feeders)
        rate = sums.sent_while_discarding * 8 / sums.discarding_s if sums.discarding_s else None
        row = {
            "speed_bps": speed, "speed_from": source, "samples": sums.samples, "with_discards": sums.with_discards,
            "used": sums.used, "discards": sums.discards, "utilisation": rate / speed if rate and speed else None,
            "pause_rx": sums.pause_rx, "conclusion": conclusion, "why": why,
        }  # fmt: skip
        return cls(row, feeders, list(_left(sums)))


def _speed(port: str, highest_bps: float | None, speeds: dict[str, float]) -> tuple[float | None, str | None]:
    if port in speeds:
        return speeds[port], "parameters"
    if not highest_bps:
        return None, None
    return next((usual for usual in USUAL_SPEEDS_BPS if usual >= highest_bps), None), "rates"


def _feeders(
    sums: Sums, slow: tuple[float | None, str | None], highest: dict[Key, float], speeds: dict[str, float]
) -> Iterator[dict[str, Any]]:
    entered = {key: values["octets.rx"] for key, values in sums.others.items()}
    everything = sum(entered.values())
    for key, octets in entered.items():
        if not sums.used_s or not octets:
            continue
        machine, port = key
        speed, source = _speed(port, highest.get(key), speeds)
        low, high = elsewhere(sums, key)
        blocking, why = _blocking(low, high, sums, key)
        yield {
            "from_machine": machine, "from_port": port, "speed_bps": speed, "speed_from": source,
            "is_faster": _is_faster(speed, source, highest.get(key, 0.0), slow),
            "entered_bps": octets * 8 / sums.used_s, "entered_share": octets / everything,
            "pause_tx": sums.of(key, "pause.tx"),
            "elsewhere_low": low, "elsewhere_high": high, "blocking": blocking, "why": why,
        }  # fmt: skip


def elsewhere(sums: Sums, key: Key) -> tuple[float, float]:
    """Bounds of the share of what entered by a port that was neither sent nor discarded by the slow port.

    The lower one always holds. The upper one holds if the store has all ports of the switch.
    """
    entered = sums.others[key]["octets.rx"]
    rest = [other for other in sums.others if other != key]
    # Discarded on arrival, it went nowhere.
    arrived = sums.of(key, "discards.rx")
    low = 0.0
    if arrived is not None:
        low = max(0.0, entered - sums.used_sent - (sums.used_discards + arrived) * _LONGEST_FRAME_BYTES)
    brought = sum(sums.others[other]["octets.rx"] for other in rest)
    high = min(entered, entered - (sums.used_sent - brought))
    discards = [sums.of(other, "discards.tx") for other in rest]
    if None not in discards:
        discarded = sum(filter(None, discards)) * _LONGEST_FRAME_BYTES
        high = min(high, sum(sums.others[other]["octets.tx"] for other in rest) + discarded)
    return low / entered, max(low, high, 0.0) / entered


def imbalance(sums: Sums) -> float:
    """The share of what entered the switch, or left it, by ports that the store lacks, at least."""
    entered = sums.used_received + sum(values["octets.rx"] for values in sums.others.values())
    left = sums.used_sent + sum(values["octets.tx"] for values in sums.others.values())
    discarded = sums.used_discards + sum(
        values["discards.tx"] + values["discards.rx"] for values in sums.others.values()
    )
    lacking = max(left - entered, entered - left - discarded * _LONGEST_FRAME_BYTES, 0.0)
    return lacking / max(entered, left, 1.0)


def _blocking(low: float, high: float, sums: Sums, key: Key) -> tuple[str, str]:
    if sums.used < _MOST_UNUSED * sums.with_discards:
        return "unknown", "in most samples with discards not all ports were read at the same time"
    if low >= _SHARED:
        return "shared", ""
    lacking = imbalance(sums)
    if lacking > _BALANCED:
        return "unknown", f"{share(lacking)} of the octets passed by ports of the switch that the store lacks"
    if high <= _NOTHING:
        return "alone", ""
    if sums.of(key, "discards.rx") is None and sums.others[key]["octets.rx"] > sums.used_sent:
        return "unknown", "packets that it discarded on arrival (discards.rx) were not counted: they went nowhere"
    return "unknown", "a switch does not count which packets leave where, and other ports sent at the same time"


def _is_faster(
    speed: float | None, source: str | None, highest_bps: float, slow: tuple[float | None, str | None]
) -> bool | None:
    """True or false where the speeds are given, or rates show it; an estimated speed of the slow port shows nothing."""
    slow_bps, slow_from = slow
    if slow_bps is None or slow_from != "parameters":
        return None
    if highest_bps > slow_bps:
        return True
    return speed > slow_bps if speed is not None and source == "parameters" else None


def _conclusion(port: str, source: str | None, sums: Sums, feeders: list[dict[str, Any]]) -> tuple[str, str]:
    if not sums.others:
        return "unknown", "the store has no other port of this switch"
    if sums.used < _MOST_UNUSED * sums.with_discards:
        return "unknown", "in most samples with discards not all ports were read at the same time"
    if source != "parameters":
        return "unknown", f"the store has no speeds of ports: set watch.port_speed_bps.{port}, and those of the others"
    feeding = [one for one in feeders if one["entered_share"] >= FEEDS]
    faster = [one for one in feeding if one["is_faster"]]
    if any(one["pause_tx"] for one in faster):
        return "paused already", ""
    if faster and any(one["pause_tx"] is None for one in faster):
        return "unknown", "pause frames were not counted (dot3PauseTable): flow control may be on"
    if faster:
        return "candidate", ""
    unknown = [one["from_port"] for one in feeding if one["is_faster"] is None]
    if unknown or not feeding:
        names = listed(list(dict.fromkeys(unknown)))
        return (
            "unknown",
            f"the store has no speed of {names}: set watch.port_speed_bps" if unknown else "nothing entered",
        )
    return "no faster port", ""


def _left(sums: Sums) -> Iterator[dict[str, Any]]:
    everything = sums.used_sent + sum(values["octets.tx"] for values in sums.others.values())
    for (machine, port), values in sums.others.items():
        if sums.used_s and values["octets.tx"]:
            yield {
                "to_machine": machine, "to_port": port, "left_bps": values["octets.tx"] * 8 / sums.used_s,
                "left_share": values["octets.tx"] / everything,
            }  # fmt: skip
