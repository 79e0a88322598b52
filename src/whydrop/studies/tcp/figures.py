"""The study's pictures: limits by site, distributions of quantities, and their medians by day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from whydrop.show.figure import Figure, Panel
from whydrop.show.plots.traces import INK, panel, trace
from whydrop.studies.tcp import sentences
from whydrop.studies.tcp.study import Results
from whydrop.text.quantities import plural

# Sites of a picture: those with most connections.
_MOST_SITES = 30
# From a table's column to an axis.
_AXES = {
    "throughput_bps": ("Throughput (Mbit/s)", 1e-6),
    "mean_rtt_ms": ("Mean round-trip time (ms)", 1.0),
    "retransmitted_share": ("Retransmitted segments (%)", 100.0),
}


def figures(results: Results) -> dict[str, Figure]:
    """Those for which there are rows."""
    facts = results.facts
    subtitle = f"{plural(facts['connections'], 'connection')}, {facts['first']} to {facts['last']}"
    made = {
        "limits": ("What limits connections, by site", [*_limits(results)], 1),
        "distributions": ("Distributions, by site", [*_distributions(results)], 1),
        "days": ("Medians by day", [*_days(results)], 1),
    }
    return {
        name: Figure(name, title, subtitle, tuple(panels), columns, notes=(_NOTES[name],))
        for name, (title, panels, columns) in made.items()
        if panels
    }


_NOTES = {
    "limits": "Shares of connections by the limit that applied for more than half of their time.",
    "distributions": "Boxes: quartiles and median; whiskers: 5th to 95th percentile.",
    "days": "Line: median of all connections; band: its 95 % interval.",
}


def _sites(frame: pl.DataFrame) -> list[str]:
    """All together first, then the sites with most connections by name."""
    sites = frame.filter(pl.col("by") == "site").group_by("group").agg(pl.col("connections").max())
    return ["all", *sorted(sites.sort("connections", "group", descending=True)["group"][:_MOST_SITES])]


def _limits(results: Results) -> Iterator[Panel]:
    frame = results.tables["limits"].filter(pl.col("by").is_in(["all", "site"]))
    if frame.is_empty():
        return
    groups = _sites(frame)
    limiters = sentences.order(frame["limiter"].unique().to_list())
    layers = []
    ends = dict.fromkeys(groups, 0.0)
    for number, limiter in enumerate(limiters):
        own = frame.filter((pl.col("limiter") == limiter) & pl.col("group").is_in(groups))
        rows = []
        for group, share in own.select("group", "share").iter_rows():
            place = -float(groups.index(group))
            rows.append((100 * ends[group], 100 * (ends[group] + share), place - 0.4, place + 0.4))
            ends[group] += share
        data = pl.DataFrame(rows, schema=["x", "x2", "y", "y2"], orient="row")
        layers.append(trace(limiter, (limiter, "", "%"), "bars", data, number))
    yield panel(
        "", "Share of connections (%)", "", layers, x_ends=(0.0, 100.0), y_ends=(0.5 - len(groups), 0.5),
        y_words=tuple((-float(place), group) for place, group in enumerate(groups)),
    )  # fmt: skip


def _distributions(results: Results) -> Iterator[Panel]:
    frame = results.tables["distributions"].filter(pl.col("by").is_in(["all", "site"]))
    for quantity, (title, factor) in _AXES.items():
        own = frame.filter(pl.col("quantity") == quantity)
        if own.is_empty():
            continue
        groups = _sites(own)
        rows = own.filter(pl.col("group").is_in(groups)).with_columns(
            pl.col("group").replace_strict(groups, [-float(place) for place in range(len(groups))]).alias("y"),
            *(pl.col(name) * factor for name in ("p5", "p25", "p50", "p75", "p95")),
        )
        y = pl.col("y")
        whiskers = rows.select(x="p5", x2="p95", y=y)
        boxes = rows.select(x="p25", x2="p75", y=y - 0.35, y2=y + 0.35)
        middles = rows.select(x="p50", y=y - 0.35, y2=y + 0.35)
        layers = [
            trace("", (quantity, "", ""), "spans", whiskers, INK, helper=True),
            trace("", (quantity, "", ""), "bars", boxes, 0),
            trace("", (quantity, "", ""), "ticks", middles, INK, helper=True),
        ]
        low, high = float(rows["p5"].min() or 0.0), float(rows["p95"].max() or 1.0)  # type: ignore[arg-type]
        log = low > 0
        yield panel(
            "", title, "", layers, x_ends=(low / 1.1, high * 1.1) if log else (0.0, high * 1.05 or 1.0), x_log=log,
            y_ends=(0.5 - len(groups), 0.5), y_words=tuple((-float(place), one) for place, one in enumerate(groups)),
        )  # fmt: skip


def _days(results: Results) -> Iterator[Panel]:
    frame = results.tables["distributions"].filter(pl.col("by") == "day").sort("group")
    for quantity, (title, factor) in _AXES.items():
        own = frame.filter(pl.col("quantity") == quantity)
        if own.height < 2:
            continue
        x = pl.Series("x", [datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in own["group"]])
        line = pl.DataFrame({"x": x, "y": own["p50"] * factor})
        band = pl.DataFrame({"x": x, "y": own["median_low"] * factor, "y2": own["median_high"] * factor})
        band = band.drop_nulls()
        layers = [
            trace("95 % interval", (quantity, "", ""), "band", band, 4, helper=True),
            trace("median", (quantity, "", ""), "line", line, 0),
        ]
        highest = max(float(one.max() or 0.0) for one in (line["y"], band["y2"]))  # type: ignore[arg-type]
        yield panel("", "Day (UTC)", title, layers, x_time=True, y_ends=(0.0, highest * 1.05 or 1.0))
