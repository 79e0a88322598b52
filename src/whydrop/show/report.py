"""The report of an explanation: its document with interactive figures, as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whydrop.explaining.document import Flow
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.prediction import Prediction
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording
from whydrop.show import cells, charts, explanation, html, prediction, recordings
from whydrop.show.charts import pair_scene
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene, heaviest, window_of
from whydrop.show.document import Choice, Figures
from whydrop.text import quantities

# Connections with charts in a page.
_MOST_FLOWS = 5
_FOCUS = "Heaviest loss"


def of_explained(
    found: Explained,
    *,
    flow: str | None = None,
    recorded: Sequence[Recording] = (),
    predicted: Prediction | None = None,
) -> str:
    """The whole page.

    Args:
        found: the explanation.
        flow: (a part of) the name of the connection that the charts show first.
        recorded: the recordings that were explained; their plots, statistics and metadata are in the page too.
        predicted: what changes would bring, if that is to be in the page.

    Raises:
        ValueError: no flow matches ``flow``.
    """
    plots = [recordings.plots(recording) for recording in recorded]
    statistics = [part for recording in recorded for part in recordings.statistics(Summary(recording))]
    after = [*statistics, *([] if predicted is None else [prediction.ranking(predicted)])]
    document = explanation.document(found, figures(found, flow), plots, after)
    return html.page(document, exact=not found.flows)


def figures(found: Explained, flow: str | None, opening: str | None = None) -> dict[str, Figures]:
    """The figures by section: those of the top flows, and those of all packets between two captures.

    Args:
        found: the explanation.
        flow: (a part of) the name of the connection that the charts show first.
        opening: Python that makes the explanation again; by default made of the files that it names.
    """
    opening = _opening(found) if opening is None else opening
    streams = _streams(found, opening)
    if not found.flows:
        return {"charts": Figures(streams, "charts", choice="Stream")} if streams else {}
    first = charts.choose_flow(found, flow)
    numbers = [first, *(number for number in charts.by_losses(found) if number != first)][:_MOST_FLOWS]
    offered = tuple(choice for choice in (of_flow(found, number, opening) for number in numbers) if choice.figures)
    between = _between(found, first, opening)
    return {
        **({"pair": Figures((between,), "charts between the captures", focus=_FOCUS)} if between else {}),
        "charts": Figures((*offered, *streams), "charts", choice="Connection", focus=_FOCUS),
    }


def _opening(found: Explained) -> str:
    """Python that explains the same files; nothing where they are not all there, or a part of them was left out."""
    paths = [*(str(one["path"]) for one in found.recordings), *(one.path for one in found.captures)]
    is_whole = all(Path(one).exists() for one in paths) and not any(one.left_out for one in found.captures)
    return cells.explained(paths) if is_whole else ""


def _between(found: Explained, first: int, opening: str) -> Choice | None:
    """The charts of all packets between two captures."""
    path = charts.path_figures(found, first)
    if not path:
        return None
    scene = PairScene.of(found, first)
    origin = scene.rows["sent_ns"].min()
    return Choice(
        path,
        focus=window_of(scene.rows, pair_scene.lost(scene.rows)["t"], None),
        origin_s=origin / 1e9 if isinstance(origin, int) else None,
        cells=cells.of_charts(opening, [one.key for one in path], found.flows[first].flow),
    )


def _streams(found: Explained, opening: str) -> tuple[Choice, ...]:
    """The charts of RTP streams."""
    return tuple(
        Choice([one], f"RTP: {one.subtitle}", cells=cells.of_charts(opening, [one.key], None))
        for one in charts.stream_figures(found)
    )


def name_of_flow(flow: Flow) -> str:
    """The name of the charts of a flow."""
    losses = "1 packet lost" if flow.lost == 1 else f"{quantities.count(flow.lost)} packets lost"
    return f"{flow.flow} – {losses}"


def of_flow(found: Explained, number: int, opening: str) -> Choice:
    """The charts of a flow; ``opening`` is Python that makes the explanation again."""
    flow = found.flows[number]
    # The page zooms, so it needs no close-ups of its own.
    figures = [figure for figure in charts.flow_figures(found, number) if not figure.key.endswith("close-up")]
    scene = Scene.of(found, number)
    return Choice(
        figures,
        name_of_flow(flow),
        heaviest(scene) if figures else None,
        scene.origin_s,
        cells.of_charts(opening, [one.key for one in figures], flow.flow),
    )
