"""The study's results in sentences: the answer first, and nothing that a number of the tables does not back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards import phrases
from whydrop.studies.discards.results import UNSURE
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Change, Parameters
    from whydrop.studies.discards.study import Results

# For more sites than this, tables replace sentences.
_MOST_LINES = 6
# Below this share of covered time a figure is said to rest on gaps.
_WELL_COVERED = 0.95
# A share of speed that need not be spoken of.
_NO_OWN_CHANGE = 0.005
# Numbers of tests per client that differ by more between the periods shift the largest speed by themselves.
_UNEQUAL_TESTS = 1.15

# Of a conclusion that no placebos were there to hold against.
_UNLESS = ", unless sites change by themselves"

Row = dict[str, Any]


def summary(results: Results) -> list[str]:
    """Sentences for people, the answer first."""
    return [*answer(results), *findings(results), *caveats(results), *results.notes]


def answer(results: Results) -> list[str]:
    """The answer to the study's question: whether clients' speeds changed when the switches' discards did."""
    return [*verdict(results), *_by_site(results)]


def verdict(results: Results) -> list[str]:
    """The answer without the numbers of each site, for where tables show these."""
    change = results.parameters.change
    if change is None:
        return []
    if results.parameters.definitions == "published":
        return _published_answer(results.tables["comparisons"], change)
    failed = results.facts.get("failed", {})
    if "discard_ratio" in failed:
        return [f"{_asked(change)} is unknown: figure 3, discards, could not be computed."]
    speeds = _means(results)
    lines = _verdict(speeds, _discards_of(results, change), change)
    if not speeds and "client_speeds" not in failed:
        least = f"more than {change.more_tests_than} tests in each of the two periods"
        lines.append(f"Speeds cannot be compared: no client has {least}.")
    return lines


def _by_site(results: Results) -> list[str]:
    change = results.parameters.change
    if change is None or results.parameters.definitions == "published":
        return []
    return [
        *_discards_then(_discards_of(results, change)),
        *_speeds_then(_means(results), change),
        *largest_differ(results),
    ]


def _means(results: Results) -> dict[str, Row]:
    return {row["site"]: row for row in _of_statistic(results.tables["comparisons"], "mean")}


def _discards_of(results: Results, change: Change) -> dict[str, Row]:
    return {row["site"]: row for row in _changed_sites(results.tables["discard_changes"], change)}


def _asked(change: Change) -> str:
    return f"Whether discards keep downloads slow{phrases.at_metros(change.metros)}"


def findings(results: Results) -> list[str]:
    """The further findings that the figures show."""
    tables = results.tables
    lines = []
    lines += _utilisation(tables["utilisation"])
    lines += _discards(tables["discard_ratio"], results.parameters)
    lines += _retransmissions(tables["retransmission_ratio"], tables["discard_ratio"], results.parameters)
    lines += exposure(results)
    return lines


def caveats(results: Results) -> list[str]:
    """Caveats on the numbers, where they matter to what was said."""
    tables, change = results.tables, results.parameters.change
    lines: list[str] = []
    if change is not None and results.parameters.definitions == "corrected":
        lines += _placebo(tables["placebo_comparisons"], tables["comparisons"])
        lines += _controls(tables["discard_changes"], change)
        lines += _tests_per_client(tables["client_speeds"])
        if not tables["comparisons"].is_empty():
            lines.append(
                "Whatever else happened to these clients between the two periods (a season, a faster access network) "
                "is part of the difference."
            )
    lines += _coverage(tables["utilisation"])
    return lines


# --- the answer ---


def _verdict(speeds: dict[str, Row], discards: dict[str, Row], change: Change) -> list[str]:
    """The one sentence: sites where discards surely changed, and what their clients' speeds did."""
    moved = {site: row for site, row in discards.items() if row["conclusion"] in ("fewer", "more")}
    asked = _asked(change)
    if not moved:
        if not discards or all(row["conclusion"] == "no-data" for row in discards.values()):
            return [f"{asked} is unknown: no switch was measured both before and after the change."]
        if all(row["conclusion"] == "none-seen" for row in discards.values()):
            return [f"{asked} does not follow from this change: no switch discarded a packet before or after it."]
        return [f"{asked} does not follow from this change: no switch surely discards more or fewer packets since."]
    margin = f"{quantities.significant(change.equivalence_margin * 100, 2)} %"
    lines = []
    for direction, hoped, feared in (("fewer", "faster", "slower"), ("more", "slower", "faster")):
        since = f"the switch discards {direction} packets since the change"
        for word, text in (
            (
                "same",
                "Discards did not keep downloads slow at {}: " + f"{since}, and speeds are the same within {margin}.",
            ),
            (hoped, f"At {{}} {since}, and clients are {hoped}: as far as nothing else changed, discards matter."),
            (feared, f"At {{}} {since}, and yet clients are {feared}: something else has changed."),
            ("undecided", f"At {{}} {since}; what that did to clients' speeds is undecided."),
        ):
            sites = [site for site, row in moved.items() if row["conclusion"] == direction]
            sites = [site for site in sites if _conclusion(speeds, site) == word]
            if not sites:
                continue
            unsure = any(speeds[site]["conclusion"].endswith(UNSURE) for site in sites if site in speeds)
            said = text if not unsure else _without_placebos(word, since, margin)
            # Names come from files: what braces they hold is theirs.
            lines.append(said.replace("{}", phrases.names(sites)))
    return lines


def _without_placebos(word: str, since: str, margin: str) -> str:
    """The same of speeds that are not known to keep still by themselves, which claims less."""
    if word == "same":
        return (
            f"As far as nothing else changed, discards did not keep downloads slow at {{}}: {since}, and speeds are "
            f"the same within {margin}."
        )
    return (
        f"At {{}} {since}, and clients are {word}; but how much speeds change by themselves is not known, so that this "
        "need not be the change's doing."
    )


def _conclusion(speeds: dict[str, Row], site: str) -> str:
    return str(speeds[site]["conclusion"]).removesuffix(UNSURE) if site in speeds else "undecided"


def _discards_then(discards: dict[str, Row]) -> list[str]:
    """The switches' discards before and after, by conclusion."""
    lines = []
    for word in ("fewer", "more"):
        for row in _rows(discards, word)[:_MOST_LINES]:
            before, after = phrases.per_million(row["ratio_before"]), phrases.per_million(row["ratio_after"])
            lines.append(f"{row['site']}: {before} discarded before, {after} after{phrases.factor(row)}.")
        rest = len(_rows(discards, word)) - _MOST_LINES
        if rest > 0:
            lines.append(f"And {word} at {rest} more sites (table discard_changes).")
    for word, text in (
        ("undecided", "whether discards changed is undecided"),
        ("none-seen", "no discards in either period"),
        ("no-data", "the switch was not measured in both periods"),
    ):
        sites = [row["site"] for row in _rows(discards, word)]
        if sites:
            lines.append(f"{phrases.names(sites)}: {text}.")
    return lines


def _speeds_then(speeds: dict[str, Row], change: Change) -> list[str]:
    """Clients' speeds before and after, by conclusion."""
    lines = []
    for word in ("faster", "slower", "faster" + UNSURE, "slower" + UNSURE):
        unless = _UNLESS if word.endswith(UNSURE) else ""
        for row in _rows(speeds, word)[:_MOST_LINES]:
            lines.append(
                f"{row['site']}: the same clients are {phrases.faster(row['ratio'])} after the change "
                f"(median of {phrases.clients(row['before'])}{phrases.percent_interval(row)}){unless}."
            )
        rest = len(_rows(speeds, word)) - _MOST_LINES
        if rest > 0:
            lines.append(f"And {word} at {rest} more sites (table comparisons).")
    for word in ("same", "same" + UNSURE):
        same = _rows(speeds, word)
        if not same:
            continue
        unless = _UNLESS if word.endswith(UNSURE) else ""
        ratios = [row["ratio"] for row in same]
        margin = quantities.significant(change.equivalence_margin * 100, 2)
        median = (
            f"between {phrases.faster(min(ratios))} and {phrases.faster(max(ratios))}"
            if len(same) > 1
            else phrases.faster(ratios[0])
        )
        lines.append(
            f"{phrases.names([row['site'] for row in same])}: clients' speeds are the same within {margin} % "
            f"(median: {median}){unless}."
        )
    for row in _rows(speeds, "undecided")[:_MOST_LINES]:
        lines.append(f"{row['site']}: undecided{_why_undecided(row)}.")
    rest = len(_rows(speeds, "undecided")) - _MOST_LINES
    if rest > 0:
        lines.append(f"And undecided at {rest} more sites (table comparisons).")
    return lines


def _why_undecided(row: Row) -> str:
    pairs = row["before"]
    if row["ratio"] is None or not pairs or not row["after"]:
        return f" ({phrases.clients(row['before'])} before, {phrases.clients(row['after'])} after)"
    if row["detectable_ratio"] is None:
        return f" ({phrases.clients(pairs)}: too few to detect a change)"
    return (
        f" (median {phrases.faster(row['ratio'])}{phrases.percent_interval(row)}; {phrases.clients(pairs)} would show "
        f"a change from about "
        f"{quantities.significant((row['detectable_ratio'] - 1) * 100, 2)} % on)"
    )


def largest_differ(results: Results) -> list[str]:
    """Sites where the clients' largest speeds say otherwise than their means."""
    comparisons = results.tables["comparisons"]
    means = {row["site"]: row["conclusion"] for row in _of_statistic(comparisons, "mean")}
    other = [
        f"{row['site']} ({row['conclusion']}, by mean {means.get(row['site'])})"
        for row in _of_statistic(comparisons, "max")
        if row["conclusion"] != means.get(row["site"])
    ]
    return (
        [f"By each client's largest speed instead of its mean the conclusion is another at {phrases.some(other)}."]
        if other
        else []
    )


def _published_answer(comparisons: pl.DataFrame, change: Change) -> list[str]:
    """In the report's own terms, with what they do not mean."""
    tested = comparisons.filter(pl.col("ks_p").is_not_null())
    if tested.is_empty():
        return ["As published: no client has enough tests in both periods for a comparison."]
    rejected = tested.filter(pl.col("conclusion") == "rejected")
    level = quantities.significant(change.significance, 1)
    if rejected.is_empty():
        text = (
            f"As published: none of {tested.height} comparisons of speeds before and after is rejected at p < {level} "
            f"(smallest p {quantities.significant(float(tested['ks_p'].min()), 2)}). "  # type: ignore[arg-type]
            "That a test fails to reject does not show that speeds are the same."
        )
    else:
        which = [
            f"{row['site']} ({row['statistic']}, p = {phrases.p_value(row['ks_p'])})"
            for row in rejected.iter_rows(named=True)
        ]
        many = f"{rejected.height} of {tested.height} comparisons of speeds are rejected at p < {level}"
        text = f"As published: {many}: {phrases.some(which)}."
    return [text, "As published, p is not corrected for their number."]


# --- what else ---


def _utilisation(frame: pl.DataFrame) -> list[str]:
    sites = frame.drop_nulls("rate_bps").group_by("site").agg(pl.col("rate_bps").max(), pl.len().alias("days"))
    if sites.is_empty():
        return []
    top = frame.drop_nulls("rate_bps").sort("rate_bps", "site", "day").row(-1, named=True)
    return [
        f"Utilisation: {phrases.number(sites.height, 'site')}, "
        f"{phrases.number(frame.height, 'day of a site', 'days of sites')}; "
        f"the busiest is {top['site']} on {top['day']} with {quantities.rate(top['rate_bps'])} at its median sample."
    ]


def _discards(frame: pl.DataFrame, parameters: Parameters) -> list[str]:
    sites = (
        frame.filter(pl.col("packets") > 0)
        .group_by("site")
        .agg(
            pl.col("discards").sum(),
            pl.col("packets").sum(),
            (pl.col("discards") > 0).sum().alias("with"),
            pl.len().alias("days"),
        )
        .with_columns(ratio=pl.col("discards") / pl.col("packets"))
        .sort("ratio", "site", descending=[True, False])
    )
    if sites.is_empty():
        return []
    top = sites.row(0, named=True)
    kept = "the days that the published definition keeps" if parameters.definitions == "published" else "all its days"
    if not top["discards"]:
        return [f"Discards: none on any day of {phrases.number(sites.height, 'site')}."]
    days, some = int(sites["days"].sum()), int(sites["with"].sum())
    none = [row["site"] for row in sites.filter(pl.col("discards") == 0).iter_rows(named=True)]
    line = (
        f"Discards: most at {top['site']}, {phrases.per_million(top['ratio'])} over {kept}; there was one "
        f"or more on {quantities.count(some)} of {quantities.count(days)} days of sites"
    )
    return [f"{line}; none at {phrases.names(none)}." if none else f"{line}."]


def _retransmissions(sent_again: pl.DataFrame, discards: pl.DataFrame, parameters: Parameters) -> list[str]:
    if parameters.definitions == "published":
        # A median of clients' largest ratios must not be compared with a ratio of sums.
        return []
    own = (
        sent_again.filter(pl.col("segments") > 0)
        .group_by("site")
        .agg(pl.col("retransmitted").sum(), pl.col("segments").sum())
    )
    dropped = (
        discards.filter(pl.col("packets") > 0).group_by("site").agg(pl.col("discards").sum(), pl.col("packets").sum())
    )
    if own.is_empty():
        return []
    again = float(own["retransmitted"].sum()) / float(own["segments"].sum())
    line = f"Retransmissions: {phrases.percent(again)} of all segments of downloads are retransmitted"
    both = own.join(dropped, on="site").filter(pl.col("discards") > 0)
    factors = [
        (row["retransmitted"] / row["segments"]) / (row["discards"] / row["packets"])
        for row in both.iter_rows(named=True)
    ]
    if factors:
        low, high = min(factors), max(factors)
        between = (
            phrases.times(high) if len(factors) == 1 else f"{quantities.significant(low, 2)} to {phrases.times(high)}"
        )
        where = phrases.number(len(factors), "site that discards", "sites that discard")
        line += f", {between} what the switches discard at {where} any"
    return [line + "."]


def exposure(results: Results) -> list[str]:
    """How many downloads were exposed to discards, and how fast these were."""
    tests, days, parameters = results.tables["contacts"], results.tables["contact_days"], results.parameters
    counts = {name: int(count) for name, count in days.group_by("class").agg(pl.col("tests").sum()).iter_rows()}
    if not counts and not tests.is_empty():
        counts = {name: int(count) for name, count in tests.group_by("class").len().iter_rows()}
    total = sum(counts.values())
    if not total:
        return []
    exposed, unknown = counts.get("non-zero", 0), counts.get("unknown", 0)
    where = phrases.at_metros(parameters.contact.metros)
    some = f"{quantities.count(exposed)} ({phrases.percent(exposed / total)})"
    line = f"Of {quantities.count(total)} downloads{where} {some} were exposed to discards"
    if parameters.definitions == "published":
        return [f"{line}; as published, tests without samples of the switch during them count as not exposed."]
    rest = f"for {quantities.count(unknown)} ({phrases.percent(unknown / total)}) it is not known"
    known = (
        f"{rest}, as switches were not measured all their time" if unknown else "switches were measured all their time"
    )
    return [f"{line}; {known}.", *_speed_by_exposure(tests)]


def _speed_by_exposure(tests: pl.DataFrame) -> list[str]:
    known = tests.drop_nulls("speed_bps")
    speed = dict(known.group_by("class").agg(pl.col("speed_bps").median()).iter_rows())
    if speed.get("non-zero") is None or speed.get("zero") is None:
        return []
    return [
        f"Exposed downloads ran at {quantities.rate(speed['non-zero'])}, the others at "
        f"{quantities.rate(speed['zero'])} (medians): no proof of a cause, as busy hours bring both "
        "discards and slow downloads."
    ]


# --- what to keep in mind ---


def _placebo(placebos: pl.DataFrame, comparisons: pl.DataFrame) -> list[str]:
    """How much speeds change by themselves."""
    own = comparisons.filter((pl.col("statistic") == "mean") & pl.col("own_change").is_not_null())["own_change"]
    if comparisons.is_empty():
        return []
    if own.is_empty():
        return [
            "It is not known how much speeds change by themselves: too few sites have enough clients in the periods "
            "before these. A fluctuation that all clients of a site share looks like a change: a longer history before "
            "the change would show how large it is."
        ]
    pairs = placebos["before_first"].n_unique()
    when = f"Between {phrases.number(pairs, 'pair')} of periods before the change, when nothing was changed"
    spread = float(own[0]) - 1
    if spread < _NO_OWN_CHANGE:
        return [f"{when}, sites' medians change no more than chance among clients explains."]
    return [
        f"{when}, sites' medians differ by {quantities.significant(spread * 100, 2)} % (standard deviation "
        "beyond chance); intervals are as much wider."
    ]


def _controls(changes: pl.DataFrame, change: Change) -> list[str]:
    if not change.metros:
        return []
    others = [
        row for row in changes.iter_rows(named=True)
        if row["metro"] not in change.metros and row["conclusion"] not in ("no-data", "none-seen")
    ]  # fmt: skip
    moved = [f"{row['site']} ({row['conclusion']})" for row in others if row["conclusion"] in ("fewer", "more")]
    if not others:
        return []
    if not moved:
        return [
            f"Elsewhere, where nothing was changed ({phrases.number(len(others), 'site')}), discards did not surely "
            "change."
        ]
    return [f"Discards also changed where nothing was changed: {phrases.some(moved)}."]


def _tests_per_client(speeds: pl.DataFrame) -> list[str]:
    found = dict(speeds.group_by("period").agg(pl.col("tests").median()).iter_rows())
    before, after = found.get("before"), found.get("after")
    if not before or not after or max(before, after) / min(before, after) < _UNEQUAL_TESTS:
        return []
    return [
        f"Clients made {before:g} tests before and {after:g} after (medians): the "
        "largest of more tests is larger by itself, so trust the means."
    ]


def _coverage(frame: pl.DataFrame) -> list[str]:
    known = frame.drop_nulls("coverage")
    if known.is_empty():
        return []
    covered = float(known["coverage"].mean())  # type: ignore[arg-type]
    if covered >= _WELL_COVERED:
        return []
    return [
        f"Samples cover {phrases.percent(covered)} of the time of the days that have any: days with gaps rest on what "
        "is left."
    ]


# --- rows ---


def _of_statistic(frame: pl.DataFrame, statistic: str) -> Iterable[Row]:
    return frame.filter(pl.col("statistic") == statistic).iter_rows(named=True)


def _changed_sites(frame: pl.DataFrame, change: Change) -> Iterable[Row]:
    return frame.filter(pl.col("metro").is_in(change.metros) if change.metros else True).iter_rows(named=True)


def _rows(rows: dict[str, Row], conclusion: str) -> list[Row]:
    return [row for row in rows.values() if row["conclusion"] == conclusion]
