"""The report: one self-contained HTML page with verdicts, interactive charts and tables; it requests nothing."""

from __future__ import annotations

from collections.abc import Sequence

from whydrop.explaining import parameters
from whydrop.explaining.document import Verdict
from whydrop.explaining.explained import Explained
from whydrop.recording.recording import Recording
from whydrop.show import charts, page, pair_words, recording_report, tables, words
from whydrop.show.charts import close_up, pair_scene
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene
from whydrop.show.embedding import Choice
from whydrop.show.figure import Ends
from whydrop.show.page import text
from whydrop.text import quantities

# Rows of a table in the page; a capture may hold millions of flows.
_LONGEST_TABLE = 500
# Connections whose charts are in the page.
_MOST_FLOWS = 5
_FOCUS = "Heaviest loss"


def of_explained(found: Explained, *, flow: str | None = None, recordings: Sequence[Recording] = ()) -> str:
    """The whole page.

    Args:
        found: what was explained.
        flow: (a part of) the name of the connection that the charts show first.
        recordings: those that were explained, whose plots, statistics and metadata are in the page too.

    Raises:
        ValueError: no flow matches ``flow``.
    """
    headline = found.verdicts[0] if found.verdicts else None
    title = words.stated(headline) if headline else "No verdict"
    plots = [choice for recording in recordings for choice in recording_report.plots(recording)]
    body = [
        _header(found),
        "<main>",
        _headline(headline, found),
        _pair(found),
        *(page.section("plots", "Plots", "plots over time") for _ in plots),
        _charts(found),
        _others(found),
        *(_table(sheet) for sheet in _sheets(found)),
        *(_recording(recording) for recording in recordings),
        "</main>",
        _footer(found),
    ]
    drawn = {**({"plots": plots} if plots else {}), **parts(found, flow)}
    return page.document(title, body, drawn, exact=not found.flows)


def _recording(recording: Recording) -> str:
    """Statistics of a recording, and what is known of its test and hosts."""
    facts = "".join(
        f"<div><dt>{text(label)}</dt><dd>{text(said)}</dd></div>" for label, said in recording_report.facts(recording)
    )
    everything = recording_report.metadata(recording)
    return "".join(
        [
            *(_table(sheet) for sheet in recording_report.sheets(recording)),
            f'<section id="metadata"><h2>Test and hosts</h2><dl class="lines">{facts}</dl>',
            f"<details><summary>All metadata</summary>{_grid(everything, everything.rows)}",
            f'<p class="small">{text(everything.summed)}</p></details></section>',
        ]
    )


def _sheets(found: Explained) -> list[tables.Sheet]:
    between = [] if found.pair is None else [pair_words.flows(found.pair)]
    udp = [tables.datagrams(found)] if found.datagrams is not None else []
    return [tables.transfers(found), tables.flows(found), *udp, *between, tables.captures(found)]


def _header(found: Explained) -> str:
    recorded = found.recordings
    names = ", ".join([*(text(capture.path) for capture in found.captures), *(text(one["path"]) for one in recorded)])
    spans = [
        f"{quantities.count(capture.packets)} packets from {quantities.instant(capture.first)}"
        for capture in found.captures
        if capture.first is not None
    ]
    spans += [f"test {one['test']} from {quantities.instant(one['first'])}" for one in recorded]
    told = [note for capture in found.captures for note in capture.notes]
    told += [note for one in recorded for note in one["notes"]]
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in told)
    return (
        f'<header><p class="brand">whydrop</p><p class="source"><strong>{names}</strong> '
        f"{text('; '.join(spans))}</p>{notes}</header>"
    )


def _headline(verdict: Verdict | None, found: Explained) -> str:
    if verdict is None:
        return '<section class="verdict"><h1>No verdict: the capture holds no packets to explain.</h1></section>'
    return "\n".join(
        [
            f'<section class="verdict" data-cause="{text(verdict.cause)}" aria-label="Verdict">',
            f"<h1>{text(words.stated(verdict))}</h1>",
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
    return f'<p class="place">Flow: {text(flows)}</p>' if flows else ""


def _place(verdict: Verdict, found: Explained) -> str:
    if verdict.place is None:
        return ""
    return f'<p class="place">Where: {text(words.place(verdict.place, found.captures))}</p>'


def _models(verdict: Verdict) -> str:
    """The models replayed, beside each other, and why the others are ruled out."""
    if not verdict.models:
        return ""
    sheet = pair_words.models(verdict)
    why = _list("Why they are ruled out", pair_words.ruled_out(verdict))
    return f"<h2>{text(sheet.title)}</h2>{_grid(sheet, sheet.rows)}{why}"


def _pair(found: Explained) -> str:
    """The section on two captures of one path, with the charts of all packets between them."""
    if found.pair is None:
        return ""
    facts = "".join(
        f"<div><dt>{text(label)}</dt><dd>{text(words.sentence(said))}</dd></div>"
        for label, said in pair_words.facts(found.pair, found.path_segments)
    )
    sheet = pair_words.ways(found.path_segments)
    title = text(pair_words.title(found.path_segments))
    figures = (
        f'{page.controls("charts between the captures", focus=_FOCUS)}<div class="figures"></div>'
        if found.flows
        else ""
    )
    return (
        f'<section id="pair" aria-label="{title}"><h2>{title}</h2><p>{text(pair_words.summary(found.pair))}</p>'
        f'{_grid(sheet, sheet.rows)}<dl class="lines">{facts}</dl>{figures}</section>'
    )


def _standing(verdict: Verdict) -> str:
    meaning = words.cause_meaning(verdict.cause)
    if verdict.family is not None:
        meaning = f"{meaning}, {words.family(verdict.family)}"
    facts = [(words.cause_title(verdict.cause), meaning)]
    if certainty := words.certainty(verdict):
        facts.append((certainty, "confidence"))
    if verdict.lost:
        facts.append(
            (quantities.percent(verdict.explained), f"of {quantities.count(verdict.lost)} losses accounted for")
        )
    if verdict.limited_share:
        facts.append((quantities.percent(verdict.limited_share), "of the time limited by it"))
    if verdict.throughput_lost is not None:
        facts.append((quantities.rate(verdict.throughput_lost.bps), "throughput lost to it"))
    items = "".join(f"<div><dt>{text(value)}</dt><dd>{text(meaning)}</dd></div>" for value, meaning in facts)
    return f'<dl class="facts">{items}</dl>'


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{text(words.sentence(line))}</li>" for line in lines)
    return f"<div><h2>{title}</h2><ul>{items}</ul></div>"


def _parameters(verdict: Verdict) -> str:
    if not verdict.parameters:
        return ""
    rows = []
    for name, parameter in parameters.ordered(verdict.parameters):
        label, write = parameters.parameter_words(name)
        rows.append((label, write(parameter.value), parameters.interval(name, parameter)))
    basis = ""
    if verdict.byte_basis is not None:
        basis = (
            f'<p class="small">Sizes count {text(tables.BYTE_BASES.get(verdict.byte_basis, verdict.byte_basis))}.</p>'
        )
    found = page.table("Parameters", [("What", False), ("Value", True), ("95 % interval", False)], rows)
    return f"<div><h2>Parameters</h2>{found}{basis}</div>"


def _advice(verdict: Verdict) -> str:
    if not verdict.advice and verdict.throughput_lost is None:
        return ""
    parts = []
    for line in verdict.advice:
        if line.startswith("$ "):
            command = text(line.removeprefix("$ "))
            parts.append(
                f'<div class="command"><pre><code>{command}</code></pre>'
                f'<button type="button" class="copy" aria-label="Copy the command: {command}">Copy</button></div>'
            )
        else:
            parts.append(f"<p>{text(line)}</p>")
    if verdict.throughput_lost is not None:
        lost = verdict.throughput_lost
        parts.append(
            f'<p class="small">Throughput lost to it: {text(quantities.rate(lost.bps))} '
            f"({text(quantities.percent(lost.share))}), estimated as {text(lost.method)}</p>"
        )
    return f"<h2>What to do</h2>{''.join(parts)}"


def _against(verdict: Verdict) -> str:
    if not verdict.against:
        return ""
    rows = [(words.cause_title(runner_up.cause), runner_up.why) for runner_up in verdict.against]
    title = "Why not something else"
    return f"<h2>{title}</h2>{page.table(title, [('Cause', False), ('Why it lost', False)], rows)}"


def _charts(found: Explained) -> str:
    if not found.flows:
        return ""
    return page.section(
        "charts", "Charts" if found.pair is None else "Charts of one connection", choice="Connection", focus=_FOCUS
    )


def parts(found: Explained, flow: str | None = None) -> dict[str, list[Choice]]:
    """The figures of each section: those of the top flows, and those of all packets between two captures.

    Raises:
        ValueError: no flow matches ``flow``.
    """
    if not found.flows:
        return {}
    first = charts.choose_flow(found, flow)
    numbers = [first, *(number for number in charts.by_losses(found) if number != first)][:_MOST_FLOWS]
    offered = [_flow(found, number) for number in numbers]
    path = charts.path_figures(found, first)
    return {
        **({"pair": [Choice(path, focus=_path_focus(found))]} if path else {}),
        "charts": [choice for choice in offered if choice.figures],
    }


def _flow(found: Explained, number: int) -> Choice:
    flow = found.flows[number]
    losses = "1 packet lost" if flow.lost == 1 else f"{quantities.count(flow.lost)} packets lost"
    # The page zooms, so it needs no close-ups of its own.
    figures = [figure for figure in charts.flow_figures(found, number) if not figure.key.endswith("close-up")]
    return Choice(figures, f"{flow.flow} – {losses}", close_up.heaviest(Scene.of(found, number)) if figures else None)


def _path_focus(found: Explained) -> Ends | None:
    scene = PairScene.of(found, charts.choose_flow(found))
    return close_up.window_of(scene.rows, pair_scene.lost(scene.rows)["t"], None)


def _others(found: Explained) -> str:
    further = words.further(found.verdicts)
    parts = [
        f'<details class="verdict" data-cause="{text(verdict.cause)}"><summary>{text(words.stated(verdict))}</summary>'
        f"{_place(verdict, found)}{_flows(verdict, found)}{_standing(verdict)}"
        f'<div class="columns">{_list("Evidence", verdict.evidence)}{_parameters(verdict)}</div>'
        f"{_advice(verdict)}{_against(verdict)}{_models(verdict)}</details>"
        for verdict in further[:_LONGEST_TABLE]
    ]
    left = len(further) - _LONGEST_TABLE
    if left > 0:
        parts.append(f'<p class="small">and {quantities.count(left)} more, which explain less</p>')
    where = "this recording" if found.recordings else "this capture" if found.pair is None else "these captures"
    return f"<section><h2>Also in {where}</h2>{''.join(parts)}</section>" if parts else ""


def _table(sheet: tables.Sheet) -> str:
    if not sheet.rows:
        return ""
    shown = sheet.most_important(_LONGEST_TABLE)
    left = len(sheet.rows) - len(shown)
    more = f'<p class="small">and {quantities.count(left)} more; {text(sheet.order)}</p>' if left else ""
    summed = f'<p class="small">{text(sheet.summed)}</p>' if sheet.summed else ""
    return f"<section><h2>{text(sheet.title)}</h2>{_grid(sheet, shown)}{more}{summed}</section>"


def _grid(sheet: tables.Sheet, shown: Sequence[Sequence[str]]) -> str:
    heads = [(column.title, column.number) for column in sheet.columns]
    return page.table(sheet.title, heads, shown, "scroll wide")


def _footer(found: Explained) -> str:
    version = text(str(found.document.get("whydrop", "")))
    return f"<footer><p>Made by whydrop {version}. All times are UTC; 1 kB is 1 000 bytes.</p></footer>"
