"""The study's results in sentences: the answer first, and nothing that no number of the tables supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards.bins import ALL
from whydrop.studies.discards.results import UNSURE
from whydrop.text import quantities
from whydrop.text.phrases import fill, listed, table

if TYPE_CHECKING:
    from whydrop.studies.discards.parameters import Change, Parameters
    from whydrop.studies.discards.study import Results

# For more sites than this, tables replace sentences.
_MOST_LINES = 6
# Below this share of covered time a figure is said to be based on days with gaps.
_WELL_COVERED = 0.95
# Speeds that vary less than this without a change are said not to vary.
_NO_OWN_CHANGE = 0.005
# Numbers of tests per client that differ by more between the periods shift the largest speed.
_UNEQUAL_TESTS = 1.15

Row = Mapping[str, Any]

_SENTENCES = table(
    """
    # The answer.
    asked: Whether discards keep downloads slow[ at {metros}]
    not-computed: {asked} is unknown: figure 3, discards, could not be computed.
    not-measured: {asked} is unknown: no switch was measured both before and after the change.
    no-discards: {asked} does not follow from this change: no switch discarded a packet before or after it.
    no-change: {asked} does not follow from this change: no switch discards significantly more or fewer packets since.
    no-clients: Speeds cannot be compared: no client has more than {more_tests_than|test} in each of the two periods.
    same: [unsure?If nothing else changed, discards|Discards] did not keep downloads slow at {sites}: the switch
        discards {direction} packets since the change, and speeds are the same within {margin_share}.
    changed: At {sites} the switch discards {direction} packets since the change, [unsure?and clients are {word}. How
        much speeds vary without a change is unknown, so the change need not be the cause.|[expected?and clients are
        {word}: if nothing else changed, discards matter.|but clients are {word}: something else has changed.]]
    undecided: At {sites} the switch discards {direction} packets since the change; its effect on clients' speeds is
        undecided.
    more: And {conclusion} at {more|more site} (table {table}).

    # Discards by site.
    discards-site: {site}: discards were {before} before the change, {after} after it[ ({times} times as many[,
        95 % interval {interval}])].
    discards-undecided: {sites}: whether discards changed is undecided.
    discards-none-seen: {sites}: no discards in either period.
    discards-no-data: {sites}: the switch was not measured in both periods.

    # Speeds by site.
    speeds-site: {site}: the same clients are {speed} after the change (median of {before|client}[; 95 % interval
        {interval}])[unsure?, unless speeds vary as much without a change].
    speeds-same: {sites}: clients' speeds are the same within {margin_share} (median: {median})[unsure?, unless speeds
        vary as much without a change].
    speeds-undecided: {site}: undecided ([pairs?[detectable_share?median {speed}[; 95 % interval {interval}];
        {before|client} would show a change of {detectable_share} or more|{before|client}: too few to detect a
        change]|{before|client} before, {after|client} after]).
    largest-differ: By each client's largest speed instead of its mean speed, the conclusion differs at {sites}.

    # The answer as published.
    published-none: As published: no client has enough tests in both periods for a comparison.
    published-not-rejected: As published: none of {tested|comparison} of speeds before and after rejects equality at
        p < {level} (smallest {p}). That a test fails to reject does not show that speeds are the same.
    published-rejected: As published: {rejected} of {tested|comparison} of speeds reject equality at p < {level}:
        {which}.
    published-p: As published, p is not corrected for the number of comparisons.

    # Further findings.
    utilisation: Utilisation: {sites|site}, {days|site-day}; the busiest is {site} on {day} with {rate_bps} at its
        median sample.
    discards: Discards: most at {site}, {most} over {kept}; {with} of {days|site-day} have discards[; none
        at {without}].
    no-discards-at-all: Discards: none on any day of {sites|site}.
    retransmissions: Retransmissions: {again_share} of all segments of downloads are retransmitted[, {times} times the
        share that the switches discard at {dropping|site} with discards].
    exposure: Of {total|download}[ at {metros}], {exposed} ({exposed_share}) were exposed to discards;
        [published?as published, tests without samples of the switch during them count as not
        exposed|[unknown?for {unknown} ({unknown_share}) it is unknown, as switches were not measured all the
        time|switches were measured all the time]].
    exposed-speed: Exposed downloads ran at {exposed_bps}, the others at {others_bps} (medians). This proves no cause:
        busy hours bring both discards and slow downloads.

    # Caveats.
    placebo-unknown: It is unknown how much speeds vary without a change: too few sites have enough clients in the
        periods before these. A fluctuation that all clients of a site share looks like a change. A longer history
        before the change would show how large it is.
    placebo: Between {pairs|pair of periods} before the change, when nothing was changed, sites' medians
        [spread_share?differ by {spread_share} (standard deviation beyond chance); intervals are wider by
        it.|differ no more than chance among clients explains.]
    controls: [sites?Discards also changed where nothing was changed: {sites}.|At {others|site} where nothing was
        changed, discards did not change significantly.]
    tests-per-client: Clients made {before} tests before and {after} after (medians). The largest of more tests is
        larger by chance alone: prefer the means.
    anything-else: Anything else that happened to these clients between the two periods (a season, a faster access
        network) is part of the difference.
    coverage: Samples cover {covered_share} of the time of the days that have any. The numbers of a day with gaps are
        from the rest of the day.
    """
)


def summary(results: Results) -> list[str]:
    """Sentences for people, the answer first."""
    return [*answer(results), *findings(results), *caveats(results), *results.notes]


def answer(results: Results) -> list[str]:
    """The answer to the study's question: whether clients' speeds changed when the switches' discards did."""
    change = results.parameters.change
    if change is None or results.parameters.is_published:
        return verdict(results)
    by_site = (*_discards_by_site(_discards_of(results, change)), *_speeds_by_site(_means(results), change))
    return [*verdict(results), *by_site, *largest_differ(results)]


def verdict(results: Results) -> list[str]:
    """The answer without the numbers of each site, for where tables show these."""
    change = results.parameters.change
    if change is None:
        return []
    if results.parameters.is_published:
        return list(_published_answer(results.tables["comparisons"], change))
    failed = results.facts.get("failed", {})
    if "discard_ratio" in failed:
        return [_say("not-computed", asked=_asked(change))]
    speeds = _means(results)
    lines = list(_verdict(speeds, _discards_of(results, change), change))
    if not speeds and "client_speeds" not in failed:
        lines.append(_say("no-clients", more_tests_than=change.more_tests_than))
    return lines


def findings(results: Results) -> list[str]:
    """The further findings that the figures show."""
    tables, parameters = results.tables, results.parameters
    return [
        *_utilisation(tables["utilisation"]),
        *_discards(tables["discard_ratio"], parameters),
        *_retransmissions(tables["retransmission_ratio"], tables["discard_ratio"], parameters),
        *exposure(results),
    ]


def caveats(results: Results) -> list[str]:
    """Caveats on the numbers, where they matter to the answer."""
    tables, change = results.tables, results.parameters.change
    lines: list[str] = []
    if change is not None and not results.parameters.is_published:
        lines += _placebo(tables["placebo_comparisons"], tables["comparisons"])
        lines += _controls(tables["discard_changes"], change)
        lines += _tests_per_client(tables["client_speeds"])
        if not tables["comparisons"].is_empty():
            lines.append(_say("anything-else"))
    covered = tables["utilisation"]["coverage"].mean()
    if isinstance(covered, float) and covered < _WELL_COVERED:
        lines.append(_say("coverage", covered_share=covered))
    return lines


def largest_differ(results: Results) -> list[str]:
    """Sites where the clients' largest speeds give another conclusion than their means."""
    means = _means(results)
    other = [
        f"{row['site']} ({row['conclusion']}, by mean {means.get(row['site'], {}).get('conclusion')})"
        for row in _of_statistic(results, "max")
        if row["conclusion"] != means.get(row["site"], {}).get("conclusion")
    ]
    return [_say("largest-differ", sites=_names(other))] if other else []


def exposure(results: Results) -> list[str]:
    """How many downloads were exposed to discards, and how fast these were."""
    tests, days, parameters = results.tables["contacts"], results.tables["contact_days"], results.parameters
    counts = dict(days.group_by("class").agg(pl.col("tests").sum()).iter_rows())
    counts = counts or dict(tests.group_by("class").len().iter_rows())
    total, exposed, unknown = sum(counts.values()), counts.get("non-zero", 0), counts.get("unknown", 0)
    if not total:
        return []
    is_published = parameters.is_published
    metros = listed(parameters.contact.metros)
    line = _say(
        "exposure", total=total, exposed=exposed, exposed_share=exposed / total, unknown=unknown,
        unknown_share=unknown / total, metros=metros, published=is_published,
    )  # fmt: skip
    speed = dict(tests.drop_nulls("speed_bps").group_by("class").agg(pl.col("speed_bps").median()).iter_rows())
    if is_published or "zero" not in speed or "non-zero" not in speed:
        return [line]
    return [line, _say("exposed-speed", exposed_bps=speed["non-zero"], others_bps=speed["zero"])]


def per_million(ratio: float) -> str:
    """A ratio of discards to packets.

    >>> per_million(0.000123), per_million(0.0), per_million(0.02).replace(quantities.NO_BREAK, " ")
    ('123 per million packets', 'none', '2 %')
    """
    if ratio >= 0.01:
        return quantities.percent(ratio)
    return f"{quantities.significant(ratio * 1e6)} per million packets" if ratio else "none"


def p_equals(p: float | None) -> str:
    """A p-value with its name.

    >>> [p_equals(p).replace(quantities.NO_BREAK, " ") for p in (0.7654, 0.00004, None)]
    ['p = 0.77', 'p < 0.0001', 'p = unknown']
    """
    text = quantities.p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def faster(ratio: float) -> str:
    """A ratio of speeds after to before.

    >>> [faster(ratio).replace(quantities.NO_BREAK, " ") for ratio in (1.234, 0.8, 1.0, 3.2)]
    ['23 % faster', '20 % slower', 'unchanged', '3.2 times as fast']
    """
    if ratio >= 2:
        return f"{_two_digits(ratio)} times as fast"
    by = round(ratio - 1, 3)
    return f"{quantities.percent(abs(by))} {'faster' if by > 0 else 'slower'}" if by else "unchanged"


# --- the answer ---


def _verdict(speeds: dict[str, Row], discards: dict[str, Row], change: Change) -> Iterator[str]:
    """Sites where discards changed significantly, and the change of their clients' speeds."""
    conclusions = {row["conclusion"] for row in discards.values()}
    if not conclusions & {"fewer", "more"}:
        why = {frozenset({"none-seen"}): "no-discards"}.get(frozenset(conclusions), "no-change")
        yield _say("not-measured" if conclusions <= {"no-data"} else why, asked=_asked(change))
        return
    for direction, expected, other in (("fewer", "faster", "slower"), ("more", "slower", "faster")):
        moved = [row["site"] for row in _rows(discards, direction)]
        concluded = {site: str(speeds[site]["conclusion"]) if site in speeds else "undecided" for site in moved}
        for word in ("same", expected, other, "undecided"):
            sites = [site for site in moved if concluded[site].removesuffix(UNSURE) == word]
            if sites:
                yield _say(
                    word if word in ("same", "undecided") else "changed", sites=_names(sites), direction=direction,
                    word=word, expected=word == expected, margin_share=change.equivalence_margin,
                    unsure=any(concluded[site].endswith(UNSURE) for site in sites),
                )  # fmt: skip


def _discards_by_site(discards: dict[str, Row]) -> Iterator[str]:
    for word in ("fewer", "more"):
        rows = _rows(discards, word)
        for row in rows[:_MOST_LINES]:
            before, after = per_million(row["ratio_before"]), per_million(row["ratio_after"])
            times = _two_digits(row["ratio"]) if row["ratio"] else None
            yield _say("discards-site", row, before=before, after=after, times=times, interval=_interval(row))
        yield from _more(rows, word, "discard_changes")
    for word in ("undecided", "none-seen", "no-data"):
        if rows := _rows(discards, word):
            yield _say(f"discards-{word}", sites=_names(row["site"] for row in rows))


def _speeds_by_site(speeds: dict[str, Row], change: Change) -> Iterator[str]:
    for word in ("faster", "slower", "faster" + UNSURE, "slower" + UNSURE):
        yield from _speed_lines("speeds-site", _rows(speeds, word), word)
    for word in ("same", "same" + UNSURE):
        if same := _rows(speeds, word):
            low, high = (faster(end(row["ratio"] for row in same)) for end in (min, max))
            yield _say(
                "speeds-same", sites=_names(row["site"] for row in same), margin_share=change.equivalence_margin,
                median=f"{low} to {high}" if len(same) > 1 else low, unsure=word.endswith(UNSURE),
            )  # fmt: skip
    yield from _speed_lines("speeds-undecided", _rows(speeds, "undecided"), "undecided")


def _speed_lines(code: str, rows: list[Row], word: str) -> Iterator[str]:
    for row in rows[:_MOST_LINES]:
        ratio, detectable = row["ratio"], row["detectable_ratio"]
        yield _say(
            code, row, pairs=ratio is not None and row["before"] and row["after"],
            detectable_share=None if detectable is None else detectable - 1, interval=_interval(row, faster),
            speed=None if ratio is None else faster(ratio), unsure=word.endswith(UNSURE),
        )  # fmt: skip
    yield from _more(rows, word, "comparisons")


def _more(rows: list[Row], conclusion: str, of_table: str) -> Iterator[str]:
    if len(rows) > _MOST_LINES:
        yield _say("more", conclusion=conclusion, more=len(rows) - _MOST_LINES, table=of_table)


def _published_answer(comparisons: pl.DataFrame, change: Change) -> Iterator[str]:
    """In the report's own terms, with what they do not mean."""
    tested = comparisons.drop_nulls("ks_p")
    if tested.is_empty():
        yield _say("published-none")
        return
    rejected = tested.filter(pl.col("conclusion") == "rejected")
    which = [f"{row['site']} ({row['statistic']}, {p_equals(row['ks_p'])})" for row in rejected.iter_rows(named=True)]
    yield _say(
        "published-rejected" if which else "published-not-rejected", tested=tested.height, rejected=rejected.height,
        level=quantities.significant(change.significance, 1), which=_names(which),
        p=p_equals(float(tested["ks_p"].min())),  # type: ignore[arg-type]
    )  # fmt: skip
    yield _say("published-p")


# --- further findings ---


def _utilisation(frame: pl.DataFrame) -> list[str]:
    known = frame.drop_nulls("rate_bps").sort("rate_bps", "site", "day")
    if known.is_empty():
        return []
    return [_say("utilisation", known.row(-1, named=True), sites=known["site"].n_unique(), days=frame.height)]


def _discards(frame: pl.DataFrame, parameters: Parameters) -> list[str]:
    columns = pl.col("discards").sum(), pl.col("packets").sum(), (pl.col("discards") > 0).sum().alias("with")
    sites = frame.filter(pl.col("packets") > 0).group_by("site").agg(*columns, pl.len().alias("days"))
    sites = sites.with_columns(ratio=pl.col("discards") / pl.col("packets"))
    sites = sites.sort("ratio", "site", descending=[True, False])
    if sites.is_empty():
        return []
    top = sites.row(0, named=True)
    if not top["discards"]:
        return [_say("no-discards-at-all", sites=sites.height)]
    kept = "the days that the published definition keeps" if parameters.is_published else "all its days"
    sums = {name: int(sites[name].sum()) for name in ("with", "days")}
    without = _names(sites.filter(pl.col("discards") == 0)["site"])
    return [_say("discards", top, **sums, most=per_million(top["ratio"]), kept=kept, without=without)]


def _retransmissions(again: pl.DataFrame, discards: pl.DataFrame, parameters: Parameters) -> list[str]:
    own = again.filter(pl.col("segments") > 0).group_by("site").agg(pl.col("retransmitted", "segments").sum())
    # As published, a median of clients' largest ratios must not be compared with a ratio of sums.
    if parameters.is_published or own.is_empty():
        return []
    dropped = discards.filter(pl.col("packets") > 0).group_by("site").agg(pl.col("discards", "packets").sum())
    both = own.join(dropped.filter(pl.col("discards") > 0), on="site")
    factors = both.select(pl.col("retransmitted") / pl.col("segments") / (pl.col("discards") / pl.col("packets")))
    found = factors.to_series().to_list()
    times = quantities.interval(_two_digits, min(found), max(found)) if found else None
    share = float(own["retransmitted"].sum()) / float(own["segments"].sum())
    return [_say("retransmissions", again_share=share, times=times, dropping=both.height)]


# --- caveats ---


def _placebo(placebos: pl.DataFrame, comparisons: pl.DataFrame) -> list[str]:
    if comparisons.is_empty():
        return []
    own = comparisons.filter(pl.col("statistic") == "mean")["own_change"].drop_nulls()
    if own.is_empty():
        return [_say("placebo-unknown")]
    spread = own[0] - 1
    shown = None if spread < _NO_OWN_CHANGE else spread
    return [_say("placebo", pairs=placebos["before_first"].n_unique(), spread_share=shown)]


def _controls(changes: pl.DataFrame, change: Change) -> list[str]:
    """Say whether discards changed at sites where nothing was changed."""
    known = changes.filter(~pl.col("conclusion").is_in(["no-data", "none-seen"]))
    others = [row for row in known.iter_rows(named=True) if row["metro"] not in change.metros]
    moved = [f"{row['site']} ({row['conclusion']})" for row in others if row["conclusion"] in ("fewer", "more")]
    return [_say("controls", sites=_names(moved), others=len(others))] if change.metros and others else []


def _tests_per_client(speeds: pl.DataFrame) -> list[str]:
    found = dict(speeds.group_by("period").agg(pl.col("tests").median()).iter_rows())
    before, after = found.get("before"), found.get("after")
    if not before or not after or max(before, after) / min(before, after) < _UNEQUAL_TESTS:
        return []
    before, after = quantities.significant(before), quantities.significant(after)
    return [_say("tests-per-client", before=before, after=after)]


# --- rows and words ---


def _say(code: str, row: Row | None = None, /, **values: Any) -> str:
    return fill(_SENTENCES[code], {**(row or {}), **values})


def _asked(change: Change) -> str:
    return _say("asked", metros=listed(change.metros))


def _means(results: Results) -> dict[str, Row]:
    return {row["site"]: row for row in _of_statistic(results, "mean")}


def _of_statistic(results: Results, statistic: str) -> Iterator[Row]:
    return results.tables["comparisons"].filter(pl.col("statistic") == statistic).iter_rows(named=True)


def _discards_of(results: Results, change: Change) -> dict[str, Row]:
    frame = results.tables["discard_changes"]
    changed = frame.filter(pl.col("metro").is_in(change.metros)) if change.metros else frame
    return {row["site"]: row for row in changed.iter_rows(named=True)}


def _rows(rows: dict[str, Row], conclusion: str) -> list[Row]:
    return [row for row in rows.values() if row["conclusion"] == conclusion]


def _names(sites: Iterable[str | None]) -> str:
    return listed([site or "an unnamed site" for site in sites], most=_MOST_LINES)


def _interval(row: Row, write: quantities.Writer | None = None) -> str | None:
    if row["ratio_low"] is None:
        return None
    return quantities.interval(write or _two_digits, row["ratio_low"], row["ratio_high"])


def _two_digits(value: float) -> str:
    return quantities.significant(value, 2)


def bins(results: Results) -> list[str]:
    """How often switches discard, of each direction the least and the largest share of time bins of a site."""
    found = []
    every = results.tables["discard_bins"].filter(pl.col("month") == ALL)
    for direction, what in (("tx", "packets to be transmitted on"), ("rx", "packets received on")):
        own = every.filter(pl.col("direction") == direction).sort("share", "site")
        if own.is_empty():
            continue
        ends = own[[0, -1]] if own.height > 1 and own["share"][0] < own["share"][-1] else own[:1]
        shares = " to ".join(
            f"{quantities.percent(share)} ({site})" if ends.height > 1 else quantities.percent(share)
            for site, share in ends.select(pl.col("site").fill_null("unnamed"), "share").iter_rows()
        )
        subject = "The switch" if own.height == 1 else f"Switches of {own.height} sites"
        port = results.parameters.port
        found.append(f"{subject} discarded {what} the port {port} in {shares} of the time bins.")
    return found
