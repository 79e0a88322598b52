"""Measures by which recordings are compared: a few numbers each, with what is needed to know how certain they are.

All are of the time under load. Round-trip times are of every stream of probes by itself, and then the mean over the
streams, so that a far host with its long path weighs as much as a near one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording import access_point, document
from whydrop.recording.metrics import emodel, speech, together
from whydrop.recording.metrics.load import Steps, Window, means_in, window
from whydrop.recording.metrics.responsiveness import RUNNER
from whydrop.recording.statistics import describing
from whydrop.recording.statistics.describing import trimmed_mean
from whydrop.recording.statistics.differences import Statistic, mean_of, quantile_of, ratio_of
from whydrop.recording.troubles import NOT_OF_PATH
from whydrop.text.phrases import listed
from whydrop.text.quantities import significant

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]

# With fewer idle samples a median says little.
FEWEST_IDLE = 3
# Idle time of more steps than this before the load is none: a clock must have jumped.
_MOST_IDLE_STEPS = 1_000_000
# A stream with samples in less of the time than this is no measurement of all of it.
_COVERED = 0.5


@dataclass(frozen=True)
class Metric:
    """A quantity that is measured, whatever the recording.

    Attributes:
        negligible: differences up to this, in its units, do not matter;
        negligible_share: or up to this share of the first value, whichever is more.
    """

    key: str
    name: str
    units: str
    better: str  # higher, lower
    negligible: float
    negligible_share: float = 0.0


# What is too small to matter: half a packet's time on a slow link, a tenth of a MOS, one probe in a thousand, and for
# rates and delays the few per cent by which two runs over one path differ anyway.
METRICS = {
    metric.key: metric
    for metric in (
        Metric("goodput-down", "Goodput, sum of downloads", "Mbit/s", "higher", 0.0, 0.02),
        Metric("goodput-up", "Goodput, sum of uploads", "Mbit/s", "higher", 0.0, 0.02),
        Metric("rtt-median", "Round-trip time under load, median", "ms", "lower", 1.0, 0.02),
        Metric("rtt-p99", "Round-trip time under load, 99th percentile", "ms", "lower", 2.0, 0.05),
        Metric("induced-latency", "Induced latency", "ms", "lower", 1.0, 0.02),
        Metric("loss-up", "Loss of probes to the far end", "%", "lower", 0.1),
        Metric("loss-down", "Loss of probes from the far end", "%", "lower", 0.1),
        Metric("loss", "Loss of probes", "%", "lower", 0.1),
        Metric("fairness-down", "Fairness of downloads (Jain)", "", "higher", 0.02),
        Metric("fairness-up", "Fairness of uploads (Jain)", "", "higher", 0.02),
        Metric("retransmits", "TCP segments retransmitted", "%", "lower", 0.1),
        Metric("mos", "Quality of speech (MOS, ITU-T G.107)", "", "higher", 0.1),
        Metric("fetch-time", "Time to fetch an address, median", "ms", "lower", 5.0, 0.02),
        Metric("page-time", "Time to load a page with all its objects, median", "ms", "lower", 20.0, 0.02),
        Metric("burst-time", "Time until a burst has arrived, median", "ms", "lower", 1.0, 0.02),
        Metric("burst-time-p95", "Time until a burst has arrived, 95th percentile", "ms", "lower", 2.0, 0.05),
        Metric("bursts-incomplete", "Bursts with lost packets", "%", "lower", 0.5),
    )
}


@dataclass(frozen=True)
class Measured:
    """A metric of one recording.

    Attributes:
        value: as it stands in a table; NaN where it is not known, and then ``basis`` says why.
        statistic, lead, rare: for resampling (see ``differences.resampled``); none where there is one number only.
        samples: single values, for the size of the effect.
        basis: in words: how it was had, where that is not obvious.
        base: what was subtracted, with its own statistic.
    """

    metric: Metric
    value: float
    statistic: Statistic | None = None
    lead: Values = field(default_factory=lambda: np.array([]))
    rare: Values | None = None
    samples: Values = field(default_factory=lambda: np.array([]))
    basis: str = ""
    base: tuple[Statistic, Values] | None = None


@dataclass(frozen=True)
class Stream:
    """Samples of one series under load, and before."""

    name: str
    values: Values
    steps: NDArray[np.int64]
    idle: Values
    idle_steps: NDArray[np.int64]
    smallest: float


def measure(recording: Recording) -> dict[str, Measured]:
    """Every metric that a recording has, by key."""
    span = window(recording) or _everything(recording)
    if span is None:
        return {}
    steps = Steps.of(span, recording)
    found = [
        *_goodput(recording, steps),
        *_round_trips(recording, span, steps),
        *_loss(recording, span, steps),
        *_retransmits(recording, span, steps),
        *_speech(recording, span),
        *_fetches(recording, span, steps),
        *_pages(recording, span, steps),
        *_bursts(recording, span, steps),
    ]
    return {one.metric.key: one for one in sorted(found, key=lambda one: list(METRICS).index(one.metric.key))}


def round_trips_per_minute(recording: Recording) -> float | None:
    """Round trips a minute under load, by the mean over the streams of probes; ``None`` without load or probes.

    It is not the responsiveness of draft-ietf-ippm-responsiveness, which takes requests over HTTP/2
    (:mod:`.responsiveness`), but the round trip of a small packet beside the connections that make load, trimmed at
    the 95th percentile. It is no metric of ``measure``: a comparison would claim the same difference twice, as the
    median round-trip time and as this.
    """
    span = window(recording)
    if span is None:
        return None
    streams = probe_streams(recording, span, Steps.of(span, recording))
    means = [mean for one in streams if (mean := trimmed_mean(one.values)) is not None]
    return describing.round_trips_per_minute(float(np.mean(means))) if means else None


def _everything(recording: Recording) -> Window | None:
    """Of a test that makes no load: all of it."""
    probes = recording.table("probes").select(at=pl.coalesce("sent_ns", "scheduled_ns", "received_ns"))["at"]
    first, last = probes.min(), probes.max()
    return Window(first, last + 1, "all of it") if isinstance(first, int) and isinstance(last, int) else None


def _goodput(recording: Recording, steps: Steps) -> list[Measured]:
    found = []
    for direction in together.DIRECTIONS:
        flows = together.members(recording, direction)
        if flows.present or flows.absent:
            found.append(_sum(METRICS[f"goodput-{direction}"], recording, flows, steps))
        tcp = together.members(recording, direction, ("tcp",))
        if len(tcp.present) + len(tcp.absent) > 1:
            found.append(_shared(METRICS[f"fairness-{direction}"], recording, tcp, steps))
    return found


def _sum(metric: Metric, recording: Recording, flows: together.Members, steps: Steps) -> Measured:
    """The sum of all flows at each step, and its mean over the steps at which it is known."""
    if not flows.present:
        return _unknown(metric, flows)
    columns = together.columns(recording, flows.present, steps)
    total = columns.total
    mean = mean_of(total)
    value = float(mean(np.ones((1, steps.count)))[0])
    if flows.absent or not np.isfinite(value):
        return _unknown(metric, flows, value, columns.words())
    basis = "; ".join(part for part in (flows.words(), columns.words()) if part)
    return Measured(metric, value, mean, _filled(total), samples=total[np.isfinite(total)], basis=basis)


def _shared(metric: Metric, recording: Recording, flows: together.Members, steps: Steps) -> Measured:
    """How fairly the flows share what there is."""
    if not flows.present:
        return _unknown(metric, flows)
    columns = together.columns(recording, flows.present, steps)
    found = _fairness(metric, columns.measured, steps)
    if flows.absent or not np.isfinite(found.value):
        return _unknown(metric, flows, found.value, columns.words())
    return replace(found, basis=flows.words())


def _unknown(metric: Metric, flows: together.Members, others: float = np.nan, words: str = "") -> Measured:
    """A metric that is unknown because some flows have no values; its text gives the values of the others."""
    parts = ["not known", flows.words_of_absent(), words]
    if np.isfinite(others):
        parts.append(f"the others {significant(others)} {metric.units}".rstrip())
    return Measured(metric, float("nan"), basis="; ".join(part for part in parts if part))


def _fairness(metric: Metric, shares: Values, steps: Steps) -> Measured:
    """Jain's index of the flows' mean goodputs: over the whole run, not the mean of the index over short steps."""
    known = np.isfinite(shares)
    filled, counted = np.where(known, shares, 0.0), known.astype(float)

    def statistic(times: Values) -> Values:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            means = (times @ filled) / (times @ counted)
            return np.asarray(means.sum(axis=1) ** 2 / (means.shape[1] * (means**2).sum(axis=1)))

    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        each = filled.sum(axis=1) ** 2 / (counted.sum(axis=1) * (filled**2).sum(axis=1))
    value = float(statistic(np.ones((1, steps.count)))[0])
    # The slowest of the flows' own shares is what blocks must be as long as; the spread of shares has it.
    lead = _filled(np.nanmax(np.where(known.any(axis=1, keepdims=True), shares, 0.0), axis=1))
    return Measured(metric, value, statistic, lead, samples=each[np.isfinite(each)])


def probe_streams(recording: Recording, span: Window, steps: Steps, quantity: str = "rtt") -> list[Stream]:
    """The series of a quantity of probes, cut to the time under load and the idle time before it."""
    found = []
    near = access_point.probe(recording)
    for series in recording.series():
        if series.quantity != quantity or series.kind == "computed" or series.name == near:
            continue
        samples = recording.samples(series.name).drop_nulls("value")
        during = samples.filter((pl.col("time_ns") >= span.start_ns) & (pl.col("time_ns") < span.end_ns))
        first_ns = span.start_ns - _MOST_IDLE_STEPS * steps.step_ns
        before = samples.filter((pl.col("time_ns") < span.start_ns) & (pl.col("time_ns") >= first_ns))
        if during.is_empty():
            continue
        smallest = samples["value"].min()
        found.append(
            Stream(
                series.name,
                during["value"].to_numpy(),
                steps.number(during["time_ns"]),
                before["value"].to_numpy(),
                steps.number(before["time_ns"]) if before.height else np.array([], dtype=np.int64),
                float(smallest) if isinstance(smallest, (int, float)) else 0.0,
            )
        )
    return _covering(found, steps)


def _covering(streams: Sequence[Stream], steps: Steps) -> list[Stream]:
    """Without streams that fell silent early, where others did not: their few samples are of another time."""
    bins = max(1, steps.count // 10)
    covered = [len(np.unique(one.steps // 10)) / bins for one in streams]
    if max(covered, default=0.0) < _COVERED:
        return list(streams)
    return [one for one, share in zip(streams, covered, strict=True) if share >= _COVERED]


def _mean_over(statistics: Sequence[Statistic]) -> Statistic:
    def statistic(times: Values) -> Values:
        return np.asarray(np.mean([one(times) for one in statistics], axis=0))

    return statistic


def _round_trips(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    streams = probe_streams(recording, span, steps)
    if not streams:
        return []
    lead = _lead([steps.means(one.steps, one.values) for one in streams])
    samples = np.concatenate([one.values for one in streams])
    found = []
    for key, q in (("rtt-median", 0.5), ("rtt-p99", 0.99)):
        statistic = _mean_over([quantile_of(one.values, one.steps, q) for one in streams])
        value = float(np.mean([np.quantile(one.values, q) for one in streams]))
        rare = None
        if q > 0.9:
            rare = np.zeros(steps.count)
            for one in streams:
                rare[one.steps[one.values >= np.quantile(one.values, q)]] = 1.0
        found.append(Measured(METRICS[key], value, statistic, lead, rare, samples))
    if span.found != "all of it":
        found.append(_induced(streams, found[0]))
    return found


def _induced(streams: Sequence[Stream], loaded: Measured) -> Measured:
    """The median under load, less the median of the idle time before; where there is none, less the minimum."""
    is_idle = [len(one.idle) >= FEWEST_IDLE for one in streams]
    bases = [float(np.median(one.idle)) if idle else one.smallest for one, idle in zip(streams, is_idle, strict=True)]
    samples = np.concatenate([one.values - base for one, base in zip(streams, bases, strict=True)])
    basis = "compared with the smallest round-trip time, because there was too little idle time before the load"
    before = None
    if all(is_idle):
        basis = "compared with the median of the idle time before the load"
        first = min(int(one.idle_steps.min()) for one in streams)
        idle = [quantile_of(one.idle, np.asarray(one.idle_steps - first, dtype=float), 0.5) for one in streams]
        means = [means_in(one.idle_steps - first, one.idle, -first) for one in streams]
        before = _mean_over(idle), _lead(means)
    value = loaded.value - float(np.mean(bases))
    return replace(loaded, metric=METRICS["induced-latency"], value=value, samples=samples, basis=basis, base=before)


def _lead(columns: Sequence[Values]) -> Values:
    """The mean of several series at each step, without gaps."""
    rows = np.vstack(columns)
    # A step in which no stream has a sample would only make a warning.
    rows[0, np.isnan(rows).all(axis=0)] = np.nanmean(rows)
    return _filled(np.nanmean(rows, axis=0))


def _filled(values: Values) -> Values:
    """A series with its gaps interpolated linearly, so that its autocorrelation can be estimated."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros(len(values))
    return np.interp(np.arange(len(values)), known, values[known])


def to_far_ends(recording: Recording, probes: pl.DataFrame) -> pl.DataFrame:
    """Rows of table ``probes`` without those of a stream that goes no farther than the access point."""
    near = access_point.probe(recording)
    if near is None:
        return probes
    flows = recording.table("flows").filter(pl.col("name") == near)["flow"]
    return probes.filter(~pl.col("flow").is_in(flows.to_list()))


def _loss(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    sent = pl.coalesce("sent_ns", "scheduled_ns", "received_ns")
    rows = recording.table("probes").with_columns(at=sent)
    rows = rows.filter((pl.col("at") >= span.start_ns) & (pl.col("at") < span.end_ns))
    rows = rows.filter(pl.col("fate").is_not_null() & ~pl.col("fate").is_in(NOT_OF_PATH))
    rows = to_far_ends(recording, rows)
    if rows.is_empty():
        return []
    # Losses per direction need a far end that reports the direction.
    tells = pl.col("up_ns").is_not_null() | pl.col("fate").is_in(["lost-up", "lost-down"])
    telling = rows.filter(tells)["flow"].unique()
    found = []
    for key, fates in (
        ("loss-up", ["lost-up"]),
        ("loss-down", ["lost-down"]),
        ("loss", ["lost", "lost-up", "lost-down"]),
    ):
        own = rows if key == "loss" else rows.filter(pl.col("flow").is_in(telling.implode()))
        if own.is_empty():
            continue
        lost = own["fate"].is_in(fates).cast(pl.Float64).to_numpy() * 100.0
        found.append(_share(METRICS[key], lost, steps.number(own["at"]), steps))
    return found


def _share(metric: Metric, values: Values, numbers: NDArray[np.int64], steps: Steps, basis: str = "") -> Measured:
    """The mean of values that are 0 or 100 %, each of a step."""
    sums = np.bincount(numbers, values, steps.count)[: steps.count].astype(float)
    counts = np.bincount(numbers, minlength=steps.count)[: steps.count].astype(float)
    return Measured(metric, float(values.mean()), ratio_of(sums, counts), sums, samples=values, basis=basis)


def _retransmits(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    """Of all segments that TCP flows sent while there was load, those that had been sent before."""
    again = np.zeros(steps.count)
    sent = np.zeros(steps.count)
    told = set()
    tcp_info = recording.table("tcp_info").filter(pl.col("retransmitted_packets").is_not_null())
    intervals = recording.table("intervals")
    in_all = dict(recording.table("flows").select("flow", "facts").drop_nulls().iter_rows())
    for (flow,), all_rows in tcp_info.partition_by("flow", as_dict=True).items():
        # A program that reports at the end of each interval also reports at the end of the last.
        rows = all_rows.sort("time_ns").filter(pl.col("time_ns").is_between(span.start_ns, span.end_ns))
        own = intervals.filter((pl.col("flow") == flow) & pl.col("payload_bytes").is_not_null())
        own = own.filter((pl.col("end_ns") > span.start_ns) & (pl.col("end_ns") <= span.end_ns))
        mss = rows["mss_bytes"].drop_nulls().median()
        if rows.height < 2 or own.is_empty() or not isinstance(mss, (int, float)) or mss <= 0:
            continue
        told.add(flow)
        counts = rows["retransmitted_packets"].to_numpy()
        before = _before_the_first(counts, in_all.get(flow))
        again += np.bincount(
            np.minimum(steps.number(rows["time_ns"]), steps.count - 1),
            np.maximum(0, np.diff(counts, prepend=before)),
            steps.count,
        )
        at = np.clip(steps.number(own["end_ns"] - 1), 0, steps.count - 1)
        sent += np.bincount(at, own["payload_bytes"].to_numpy() / mss, steps.count)[: steps.count]
    if told and sent.sum() > 0:
        total = sent + again
        share = 100 * again
        value, basis = float(share.sum() / total.sum()), _without_untold(recording, told)
        return [Measured(METRICS["retransmits"], value, ratio_of(share, total), share, basis=basis)]
    return _retransmits_told(recording)


def _before_the_first(counts: NDArray[np.int64], facts: str | None) -> float:
    """A flow's count before its first sample, by what its program said of all of it."""
    whole = document.json_object(facts).get("TCP_RETRANSMIT") if facts is not None else None
    first, last = float(counts[0]), float(counts[-1])
    return min(first, max(0.0, last - whole)) if isinstance(whole, (int, float)) else first


def _retransmits_told(recording: Recording) -> list[Measured]:
    """From a program's own figure for the whole run: one number, without a measure of its uncertainty."""
    again, sent = 0.0, 0.0
    tellers = set()
    for flow, facts in recording.table("flows").select("flow", "facts").drop_nulls().iter_rows():
        told = document.json_object(facts)
        told = told.get("flent", told)
        try:
            count, total, mss = (float(told[key]) for key in ("TCP_RETRANSMIT", "BYTES_SENT", "TCP_MSS"))
        except (KeyError, TypeError, ValueError):
            continue
        if mss > 0 and total > 0:
            again += count
            sent += total / mss + count
            tellers.add(flow)
    if sent == 0:
        return []
    parts = ("as the sender's kernel reported at the end", _without_untold(recording, tellers))
    return [Measured(METRICS["retransmits"], 100 * again / sent, basis="; ".join(part for part in parts if part))]


def _without_untold(recording: Recording, told: set[int]) -> str:
    """Which TCP flows a count lacks, in words; empty where none."""
    rows = recording.table("flows").sort("flow").filter(pl.col("kind") == "tcp").select("flow", "name").iter_rows()
    untold = [str(name) for flow, name in rows if flow not in told]
    return f"without {listed(untold)}, because their senders did not report it" if untold else ""


def _speech(recording: Recording, span: Window) -> list[Measured]:
    """The mean over all streams of probes of what speech in the worse direction would have been."""
    statistics: list[Statistic] = []
    values, bases, leads = [], [], []
    near = access_point.probe(recording)
    for series in recording.series():
        if series.name == near:
            continue
        spoken = series.kind == "value" and not series.key and series.name.startswith("VoIP")
        if not spoken and (series.quantity != "rtt" or series.kind not in ("probe", "icmp")):
            continue
        rated = [(packets, speech.rate(packets)) for packets in speech.packets_of(recording, series.name, span)]
        known = [(packets, found) for packets, found in rated if found is not None]
        if not known:
            continue
        packets, found = min(known, key=lambda pair: pair[1].mos)
        values.append(found.mos)
        bases.append(found.basis)
        statistics.append(_mos_of(packets))
        leads.append(packets)
    if not values:
        return []
    value = float(np.mean(values))
    # In one order, for the same words in all recordings, whatever the order of their streams.
    basis = "; ".join(sorted(set(bases)))
    silent = any(np.isnan(one.delay_ms).all() for one in leads)
    if silent or len({len(column) for one in leads for column in (one.lost, one.delay_ms, one.variation_ms)}) > 1:
        # Silence has nothing to resample. Streams of different paces have no common steps: each would need blocks
        # of its own.
        return [Measured(METRICS["mos"], value, basis=basis)]
    lead = _lead([packets.delay_ms for packets in leads])
    return [Measured(METRICS["mos"], value, _mean_over(statistics), lead, basis=basis)]


def _mos_of(packets: speech.Packets) -> Statistic:
    delay, jitter = mean_of(packets.delay_ms), mean_of(packets.variation_ms)
    loss = mean_of(packets.lost)

    def statistic(times: Values) -> Values:
        varied = np.nan_to_num(jitter(times))
        return emodel.mean_opinion_score(delay(times), varied, loss(times))

    return statistic


def _fetches(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    # Probes of a small object are no pages.
    flows = recording.table("flows").filter(pl.col("runner") == RUNNER)["name"].to_list()
    streams = [one for one in probe_streams(recording, span, steps, "fetch-time") if one.name not in flows]
    if not streams:
        return []
    statistic = _mean_over([quantile_of(one.values, one.steps, 0.5) for one in streams])
    lead = _lead([steps.means(one.steps, one.values) for one in streams])
    value = float(np.mean([np.median(one.values) for one in streams]))
    return [Measured(METRICS["fetch-time"], value, statistic, lead, samples=streams[0].values)]


def _pages(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    """The time from the start of a round's first fetch to the end of its last; of rounds that are complete."""
    metric = METRICS["page-time"]
    rounds = _rounds(recording, span)
    if rounds.is_empty():
        return []
    whole = rounds.filter("complete")
    basis = f"{whole.height} loads of {int(rounds['most'].max())} objects"  # type: ignore[arg-type]
    if (others := rounds.height - whole.height) > 0:
        basis += f"; {others} did not end in time or had a failed fetch"
    if whole.is_empty():
        return [Measured(metric, float("nan"), basis=f"not known; {basis}")]
    values = ((whole["end_ns"] - whole["start_ns"]) / 1e6).to_numpy()
    numbers = steps.number(whole["start_ns"])
    statistic, lead = quantile_of(values, numbers, 0.5), _lead([steps.means(numbers, values)])
    return [Measured(metric, float(np.median(values)), statistic, lead, samples=values, basis=basis)]


def _rounds(recording: Recording, span: Window) -> pl.DataFrame:
    """Rounds of several addresses that began under load: start, end, and whether all of them were fetched in time."""
    urls = {
        flow: document.number(document.json_object(facts).get("urls"))
        for flow, facts in recording.table("flows").select("flow", "facts").iter_rows()
    }
    fetches = recording.table("fetches").filter(pl.col("round").is_not_null() & pl.col("duration_ns").is_not_null())
    rounds = fetches.group_by("flow", "round").agg(
        start_ns=pl.col("start_ns").min(),
        end_ns=(pl.col("start_ns") + pl.col("duration_ns")).max(),
        fetched=pl.col("error").is_null().sum(),
    )
    most = pl.col("flow").replace_strict(urls, default=None, return_dtype=pl.Float64).cast(pl.Int64)
    complete = (pl.col("fetched") == pl.col("most")) & (pl.col("end_ns") < span.end_ns)
    began = (pl.col("start_ns") >= span.start_ns) & (pl.col("start_ns") < span.end_ns)
    return (rounds.with_columns(most=most).filter((pl.col("most") > 1) & began).with_columns(complete=complete)).sort(
        "start_ns"
    )


def _bursts(recording: Recording, span: Window, steps: Steps) -> list[Measured]:
    """Bursts that were sent under load: how long each took as a whole, and the share that never became whole.

    Times are of complete bursts. Bursts of unlike lengths, as a search for the depth of a queue sends them, have no
    common time.
    """
    bursts = (
        recording.table("bursts")
        .group_by("flow", "burst")
        .agg(
            start_ns=pl.col("sent_ns").min(),
            end_ns=pl.col("received_ns").max(),
            packets=pl.len(),
            lost=pl.col("received_ns").is_null().any().cast(pl.Float64),
        )
    )
    during = pl.col("start_ns").is_between(span.start_ns, span.end_ns, closed="left")
    found = bursts.filter(during).sort("start_ns", "flow")
    if found.is_empty() or found["packets"].n_unique() > 1 or found["packets"][0] == 1:
        return []
    basis = f"{found.height} bursts of {found['packets'][0]} packets"
    lost = 100 * found["lost"].to_numpy()
    measured = [_share(METRICS["bursts-incomplete"], lost, steps.number(found["start_ns"]), steps, basis)]
    whole = found.filter(pl.col("lost") == 0)
    numbers, values = steps.number(whole["start_ns"]), ((whole["end_ns"] - whole["start_ns"]) / 1e6).to_numpy()
    for key, share_within in (("burst-time", 0.5), ("burst-time-p95", 0.95)):
        metric = METRICS[key]
        if whole.is_empty():
            measured.append(Measured(metric, float("nan"), basis=f"not known: none of {basis} is complete"))
            continue
        value, lead = float(np.quantile(values, share_within)), _lead([steps.means(numbers, values)])
        statistic = quantile_of(values, numbers, share_within)
        measured.append(Measured(metric, value, statistic, lead, samples=values, basis=basis))
    return measured
