"""Responsiveness in round trips a minute (RPM), with its confidence, by the method of draft-ietf-ippm-responsiveness.

:func:`assess` works on what was measured so far. The runner asks it after each interval whether it may end; a recording
is read by the same function, so that no number is stored that its tables do not yield. docs/grades.md has the version
of the draft, and where this differs from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording import document
from whydrop.recording.recording import Recording
from whydrop.recording.statistics.describing import round_trips_per_minute, trimmed_mean

Values = NDArray[np.float64]
Confidence = str
LOW, MEDIUM, HIGH = "low", "medium", "high"

RUNNER = "responsiveness"
"""Name of the runner that measures it; see :mod:`whydrop.measure.runners.responsiveness`."""

FOREIGN_PROBE_BYTES, SELF_PROBE_BYTES = 5000, 1000
"""Bytes that a probe of each kind costs, by the draft's estimate."""

# The draft's words for ranges of RPM, by their lower ends.
_RATINGS = ((6000.0, "excellent"), (1000.0, "good"), (300.0, "fair"), (0.0, "poor"))

# From this share of its time on that the process of the load uses a core or waits for one, it may be the limit.
_BUSY_PERCENT = 90.0
# Probes that this host handled so late, as a share of what they took, say more of the host than of the path.
_LATE_SHARE = 0.1
# The trimmed mean leaves out this share at most; where more probes failed, the slowest may be missing.
_NS_PER_MS, _NS_PER_S = 1e6, 1e9


@dataclass(frozen=True)
class Parameters:
    """Parameters of the method, with the draft's defaults and its names for them.

    Attributes:
        interval_s: ID, from one evaluation to the next.
        moving_average_intervals: MAD, how many intervals a moving average takes.
        trimmed_mean_percent: TMP, the percentile up to which probes count.
        tolerance_percent: SDT, the standard deviation at which a value is stable.
        first_connections: INP, at the start.
        further_connections: INC, added at each interval.
        most_connections: MNP.
        most_probes_per_s: MPS, of both kinds together.
        probe_share_percent: PTC, of the goodput, that probes may take.
    """

    interval_s: float = 1.0
    moving_average_intervals: int = 4
    trimmed_mean_percent: float = 95.0
    tolerance_percent: float = 5.0
    first_connections: int = 1
    further_connections: int = 1
    most_connections: int = 16
    most_probes_per_s: float = 100.0
    probe_share_percent: float = 5.0

    @classmethod
    def of(cls, options: dict[str, Any]) -> Parameters:
        """Those among the options of a flow; what is no number of use is left at its default."""
        defaults = {one.name: one.default for one in fields(cls)}
        given = {name: _usable(options.get(name), default) for name, default in defaults.items()}
        return cls(**given)

    def pairs_per_s(self, goodput_bps: float) -> float:
        """How many pairs of a foreign and a self probe may be sent, by the limits on their number and their bytes."""
        by_bytes = goodput_bps / 8 * self.probe_share_percent / 100 / (FOREIGN_PROBE_BYTES + SELF_PROBE_BYTES)
        return min(self.most_probes_per_s / 2, by_bytes)


def _usable(value: Any, default: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return default
    return int(value) if isinstance(default, int) else float(value)


@dataclass(frozen=True)
class Probes:
    """Probes that were answered: when each was complete (ns), and its times in ms, by kind.

    ``tls_f`` is the TLS handshake divided by its number of round trips.
    """

    foreign_ns: NDArray[np.int64]
    tcp_f: Values
    tls_f: Values
    http_f: Values
    self_ns: NDArray[np.int64]
    http_l: Values


@dataclass(frozen=True)
class Terms:
    """Trimmed means in ms of the four times, and how many probes of each kind they are made of."""

    tcp_f_ms: float
    tls_f_ms: float
    http_f_ms: float
    http_l_ms: float
    foreign_probes: int
    self_probes: int

    @property
    def foreign_rpm(self) -> float:
        """Round trips a minute on new connections."""
        return round_trips_per_minute((self.tcp_f_ms + self.tls_f_ms + self.http_f_ms) / 3) or math.inf

    @property
    def self_rpm(self) -> float:
        """Round trips a minute of requests inside the connections that make the load."""
        return round_trips_per_minute(self.http_l_ms) or math.inf

    @property
    def rpm(self) -> float:
        """The mean of both: the draft's responsiveness."""
        return (self.foreign_rpm + self.self_rpm) / 2


@dataclass(frozen=True)
class Assessment:
    """Result of the intervals so far.

    Attributes:
        goodput_bps: moving average at each interval, from the first that has all its intervals.
        saturated_at: the interval in which the goodput was found stable; ``None``: in none.
        responsiveness: of each interval since then, with its number; those without probes are left out.
        stable_at: the interval in which responsiveness was found stable too, which ends the test.
        terms: at the end; ``None`` where probes of a kind are missing.
    """

    intervals: int
    goodput_bps: tuple[float, ...] = ()
    saturated_at: int | None = None
    responsiveness: tuple[tuple[int, float], ...] = ()
    stable_at: int | None = None
    terms: Terms | None = None
    parameters: Parameters = field(default_factory=Parameters)

    @property
    def goodput_confidence(self) -> Confidence:
        """Low: fewer intervals than a moving average needs; medium: the goodput was never stable; high: it was."""
        if self.intervals < self.parameters.moving_average_intervals:
            return LOW
        return MEDIUM if self.saturated_at is None else HIGH

    @property
    def responsiveness_confidence(self) -> Confidence:
        """The same of responsiveness, over the intervals since the goodput was stable."""
        if len(self.responsiveness) < self.parameters.moving_average_intervals:
            return LOW
        return MEDIUM if self.stable_at is None else HIGH


def is_stable(values: Sequence[float], parameters: Parameters) -> bool:
    """True if the last values vary by less than the tolerance; it needs as many of them as a moving average takes.

    >>> is_stable([90, 100, 101, 99, 100], Parameters()), is_stable([80, 100, 120, 100], Parameters())
    (True, False)
    >>> is_stable([100, 100, 100], Parameters())
    False
    """
    last = np.asarray(values[-parameters.moving_average_intervals :], dtype=float)
    if len(last) < parameters.moving_average_intervals or not np.isfinite(last).all():
        return False
    return bool(np.std(last) < parameters.tolerance_percent / 100 * abs(last[-1]))


def assess(start_ns: int, intervals: pl.DataFrame, probes: Probes, parameters: Parameters) -> Assessment:
    """Apply the draft's algorithm to what was measured since ``start_ns``, interval by interval.

    Args:
        intervals: rows of table ``intervals``: bytes of all connections together, in pieces shorter than an interval.
        probes: a probe belongs to the interval in which it was complete.
    """
    length_ns = parameters.interval_s * _NS_PER_S
    width = parameters.moving_average_intervals
    if intervals.is_empty():
        return Assessment(0, parameters=parameters)
    middle = (intervals["start_ns"].to_numpy() + intervals["end_ns"].to_numpy()) / 2 - start_ns
    numbers = (middle // length_ns).astype(np.int64)
    last_ns = intervals["end_ns"].max()
    count = int((last_ns - start_ns) // length_ns) if isinstance(last_ns, int) else 0
    payload = np.where(numbers < 0, 0, intervals["payload_bytes"].fill_null(0).to_numpy())
    sums = np.bincount(np.maximum(numbers, 0), payload, count)[:count]
    goodput: list[float] = []
    found: list[tuple[int, float]] = []
    saturated_at = stable_at = None
    for number in range(count):
        if number >= width - 1:
            goodput.append(float(sums[number - width + 1 : number + 1].sum()) * 8 / (width * parameters.interval_s))
        if saturated_at is None and is_stable(goodput, parameters):
            saturated_at = number
        if saturated_at is None:
            continue
        terms = _terms(start_ns, number, probes, parameters)
        if terms is not None:
            found.append((number, terms.rpm))
            if is_stable([rpm for _, rpm in found], parameters):
                stable_at = number
                break
    last = count - 1 if stable_at is None else stable_at
    terms = _terms(start_ns, last, probes, parameters) if count else None
    return Assessment(last + 1, tuple(goodput), saturated_at, tuple(found), stable_at, terms, parameters)


def window_ns(start_ns: int, number: int, parameters: Parameters) -> tuple[int, int]:
    """From when to when probes count for interval ``number``: it and those before it of a moving average."""
    length_ns = round(parameters.interval_s * _NS_PER_S)
    first = max(0, number + 1 - parameters.moving_average_intervals)
    return start_ns + first * length_ns, start_ns + (number + 1) * length_ns


def _terms(start_ns: int, number: int, probes: Probes, parameters: Parameters) -> Terms | None:
    first_ns, end_ns = window_ns(start_ns, number, parameters)

    def within(times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((times_ns >= first_ns) & (times_ns < end_ns))

    foreign, own = within(probes.foreign_ns), within(probes.self_ns)
    means = [
        trimmed_mean(values[chosen], parameters.trimmed_mean_percent)
        for values, chosen in (
            (probes.tcp_f, foreign),
            (probes.tls_f, foreign),
            (probes.http_f, foreign),
            (probes.http_l, own),
        )
    ]
    known = [mean for mean in means if mean is not None and mean > 0]
    if len(known) < len(means):
        return None
    return Terms(known[0], known[1], known[2], known[3], int(foreign.sum()), int(own.sum()))


def probes_of(foreign: pl.DataFrame, own: pl.DataFrame) -> Probes:
    """Probes out of rows of table ``fetches``; those that failed are left out."""
    foreign = foreign.filter(pl.col("error").is_null()).drop_nulls(["duration_ns", "tcp_ns", "tls_ns"])
    own = own.filter(pl.col("error").is_null()).drop_nulls("duration_ns")

    def ended(frame: pl.DataFrame) -> NDArray[np.int64]:
        return np.asarray((frame["start_ns"] + frame["duration_ns"]).to_numpy(), dtype=np.int64)

    def ms(frame: pl.DataFrame, value: pl.Expr) -> Values:
        return np.asarray(frame.select(value / _NS_PER_MS).to_series().to_numpy(), dtype=float)

    return Probes(
        ended(foreign),
        ms(foreign, pl.col("tcp_ns")),
        ms(foreign, pl.col("tls_ns") / pl.col("tls_round_trips").fill_null(1)),
        ms(foreign, pl.col("duration_ns") - pl.col("tcp_ns") - pl.col("tls_ns")),
        ended(own),
        ms(own, pl.col("duration_ns")),
    )


@dataclass(frozen=True)
class Responsiveness:
    """Responsiveness of one direction of a recording.

    Attributes:
        name: of the flow that made the load.
        rpm: round trips a minute; ``None`` where it is unknown, and ``notes`` say why.
        confidence, goodput_confidence: ``low``, ``medium`` or ``high``, as the draft defines them, or ``low`` because
            of what ``notes`` say.
        saturated_after_s, stable_after_s: when goodput and responsiveness were found stable; ``None``: never.
    """

    name: str
    direction: str
    rpm: float | None
    confidence: Confidence
    rating: str | None
    foreign_rpm: float | None
    self_rpm: float | None
    tcp_f_ms: float | None
    tls_f_ms: float | None
    http_f_ms: float | None
    http_l_ms: float | None
    foreign_probes: int
    self_probes: int
    goodput_mbit_per_s: float | None
    goodput_confidence: Confidence
    connections: int | None
    intervals: int
    saturated_after_s: float | None
    stable_after_s: float | None
    notes: tuple[str, ...]


def rating(rpm: float) -> str:
    """The draft's word for so many round trips a minute.

    >>> rating(299), rating(300), rating(1000), rating(6000)
    ('poor', 'fair', 'good', 'excellent')
    """
    return next(word for lower, word in _RATINGS if rpm >= lower)


def of_recording(recording: Recording) -> list[Responsiveness]:
    """The responsiveness of each direction in which a recording measured it with the draft's probes."""
    flows = recording.table("flows").filter(pl.col("runner") == RUNNER).sort("flow").to_dicts()
    options = {row["flow"]: _options(row) for row in flows}
    found = []
    for row in flows:
        if row["kind"] != "tcp":
            continue
        probes = {
            options[other["flow"]].get("probe"): recording.of_flow("fetches", other["flow"])
            for other in flows
            if options[other["flow"]].get("probes_of") == row["name"]
        }
        empty = recording.table("fetches").clear()
        found.append(
            _of_flow(recording, row, options[row["flow"]], probes.get("foreign", empty), probes.get("self", empty))
        )
    return found


def _options(row: dict[str, Any]) -> dict[str, Any]:
    options = document.json_object(row["settings"]).get("options")
    return options if isinstance(options, dict) else {}


def _of_flow(
    recording: Recording, row: dict[str, Any], options: dict[str, Any], foreign: pl.DataFrame, own: pl.DataFrame
) -> Responsiveness:
    intervals = recording.of_flow("intervals", row["flow"]).drop_nulls(["start_ns", "end_ns"])
    first_ns = intervals["start_ns"].min()
    start_ns = first_ns if isinstance(first_ns, int) else 0
    parameters = Parameters.of(options)
    found = assess(start_ns, intervals, probes_of(foreign, own), parameters)
    end = window_ns(start_ns, max(0, found.intervals - 1), parameters)
    values = recording.of_flow("values", row["flow"]).filter(pl.col("time_ns").is_between(end[0], end[1]))
    terms = found.terms
    rpm = terms.rpm if terms is not None and math.isfinite(terms.rpm) else None
    unsure = _why_unsure(values, terms, [_within(foreign, end), _within(own, end)], parameters)
    failed = row["status"] == "failed"
    broken = [f"the load broke off: {row['message'] or 'no reason is known'}"] if failed and found.intervals else []
    busy = _busy(values)
    connections = values.filter(pl.col("key") == "connections")["value"].max()

    def after_s(number: int | None) -> float | None:
        return None if number is None else (number + 1) * parameters.interval_s

    return Responsiveness(
        name=row["name"],
        direction=row["direction"],
        rpm=rpm,
        confidence=LOW if unsure or broken or busy or rpm is None else found.responsiveness_confidence,
        rating=None if rpm is None else rating(rpm),
        foreign_rpm=None if terms is None else terms.foreign_rpm,
        self_rpm=None if terms is None else terms.self_rpm,
        tcp_f_ms=None if terms is None else terms.tcp_f_ms,
        tls_f_ms=None if terms is None else terms.tls_f_ms,
        http_f_ms=None if terms is None else terms.http_f_ms,
        http_l_ms=None if terms is None else terms.http_l_ms,
        foreign_probes=0 if terms is None else terms.foreign_probes,
        self_probes=0 if terms is None else terms.self_probes,
        goodput_mbit_per_s=found.goodput_bps[-1] / 1e6 if found.goodput_bps else None,
        goodput_confidence=LOW if broken or busy else found.goodput_confidence,
        connections=int(connections) if isinstance(connections, int | float) else None,
        intervals=found.intervals,
        saturated_after_s=after_s(found.saturated_at),
        stable_after_s=after_s(found.stable_at),
        notes=(*_why_unknown(found, rpm), *_why_not_high(found), *busy, *unsure, *broken),
    )


def _within(fetches: pl.DataFrame, span_ns: tuple[int, int]) -> pl.DataFrame:
    return fetches.filter((pl.col("start_ns") + pl.col("duration_ns")).is_between(*span_ns))


def _why_unknown(found: Assessment, rpm: float | None) -> list[str]:
    if rpm is not None:
        return []
    if not found.intervals:
        return ["responsiveness is unknown: the load did not last one interval"]
    return ["responsiveness is unknown: probes of a kind were not answered in the last intervals"]


def _why_not_high(found: Assessment) -> list[str]:
    """Note on what was not stable; empty where both were."""
    if found.saturated_at is None and found.intervals:
        return [f"goodput was not stable within {_seconds(found)}: the path may not have been full"]
    if found.stable_at is None and found.intervals:
        return [f"responsiveness was not stable within {_seconds(found)}"]
    return []


def _seconds(found: Assessment) -> str:
    return f"{found.intervals * found.parameters.interval_s:g} s"


def _busy(values: pl.DataFrame) -> list[str]:
    """Note on a process that had hardly any processor time left; empty where it had enough."""
    used, waited = (
        values.filter(pl.col("key") == f"load_{key}_percent")["value"].median()
        for key in ("processor", "processor_wait")
    )
    used_percent = float(used) if isinstance(used, int | float) else 0.0
    waited_percent = float(waited) if isinstance(waited, int | float) else 0.0
    if used_percent + waited_percent < _BUSY_PERCENT:
        return []
    took = f"it used a core for {used_percent:.0f} % of the time and waited for one for {waited_percent:.0f} %"
    return [f"this host's processor may have limited the load: {took}"]


def _why_unsure(
    values: pl.DataFrame, terms: Terms | None, probes: Sequence[pl.DataFrame], parameters: Parameters
) -> list[str]:
    """Why the probes may say something else than what the path did."""
    notes = []
    if terms is not None:
        fastest = {
            "load_lateness_ms": terms.http_l_ms,
            "probe_lateness_ms": (terms.tcp_f_ms + terms.tls_f_ms + terms.http_f_ms) / 3,
        }
        for key, took_ms in fastest.items():
            late_ms = values.filter(pl.col("key") == key)["value"].mean()
            if isinstance(late_ms, int | float) and late_ms > _LATE_SHARE * took_ms:
                kind = "self" if key.startswith("load") else "foreign"
                late = f"{late_ms:.2g} ms late, on average"
                notes.append(f"this host was busy: {kind} probes of {took_ms:.3g} ms were handled {late}")
    for kind, rows in zip(("foreign", "self"), probes, strict=True):
        failed = rows.filter(pl.col("error").is_not_null()).height
        if failed > (1 - parameters.trimmed_mean_percent / 100) * rows.height:
            notes.append(f"{failed} of {rows.height} {kind} probes failed: the slowest may be missing")
    return notes
