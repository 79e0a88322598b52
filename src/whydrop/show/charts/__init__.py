"""Charts: one module for each family. Each makes a :class:`Figure`, which is data; printing and the report draw it."""

from __future__ import annotations

from collections.abc import Callable

from whydrop.api import Explanation
from whydrop.selection import matcher, no_such_flow
from whydrop.show.charts import burst, close_up, in_flight, model, rtt, throughput, time_sequence
from whydrop.show.charts.figure import Figure, NothingToDraw, Scene

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
}


def figure(found: Explanation, name: str, flow: int) -> Figure:
    """One chart of one flow.

    Raises:
        KeyError: there is no chart of this name.
        NothingToDraw: the tables hold nothing for it; the message says why.
    """
    if name not in CHARTS:
        raise KeyError(f"no chart {name!r}; there are {', '.join(CHARTS)}")
    return CHARTS[name](Scene.of(found, flow))


def figures(found: Explanation, flow: int) -> list[Figure]:
    """Every chart of a flow that has something to draw."""
    scene = Scene.of(found, flow)
    drawn = []
    for make in CHARTS.values():
        try:
            drawn.append(make(scene))
        except NothingToDraw:
            continue
    return drawn


def choose_flow(found: Explanation, wanted: str | None = None) -> int:
    """The number of the flow to draw: among those wanted, the one that lost most to the headline verdict.

    Raises:
        ValueError: no flow matches ``wanted``, or the capture holds no TCP data at all.
    """
    matches = matcher(wanted) if wanted is not None else None
    order = [number for number in by_losses(found) if matches is None or matches(found.flows[number].flow)]
    if not order:
        raise no_such_flow(wanted or "any", (flow.flow for flow in found.flows))
    return order[0]


def by_losses(found: Explanation) -> list[int]:
    """The numbers of all flows: those of the headline verdict first, then by losses, then by bytes."""
    headline = set(found.verdicts[0].flows) if found.verdicts else set()

    def importance(number: int) -> tuple[bool, int, int]:
        flow = found.flows[number]
        return flow.flow in headline, flow.lost, flow.payload_bytes

    return sorted(range(len(found.flows)), key=importance, reverse=True)
