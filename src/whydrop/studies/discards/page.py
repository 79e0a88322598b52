"""The study's report as one HTML page that requests nothing; its figures can be zoomed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.show import page as pages
from whydrop.show.embedding import Choice
from whydrop.show.page import text
from whydrop.studies.discards import figures, sentences
from whydrop.studies.page import Column, grid, listed
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.show.facets.schema import FacetSpec
    from whydrop.show.figure import Figure
    from whydrop.studies.discards.study import Results


def page(results: Results, laid_out: Mapping[str, Figure]) -> str:
    """The whole page: the summary first, then conclusions, figures, coverage and parameters."""
    from whydrop import _core

    title = results.parameters.title
    body = [
        _header(results),
        "<main>",
        _answer(results),
        _contents(),
        _conclusions(results),
        _figures(results, laid_out),
        _coverage(results),
        _parameters(results),
        "</main>",
        f"<footer><p>Made by whydrop {text(_core.__version__)}. Days and times are UTC.</p></footer>",
    ]
    shown = [figure for figure in laid_out.values() if figures.rows(figure)]
    sheet = resources.files("whydrop.studies").joinpath("report.css").read_text(encoding="utf-8")
    return pages.document(title, body, {"figures": [Choice(shown)]} if shown else {}, sheet=sheet)


def _header(results: Results) -> str:
    parameters = results.parameters
    metros = ", ".join(parameters.metros) or "all metros"
    how = "corrected definitions" if parameters.definitions == "corrected" else "definitions as published"
    return (
        f'<header><p class="brand">whydrop</p><p class="source"><strong>{text(parameters.title)}</strong> '
        f"{text(metros)}; {parameters.days.first} to {parameters.days.last}; {how}</p></header>"
    )


def _answer(results: Results) -> str:
    """The written summary; its first sentence is the page's headline."""
    first, *rest = [*sentences.answer(results), *sentences.findings(results)] or [
        "The store holds nothing of these days."
    ]
    parts = [f'<section class="answer" id="summary" aria-label="Summary"><h1>{text(first)}</h1>', listed(rest)]
    careful = [*sentences.caveats(results), *results.notes]
    if careful:
        parts += ["<h2>To be known about it</h2>", listed(careful)]
    return "".join([*parts, "</section>"])


def _contents() -> str:
    parts = {"summary": "Summary", "conclusions": "Conclusions", "figures": "Figures", "coverage": "Coverage",
             "parameters": "Parameters"}  # fmt: skip
    items = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in parts.items())
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


# --- figures ---


def _figures(results: Results, laid_out: Mapping[str, Figure]) -> str:
    specs = figures.specs(results.parameters.definitions)
    parts = [_figure(name, figure, specs[name], results) for name, figure in laid_out.items()]
    return pages.section("figures", "Figures", "figures", within="".join(parts))


def _figure(name: str, figure: Figure, spec: FacetSpec, results: Results) -> str:
    """The words of a figure, and the place in which the page's script draws it."""
    head = f'<figure class="figure" id="figure-{name}"><h3>{text(figure.title)}</h3>'
    notes = "".join(f"<p>{text(line)}</p>" for line in (spec.caption, *figure.footnotes()) if line)
    caption = f"<figcaption>{notes}</figcaption></figure>"
    if not figures.rows(figure):
        return f'{head}<p class="note">{text(_why_missing(spec, results))}</p>{caption}'
    return f'{head}<p class="when">{text(figure.subtitle)}</p><div class="panels"></div>{caption}'


def _why_missing(spec: FacetSpec, results: Results) -> str:
    told = {**results.facts.get("missing", {}), **results.facts.get("failed", {})}
    reasons = [str(told[rows.table]) for rows in spec.rows if rows.table in told]
    return f"There is no picture: {'; '.join(dict.fromkeys(reasons)) or 'its tables have no rows'}."


# --- tables ---


def _ratio(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if value < 0.001 else quantities.significant(value)


_CHANGES = (
    Column("Site", ("site",), str),
    Column("Discards after", ("conclusion",), str),
    Column("Ratio before", ("ratio_before",), _ratio),
    Column("Ratio after", ("ratio_after",), _ratio),
    Column("After / before", ("ratio",), _ratio),
    Column("95 % interval", ("ratio_low", "ratio_high"), _ratio),
    Column("p", ("p",), figures.p_value),
    Column("adjusted", ("adjusted_p",), figures.p_value),
    Column("Days before", ("days_before",), quantities.count),
    Column("Days after", ("days_after",), quantities.count),
)
_COMPARISONS = (
    Column("Site", ("site",), str),
    Column("Clients'", ("statistic",), str),
    Column("Conclusion", ("conclusion",), str),
    Column("Clients before", ("before",), quantities.count),
    Column("after", ("after",), quantities.count),
    Column("After / before", ("ratio",), _ratio),
    Column("95 % interval", ("ratio_low", "ratio_high"), _ratio),
    Column("Equivalence interval", ("equivalence_low", "equivalence_high"), _ratio),
    Column("Detectable", ("detectable_ratio",), _ratio),
    Column("Paired p", ("paired_p",), figures.p_value),
    Column("adjusted", ("adjusted_paired_p",), figures.p_value),
    Column("KS distance", ("ks_distance",), _ratio),
    Column("KS p", ("ks_p",), figures.p_value),
    Column("adjusted", ("adjusted_p",), figures.p_value),
)


def _conclusions(results: Results) -> str:
    tables, parameters = results.tables, results.parameters
    parts = [
        grid("Did the switches' discards change?", tables.get("discard_changes"), _CHANGES),
        grid("Did clients' download speeds change?", tables.get("comparisons"), _COMPARISONS),
        grid("The same between two periods before the change (placebo)", tables.get("placebo_comparisons"),
              _COMPARISONS),
    ]  # fmt: skip
    found = "".join(parts) or "<p>There are none: no change was named, or the tables behind them have no rows.</p>"
    how = ""
    if parameters.change is not None and parameters.definitions == "corrected":
        margin, level = parameters.change.equivalence_margin, parameters.change.significance
        how = (
            f'<p class="small">Speeds are called the same if their ratio surely lies within 1/{1 + margin:g} and '
            f"{1 + margin:g}; p-values are held against {level:g}, adjusted by Holm over all rows. A conclusion of "
            "undecided is not one of no difference. A question mark: there were no placebos to hold it against, so "
            "that it may be what sites do by themselves.</p>"
        )
    return f'<section id="conclusions"><h2>Conclusions</h2>{found}{how}</section>'


_COVERED = (
    Column("Site", ("site",), str),
    Column("Days of telemetry", ("days",), quantities.count),
    Column("covered of them", ("coverage",), quantities.percent),
    Column("Days with a ratio", ("ratio_days",), quantities.count),
    Column("Days with downloads", ("clients_days",), quantities.count),
    Column("Downloads classed", ("tests",), quantities.count),
    Column("zero", ("zero",), quantities.percent),
    Column("non-zero", ("non-zero",), quantities.percent),
    Column("unknown", ("unknown",), quantities.percent),
)


def _coverage(results: Results) -> str:
    frame = coverage(results.tables)
    found = grid("What the numbers rest on", frame, _COVERED) or "<p>Nothing: the tables have no rows.</p>"
    return (
        f'<section id="coverage"><h2>Coverage</h2>{found}<p class="small">Coverage is the share of a day that the '
        "switch's samples of octets cover. A download is unknown if they do not cover all of its time.</p></section>"
    )


def coverage(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """By site: days of telemetry, the share of them that is covered, and the classes of its downloads as shares."""
    parts = []
    if "utilisation" in tables:
        parts.append(tables["utilisation"].group_by("site").agg(days=pl.len(), coverage=pl.col("coverage").mean()))
    if "discard_ratio" in tables:
        parts.append(tables["discard_ratio"].group_by("site").agg(ratio_days=pl.col("ratio").count()))
    if "download_speed" in tables:
        parts.append(tables["download_speed"].group_by("site").agg(clients_days=pl.len()))
    if "contact_days" in tables and tables["contact_days"].height:
        classes = [
            (pl.col("tests").filter(pl.col("class") == name).sum() / pl.col("tests").sum()).alias(name)
            for name in ("zero", "non-zero", "unknown")
        ]
        parts.append(tables["contact_days"].group_by("site").agg(pl.col("tests").sum(), *classes))
    if not parts:
        return pl.DataFrame()
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part, on="site", how="full", coalesce=True)
    return joined.sort("site", nulls_last=True)


def _parameters(results: Results) -> str:
    rows = list(_flat(results.parameters.model_dump(mode="json")))
    rows += [
        (f"facts: {name}", value) for name, value in _flat(results.facts) if not name.startswith(("missing", "failed"))
    ]
    table = pages.table("Parameters", [("Parameter", False), ("Value", False)], rows, "scroll wide")
    return (
        f'<section id="parameters"><h2>Parameters</h2><details><summary>All that was chosen</summary>{table}'
        "</details></section>"
    )


def _flat(document: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, (list, tuple)):
            yield (
                f"{before}{name}",
                ", ".join(map(str, value)) or "all" if name == "metros" else ", ".join(map(str, value)),
            )
        else:
            yield f"{before}{name}", "–" if value is None else str(value)
