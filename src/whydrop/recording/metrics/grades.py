"""A grade for latency under load, and the quality of outcome of applications; docs/grades.md has the rules' reasons.

The grade is the worst of three letters: of the median of the round-trip time that the load added, of its 95th
percentile, and of the loss of probes. It is given only where the load's own connections stood in a queue: a path that
was not full would always get an A.

The quality of outcome is that of draft-ietf-ippm-qoo-10, section 3.3, without its throughput component: the goodput of
the load is not what an application beside it would get.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from whydrop.recording import access_point
from whydrop.recording.end_limits import BACKLOG_PACKETS, STANDS_IN_QUEUE
from whydrop.recording.metrics.load import Window, window
from whydrop.recording.recording import Recording
from whydrop.recording.statistics.describing import finite
from whydrop.recording.troubles import NOT_OF_PATH
from whydrop.text.phrases import listed

LETTERS = ("A+", "A", "B", "C", "D", "F")
# Upper ends of A+, A, B, C, D. Median and loss: the published rule of DSLReports. 95th percentile: twice the median's.
MEDIAN_MS = (5.0, 30.0, 60.0, 200.0, 400.0)
P95_MS = tuple(2 * end for end in MEDIAN_MS)
LOSS_PERCENT = (1.0, 2.5, 3.0, 5.0, 12.0)

# Five of a hundred samples lie above the 95th percentile; with fewer, one of them decides.
FEWEST_SAMPLES = 100
# With fewer idle samples a median says little.
_FEWEST_IDLE = 3
# A connection filled the path if it stood in a queue in this share of its samples.
_FILLED_SHARE = 0.5


@dataclass(frozen=True)
class Requirement:
    """Needs of an application, two-way.

    Attributes:
        optimal_ms: round-trip time at each percentile up to which it works as well as it can;
        unacceptable_ms: from which it does not work, at the same percentiles;
        optimal_loss_percent, unacceptable_loss_percent: the same of lost packets.
    """

    optimal_ms: Mapping[float, float]
    unacceptable_ms: Mapping[float, float]
    optimal_loss_percent: float
    unacceptable_loss_percent: float

    def __post_init__(self) -> None:
        """A check that the two ends belong together.

        Raises:
            ValueError: the percentiles differ, or an unacceptable value is no larger than the optimal one.
        """
        if not self.optimal_ms or set(self.optimal_ms) != set(self.unacceptable_ms):
            raise ValueError("a requirement needs the same percentiles for optimal and unacceptable latency")
        ends = [(self.optimal_ms[at], self.unacceptable_ms[at]) for at in self.optimal_ms]
        ends.append((self.optimal_loss_percent, self.unacceptable_loss_percent))
        if not all(math.isfinite(good) and math.isfinite(bad) and good < bad for good, bad in ends):
            raise ValueError("a requirement's unacceptable values must be larger than its optimal ones")


# The draft sets no values. These are whydrop's, and a caller may give others (docs/grades.md).
APPLICATIONS: Mapping[str, Requirement] = {
    "Web": Requirement({50.0: 100.0, 95.0: 200.0}, {50.0: 500.0, 95.0: 1000.0}, 1.0, 10.0),
    "Video call": Requirement({50.0: 150.0, 95.0: 300.0}, {50.0: 400.0, 95.0: 800.0}, 1.0, 5.0),
    "Gaming": Requirement({50.0: 40.0, 95.0: 60.0}, {50.0: 120.0, 95.0: 180.0}, 0.5, 3.0),
}


@dataclass(frozen=True)
class Quality:
    """Grade and quality of outcome of one stream of probes under load.

    Attributes:
        grade: a letter; ``None`` where there is none, and ``not_graded`` says why.
        outcomes: score of each application from 0 to 100; ``None`` if unknown.
        samples: round trips under load.
    """

    name: str
    grade: str | None
    not_graded: str
    induced_median_ms: float | None
    induced_p95_ms: float | None
    loss_percent: float | None
    samples: int
    outcomes: dict[str, float | None]


def grade(induced_median_ms: float, induced_p95_ms: float, loss_percent: float) -> str:
    """The worst of the letters of the induced latency at median and 95th percentile (ms), and of the loss (%).

    Raises:
        ValueError: a number is not finite.

    >>> grade(4, 9, 0), grade(12, 30, 0), grade(12, 30, 4), grade(500, 600, 0)
    ('A+', 'A', 'C', 'F')
    """
    if not all(map(math.isfinite, (induced_median_ms, induced_p95_ms, loss_percent))):
        raise ValueError("a grade needs finite numbers")
    latency = [
        np.searchsorted(ends, value, side="right")
        for ends, value in ((MEDIAN_MS, induced_median_ms), (P95_MS, induced_p95_ms))
    ]
    return LETTERS[int(max(*latency, np.searchsorted(LOSS_PERCENT, loss_percent, side="left")))]


def quality_of_outcome(rtt_ms: ArrayLike, loss_percent: float, requirement: Requirement) -> float | None:
    """A score from 0 (unacceptable) to 100 (optimal), of latency and loss; ``None`` without round-trip times.

    >>> need = Requirement({50.0: 100.0}, {50.0: 300.0}, 1.0, 5.0)
    >>> quality_of_outcome([200.0], 0.0, need), quality_of_outcome([50.0], 2.0, need), quality_of_outcome([], 0.0, need)
    (50.0, 75.0, None)
    """
    values = finite(rtt_ms)
    if not len(values) or not math.isfinite(loss_percent):
        return None
    shares = [
        _share(float(np.percentile(values, at)), best, requirement.unacceptable_ms[at])
        for at, best in requirement.optimal_ms.items()
    ]
    shares.append(_share(loss_percent, requirement.optimal_loss_percent, requirement.unacceptable_loss_percent))
    return 100.0 * min(shares)


def _share(measured: float, optimal: float, unacceptable: float) -> float:
    return min(1.0, max(0.0, 1 - (measured - optimal) / (unacceptable - optimal)))


def qualities(recording: Recording, applications: Mapping[str, Requirement] = APPLICATIONS) -> list[Quality]:
    """Of each stream of probes of a recording with load."""
    span = window(recording)
    if span is None:
        return []
    flows = recording.table("flows").sort("flow").to_dicts()
    unfilled = _why_not_filled(recording, flows, span)
    near = access_point.probe(recording)
    probes = [row for row in flows if row["kind"] in ("probe", "icmp") and row["name"] != near]
    found = [_quality(recording, row, span, unfilled, applications) for row in probes]
    return [one for one in found if one is not None]


def _quality(
    recording: Recording,
    flow: Mapping[str, Any],
    span: Window,
    unfilled: str,
    applications: Mapping[str, Requirement],
) -> Quality | None:
    samples = recording.samples(flow["name"]).drop_nulls("value")
    before = finite(samples.filter(pl.col("time_ns") < span.start_ns)["value"].to_numpy())
    during = samples.filter(pl.col("time_ns").is_between(span.start_ns, span.end_ns, closed="left"))
    values = finite(during["value"].to_numpy())
    loss = _loss(recording, flow["flow"], span)
    if not len(values):
        return None
    median, p95 = (float(each) for each in np.percentile(values, (50, 95)))
    idle = float(np.median(before)) if len(before) >= _FEWEST_IDLE else None
    reason = ""
    if len(values) < FEWEST_SAMPLES:
        reason = f"fewer than {FEWEST_SAMPLES} round trips under load"
    elif idle is None:
        reason = "too little idle time before the load"
    elif loss is None:
        reason = "the loss of probes is unknown"
    elif unfilled:
        reason = unfilled
    enough = len(values) >= FEWEST_SAMPLES and loss is not None
    return Quality(
        name=flow["name"],
        grade=None if reason or idle is None or loss is None else grade(median - idle, p95 - idle, loss),
        not_graded=reason,
        induced_median_ms=None if idle is None else median - idle,
        induced_p95_ms=None if idle is None else p95 - idle,
        loss_percent=loss,
        samples=len(values),
        outcomes={
            name: quality_of_outcome(values, loss, need) if enough and loss is not None else None
            for name, need in applications.items()
        },
    )


def _loss(recording: Recording, flow: int, span: Window) -> float | None:
    """Loss of the probes sent under load in %; ``None`` where the probes' fates are unknown."""
    at = pl.coalesce("sent_ns", "scheduled_ns", "received_ns")
    rows = recording.table("probes").filter(pl.col("flow") == flow)
    rows = rows.filter(at.is_between(span.start_ns, span.end_ns, closed="left") & pl.col("fate").is_not_null())
    rows = rows.filter(~pl.col("fate").is_in(NOT_OF_PATH))
    if rows.is_empty():
        return None
    return 100.0 * int(rows["fate"].str.starts_with("lost").sum()) / rows.height


def _why_not_filled(recording: Recording, flows: Sequence[Mapping[str, Any]], span: Window) -> str:
    """Why it is unknown that the load filled the path in each of its directions; empty where it did."""
    loading = [row for row in flows if row["kind"] in ("tcp", "udp", "burst", "http")]
    tcp_info = recording.table("tcp_info").filter(pl.col("time_ns").is_between(span.start_ns, span.end_ns))
    standing = {row["flow"] for row in loading if stood_in_queue(tcp_info.filter(pl.col("flow") == row["flow"]))}
    directions = sorted({str(row["direction"]) for row in loading}, reverse=True)
    filled = {str(row["direction"]) for row in loading if row["flow"] in standing}
    unfilled = [one for one in directions if one not in filled]
    if not directions:
        return "no flow made load"
    return f"nothing shows that the load filled the path {listed(unfilled)}" if unfilled else ""


def stood_in_queue(tcp_info: pl.DataFrame) -> bool:
    """True where a connection stood in a queue in half of its samples or more.

    Its round-trip time was then well above its minimum, and packets of its window waited (TCP Vegas's estimate).
    """
    known = tcp_info.drop_nulls(["srtt_ns", "min_rtt_ns", "congestion_window_packets"])
    known = known.filter((pl.col("srtt_ns") > 0) & (pl.col("min_rtt_ns") > 0))
    if known.is_empty():
        return False
    waiting = pl.col("congestion_window_packets") * (1 - pl.col("min_rtt_ns") / pl.col("srtt_ns"))
    queued = (pl.col("srtt_ns") >= STANDS_IN_QUEUE * pl.col("min_rtt_ns")) & (waiting >= BACKLOG_PACKETS)
    return int(known.select(queued.sum()).item()) >= _FILLED_SHARE * known.height
