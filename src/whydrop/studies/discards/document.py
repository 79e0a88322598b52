"""The study of discards as a document (the answer, tables by site, figures) and as files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from whydrop.recording.comparing.metadata_difference import flattened
from whydrop.show import html
from whydrop.show.document import Column, Document, Folded, Items, Part, Section, Table, Text, parts
from whydrop.studies import study_files
from whydrop.studies.discards import figures, sentences
from whydrop.studies.discards.bins import ALL
from whydrop.studies.frame_tables import FrameColumn, pictures, table_of
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.facets.schema import FacetSpec
    from whydrop.show.figure import Figure
    from whydrop.studies.discards.study import Results


def _nothing(results: Results) -> str:
    if all(table.is_empty() for table in results.tables.values()):
        return "The store holds nothing of these days."
    return "What the store holds of these days allows no conclusion."


def document(results: Results) -> Document:
    """The study as a terminal shows it: the answer, a table of each conclusion, and caveats.

    A table of sites replaces the sentences on single sites.
    """
    found = sentences.verdict(results) or sentences.bins(results) or [_nothing(results)]
    published = results.parameters.is_published
    rest = [
        *([] if published else sentences.largest_differ(results)),
        *sentences.exposure(results),
        *sentences.caveats(results),
    ]
    shown = (
        Section(found[0], parts(Items.of(found[1:]), *_conclusions(results), sites(results), bins(results))),
        *parts(Section("Details", parts(Items.of([*rest, *results.notes])))),
    )
    return Document(results.parameters.title, shown)


def page(results: Results, laid_out: Mapping[str, Figure]) -> Document:
    """The study as a page shows it: everything, figures included."""
    from whydrop import _core

    found = [*sentences.answer(results), *sentences.findings(results), *sentences.bins(results)]
    first, *rest = found or [_nothing(results)]
    shown = (
        Section(first, parts(Items.of(rest)), key="summary"),
        *parts(
            Section("Conclusions", parts(*_conclusions(results), *_explained(results)), key="conclusions"),
            Section("Time bins with discards", parts(bins(results)), key="bins"),
            _figures(results, laid_out),
            Section("Coverage", parts(_coverage(results)), key="coverage"),
            Section("Parameters", (_parameters(results),), key="parameters"),
        ),
    )
    footer = f"Made by whydrop {_core.__version__}. Days and times are UTC."
    caveats = (*sentences.caveats(results), *results.notes)
    return Document(results.parameters.title, shown, _source(results), caveats, footer)


def write(
    results: Results,
    folder: Path | study_files.Folder,
    formats: Collection[str] = study_files.FORMATS,
    progress: study_files.Progress | None = None,
) -> list[Path]:
    """Write the study into a folder (`study_files.write`), with the table ``plot``, which all figures draw.

    Figures without any row have no picture; the page says why.
    """
    laid_out = figures.facets(results)
    contents = study_files.Contents(
        {
            "parameters": results.parameters.model_dump(mode="json"),
            "notes": results.notes,
            "facts": results.facts,
            "changes": [{"date": str(one.day), "text": one.text, "site": one.site} for one in results.noted],
        },
        {**results.tables, "plot": figures.plot_frame(results)},
        {name: figure for name, figure in laid_out.items() if figures.rows(figure)},
        lambda: html.page(page(results, laid_out)),
    )
    return study_files.write(contents, folder, formats, progress)


def _source(results: Results) -> str:
    parameters = results.parameters
    metros = ", ".join(parameters.metros) or "all metros"
    how = "corrected definitions" if not parameters.is_published else "definitions as published"
    return f"{parameters.title}: {metros}; {parameters.days.first} to {parameters.days.last}; {how}"


def _figures(results: Results, laid_out: Mapping[str, Figure]) -> Section:
    specs = figures.specs(results.parameters.definitions)
    shown = {
        name: replace(figure, see=specs[name].caption) for name, figure in laid_out.items() if figures.rows(figure)
    }
    missing = {
        figure.title: _why_missing(specs[name], results) for name, figure in laid_out.items() if name not in shown
    }
    return pictures(shown, missing)


def _why_missing(spec: FacetSpec, results: Results) -> str:
    reasons = {**results.facts.get("missing", {}), **results.facts.get("failed", {})}
    own = [str(reasons[rows.table]) for rows in spec.rows if rows.table in reasons]
    return "; ".join(dict.fromkeys(own)) or "its tables have no rows"


# --- tables ---


def _ratio(value: float) -> str:
    return quantities.significant(value, 2 if value < 0.001 else 3)


def ppm(ratio: float) -> str:
    """A ratio of discards to packets in a table."""
    return f"{quantities.significant(ratio * 1e6)} ppm" if ratio else "0"


def site_name(name: str | None) -> str:
    """A site in a table."""
    return name or "–"


_CHANGES = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Discards after", ("conclusion",), str),
    FrameColumn("Ratio before", ("ratio_before",), ppm, 2),
    FrameColumn("Ratio after", ("ratio_after",), ppm, 3),
    FrameColumn("After / before", ("ratio",), _ratio),
    FrameColumn("95 % interval", ("ratio_low", "ratio_high"), _ratio, 1),
    FrameColumn("p", ("p",), quantities.p_value, 7),
    FrameColumn("adjusted p", ("adjusted_p",), quantities.p_value, 4),
    FrameColumn("Days before", ("days_before",), quantities.count, 5),
    FrameColumn("Days after", ("days_after",), quantities.count, 6),
)
COMPARISONS = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Clients'", ("statistic",), str),
    FrameColumn("Conclusion", ("conclusion",), str),
    FrameColumn("Clients before", ("before",), quantities.count, 4),
    FrameColumn("after", ("after",), quantities.count, 5),
    FrameColumn("After / before", ("ratio",), _ratio),
    FrameColumn("95 % interval", ("ratio_low", "ratio_high"), _ratio, 1),
    FrameColumn("Equivalence interval", ("equivalence_low", "equivalence_high"), _ratio, 7),
    FrameColumn("Detectable", ("detectable_ratio",), _ratio, 3),
    FrameColumn("Paired p", ("paired_p",), quantities.p_value, 8),
    FrameColumn("adjusted paired p", ("adjusted_paired_p",), quantities.p_value, 2),
    FrameColumn("KS distance", ("ks_distance",), _ratio, 6),
    FrameColumn("KS p", ("ks_p",), quantities.p_value, 9),
    FrameColumn("adjusted KS p", ("adjusted_p",), quantities.p_value, 10),
)


def _conclusions(results: Results) -> Iterable[Table | None]:
    tables = results.tables
    yield table_of("Discards of switches before and after the change", tables.get("discard_changes"), _CHANGES)
    yield table_of("Clients' download speeds before and after the change", tables.get("comparisons"), COMPARISONS)
    yield spread(results)
    yield table_of(
        "The same between two periods before the change (placebo)", tables.get("placebo_comparisons"), COMPARISONS
    )


SPREAD = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Period", ("period",), str),
    FrameColumn("Clients", ("clients",), quantities.count, 4),
    FrameColumn("Tests", ("tests",), quantities.significant, 5),
    FrameColumn("Slowest", ("min_bps",), quantities.rate),
    FrameColumn("Mean", ("mean_bps",), quantities.rate, 2),
    FrameColumn("Fastest", ("max_bps",), quantities.rate, 3),
    FrameColumn("Standard deviation", ("sd_bps",), quantities.rate, 6),
    FrameColumn("Coefficient of variation", ("cv",), _ratio, 1),
)


def spread(results: Results) -> Table | None:
    """One row for each site and period: what each client's tests show."""
    note = "Coefficient of variation: standard deviation / mean of a client's speeds; none for a client with one test."
    found = results.tables["client_spread"]
    return table_of("What each client's tests show (medians over clients)", found, SPREAD, notes=[note])


def _explained(results: Results) -> Iterable[Part]:
    """How conclusions are drawn; or that there are none."""
    parameters = results.parameters
    if not any(_conclusions(results)):
        yield Text("None: the parameters name no change, or the tables that conclusions need have no rows.")
    elif parameters.change is not None and not parameters.is_published:
        margin = quantities.significant(1 + parameters.change.equivalence_margin)
        level = quantities.significant(parameters.change.significance, 1)
        yield Text(
            f"Speeds are the same if the interval of their ratio lies within 1/{margin} and {margin}. P-values are "
            f"compared with {level}, adjusted by Holm over all rows. Undecided does not mean that there is no "
            "difference. A question mark: no placebo could be computed, so speeds may vary as much without a change.",
            "quiet",
        )


_SITES = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Median rate", ("rate",), quantities.rate, 3),
    FrameColumn("Median speed", ("speed",), quantities.rate, 1),
    FrameColumn("Discards", ("discards",), ppm),
    FrameColumn("Retransmitted", ("retransmitted",), quantities.percent, 2),
    FrameColumn("Tests", ("tests",), quantities.count, 4),
    FrameColumn("Exposed", ("exposed",), quantities.count),
)


_BINS = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Direction", ("direction",), str),
    FrameColumn("Share", ("share",), quantities.percent),
    FrameColumn("95 % interval", ("low", "high"), quantities.percent, 1),
    FrameColumn("Bins with discards", ("with_discards",), quantities.count, 3),
    FrameColumn("Bins", ("bins",), quantities.count, 2),
    FrameColumn("Bin", ("bin_s",), quantities.duration, 4),
    FrameColumn("Days", ("days",), quantities.count, 5),
)


def bins(results: Results) -> Table | None:
    """One row for each site and direction: the share of time bins with discards, over all months."""
    every = results.tables["discard_bins"].filter(pl.col("month") == ALL)
    note = "tx: packets that the switch transmits on the port; rx: packets that it receives there."
    return table_of("Time bins in which the switch discarded packets", every, _BINS, notes=[note])


def sites(results: Results) -> Table | None:
    """One row for each site: the results of figures 1 to 4 and 7."""
    tables = results.tables
    exposed = pl.col("tests").filter(pl.col("class") == "non-zero").sum()
    found = _by_site(
        tables["utilisation"].group_by("site").agg(rate=pl.col("rate_bps").median()),
        tables["download_speed"].group_by("site").agg(speed=pl.col("speed_bps").median()),
        _of_sums(tables["discard_ratio"], "discards", "packets"),
        _of_sums(tables["retransmission_ratio"], "retransmitted", "segments"),
        tables["contact_days"].group_by("site").agg(pl.col("tests").sum(), exposed=exposed),
    )
    return table_of("Sites", found, _SITES)


def _of_sums(frame: pl.DataFrame, above: str, below: str) -> pl.DataFrame:
    sums = frame.filter(pl.col(below) > 0).group_by("site").agg(pl.col(above, below).sum())
    return sums.select("site", pl.col(above) / pl.col(below))


def _by_site(first: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    for other in others:
        first = first.join(other, on="site", how="full", coalesce=True, nulls_equal=True)
    return first.sort("site", nulls_last=True)


_COVERED = (
    FrameColumn("Site", ("site",), site_name),
    FrameColumn("Days of telemetry", ("days",), quantities.count),
    FrameColumn("covered", ("coverage",), quantities.percent),
    FrameColumn("Days with a ratio", ("ratio_days",), quantities.count),
    FrameColumn("Days with downloads", ("clients_days",), quantities.count),
    FrameColumn("Classified downloads", ("tests",), quantities.count),
    FrameColumn("zero", ("zero",), quantities.percent),
    FrameColumn("non-zero", ("non-zero",), quantities.percent),
    FrameColumn("unknown", ("unknown",), quantities.percent),
)


def _coverage(results: Results) -> Part:
    note = (
        "Coverage is the share of a day that the switch's samples of octets cover. A download is unknown if they do "
        "not cover all of its time."
    )
    found = table_of("Basis of the numbers", coverage(results.tables), _COVERED, notes=[note])
    return found or Text("None: the tables have no rows.")


def coverage(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """By site: days of telemetry, the share of them that is covered, and the classes of its downloads as shares."""
    classes = [
        (pl.col("tests").filter(pl.col("class") == name).sum() / pl.col("tests").sum()).alias(name)
        for name in ("zero", "non-zero", "unknown")
    ]
    return _by_site(
        tables["utilisation"].group_by("site").agg(days=pl.len(), coverage=pl.col("coverage").mean()),
        tables["discard_ratio"].group_by("site").agg(ratio_days=pl.col("ratio").count()),
        tables["download_speed"].group_by("site").agg(clients_days=pl.len()),
        tables["contact_days"].group_by("site").agg(pl.col("tests").sum(), *classes),
    )


def _parameters(results: Results) -> Folded:
    facts = {name: value for name, value in results.facts.items() if name not in ("missing", "failed")}
    values = flattened(results.parameters.model_dump(mode="json")) | flattened(facts, "facts: ")
    empty = {name: "all" if name.endswith("metros") else "–" for name, value in values.items() if value in (None, "")}
    rows = tuple((name, empty.get(name, str(value))) for name, value in values.items())
    return Folded("All parameters and facts", (Table("", (Column("Parameter"), Column("Value")), rows),))
