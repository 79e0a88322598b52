"""Which ports of switches newly discard too much, and whether bursts shorter than a sample are why.

A port exceeds when, over the window that ends now, its discards are more than ``watch.ratio`` of its packets and at
least ``watch.least_discards``. It is *new* where it was not reported before, by the state that is kept from one look to
the next; without such a state, where it did not exceed in the window before. It is *ongoing* until a window with
samples shows that it no longer exceeds: a switch that fell silent has not recovered.

A discard in a sample with a low mean utilisation was a microburst's: the queue overflowed although the port was idle
for most of the sample. Utilisation needs the port's speed, which stores do not hold. It comes from the parameters, else
it is the smallest usual speed above the highest rate of a day: a 10 Gbit/s port that never saw more than 0.8 Gbit/s is
taken for 1 Gbit/s, which makes utilisation look higher, and microbursts fewer, than they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards import results

if TYPE_CHECKING:
    from whydrop.store.engines import Backend
    from whydrop.studies.discards.parameters import Parameters, Watch

_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_DIRECTIONS = ("rx", "tx")
# RFC 2863 counts discarded packets among these.
_PACKETS = ("unicast", "multicast", "broadcast")
# Of Ethernet, bit/s.
USUAL_SPEEDS_BPS = (10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9, 800e9)

# One direction of a port: site, switch, machine, port, direction.
Key = tuple[str | None, str | None, str | None, str | None, str]
_KEY = ("site", "switch", "machine", "port", "direction")


@dataclass(frozen=True)
class Look:
    """The findings of one look at the ports.

    Attributes:
        now_ns: the end of the window.
        alerts: a frame of `results.ALERTS`: the new ones first.
        ports: the number of ports with samples of discards in the window; each direction counts as one.
        silent: those that had some within the day before the window, but none in it.
        unjudged: those that discarded in the window, without counts of packets, so that there is no ratio.
        last_ns: where no port had samples in the window, when the last of the store ended; ``None``: it has none.
        reported: since when each port exceeds: what the next look is to know.
    """

    now_ns: int
    alerts: pl.DataFrame
    ports: int
    silent: list[Key] = field(default_factory=list)
    unjudged: list[Key] = field(default_factory=list)
    last_ns: int | None = None
    reported: dict[Key, int] = field(default_factory=dict)

    @property
    def new(self) -> pl.DataFrame:
        """The alerts that were not reported before."""
        return self.alerts.filter(pl.col("state") == "new")


def look(backend: Backend, parameters: Parameters, now_ns: int, reported: Mapping[Key, int] | None = None) -> Look:
    """Look at every port of the store.

    Args:
        backend: an open store.
        parameters: ``watch`` and ``port``, the uplink that all machines of a site see; ``metros`` are ignored.
        now_ns: the end of the window.
        reported: what the last look said; empty: this is the first, and everything is new; ``None``: it is not kept.
    """
    watch = parameters.watch
    window_ns = round(watch.window_s * _SECOND)
    series = _series(backend, now_ns, window_ns)
    discards = _one_of_shared(series.filter(pl.col("kind") == "discards"), parameters.port)
    seen = {_key(row) for row in discards.iter_rows(named=True) if row["samples"]}
    silent = [_key(row) for row in discards.iter_rows(named=True) if not row["samples"]]
    suspects = discards.filter(pl.col("discards") >= watch.least_discards)
    speeds = _speeds(series, watch)
    rows: list[dict[str, Any]] = []
    unjudged = {_key(row) for row in suspects.iter_rows(named=True)}
    if not suspects.is_empty():
        samples = _samples(backend, suspects, now_ns - 2 * window_ns, now_ns)
        for (_, *_), own in samples.group_by(_KEY, maintain_order=True):
            rows += _judged(own, now_ns - window_ns, watch, speeds, reported)
            if not own.filter(pl.col("end_ns") > now_ns - window_ns).is_empty():
                unjudged.discard(_key(own.row(0, named=True)))
    rows.sort(key=lambda row: (row["state"] != "new", -row["ratio"]))
    kept = {_key(row): int(row["since_ns"]) for row in rows}
    # Of ports without samples nothing is known: what was said of them stands.
    kept |= {key: since for key, since in (reported or {}).items() if key not in seen or key in unjudged}
    return Look(
        now_ns,
        pl.DataFrame(rows, schema=results.ALERTS),
        len(seen),
        sorted(silent, key=_order),
        sorted(unjudged, key=_order),
        None if seen else _last(backend),
        kept,
    )


def _last(backend: Backend) -> int | None:
    """When the last sample of discards in the store ended."""
    days = backend.rows_of_days("counters")
    if not days:
        return None
    last = date.fromisoformat(max(days))
    table = backend.table("counters", last, last)
    table = table.filter(table.counter.isin([f"discards.{direction}" for direction in _DIRECTIONS]))
    found = backend.run(table.aggregate(last=table.end_ns.max()))["last"][0]
    return None if found is None else int(found)


def _order(key: Key) -> tuple[str, ...]:
    return tuple(part or "" for part in key)


def _key(row: Mapping[str, Any]) -> Key:
    return row["site"], row["switch"], row["machine"], row["port"], row["direction"]


def _series(backend: Backend, now_ns: int, window_ns: int) -> pl.DataFrame:
    """Each series of discards and octets that has samples in the window or within a day before it.

    Columns: ``_KEY``, ``kind``, ``samples`` and ``discards`` of the window, ``highest_bps`` of the whole time.
    """
    import ibis

    names = [f"{kind}.{direction}" for kind in ("discards", "octets") for direction in _DIRECTIONS]
    first_ns = now_ns - window_ns - _DAY
    table = _between(backend, first_ns, now_ns)
    table = table.filter(table.counter.isin(names), table.value.notnull())
    inside = table.end_ns > now_ns - window_ns
    rate = ibis.cases((table.span_ns > 0, table.value * (8.0 * _SECOND) / table.span_ns))
    found = table.group_by("site", "switch", "machine", "port", "counter").agg(
        samples=inside.cast("int64").sum(),
        discards=ibis.cases((inside, table.value), else_=0.0).sum(),
        highest_bps=rate.max(),
    )
    split = pl.col("counter").str.split_exact(".", 1)
    return (
        backend.run(found)
        .with_columns(kind=split.struct.field("field_0"), direction=split.struct.field("field_1"))
        .drop("counter")
    )


def _between(backend: Backend, first_ns: int, last_ns: int) -> Any:
    """Samples that end after ``first_ns``, up to ``last_ns``; of the days that these lie on."""
    days = (datetime.fromtimestamp(ns / _SECOND, UTC).date() for ns in (first_ns, last_ns))
    table = backend.table("counters", *days)
    return table.filter(table.end_ns > first_ns, table.end_ns <= last_ns)


def _one_of_shared(series: pl.DataFrame, shared: str) -> pl.DataFrame:
    """Every machine of a site polls the same uplink: of these the series with the most samples, by name the first."""
    order = series.sort("samples", "machine", descending=[True, False], nulls_last=True)
    alone = order.filter(pl.col("port").ne_missing(shared))
    same = order.filter(pl.col("port") == shared)
    best = same.unique(["site", "switch", "port", "direction"], keep="first", maintain_order=True)
    return pl.concat([alone, best])


def _speeds(series: pl.DataFrame, watch: Watch) -> dict[tuple[str | None, ...], tuple[float, str]]:
    """The speed of each port in bit/s, and where it comes from; ports of unknown speed are left out."""
    found: dict[tuple[str | None, ...], tuple[float, str]] = {}
    highest = series.filter(pl.col("kind") == "octets").group_by(_KEY[:4]).agg(pl.col("highest_bps").max())
    for *place, rate in highest.iter_rows():
        named = watch.port_speed_bps.get(place[3] or "")
        if named is not None:
            found[tuple(place)] = (named, "parameters")
        elif rate is not None:
            # Frames' preambles and gaps are not among the octets, so that a full port stays below its speed.
            usual = next((speed for speed in USUAL_SPEEDS_BPS if speed >= rate), None)
            if usual is not None:
                found[tuple(place)] = (usual, "rates")
    return found


def _samples(backend: Backend, ports: pl.DataFrame, first_ns: int, last_ns: int) -> pl.DataFrame:
    """The samples of some ports, one row for each poll: ``_KEY``, ``end_ns``, ``span_ns``, and the counters' growth.

    Of polls that have both discards and unicast packets: a ratio of what is counted over different times is none.
    """
    table = _between(backend, first_ns, last_ns)
    kinds = ("discards", "octets", *_PACKETS)
    counters = [f"{kind}.{direction}" for kind in kinds for direction in _DIRECTIONS]
    # Names narrow the query down to few ports; exactly which, nulls and all, is settled here.
    wanted = table.counter.isin(counters)
    for column in ("site", "switch", "port"):
        names = ports[column].drop_nulls().unique().to_list()
        wanted &= table[column].isin(names) | table[column].isnull()
    columns = ["site", "switch", "machine", "port", "counter", "end_ns", "span_ns", "value"]
    found = backend.run(table.filter(wanted, table.value.notnull()).select(columns))
    split = pl.col("counter").str.split_exact(".", 1)
    found = found.with_columns(kind=split.struct.field("field_0"), direction=split.struct.field("field_1"))
    found = found.join(ports.select(_KEY), on=_KEY, how="semi", nulls_equal=True)
    polls = found.group_by(*_KEY, "end_ns").agg(
        pl.col("span_ns").max(),
        *(pl.col("value").filter(pl.col("kind") == kind).sum().alias(kind) for kind in kinds),
        *((pl.col("kind") == kind).any().alias(f"has_{kind}") for kind in ("discards", "unicast", "octets")),
    )
    return polls.filter(pl.col("has_discards") & pl.col("has_unicast")).sort(*_KEY, "end_ns", nulls_last=True)


def _judged(
    samples: pl.DataFrame,
    since_ns: int,
    watch: Watch,
    speeds: Mapping[tuple[str | None, ...], tuple[float, str]],
    reported: Mapping[Key, int] | None,
) -> list[dict[str, Any]]:
    """A row of ALERTS if the port exceeds in its window, else none."""
    window = samples.filter(pl.col("end_ns") > since_ns)
    before = samples.filter(pl.col("end_ns") <= since_ns)
    ratio, discards, packets = _ratio(window)
    if not _exceeds(ratio, discards, watch):
        return []
    assert ratio is not None
    ratio_before, discards_before, _ = _ratio(before)
    key = _key(window.row(0, named=True))
    earlier = reported.get(key) if reported is not None else None
    if reported is None and _exceeds(ratio_before, discards_before, watch):
        earlier = _first_discard(before)
    speed, speed_from = speeds.get(key[:4], (None, None))
    return [
        {
            **dict(zip(_KEY, key, strict=True)),
            "state": "new" if earlier is None else "ongoing",
            "since_ns": _first_discard(window) if earlier is None else earlier,
            "ratio": ratio,
            "ratio_before": ratio_before,
            "discards": discards,
            "packets": packets,
            **_bursts(window, speed, watch.low_utilisation),
            "speed_bps": speed,
            "speed_from": speed_from,
        }
    ]


def _ratio(samples: pl.DataFrame) -> tuple[float | None, float, float]:
    discards = float(samples["discards"].sum())
    packets = float(sum(samples[kind].sum() for kind in _PACKETS))
    return (discards / packets if packets > 0 else None), discards, packets


def _exceeds(ratio: float | None, discards: float, watch: Watch) -> bool:
    return ratio is not None and ratio > watch.ratio and discards >= watch.least_discards


def _first_discard(samples: pl.DataFrame) -> int:
    first = samples.filter(pl.col("discards") > 0).row(0, named=True)
    return int(first["end_ns"]) - int(first["span_ns"] or 0)


def _bursts(window: pl.DataFrame, speed_bps: float | None, low: float) -> dict[str, float | None]:
    """How many of the discards fell into samples that were mostly idle."""
    known = window.filter(pl.col("has_octets") & (pl.col("span_ns") > 0) & (pl.col("discards") > 0))
    if speed_bps is None or known.is_empty():
        return {"in_quiet_bins": None, "median_utilisation_at_discards": None}
    used = known.with_columns(used=pl.col("octets") * (8.0 * _SECOND) / pl.col("span_ns") / speed_bps)
    return {
        "in_quiet_bins": float(used.filter(pl.col("used") < low)["discards"].sum()),
        "median_utilisation_at_discards": float(used["used"].median()),  # type: ignore[arg-type]
    }


def named(key: Iterable[str | None]) -> str:
    """A port as people say it.

    >>> named(("dfw01", "s1.dfw01", "mlab1", "uplink", "tx"))
    'dfw01 s1.dfw01 mlab1 uplink tx'
    """
    return " ".join(part for part in key if part)
