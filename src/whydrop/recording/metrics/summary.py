"""A recording in figures: what `whydrop show` prints, and what an exported file says of its series.

Definitions:

- The **mean** of a flow's goodput is the payload over the time of its intervals (not the mean of the intervals, which
  differ in length), or what the program that measured said of the whole test. The mean of a computed series is
  computed of its members' means. Every other mean is that of the samples.
- **Induced latency** is the median round-trip time while there is load, less that of the idle time before it; where
  fewer than three probes fell into that time, less the smallest round-trip time of all.
- **Round trips a minute** of a stream of probes are those that fit into a minute while there is load, by the mean of
  those up to the 95th percentile. **Responsiveness** (RPM) is that of requests over HTTP/2: :mod:`.responsiveness`.
- **Sums** of goodput, and fairness, are of all flows of a direction. Where one yielded nothing they are not known: a
  sum of some is no sum of all. A flow that the test calls optional is left out.
- **Loss** of probes is a share of the probes that were due and sent; the far end reports the direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import polars as pl

from whydrop.recording import document
from whydrop.recording.grid import computed_plans
from whydrop.recording.metrics import together
from whydrop.recording.metrics.grades import Quality, qualities
from whydrop.recording.metrics.load import window
from whydrop.recording.metrics.responsiveness import Responsiveness
from whydrop.recording.metrics.responsiveness import of_recording as responsiveness
from whydrop.recording.metrics.segments import Segments, segments
from whydrop.recording.recording import Recording, Series
from whydrop.recording.statistics.describing import describe, jain, round_trips_per_minute, trimmed_mean
from whydrop.recording.troubles import NOT_OF_PATH

_NS_PER_S = 1_000_000_000

_DIRECTIONS = ("up", "down")

# With fewer idle samples a median says little.
_FEWEST_IDLE = 3


@dataclass(frozen=True)
class SeriesSummary:
    """One series in figures, in its units; everything but the series is ``None`` where it has no data."""

    series: Series
    samples: int
    mean: float | None = None
    median: float | None = None
    p95: float | None = None
    p99: float | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class InducedLatency:
    """How much the load delayed a stream of probes, in ms.

    Attributes:
        idle_is: the statistic in ``idle_ms``: ``median before the load`` or ``minimum``.
        loaded_ms: the median under load.
        loaded_trimmed_mean_ms: the mean under load of the round-trip times up to their 95th percentile.
    """

    name: str
    idle_ms: float
    idle_is: str
    loaded_ms: float
    loaded_trimmed_mean_ms: float

    @property
    def induced_ms(self) -> float:
        """The round-trip time that the load added."""
        return self.loaded_ms - self.idle_ms

    @property
    def round_trips_per_minute(self) -> float | None:
        """Round trips a minute at the trimmed mean under load; ``None`` if a round trip takes no time."""
        return round_trips_per_minute(self.loaded_trimmed_mean_ms)


@dataclass(frozen=True)
class Loss:
    """Outcome of the packets of a flow.

    Attributes:
        sent: that were sent, as far as it is known.
        lost: in all, of ``sent``; ``lost_up`` and ``lost_down`` count those with a known direction.
        late: answered after the timeout; ``None`` if unknown.
    """

    name: str
    sent: int
    lost: int
    lost_up: int | None = None
    lost_down: int | None = None
    late: int | None = None

    @property
    def percent(self) -> float | None:
        """Lost of sent; ``None`` if nothing was sent."""
        return 100.0 * self.lost / self.sent if self.sent else None


class Summary:
    """A recording in figures."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.flows: list[dict[str, Any]] = recording.table("flows").sort("flow").to_dicts()
        self._facts = {row["flow"]: document.json_object(row["facts"]) for row in self.flows}
        self._means: dict[str, float | None] = {}
        self._by_name = {series.name: series for series in recording.series()}

    def of(self, series: Series) -> SeriesSummary:
        """One series in figures."""
        return self._of(series, self.recording.samples(series.name)["value"], self.mean(series))

    def of_values(self, series: Series, values: pl.Series) -> SeriesSummary:
        """A series in figures, by other values than its samples, such as those on a grid."""
        return self._of(series, values, self.told_mean(series) if series.kind == "computed" else None)

    def _of(self, series: Series, values: pl.Series, mean: float | None) -> SeriesSummary:
        found = describe(values.drop_nulls().to_numpy())
        if found is None:
            return SeriesSummary(series, 0, mean)
        described = _fields(found, "median", "p95", "p99", "minimum", "maximum")
        return SeriesSummary(series, found.count, found.mean if mean is None else mean, **described)

    def mean(self, series: Series) -> float | None:
        """The mean of a series by the definitions above; ``None`` where it has no data."""
        if series.name not in self._means:
            self._means[series.name] = self._mean(series)
        return self._means[series.name]

    def told_mean(self, series: Series) -> float | None:
        """The mean over the whole test that is known otherwise than from the samples."""
        if series.kind == "computed":
            return self._mean_of_computed(series)
        if series.key or series.flow is None:
            return None
        told = document.finite(self._facts.get(series.flow, {}).get("mean_value"))
        if told is not None:
            return told
        return self._goodput(series.flow) if series.quantity == "goodput" else None

    def _mean(self, series: Series) -> float | None:
        told = self.told_mean(series)
        if told is not None:
            return told
        values = self.recording.samples(series.name)["value"].mean()
        return float(values) if isinstance(values, (int, float)) else None

    def _goodput(self, flow: int) -> float | None:
        """Payload divided by time in Mbit/s, if the intervals have both."""
        rows = self.recording.table("intervals").filter(pl.col("flow") == flow)
        rows = rows.drop_nulls(["payload_bytes", "start_ns", "end_ns"]).filter(pl.col("end_ns") > pl.col("start_ns"))
        if not rows.height:
            return None
        span_ns = int((rows["end_ns"] - rows["start_ns"]).sum())
        return float(rows["payload_bytes"].sum()) * 8e3 / span_ns

    def _mean_of_computed(self, series: Series) -> float | None:
        plan = computed_plans(self.recording.metadata["test"]).get(series.name)
        if plan is None:
            return None
        told = document.finite(plan.get("mean_value"))
        if told is not None:
            return told
        patterns = [str(pattern) for pattern in plan.get("of") or ()]
        members = [
            other
            for other in self._by_name.values()
            if (other.kind not in ("computed", "counter") and any(other.matches(pattern) for pattern in patterns))
            or (other.kind == "computed" and other.name in patterns and other.name != series.name)
        ]
        means = [self.mean(member) for member in members]
        known = [mean for mean in means if mean is not None]
        if not known or len(known) < len(means):
            return None
        if plan["by"] == "sum":
            return math.fsum(known)
        if plan["by"] == "mean":
            return math.fsum(known) / len(known)
        return jain(known) if plan["by"] == "fairness" else None

    # Figures beside the table of series.

    def load_span_ns(self) -> tuple[int, int] | None:
        """From when to when there was load, the end excluded; ``None`` for a test that only probes."""
        load = window(self.recording)
        return None if load is None else (load.start_ns, load.end_ns)

    def induced_latency(self) -> list[InducedLatency]:
        """Of each stream of probes of a test with load."""
        span = self.load_span_ns()
        if span is None:
            return []
        found = [self._induced(row["name"], span) for row in self.flows if row["kind"] in ("probe", "icmp")]
        return [one for one in found if one is not None]

    def _induced(self, name: str, span: tuple[int, int]) -> InducedLatency | None:
        samples = self.recording.samples(name).drop_nulls("value")
        before = samples.filter(pl.col("time_ns") < span[0])["value"]
        during = samples.filter(pl.col("time_ns").is_between(*span, closed="left"))["value"]
        loaded = during.median()
        if before.len() >= _FEWEST_IDLE:
            idle, words = before.median(), "median before the load"
        else:
            idle, words = samples["value"].min(), "minimum"
        if not isinstance(loaded, (int, float)) or not isinstance(idle, (int, float)):
            return None
        mean = trimmed_mean(during.to_numpy())
        return None if mean is None else InducedLatency(name, float(idle), words, float(loaded), mean)

    def qualities(self) -> list[Quality]:
        """Grade and quality of outcome of each stream of probes of a test with load."""
        return qualities(self.recording)

    @cached_property
    def segments(self) -> list[Segments]:
        """Where on the path delay and loss arise, of a test that probed its access point."""
        return segments(self.recording)

    def responsiveness(self) -> list[Responsiveness]:
        """Round trips a minute of each direction, of a test that sends the probes of the draft (docs/grades.md)."""
        return responsiveness(self.recording)

    def losses(self) -> list[Loss]:
        """Of each flow of probes or UDP packets of which it is known."""
        found = []
        for row in self.flows:
            if row["kind"] in ("probe", "icmp"):
                found.append(_loss_of_probes(row["name"], self._rows("probes", row["flow"])))
            elif row["kind"] == "udp":
                found.append(_loss_of_stream(row["name"], self._rows("intervals", row["flow"])))
            elif row["kind"] == "burst":
                found.append(_loss_of_bursts(row, self._rows("bursts", row["flow"])))
        return [loss for loss in found if loss is not None]

    def _rows(self, table: str, flow: int) -> pl.DataFrame:
        return self.recording.table(table).filter(pl.col("flow") == flow)

    def fairness(self) -> dict[str, float | None]:
        """Jain's index over the mean goodputs of the TCP flows of each direction that has more than one.

        ``None`` where one of them yielded nothing: then it is not known (see :meth:`members`).
        """
        found = {}
        for direction in _DIRECTIONS:
            flows, means = self._goodputs(direction, ("tcp",))
            index = None if flows.absent else jain(means)
            if len(means) + len(flows.absent) > 1 and (flows.absent or index is not None):
                found[direction] = index
        return found

    def goodput(self) -> dict[str, float | None]:
        """The sum of the mean goodputs of all TCP and UDP flows of a direction, in Mbit/s.

        ``None`` where one of them yielded nothing: then it is not known (see :meth:`members`).
        """
        found = {direction: self._goodputs(direction) for direction in _DIRECTIONS}
        return {
            direction: None if flows.absent else math.fsum(means)
            for direction, (flows, means) in found.items()
            if means or flows.absent
        }

    def goodput_of_known(self, direction: str) -> float:
        """The same of those flows of a direction that yielded anything."""
        return math.fsum(self._goodputs(direction)[1])

    def members(self, direction: str, kinds: Sequence[str] = together.LOADING) -> together.Members:
        """The flows of a direction by whether their goodput is known."""
        return together.members(self.recording, direction, kinds, self._has_mean)

    def without_goodput(self) -> dict[str, list[str]]:
        """The TCP and UDP flows that yielded no goodput, by direction; those are left out that have all."""
        found = {direction: self.members(direction) for direction in _DIRECTIONS}
        return {
            direction: [*flows.absent, *flows.optional]
            for direction, flows in found.items()
            if flows.absent or flows.optional
        }

    def _has_mean(self, name: str) -> bool:
        return name in self._by_name and self.mean(self._by_name[name]) is not None

    def _goodputs(
        self, direction: str, kinds: Sequence[str] = together.LOADING
    ) -> tuple[together.Members, list[float]]:
        flows = self.members(direction, kinds)
        means = [self.mean(self._by_name[name]) for name in flows.present]
        return flows, [mean for mean in means if mean is not None]

    def retransmissions(self) -> dict[str, int]:
        """Retransmitted segments of each TCP flow, if its sender reported them."""
        found = {}
        for row in self.flows:
            count = self._rows("tcp_info", row["flow"])["retransmitted_packets"].max()
            if not isinstance(count, int):
                told = self._facts[row["flow"]]
                told = told.get("flent", told)
                count = _whole(told.get("TCP_RETRANSMIT")) if isinstance(told, dict) else None
            if count is not None:
                found[row["name"]] = count
        return found

    def window_reductions(self) -> dict[str, int] | None:
        """Reductions of congestion windows by cause, most frequent first; ``None`` where events were not recorded."""
        parameters = self.recording.metadata["test"].get("parameters") or {}
        if parameters.get("events") is not True:
            return None
        causes = self.recording.table("tcp_events").filter(pl.col("event") == "reduction")["cause"]
        counts = causes.drop_nulls().value_counts().sort("count", "cause", descending=[True, False])
        return dict(counts.iter_rows())

    def document(self, series: Iterable[Series] | None = None) -> dict[str, Any]:
        """Everything as JSON has it; ``series`` are all where they are left out."""
        metadata = self.recording.metadata
        return {
            "whydrop": metadata["whydrop"],
            "schema": 1,
            "recording": str(self.recording.path),
            **{key: metadata[key] for key in ("name", "title", "note", "status", "started_ns", "ended_ns", "failures")},
            "notes": list(self.recording.notes),
            "flows_without_data": self.recording.flows_without_data(),
            "series": [_as_document(self.of(one)) for one in (self.recording.series() if series is None else series)],
            "goodput_mbit_per_s": self.goodput(),
            "fairness": self.fairness(),
            "without_goodput": self.without_goodput(),
            "induced_latency": [
                _fields(one, "name", "idle_ms", "idle_is", "loaded_ms", "induced_ms", "round_trips_per_minute")
                for one in self.induced_latency()
            ],
            "responsiveness": [asdict(one) for one in self.responsiveness()],
            "quality": [asdict(one) for one in self.qualities()],
            "segments": [asdict(one) for one in self.segments],
            "loss": [
                _fields(one, "name", "sent", "lost", "lost_up", "lost_down", "late", "percent") for one in self.losses()
            ],
            "retransmitted_segments": self.retransmissions(),
            **({"window_reductions": reductions} if (reductions := self.window_reductions()) is not None else {}),
            **({"depth": metadata["depth"]} if metadata.get("depth") is not None else {}),
        }


def _as_document(found: SeriesSummary) -> dict[str, Any]:
    return {
        **_fields(found.series, "name", "kind", "quantity", "units"),
        **_fields(found, "samples", "mean", "median", "p95", "p99"),
        "min": found.minimum,
        "max": found.maximum,
    }


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _loss_of_probes(name: str, rows: pl.DataFrame) -> Loss | None:
    told = rows.drop_nulls("fate")
    if not told.height:
        return _loss_by_numbers(name, rows)
    sent = told.filter(~pl.col("fate").is_in(NOT_OF_PATH))
    counts = dict(sent["fate"].value_counts().iter_rows())
    up, down, unknown = (int(counts.get(fate, 0)) for fate in ("lost-up", "lost-down", "lost"))
    tells_way = up + down > 0 or bool(sent["up_ns"].is_not_null().any())
    return Loss(
        name,
        sent.height,
        up + down + unknown,
        up if tells_way else None,
        down if tells_way else None,
        int(counts.get("late", 0)),
    )


def _loss_of_bursts(flow: dict[str, Any], rows: pl.DataFrame) -> Loss | None:
    if not rows.height:
        return None
    lost = rows["received_ns"].null_count()
    ways = {"up": (lost, None), "down": (None, lost)}
    return Loss(flow["name"], rows.height, lost, *ways.get(flow["direction"], (None, None)))


def _loss_by_numbers(name: str, rows: pl.DataFrame) -> Loss | None:
    """Missing sequence numbers between the first and the last, for programs that report only answers."""
    numbers = rows["sequence"].drop_nulls().unique()
    first, last = numbers.min(), numbers.max()
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    sent = last - first + 1
    return Loss(name, sent, sent - numbers.len())


def _loss_of_stream(name: str, rows: pl.DataFrame) -> Loss | None:
    told = rows.drop_nulls("lost")
    if not told.height:
        return None
    lost, received = int(told["lost"].sum()), int(told["packets"].sum())
    return Loss(name, lost + received, lost)


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
