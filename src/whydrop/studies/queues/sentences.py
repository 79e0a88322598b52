"""The study's results in sentences: the answer first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.recording.statistics.medians import ORDERED_FROM
from whydrop.studies.queues import judging
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.families import WORDS
from whydrop.studies.queues.hypotheses import Hypothesis, hypothesis_of
from whydrop.studies.queues.measures import CONTAIN, LATENCY, MEASURES
from whydrop.studies.queues.ranking import ALL
from whydrop.text import quantities
from whydrop.text.phrases import listed
from whydrop.text.quantities import count, plural, significant, with_unit

if TYPE_CHECKING:
    from whydrop.studies.queues.study import Results

TITLE = "Which queue for which line"
_MOST_NAMED = 4
# Delays are known in steps of this length: a time to contain has no finer resolution.
CONTAIN_STEP_S = 0.1
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

    >>> value("induced-latency", 4.123), value("fairness-down", 0.98765)
    ('4.12\\xa0ms', '0.988')
    """
    return in_unit(metric, written(metric, number, censored=censored))


def in_unit(metric: str, text: str) -> str:
    """A number's text with the unit of the measure."""
    unit = MEASURES[metric].unit
    return with_unit(text, unit) if unit else text


def written(metric: str, number: float, *, censored: bool = False) -> str:
    """A measure without its unit: times to contain with the resolution that they have.

    >>> [written("contain-time", time).replace("\\xa0", " ") for time in (0.06, 3.08)]
    ['≤ 0.1', '3.1']
    >>> written("contain-time", 28.97, censored=True).replace("\\xa0", " ")
    '> 28.9'
    """
    if metric != CONTAIN:
        return significant(number)
    if censored:
        # A bound is not rounded up.
        return f">{quantities.NO_BREAK}{math.floor(number / CONTAIN_STEP_S + 1e-6) * CONTAIN_STEP_S:.1f}"
    return f"≤{quantities.NO_BREAK}{CONTAIN_STEP_S}" if number <= CONTAIN_STEP_S else f"{number:.1f}"


def written_interval(metric: str, low: float | None, high: float | None) -> str:
    """An interval of a measure without its unit; a dash where it is not known.

    >>> written_interval("induced-latency", 1.0, 2.0), written_interval("contain-time", 15.0, None)
    ('1.00 to 2.00', '15.0 or more')
    """
    if low is None:
        return "–"
    if high is None:
        return f"{written(metric, low)} or more"
    return quantities.interval(lambda end: written(metric, end), low, high)


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
    for number, (by, group) in enumerate(groups):
        own = ranks.filter(pl.col("by") == by, pl.col("group") == group)
        yield from _ranked(results, by, group, own, is_first=number == 0)
    yield from _unranked(results, set(lines))


def _ranked(results: Results, by: str, group: str, rows: pl.DataFrame, *, is_first: bool) -> Iterator[str]:
    """The queues of the lowest latency, then the others and the price: as two sentences where it is the headline."""
    conditions = max(rows["strata"].to_list())
    where = f"all conditions ({conditions})" if by == ALL else f"{by} {group}"
    best = rows.filter(pl.col("rank") == 1).to_dicts()
    others = rows.filter(pl.col("rank") > 1).to_dicts()
    alike = [f"{name(row['queue'])} ({value(LATENCY, row['mean'])})" for row in best[1:]]
    apart = f", not distinguished from {listed(alike, _MOST_NAMED)}" if alike else ""
    lowest = f"{name(best[0]['queue'])} has the lowest induced latency ({value(LATENCY, best[0]['mean'])}){apart}."
    details = [_higher(best[0], others), *_price(results, by, group, best)]
    if is_first:
        yield f"{where[0].upper()}{where[1:]}: {lowest}"
        yield " ".join(details)
    else:
        yield f"{where[0].upper()}{where[1:]}: {' '.join([lowest, *details])}"


def _higher(best: Mapping[str, Any], others: list[dict[str, Any]]) -> str:
    if not others:
        return "No queue is distinguished from another."
    first = f"{_times(others[0])} times that of {name(best['queue'])}"
    if len(others) == 1:
        return f"{name(others[0]['queue'])} has higher latency: {first} ({_interval(others[0])})."
    return (
        f"{count(len(others))} queues have higher latency, from {name(others[0]['queue'])} ({first}, "
        f"{_interval(others[0])}) to {name(others[-1]['queue'])} ({_times(others[-1])} times, {_interval(others[-1])})."
    )


def _times(row: Mapping[str, Any]) -> str:
    return significant(row["ratio"])


def _interval(row: Mapping[str, Any]) -> str:
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return "interval unknown"
    return f"95 % interval {quantities.interval(significant, row['ratio_low'], row['ratio_high'])}"


def _price(results: Results, by: str, group: str, best: list[dict[str, Any]]) -> Iterator[str]:
    """Goodput that the queues of the lowest latency lack against the best."""
    ranks = results.tables["ranks"].filter(pl.col("by") == by, pl.col("group") == group)
    queues = [row["queue"] for row in best]
    for direction in ("down", "up"):
        rows = ranks.filter(pl.col("metric") == f"goodput-{direction}")
        lacking = rows.filter(pl.col("rank") > 1, pl.col("queue").is_in(queues)).rows(named=True)
        if lacking:
            parts = [f"{name(row['queue'])} {quantities.percent(row['ratio'])}" for row in lacking[:_MOST_NAMED]]
            yield f"Goodput {direction}, relative to {name(rows['queue'][0])}, which has the highest: {listed(parts)}."


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
    source = f"({row['source']}; {row['hypothesis']})"
    if not checks.height:
        conditions = f" Conditions {row['conditions']}." if row["conditions"] else ""
        return f"{head}{conditions} {source}"
    one = hypothesis_of(row["hypothesis"])
    numbers = _counted(one, checks) if (checks["against"] == "").all() else _compared(one, checks)
    missing = f" Not measured: {', '.join(map(name, row['missing'].split('; ')))}." if row["missing"] else ""
    strata = ", ".join(results.parameters.strata)
    where = f" Measured ({strata}): {row['conditions']}." if row["conditions"] else ""
    target = value(LATENCY, results.parameters.target_ms)
    contained = f" Contained: at most {target}." if row["metric"] == CONTAIN else ""
    return f"{head} {numbers}{missing}{contained}{where} {source}"


def _counted(one: Hypothesis, checks: pl.DataFrame) -> str:
    """How many runs of each queue lie within the limits."""
    parts = []
    for row in checks.iter_rows(named=True):
        middle = value(one.metric, row["median"], censored=row["censored"])
        runs = f"{count(row['within'])} of {plural(row['runs'], 'run')}"
        parts.append(f"{name(row['queue'])}: {runs} {limits(one)} (median {middle})")
    is_few = any(row["runs"] < ORDERED_FROM and row["conclusion"] == judging.OPEN for row in checks.to_dicts())
    few = f" Fewer than {ORDERED_FROM} runs of a queue decide nothing." if is_few else ""
    return f"{'; '.join(parts)}.{few}"


def _compared(one: Hypothesis, checks: pl.DataFrame) -> str:
    """How many comparisons support the statement, and the one that is nearest to failing, or failed most."""
    number_of = dict(checks["conclusion"].value_counts().iter_rows())
    parts = [
        f"{number_of[conclusion]} {_CONCLUSIONS[conclusion].lower()}"
        for conclusion in (judging.SUPPORTED, judging.CONTRADICTED, judging.OPEN)
        if conclusion in number_of
    ]
    worst = checks.sort(pl.col("p_for").fill_null(1.0), descending=True, maintain_order=True).row(0, named=True)
    which = "the weakest: " if checks.height > 1 else ""
    return (
        f"{plural(checks.height, 'comparison')}: {', '.join(parts)}; {which}"
        f"{name(worst['queue'])} {value(one.metric, worst['median'])}, {name(worst['against'])} "
        f"{value(one.metric, worst['median_against'])}, {_estimate(worst)}."
    )


def limits(one: Hypothesis) -> str:
    """The limits of a hypothesis with their unit."""
    least, most = one.limits
    if least is None or most is None:
        bound = least if most is None else most
        return f"{'at least' if most is None else 'at most'} {in_unit(one.metric, f'{bound:g}')}"
    return f"within {in_unit(one.metric, f'{least:g} to {most:g}')}"


def _estimate(row: Mapping[str, Any]) -> str:
    known = row["low"] is not None and row["high"] is not None
    ends = quantities.interval(significant, row["low"], row["high"]) if known else ""
    interval = f"95 % interval {ends}" if known else row["method"]
    return f"{row['estimate_of']} {significant(row['estimate'])} ({interval}; claimed: above {row['claimed']:g})"
