"""The report: one self-contained HTML page with verdicts, interactive charts and tables; it requests nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources

from whydrop import units
from whydrop.explaining import parameters
from whydrop.explaining.document import Verdict
from whydrop.explaining.explained import Explained
from whydrop.show import embedding, pair_words, tables, words
from whydrop.show.printable import printable

_SCRIPTS = (
    "uplot/uPlot.iife.min.js",
    "report/data.js",
    "report/marks.js",
    "report/chart.js",
    "report/page.js",
)
_SHEETS = ("uplot/uPlot.min.css", "report/report.css")
# Rows of a table in the page; a capture may hold millions of flows.
_LONGEST_TABLE = 500

# The page may run its own script and styles and nothing else: whatever a capture smuggles in can load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(found: Explained, *, flow: str | None = None) -> str:
    """The whole page. ``flow`` names (a part of) the connection that the charts show first.

    Raises:
        ValueError: no flow matches ``flow``.
    """
    headline = found.verdicts[0] if found.verdicts else None
    title = headline.sentence if headline else "No verdict"
    body = [
        _header(found),
        "<main>",
        _headline(headline, found),
        _pair(found),
        _charts(found, flow),
        _others(found),
        *(_table(sheet) for sheet in _sheets(found)),
        "</main>",
        _footer(found),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            f"<!-- This page includes uPlot:\n{_asset('uplot/LICENSE')}-->",
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<link rel="icon" href="data:,">',
            f"<title>{_text(title)} – whydrop</title>",
            *(f"<style>{_asset(name)}</style>" for name in _SHEETS),
            "</head>",
            "<body>",
            *body,
            *(f"<script>{_asset(name)}</script>" for name in _SCRIPTS),
            "</body>",
            "</html>",
            "",
        ]
    )


def _sheets(found: Explained) -> list[tables.Sheet]:
    between = [] if found.pair is None else [pair_words.flows(found.pair)]
    udp = [tables.datagrams(found)] if found.datagrams is not None else []
    return [tables.transfers(found), tables.flows(found), *udp, *between, tables.captures(found)]


def _asset(name: str) -> str:
    return resources.files("whydrop.show").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _text(value: str) -> str:
    """Text from anywhere, made harmless in HTML: paths and flow names come from outside."""
    return escape(printable(value), quote=True)


def _header(found: Explained) -> str:
    recorded = found.recordings
    names = ", ".join([*(_text(capture.path) for capture in found.captures), *(_text(one["path"]) for one in recorded)])
    spans = [
        f"{units.count(capture.packets)} packets from {units.instant(capture.first)}"
        for capture in found.captures
        if capture.first is not None
    ]
    spans += [f"test {one['test']} from {units.instant(one['first'])}" for one in recorded]
    told = [note for capture in found.captures for note in capture.notes]
    told += [note for one in recorded for note in one["notes"]]
    notes = "".join(f'<p class="note">{_text(note)}</p>' for note in told)
    return (
        f'<header><p class="brand">whydrop</p><p class="source"><strong>{names}</strong> '
        f"{_text('; '.join(spans))}</p>{notes}</header>"
    )


def _headline(verdict: Verdict | None, found: Explained) -> str:
    if verdict is None:
        return '<section class="verdict"><h1>No verdict: the capture holds no TCP data to explain.</h1></section>'
    return "\n".join(
        [
            f'<section class="verdict" data-cause="{_text(verdict.cause)}" aria-label="Verdict">',
            f"<h1>{_text(verdict.sentence)}</h1>",
            _place(verdict, found),
            _flows(verdict, found),
            _standing(verdict),
            '<div class="columns">',
            _list("Evidence", verdict.evidence),
            _parameters(verdict),
            "</div>",
            _advice(verdict),
            _against(verdict),
            _models(verdict),
            "</section>",
        ]
    )


def _flows(verdict: Verdict, found: Explained) -> str:
    flows = words.flows(verdict, len(found.flows))
    return f'<p class="place">Flow: {_text(flows)}</p>' if flows else ""


def _place(verdict: Verdict, found: Explained) -> str:
    if verdict.place is None:
        return ""
    return f'<p class="place">Where: {_text(words.place(verdict.place, found.captures))}</p>'


def _models(verdict: Verdict) -> str:
    """The models replayed, beside each other, and why the others are ruled out."""
    if not verdict.models:
        return ""
    sheet = pair_words.models(verdict)
    why = _list("Why they are ruled out", pair_words.ruled_out(verdict))
    return f"<h2>{_text(sheet.title)}</h2>{_grid(sheet, sheet.rows)}{why}"


def _pair(found: Explained) -> str:
    """What two captures of one path show together, with the charts of all packets between them."""
    if found.pair is None:
        return ""
    facts = "".join(
        f"<div><dt>{_text(label)}</dt><dd>{_text(words.sentence(text))}</dd></div>"
        for label, text in pair_words.facts(found.pair, found.stretches)
    )
    sheet = pair_words.ways(found.stretches)
    title = _text(pair_words.title(found.stretches))
    charts = f'{_controls("charts between the captures")}<div class="figures"></div>' if found.flows else ""
    return (
        f'<section id="pair" aria-label="{title}"><h2>{title}</h2><p>{_text(pair_words.summary(found.pair))}</p>'
        f'{_grid(sheet, sheet.rows)}<dl class="lines">{facts}</dl>{charts}</section>'
    )


def _standing(verdict: Verdict) -> str:
    meaning = words.cause_meaning(verdict.cause)
    if verdict.family is not None:
        meaning = f"{meaning}, {words.family(verdict.family)}"
    facts = [(words.cause_title(verdict.cause), meaning)]
    if certainty := words.certainty(verdict):
        facts.append((certainty, "confidence"))
    if verdict.lost:
        facts.append((units.percent(verdict.explained), f"of {units.count(verdict.lost)} losses accounted for"))
    if verdict.limited_share:
        facts.append((units.percent(verdict.limited_share), "of the time limited by it"))
    if verdict.throughput_lost is not None:
        facts.append((units.rate(verdict.throughput_lost.bps), "throughput lost to it"))
    items = "".join(f"<div><dt>{_text(value)}</dt><dd>{_text(meaning)}</dd></div>" for value, meaning in facts)
    return f'<dl class="facts">{items}</dl>'


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{_text(words.sentence(line))}</li>" for line in lines)
    return f"<div><h2>{title}</h2><ul>{items}</ul></div>"


def _parameters(verdict: Verdict) -> str:
    if not verdict.parameters:
        return ""
    rows = []
    for name, parameter in parameters.ordered(verdict.parameters):
        label, write = parameters.parameter_words(name)
        value = _text(write(parameter.value))
        rows.append(
            f'<tr><th scope="row">{_text(label)}</th><td class="number"><strong>{value}</strong></td>'
            f"<td>{_text(parameters.interval(name, parameter))}</td></tr>"
        )
    basis = ""
    if verdict.byte_basis is not None:
        basis = (
            f'<p class="small">Sizes count {_text(tables.BYTE_BASES.get(verdict.byte_basis, verdict.byte_basis))}.</p>'
        )
    return (
        '<div><h2>Parameters</h2><div class="scroll"><table><thead><tr><th scope="col">What</th>'
        '<th scope="col" class="number">Value</th><th scope="col">95 % interval</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{basis}</div>"
    )


def _advice(verdict: Verdict) -> str:
    if not verdict.advice and verdict.throughput_lost is None:
        return ""
    parts = []
    for line in verdict.advice:
        if line.startswith("$ "):
            command = _text(line.removeprefix("$ "))
            parts.append(
                f'<div class="command"><pre><code>{command}</code></pre>'
                f'<button type="button" class="copy" aria-label="Copy the command: {command}">Copy</button></div>'
            )
        else:
            parts.append(f"<p>{_text(line)}</p>")
    if verdict.throughput_lost is not None:
        lost = verdict.throughput_lost
        parts.append(
            f'<p class="small">Throughput lost to it: {_text(units.rate(lost.bps))} '
            f"({_text(units.percent(lost.share))}), estimated as {_text(lost.method)}</p>"
        )
    return f"<h2>What to do</h2>{''.join(parts)}"


def _against(verdict: Verdict) -> str:
    if not verdict.against:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_text(words.cause_title(runner_up.cause))}</th><td>{_text(runner_up.why)}</td></tr>'
        for runner_up in verdict.against
    )
    return (
        '<h2>Why not something else</h2><div class="scroll"><table><thead><tr><th scope="col">Cause</th>'
        f'<th scope="col">Why it lost</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _charts(found: Explained, flow: str | None) -> str:
    if not found.flows:
        return ""
    data = json.dumps(embedding.charts_json(found, flow), separators=(",", ":"), ensure_ascii=False)
    # "<" could end the script element, also inside a JSON string.
    data = data.replace("<", "\\u003c")
    title = "Charts" if found.pair is None else "Charts of one connection"
    choice = '<label for="flow">Connection</label> <select id="flow"></select>'
    return f"""<section id="charts" aria-label="{title}">
<h2>{title}</h2>
{_controls("charts over time", choice)}
<div class="figures"></div>
<noscript><p class="note">The charts need JavaScript; the verdict and the tables do not.</p></noscript>
<script type="application/json" id="chart-data">{data}</script>
</section>"""


def _controls(what: str, choice: str = "") -> str:
    return f"""<div class="controls">
{choice}
<span class="buttons" role="group" aria-label="Zoom of all {what}">
<button type="button" data-zoom="in">Zoom in</button>
<button type="button" data-zoom="out">Zoom out</button>
<button type="button" data-zoom="left" aria-label="Move to earlier times">←</button>
<button type="button" data-zoom="right" aria-label="Move to later times">→</button>
<button type="button" data-zoom="focus">Heaviest loss</button>
<button type="button" data-zoom="all">Show all</button>
</span>
</div>
<p class="small screen">Drag over a chart to zoom all {what}; a double click shows all again.</p>"""


def _others(found: Explained) -> str:
    further = words.further(found.verdicts)
    parts = [
        f'<details class="verdict" data-cause="{_text(verdict.cause)}"><summary>{_text(verdict.sentence)}</summary>'
        f"{_place(verdict, found)}{_flows(verdict, found)}{_standing(verdict)}"
        f'<div class="columns">{_list("Evidence", verdict.evidence)}{_parameters(verdict)}</div>'
        f"{_advice(verdict)}{_against(verdict)}{_models(verdict)}</details>"
        for verdict in further[:_LONGEST_TABLE]
    ]
    left = len(further) - _LONGEST_TABLE
    if left > 0:
        parts.append(f'<p class="small">and {units.count(left)} more, which explain less</p>')
    where = "this recording" if found.recordings else "this capture" if found.pair is None else "these captures"
    return f"<section><h2>Also in {where}</h2>{''.join(parts)}</section>" if parts else ""


def _table(sheet: tables.Sheet) -> str:
    if not sheet.rows:
        return ""
    shown = sheet.most_important(_LONGEST_TABLE)
    left = len(sheet.rows) - len(shown)
    more = f'<p class="small">and {units.count(left)} more; {_text(sheet.order)}</p>' if left else ""
    summed = f'<p class="small">{_text(sheet.summed)}</p>' if sheet.summed else ""
    return f"<section><h2>{_text(sheet.title)}</h2>{_grid(sheet, shown)}{more}{summed}</section>"


def _grid(sheet: tables.Sheet, shown: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col"{_number(column)}>{_text(column.title)}</th>' for column in sheet.columns)
    rows = "".join(f"<tr>{_cells(sheet, row)}</tr>" for row in shown)
    return (
        f'<div class="scroll wide" tabindex="0" role="region" aria-label="{_text(sheet.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cells(sheet: tables.Sheet, row: Sequence[str]) -> str:
    first, *rest = row
    cells = [f'<th scope="row">{_text(first)}</th>']
    cells += [f"<td{_number(column)}>{_text(cell)}</td>" for column, cell in zip(sheet.columns[1:], rest, strict=True)]
    return "".join(cells)


def _number(column: tables.Column) -> str:
    return ' class="number"' if column.number else ""


def _footer(found: Explained) -> str:
    version = _text(str(found.document.get("whydrop", "")))
    return f"<footer><p>Made by whydrop {version}. All times are UTC; 1 kB is 1 000 bytes.</p></footer>"
