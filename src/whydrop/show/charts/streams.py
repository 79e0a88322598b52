"""Charts of RTP streams: the delay of each packet, losses, jitter, and what the receiver reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from whydrop.explaining.explained import Explained
from whydrop.show.charts.scene import marks, points, present
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel
from whydrop.text import quantities

SEE = (
    "Above: how much later each packet came than the fastest one, by the pace of the stream's own clock (a slow drift "
    "is a difference of the clocks). A hill is a queue before the capture point, or a sender that repeats one "
    "timestamp, as telephone events do (RFC 4733). A cross is a run of packets that never came. Below: the "
    "interarrival jitter of RFC 3550 at the capture point, and as the receiver reported it."
)
# Streams with charts in a page, largest first.
MOST = 4
_GAIN = 1 / 16
# A larger step of the numbers is a sender that starts again (MAX_DROPOUT and MAX_MISORDER, RFC 3550, A.1).
_MOST_DROPOUT, _MOST_MISORDER = 3000, 100
_X = Axis("Time since the first packet of the stream (s)")


def streams(found: Explained) -> list[tuple[str, Mapping[str, Any]]]:
    """The RTP streams of a capture with the names of their flows, numbered as in the tables."""
    flows = (found.datagrams or {"flows": ()})["flows"]
    return [(flow["flow"], stream) for flow in flows for stream in flow["rtp"]]


def figure(found: Explained, number: int) -> Figure:
    """Draw one RTP stream.

    Raises:
        NothingToDraw: there is no such stream, or its packets are not known.
    """
    known = streams(found)
    if number >= len(known):
        raise NothingToDraw(f"the capture holds {quantities.plural(len(known), 'RTP stream')}")
    name, stream = known[number]
    rows = found.table("rtp").filter(pl.col("stream") == number)
    if rows.height < 2:
        raise NothingToDraw(f"{name}: the packets of the RTP stream are not in the tables")
    first = rows["time_ns"].min()
    rows = _in_runs(rows.with_columns(t=(pl.col("time_ns") - first) / 1e9))
    reports = found.table("rtp_reports").filter(pl.col("stream") == number)
    reports = reports.with_columns(t=(pl.col("time_ns") - first) / 1e9)
    panels = (_delays(rows), _jitter(rows, reports))
    return Figure(
        f"rtp-{number + 1}", "An RTP stream: delay, losses and jitter", f"{name}, {_codec(stream)}", panels, see=SEE
    ).noted(_in_words(stream))


def _in_runs(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``run``, which counts the starts of the sender: numbers and timestamps of different starts are unrelated."""
    step = pl.col("number").diff().fill_null(1)
    rows = rows.with_columns(run=(~step.is_between(-_MOST_MISORDER, _MOST_DROPOUT)).cum_sum())
    return rows.with_columns(late_ns=pl.col("late_ns") - pl.col("late_ns").min().over("run"))


def _codec(stream: Mapping[str, Any]) -> str:
    return stream["codec"] or f"payload type {stream['payload_type']}"


def _delays(rows: pl.DataFrame) -> Panel:
    layers: list[Layer] = [
        marks("packet", "segment", "points", rows, pl.col("late_ns") / 1e6),
        marks("packets lost", "lost", "points", _losses(rows), pl.lit(0.0), rare=True),
    ]
    return Panel(_X, Axis("Added delay (ms)", from_zero="always"), present(layers), zoom="time")


def _losses(rows: pl.DataFrame) -> pl.DataFrame:
    """The time of the first packet after each run of missing numbers; numbers that came late are not missing."""
    by_number = rows.sort("run", "number")
    return by_number.filter(pl.col("number").diff().over("run") > 1)


def _jitter(rows: pl.DataFrame, reports: pl.DataFrame) -> Panel:
    change = rows.select("t", change=pl.col("late_ns").diff().abs() / 1e6).drop_nulls()
    # RFC 3550 begins at zero, and takes a sixteenth of the first difference.
    start = pl.DataFrame({"t": [0.0], "change": [0.0]})
    smooth = pl.concat([start, change]).with_columns(pl.col("change").ewm_mean(alpha=_GAIN, adjust=False))
    layers = [
        marks("jitter at the capture point", "fit", "line", points(smooth, pl.col("t"), pl.col("change")), pl.col("y"),
              pl.col("x")),
        marks("reported by the receiver", "fast", "points", reports, pl.col("jitter_ns") / 1e6, rare=True),
    ]  # fmt: skip
    return Panel(_X, Axis("Interarrival jitter (ms)", from_zero="always"), present(layers), zoom="time")


def _in_words(stream: Mapping[str, Any]) -> str:
    lost, expected = stream["lost"], stream["expected"]
    jitter = (
        f"jitter {quantities.duration(stream['jitter_mean_s'])} (mean), "
        f"{quantities.duration(stream['jitter_max_s'])} at most."
    )
    words = [f"{_gone(lost, expected, stream['loss_runs'])} before the capture point; {jitter}"]
    if (reported := stream["reported"]) is not None:
        trip = reported["rtt_median_s"]
        round_trip = f"; round trip to the receiver {quantities.duration(trip)} (median)" if trip is not None else ""
        words.append(
            f"The receiver reported {_reported_lost(reported['lost'])} since the stream began, and jitter of "
            f"{quantities.duration(reported['jitter_mean_s'])} (mean){round_trip}."
        )
    return " ".join(words)


def _reported_lost(lost: int) -> str:
    """The count of a receiver, which duplicates make smaller."""
    if lost < 0:
        return f"{quantities.plural(-lost, 'packet')} more than it expected (duplicates)"
    return quantities.plural(lost, "lost packet")


def _gone(lost: int, expected: int, runs: int) -> str:
    of_all = f"of {quantities.plural(expected, 'packet')}"
    if not lost:
        return f"None {of_all} was lost"
    if lost == 1:
        return f"1 {of_all} was lost"
    return f"{quantities.count(lost)} {of_all} were lost, in {quantities.plural(runs, 'run')},"
