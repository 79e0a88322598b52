"""Charts: one module for each family. Each makes a :class:`Figure`, which is data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from whydrop.explaining.explained import Explained
from whydrop.explaining.selection import matcher, no_such_flow
from whydrop.show.charts import (
    burst,
    clock,
    close_up,
    crossings,
    held,
    in_flight,
    loss_burst,
    model,
    models,
    rtt,
    throughput,
    time_sequence,
    transit,
)
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import Figure, NothingToDraw

AnyScene = TypeVar("AnyScene")

# In the order in which they are shown: what the losses did, then where the model says they come from, then effects.
CHARTS: dict[str, Callable[[Scene], Figure]] = {
    "time-sequence": time_sequence.figure,
    "close-up": close_up.sequence_figure,
    "model": model.figure,
    "model-close-up": close_up.model_figure,
    "in-flight": in_flight.figure,
    "burst": burst.figure,
    "rtt": rtt.figure,
    "throughput": throughput.figure,
    "held": held.figure,
}


# Of two captures: one flow between them, and all packets between them.
PAIR_FLOW_CHARTS: dict[str, Callable[[PairScene], Figure]] = {
    "crossings": crossings.figure,
    "crossings-close-up": crossings.close_up_figure,
    "models": models.figure,
    "models-close-up": models.close_up_figure,
}
PATH_CHARTS: dict[str, Callable[[PairScene], Figure]] = {
    "loss-burst": loss_burst.figure,
    "transit": transit.figure,
    "transit-histogram": transit.histogram,
    "clock": clock.figure,
}


def figure(found: Explained, name: str, flow: int) -> Figure:
    """One chart of one flow, or of all packets between two captures.

    Raises:
        KeyError: there is no chart of this name.
        NothingToDraw: the tables hold nothing for it; the message says why.
    """
    if name in CHARTS:
        return CHARTS[name](Scene.of(found, flow))
    of_two = PAIR_FLOW_CHARTS | PATH_CHARTS
    if name not in of_two:
        raise KeyError(f"no chart {name!r}; there are {', '.join([*CHARTS, *of_two])}")
    return of_two[name](PairScene.of(found, flow))


def figures(found: Explained, flow: int) -> list[Figure]:
    """Every chart of a flow that has something to draw; of two captures also those of all packets between them."""
    return path_figures(found, flow) + flow_figures(found, flow)


def flow_figures(found: Explained, flow: int) -> list[Figure]:
    """Every chart of one flow."""
    pair = _drawn(PAIR_FLOW_CHARTS, PairScene.of(found, flow)) if found.pair is not None else []
    return pair + _drawn(CHARTS, Scene.of(found, flow))


def path_figures(found: Explained, flow: int) -> list[Figure]:
    """Every chart of all packets between two captures; none where there is one capture."""
    return _drawn(PATH_CHARTS, PairScene.of(found, flow)) if found.pair is not None else []


def _drawn(charts: Mapping[str, Callable[[AnyScene], Figure]], scene: AnyScene) -> list[Figure]:
    drawn = []
    for make in charts.values():
        try:
            drawn.append(make(scene))
        except NothingToDraw:
            continue
    return drawn


def choose_flow(found: Explained, wanted: str | None = None) -> int:
    """The number of the flow to draw: among those wanted, the one that lost most to the headline verdict.

    Raises:
        ValueError: no flow matches ``wanted``, or the capture holds no TCP data at all.
    """
    matches = matcher(wanted) if wanted is not None else None
    order = [number for number in by_losses(found) if matches is None or matches(found.flows[number].flow)]
    if not order:
        raise no_such_flow(wanted or "any", (flow.flow for flow in found.flows))
    return order[0]


def by_losses(found: Explained) -> list[int]:
    """The numbers of all flows: those of the headline verdict first, then by losses, then by bytes."""
    headline = set(found.verdicts[0].flows) if found.verdicts else set()

    def importance(number: int) -> tuple[bool, int, int]:
        flow = found.flows[number]
        return flow.flow in headline, flow.lost, flow.payload_bytes

    return sorted(range(len(found.flows)), key=importance, reverse=True)
