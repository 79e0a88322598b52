"""Charts: functions that each make a :class:`Figure` of a flow, or of the packets between two captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from whydrop.errors import UnknownNameError
from whydrop.explaining.explained import Explained
from whydrop.explaining.selection import matcher, no_such_flow
from whydrop.show.charts import crossings, flow_charts, gaps, losses, models, streams, timing, transit
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import Figure, NothingToDraw

AnyScene = TypeVar("AnyScene")

# In the order in which they are shown: what the losses did, then where the model says they come from, then effects.
CHARTS: dict[str, Callable[[Scene], Figure]] = {
    "time-sequence": flow_charts.time_sequence,
    "close-up": flow_charts.time_sequence_close_up,
    "received": gaps.received,
    "model": models.model,
    "model-close-up": models.model_close_up,
    "arrivals": timing.arrivals,
    "in-flight": flow_charts.in_flight,
    "burst": losses.burst,
    "rtt": flow_charts.rtt,
    "gap-time": gaps.gap_time,
    "ack-delay": timing.ack_delay,
    "interarrival": timing.interarrival,
    "throughput": flow_charts.throughput,
    "limits": flow_charts.limits,
}

# Of two captures: one flow between them, and all packets between them.
PAIR_FLOW_CHARTS: dict[str, Callable[[PairScene], Figure]] = {
    "crossings": crossings.crossings,
    "crossings-close-up": crossings.crossings_close_up,
    "jitter": timing.jitter,
    "models": models.compared,
    "models-close-up": models.compared_close_up,
}
PATH_CHARTS: dict[str, Callable[[PairScene], Figure]] = {
    "loss-burst": crossings.loss_burst,
    "transit": transit.transit,
    "transit-histogram": transit.histogram,
    "clock": transit.clock,
}


def figure(found: Explained, name: str, flow: int) -> Figure:
    """One chart of one flow, or of all packets between two captures.

    Raises:
        UnknownNameError: there is no chart of this name.
        NothingToDraw: the tables hold nothing for it; the message says why.
    """
    if name.startswith("rtp"):
        return streams.figure(found, _stream_number(name))
    if name in CHARTS:
        return CHARTS[name](Scene.of(found, flow))
    of_two = PAIR_FLOW_CHARTS | PATH_CHARTS
    if name not in of_two:
        raise _unknown(name)
    return of_two[name](PairScene.of(found, flow))


def _unknown(name: str) -> UnknownNameError:
    known = ", ".join([*CHARTS, *PAIR_FLOW_CHARTS, *PATH_CHARTS, "rtp"])
    return UnknownNameError(f"no chart {name!r}; there are {known}")


def _stream_number(name: str) -> int:
    """The number of an RTP stream, from 0: ``rtp`` is the first, ``rtp-2`` the second."""
    number = name.removeprefix("rtp").removeprefix("-") or "1"
    if not number.isdecimal() or number == "0":
        raise _unknown(name)
    return int(number) - 1


def stream_figures(found: Explained) -> list[Figure]:
    """A chart of each of the RTP streams with most packets."""
    known = streams.streams(found)
    largest = sorted(range(len(known)), key=lambda number: -known[number][1]["packets"])[: streams.MOST]
    return _drawn({str(number): partial(streams.figure, number=number) for number in sorted(largest)}, found)


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
