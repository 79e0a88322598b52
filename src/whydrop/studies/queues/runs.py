"""Runs of the experiment: which cell each belongs to, which are left out and why, and the values of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.queues import queries
from whydrop.studies.queues.measures import CONTAIN, MEASURES, rate_bps

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

# What stands for a variable that a run does not have.
MISSING = "–"
_S_NS = 1e9
_LONGEST_REASON = 160
# A longer value names no queue and no condition, and no table could show it.
_LONGEST_NAME = 100
# No measure reaches it: squares of larger numbers have no value.
_LARGEST = 1e15

VALUES = {"recording": pl.String(), "metric": pl.String(), "value": pl.Float64(), "censored": pl.Boolean()}


def runs(recordings: pl.DataFrame, measured: Iterable[str], parameters: Parameters) -> pl.DataFrame:
    """One row for each recording of the store: its cell, and ``left_out``, the reason why it is not used (null: it is).

    Args:
        recordings: the store's table.
        measured: recordings with metrics.
        parameters: which variables name a cell.
    """
    known = set(measured)
    seen: set[tuple[Any, ...]] = set()
    rows = []
    for row in recordings.unique("recording", maintain_order=True).sort("time_ns", "recording").iter_rows(named=True):
        variables = _object(row["variables"])
        cell = {name: _text(variables.get(name)) for name in (*parameters.strata, parameters.queue)}
        reason = _reason(row, cell, known, parameters)
        if reason is None and row["run"] is not None:
            # A copy with another note, say, is no second run: it shows nothing of how runs vary.
            reason = (
                "a changed copy of another recording" if (row["run"], row["time_ns"], row["end_ns"]) in seen else None
            )
            seen.add((row["run"], row["time_ns"], row["end_ns"]))
        rows.append(
            {
                "recording": row["recording"], "name": row["name"], "run": row["run"], "kernel": row["kernel"],
                "repetition": row["repetition"], "seed": row["seed"],
                **{name: _cut(cell[name]) or MISSING for name in parameters.strata},
                "queue": _cut(cell[parameters.queue]),
                "rate_down_bps": rate_bps(_text(variables.get("rate_down"))),
                "rate_up_bps": rate_bps(_text(variables.get("rate_up"))),
                "left_out": reason,
            }
        )  # fmt: skip
    schema = {
        **dict.fromkeys(("recording", "name", "run", "kernel"), pl.String()),
        **dict.fromkeys(("repetition", "seed"), pl.Int64()),
        **dict.fromkeys((*parameters.strata, "queue"), pl.String()),
        "rate_down_bps": pl.Float64(), "rate_up_bps": pl.Float64(), "left_out": pl.String(),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def variables(recordings: pl.DataFrame) -> list[str]:
    """The names of variables that any recording has a value of."""
    found: set[str] = set()
    for text in recordings["variables"].unique():
        found.update(name for name, value in _object(text).items() if _text(value))
    return sorted(found)


def _cut(name: str | None) -> str | None:
    return name and name[:_LONGEST_NAME]


def _reason(
    row: Mapping[str, Any], cell: Mapping[str, str | None], known: set[str], parameters: Parameters
) -> str | None:
    failures = _list(row["failures"])
    if cell[parameters.queue] is None:
        return f"no variable {parameters.queue!r}"
    for name, value in cell.items():
        if value is not None and len(value) > _LONGEST_NAME:
            return f"variable {name!r} has {len(value)} characters: expected a name of at most {_LONGEST_NAME}"
    if row["status"] != "complete":
        why = f": {failures[0]}" if failures else ""
        return f"{row['status'] or 'status unknown'}{why}"[:_LONGEST_REASON]
    if failures:
        return f"a part failed: {failures[0]}"[:_LONGEST_REASON]
    return None if row["recording"] in known else "no metrics"


def values(
    used: pl.DataFrame, metrics: pl.DataFrame, containment: pl.DataFrame, *, calm_ns: int = queries.CALM_NS
) -> pl.DataFrame:
    """A frame of `VALUES` of the runs that are used: each measure that is known.

    A censored value is a lower bound.
    """
    own = metrics.filter(pl.col("value").abs() < _LARGEST).unique(["recording", "metric"], maintain_order=True)
    own = own.select("recording", "metric", "value").join(used.select("recording"), on="recording", how="semi")
    frames = [
        own.filter(pl.col("metric").is_in(list(MEASURES))).with_columns(censored=pl.lit(value=False)),
        *_utilisation(own, used),
        *_counters(own),
        _contain_times(containment.join(used.select("recording"), on="recording", how="semi"), calm_ns),
    ]
    typed = [frame.select(pl.col(name).cast(kind) for name, kind in VALUES.items()) for frame in frames]
    return pl.concat(typed).unique(["recording", "metric"], keep="first", maintain_order=True)


def _utilisation(own: pl.DataFrame, used: pl.DataFrame) -> list[pl.DataFrame]:
    """Goodput as a share of the line's rate."""
    frames = []
    for direction in ("down", "up"):
        goodput = own.filter(pl.col("metric") == f"goodput-{direction}")
        rates = used.select("recording", rate=f"rate_{direction}_bps").drop_nulls()
        joined = goodput.join(rates, on="recording", how="inner")
        frames.append(
            joined.with_columns(
                metric=pl.lit(f"utilisation-{direction}"), value=100 * pl.col("value") * 1e6 / pl.col("rate"),
                censored=pl.lit(value=False),
            )
        )  # fmt: skip
    return frames


def _counters(own: pl.DataFrame) -> list[pl.DataFrame]:
    """Shares of packets that the bottleneck's queue dropped and marked, less what it had counted before the run."""
    frames = []
    for direction in ("down", "up"):
        grown = _grown(own, f"queue-{direction}")
        total = pl.col("sent_packets") + pl.col("drops")
        for counter, measure in (("drops", "drops"), ("marks", "marks")):
            share = grown.filter(total > 0).select(
                "recording", metric=pl.lit(f"{measure}-{direction}"), value=100 * pl.col(counter) / total,
                censored=pl.lit(value=False),
            )  # fmt: skip
            frames.append(share.drop_nulls("value").filter(pl.col("value").is_between(0, 100)))
    return frames


def _grown(own: pl.DataFrame, name: str) -> pl.DataFrame:
    """Counters of an output of `tc`; those that fell were reset in between, and began at 0."""
    frame = pl.DataFrame(schema={"recording": pl.String()})
    for counter in ("sent_packets", "drops", "marks"):
        after, before = (
            own.filter(pl.col("metric") == f"{output}.{counter}").select("recording", pl.col("value").alias(column))
            for output, column in ((name, counter), (f"{name}-before", "before"))
        )
        found = after.join(before, on="recording", how="left")
        growth = pl.col(counter) - pl.col("before").fill_null(0.0)
        found = found.select("recording", pl.when(growth >= 0).then(growth).otherwise(pl.col(counter)).alias(counter))
        frame = frame.join(found, on="recording", how="full", coalesce=True)
    return frame


def _contain_times(containment: pl.DataFrame, calm_ns: int) -> pl.DataFrame:
    """Seconds from the last start until the delay is contained, or for how long at least it was not."""
    limit = (pl.col("observed_ns") - calm_ns) / _S_NS
    found = containment.select(
        "recording",
        metric=pl.lit(CONTAIN),
        value=pl.coalesce(pl.col("contained_ns") / _S_NS, limit),
        censored=pl.col("contained_ns").is_null(),
    )
    return found.filter(pl.col("value") >= 0)


def _object(text: str | None) -> dict[str, Any]:
    found = _json(text)
    return found if isinstance(found, dict) else {}


def _list(text: str | None) -> list[str]:
    found = _json(text)
    return [str(one) for one in found] if isinstance(found, list) else [str(found)] if found else []


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    """A variable as text; ``None`` where there is none.

    >>> _text("cubic"), _text(50), _text(50.0), _text(True), _text(""), _text({"a": 1})
    ('cubic', '50', '50', 'true', None, None)
    """
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value.strip() or None
        case int() | float():
            return f"{value:.12g}"
        case _:
            return None
