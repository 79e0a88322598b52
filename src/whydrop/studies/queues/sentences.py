"""The study's results in sentences: the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.queues import judging
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.families import WORDS
from whydrop.studies.queues.hypotheses import HYPOTHESES, Hypothesis
from whydrop.studies.queues.measures import CONTAIN, LATENCY, MEASURES
from whydrop.studies.queues.ranking import ALL
from whydrop.text import quantities
from whydrop.text.phrases import listed
from whydrop.text.quantities import count, plural, significant, with_unit

if TYPE_CHECKING:
    from whydrop.studies.queues.study import Results

TITLE = "Which queue for which line"
_MOST_NAMED = 4
_CONCLUSIONS = {
    judging.SUPPORTED: "Supported",
    judging.CONTRADICTED: "Contradicted",
    judging.OPEN: "Open",
    judging.NOT_MEASURED: "Not measured",
}


def name(queue: str) -> str:
    """A queue as people write it.

    >>> name("fq_codel"), name("mine")
    ('FQ-CoDel', 'mine')
    """
    return WORDS.get(queue, queue)


def value(metric: str, number: float, *, censored: bool = False) -> str:
    """A measure with its unit; of a lower bound with ``>``.

    >>> value("induced-latency", 4.123), value("contain-time", 29.0, censored=True), value("fairness-down", 0.98765)
    ('4.12\\xa0ms', '>\\xa029.0\\xa0s', '0.988')
    """
    unit = MEASURES[metric].unit
    text = significant(number)
    return f"{'>' + quantities.NO_BREAK if censored else ''}{with_unit(text, unit) if unit else text}"


def summary(results: Results) -> list[str]:
    """The answer first, then each line, then the hypotheses."""
    return [*answer(results), *hypotheses(results)]


def answer(results: Results) -> list[str]:
    """Which queue for each line, and how sure that is."""
    if not results.facts["used"]:
        return ["The store has no recording of this experiment that can be used."]
    found = list(_lines(results))
    if not results.tables["medians"].filter(pl.col("metric") == LATENCY).height:
        return ["No run has an induced latency, so nothing shows which queue suits a line."]
    return found if found else ["No two queues were measured under the same conditions."]


def _lines(results: Results) -> Iterator[str]:
    ranks = results.tables["ranks"].filter(pl.col("metric") == LATENCY)
    groups = ranks.select("by", "group").unique(maintain_order=True).rows()
    # Of one line alone, all conditions are those of the line.
    lines = [group for by, group in groups if by != ALL]
    if len(lines) != 1:
        groups = [pair for pair in groups if pair[0] == ALL] + [pair for pair in groups if pair[0] != ALL]
    else:
        groups = [pair for pair in groups if pair[0] != ALL]
    for by, group in groups:
        own = ranks.filter(pl.col("by") == by, pl.col("group") == group)
        yield _ranked(results, by, group, own)
    yield from _unranked(results, set(lines))


def _ranked(results: Results, by: str, group: str, rows: pl.DataFrame) -> str:
    conditions = max(rows["strata"].to_list())
    where = f"Over all conditions ({conditions})" if by == ALL else f"{by} {group}"
    where = where[0].upper() + where[1:]
    best = rows.filter(pl.col("rank") == 1).to_dicts()
    others = rows.filter(pl.col("rank") > 1).to_dicts()
    alike = [f"{name(row['queue'])} ({value(LATENCY, row['mean'])})" for row in best[1:]]
    text = f"{where}: {name(best[0]['queue'])} has the lowest induced latency ({value(LATENCY, best[0]['mean'])})"
    if alike:
        text += f", not distinguished from {listed(alike, most=_MOST_NAMED)}"
    if not others:
        return f"{text}. No queue is distinguished from another."
    worse = [others[0], others[-1]] if len(others) > 1 else others
    parts = [f"{name(row['queue'])} has {_times(row)}" for row in worse]
    return f"{text}; {' and '.join(parts)} as much.{_price(results, by, group, best)}"


def _times(row: Mapping[str, Any]) -> str:
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return f"{significant(row['ratio'])} times (interval unknown)"
    interval = quantities.interval(significant, row["ratio_low"], row["ratio_high"])
    return f"{significant(row['ratio'])} ({interval}) times"


def _price(results: Results, by: str, group: str, best: list[dict[str, Any]]) -> str:
    """Goodput that the queues of the lowest latency lack against the best."""
    ranks = results.tables["ranks"].filter(pl.col("by") == by, pl.col("group") == group, pl.col("rank") > 1)
    said = []
    for direction in ("down", "up"):
        rows = ranks.filter(
            pl.col("metric") == f"goodput-{direction}", pl.col("queue").is_in([row["queue"] for row in best])
        )
        for row in rows.iter_rows(named=True):
            said.append(f"{name(row['queue'])} has {quantities.percent(row['ratio'])} of the best goodput {direction}")
    return f" {'; '.join(said[:_MOST_NAMED])}." if said else ""


def _unranked(results: Results, ranked: set[str]) -> Iterator[str]:
    """Lines of which no model could be fitted: medians, without an order."""
    strata = results.parameters.strata
    medians = results.tables["medians"].filter(pl.col("metric") == LATENCY)
    if not strata:
        return
    lines = sorted(set(medians[strata[0]]) - ranked, key=line_key)
    for line in lines:
        own = medians.filter(pl.col(strata[0]) == line).group_by("queue", maintain_order=True)
        found = own.agg(pl.col("median").median()).sort("median").head(_MOST_NAMED)
        parts = [f"{name(queue)} {value(LATENCY, number)}" for queue, number in found.iter_rows()]
        where = f"{strata[0].capitalize()} {line}"
        if found.height == 1:
            yield f"{where}: only one queue was measured; median of induced latency: {parts[0]}."
            continue
        yield (
            f"{where}: no ranking, because these runs do not show how runs vary; lowest medians of induced latency: "
            f"{listed(parts)}."
        )


def hypotheses(results: Results) -> list[str]:
    """One sentence for each: its conclusion, the statement, and its numbers."""
    return [hypothesis(results, row) for row in results.tables["hypotheses"].iter_rows(named=True)]


def hypothesis(results: Results, row: Mapping[str, Any]) -> str:
    """The sentence of one row of the table of hypotheses."""
    checks = results.tables["checks"].filter(pl.col("hypothesis") == row["hypothesis"], pl.col("decides"))
    head = f"{_CONCLUSIONS[row['conclusion']]}: {row['title']}"
    if not checks.height:
        conditions = f" Conditions {row['conditions']}." if row["conditions"] else ""
        return f"{head}{conditions} ({row['source']})"
    numbers = "; ".join(_numbers(row["metric"], checks))
    missing = f" Not measured: {', '.join(map(name, row['missing'].split('; ')))}." if row["missing"] else ""
    where = f" Measured at {row['conditions']}." if row["conditions"] else ""
    target = results.parameters.target_ms
    contained = f" Contained: at most {value(LATENCY, target)}." if row["metric"] == CONTAIN else ""
    return f"{head} {numbers}.{missing}{contained}{where} ({row['source']})"


def _numbers(metric: str, checks: pl.DataFrame) -> Iterator[str]:
    hypothesis_of = {one.key: one for one in HYPOTHESES}
    if (checks["against"] == "").all():
        for row in checks.iter_rows(named=True):
            middle = value(metric, row["median"], censored=row["censored"])
            runs = f"{count(row['within'])} of {plural(row['runs'], 'run')}"
            yield f"{name(row['queue'])}: median {middle}, {runs} {_limits(hypothesis_of[row['hypothesis']])}"
        return
    counts = checks["conclusion"].value_counts()
    number_of = dict(counts.iter_rows())
    parts = [
        f"{number_of[one]} {one}" for one in (judging.SUPPORTED, judging.CONTRADICTED, judging.OPEN) if one in number_of
    ]
    yield f"{plural(checks.height, 'comparison')}: {', '.join(parts)}"
    # The one that is nearest to failing, or failed most.
    worst = checks.sort(pl.col("p_for").fill_null(1.0), descending=True, maintain_order=True).row(0, named=True)
    yield (
        f"the least certain: {name(worst['queue'])} {value(metric, worst['median'])} against {name(worst['against'])} "
        f"{value(metric, worst['median_against'])}{_estimate(worst)}"
    )


def _limits(one: Hypothesis) -> str:
    least, most = one.limits
    if least is None or most is None:
        bound = least if most is None else most
        return f"{'at least' if most is None else 'at most'} {value(one.metric, bound or 0.0)}"
    return f"from {quantities.interval(lambda end: value(one.metric, end), least, most)}"


def _estimate(row: Mapping[str, Any]) -> str:
    known = row["low"] is not None and row["high"] is not None
    ends = quantities.interval(significant, row["low"], row["high"]) if known else ""
    interval = f", 95 % interval {ends}" if known else f"; {row['method']}"
    return f" ({row['estimate_of']} {significant(row['estimate'])}{interval})"


def contain(row: Mapping[str, Any]) -> str:
    """The median time to contain of a cell."""
    return value(CONTAIN, row["median"], censored=row["censored"])
