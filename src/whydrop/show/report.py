"""The report of an explanation: its document with interactive figures, as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence

from whydrop.explaining.explained import Explained
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording
from whydrop.show import charts, explanation, html, recordings
from whydrop.show.charts import pair_scene
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene, heaviest, window_of
from whydrop.show.document import Choice, Figures
from whydrop.show.figure import Ends
from whydrop.text import quantities

# Connections with charts in a page.
_MOST_FLOWS = 5
_FOCUS = "Heaviest loss"


def of_explained(found: Explained, *, flow: str | None = None, recorded: Sequence[Recording] = ()) -> str:
    """The whole page.

    Args:
        found: the explanation.
        flow: (a part of) the name of the connection that the charts show first.
        recorded: the recordings that were explained; their plots, statistics and metadata are in the page too.

    Raises:
        ValueError: no flow matches ``flow``.
    """
    plots = [recordings.plots(recording) for recording in recorded]
    statistics = [part for recording in recorded for part in recordings.statistics(Summary(recording))]
    document = explanation.document(found, figures(found, flow), plots, statistics)
    return html.page(document, exact=not found.flows)


def figures(found: Explained, flow: str | None) -> dict[str, Figures]:
    """The figures by section: those of the top flows, and those of all packets between two captures."""
    if not found.flows:
        return {}
    first = charts.choose_flow(found, flow)
    numbers = [first, *(number for number in charts.by_losses(found) if number != first)][:_MOST_FLOWS]
    offered = tuple(choice for choice in (_flow(found, number) for number in numbers) if choice.figures)
    path = charts.path_figures(found, first)
    between = Choice(path, focus=_path_focus(found)) if path else None
    return {
        **({"pair": Figures((between,), "charts between the captures", focus=_FOCUS)} if between else {}),
        "charts": Figures(offered, "charts", choice="Connection", focus=_FOCUS),
    }


def _flow(found: Explained, number: int) -> Choice:
    flow = found.flows[number]
    losses = "1 packet lost" if flow.lost == 1 else f"{quantities.count(flow.lost)} packets lost"
    # The page zooms, so it needs no close-ups of its own.
    figures = [figure for figure in charts.flow_figures(found, number) if not figure.key.endswith("close-up")]
    return Choice(figures, f"{flow.flow} – {losses}", heaviest(Scene.of(found, number)) if figures else None)


def _path_focus(found: Explained) -> Ends | None:
    scene = PairScene.of(found, charts.choose_flow(found))
    return window_of(scene.rows, pair_scene.lost(scene.rows)["t"], None)
