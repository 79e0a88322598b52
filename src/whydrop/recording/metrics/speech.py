"""The quality of speech that streams of probes would have carried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.metrics import emodel
from whydrop.recording.troubles import NOT_OF_PATH

if TYPE_CHECKING:
    from whydrop.recording.metrics.load import Window
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Packets:
    """One direction of a stream: one value for each packet, in order of sending."""

    direction: str
    delay_ms: Values  # one-way; NaN if it did not arrive
    variation_ms: Values  # absolute difference to the one before; NaN where there is none
    lost: Values  # 1 or 0
    basis: str  # in words: where the delay comes from


@dataclass(frozen=True)
class Speech:
    """The quality of speech in one direction, by ITU-T G.107."""

    mos: float
    rating: float
    delay_ms: float
    jitter_ms: float
    loss: float  # share
    direction: str
    basis: str


def of_series(recording: Recording, series: str, load: Window | None = None) -> Speech | None:
    """The worse direction of a stream under load; ``None`` where the series is not of one."""
    found = [speech for packets in packets_of(recording, series, load) if (speech := rate(packets)) is not None]
    return min(found, key=lambda speech: speech.mos, default=None)


def rate(packets: Packets) -> Speech | None:
    """Rate packets of speech as a listener would; ``None`` where neither a delay nor a loss is known."""
    delays = packets.delay_ms[np.isfinite(packets.delay_ms)]
    variations = packets.variation_ms[np.isfinite(packets.variation_ms)]
    if not len(delays):
        # Silence is the worst speech there is.
        silence = Speech(float(emodel.opinion(0.0)), 0.0, math.nan, math.nan, 1.0, packets.direction, "nothing arrived")
        return silence if packets.lost.any() else None
    delay, jitter = float(delays.mean()), float(variations.mean()) if len(variations) else 0.0
    loss = float(packets.lost.mean()) if len(packets.lost) else 0.0
    r = float(emodel.rating(emodel.mouth_to_ear_ms(delay, jitter), loss))
    return Speech(float(emodel.opinion(r)), r, delay, jitter, loss, packets.direction, packets.basis)


def packets_of(recording: Recording, series: str, load: Window | None = None) -> list[Packets]:
    """Both directions of a stream of probes; one of both together where one-way delays are not known."""
    found = [one for one in recording.series() if one.name == series]
    if not found or found[0].flow is None:
        return []
    rows = recording.table("probes").filter(pl.col("flow") == found[0].flow).sort("sequence")
    sent = pl.coalesce("sent_ns", "scheduled_ns", "received_ns")
    if load is not None:
        rows = rows.filter((sent >= load.start_ns) & (sent < load.end_ns))
    rows = rows.filter(~pl.col("fate").fill_null("").is_in(NOT_OF_PATH))
    if rows.is_empty():
        told = _told(recording, series, load)
        return [] if told is None else [told]
    if rows["up_ns"].is_null().all() and rows["down_ns"].is_null().all():
        return [_of_round_trips(rows, "for a stream without one-way delays")]
    if recording.table("clocks").is_empty():
        # Without the offset of the far clock they mean nothing.
        return [_of_round_trips(rows, "because the offset of the clocks is not known")]
    return [
        _of_one_way(rows, direction, column)
        for direction, column in (("up", "up_ns"), ("down", "down_ns"))
        # A direction in which nothing arrived is the worse one.
        if not rows[column].is_null().all() or (rows["fate"] == f"lost-{direction}").any()
    ]


def _of_one_way(rows: pl.DataFrame, direction: str, column: str) -> Packets:
    delays = rows[column].cast(pl.Float64).to_numpy() / 1e6
    # A probe lost in an unknown direction counts for both: the score is rather too low than too high.
    lost = rows["fate"].is_in([f"lost-{direction}", "lost"]).cast(pl.Float64).to_numpy()
    return Packets(direction, delays, _variations(delays, rows), lost, "from the one-way delay")


def _of_round_trips(rows: pl.DataFrame, why: str) -> Packets:
    delays = rows["rtt_ns"].cast(pl.Float64).to_numpy() / 2e6
    lost = rows["fate"].str.starts_with("lost").fill_null(False).cast(pl.Float64).to_numpy()
    return Packets("both", delays, _variations(delays, rows), lost, f"from half of the round-trip time, {why}")


def _told(recording: Recording, series: str, load: Window | None) -> Packets | None:
    """The report of a program that makes speech (D-ITG, in Flent's files): delay, jitter, and numbers of packets."""
    columns = {}
    known = {one.name for one in recording.series(f"{series}::*")}
    for key in ("delay", "jitter", "seq"):
        if f"{series}::{key}" not in known:
            return None
        samples = recording.samples(f"{series}::{key}").drop_nulls("value")
        if load is not None:
            samples = samples.filter((pl.col("time_ns") >= load.start_ns) & (pl.col("time_ns") < load.end_ns))
        columns[key] = samples["value"].to_numpy()
    numbers = columns["seq"]
    if not len(numbers) or not len(columns["delay"]) or columns["delay"].min() < 0:
        return None
    sent = int(numbers.max() - numbers.min()) + 1
    lost = np.zeros(max(sent, len(numbers)))
    lost[len(np.unique(numbers)) :] = 1.0
    return Packets(
        "up", columns["delay"], np.abs(columns["jitter"]), lost, "from the one-way delay that the program reported"
    )


def _variations(delays: Values, rows: pl.DataFrame) -> Values:
    numbers = rows["sequence"].fill_null(0).to_numpy()
    found = np.full(len(delays), np.nan)
    difference = np.abs(np.diff(delays))
    found[1:] = np.where(np.diff(numbers) == 1, difference, np.nan)
    return found
