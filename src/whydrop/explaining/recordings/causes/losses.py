"""Losses that no queue explains: at random, or at a fixed rate without delay."""

from __future__ import annotations

import math

import numpy as np

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.causes.sides import Side, facts
from whydrop.explaining.recordings.findings import Fact, Finding, Quantity
from whydrop.explaining.recordings.measures.losses import Losses
from whydrop.explaining.recordings.thresholds import (
    CONGESTION_RATIO,
    FEWEST_EPISODES,
    MTU_BYTES,
    PACKETS_NO_QUEUE,
    STEADY_VARIATION,
)


def findings(side: Side) -> list[Finding]:
    """The findings from the losses of one side."""
    return [one for one in (_random(side), _policed(side)) if one is not None]


def _random(side: Side) -> Finding | None:
    """Losses that follow neither load nor time."""
    losses = side.losses
    if losses is None or losses.idle_lost + losses.lost == 0:
        return None
    nats = likelihood.of_one_rate(losses.cells_lost, losses.cells_sent, losses.inflation)
    if losses.sent and losses.idle_sent:
        # Losses with and without load decide; a constant loss rate is allowed, not required.
        nats = without_load(losses) + min(0.0, nats)
    elif losses.sent:
        # Never without load: congestion loses as evenly.
        nats = min(0.0, nats)
    clumps = (losses.lost + losses.idle_lost) / losses.inflation
    if clumps < FEWEST_EPISODES:
        # So few losses are as homogeneous as anything.
        nats = min(nats, 0.0)
    total, sent = losses.idle_lost + losses.lost, losses.idle_sent + losses.sent
    own = Fact.of(
        "losses-with-and-without-load",
        idle_share=losses.idle_lost / losses.idle_sent if losses.idle_sent else None,
        share=losses.lost / losses.sent if losses.sent else None,
    )
    return side.finding(
        "random-loss",
        likelihood.bounded(nats),
        lost=side.lost if side.loads else total,
        explained=1.0,
        quantities={"loss_rate": loss_interval(total, sent, losses.inflation)},
        facts=(own, *facts(side)),
    )


def without_load(losses: Losses) -> float:
    """For losses that do not know of the load, against those of congestion, by the losses without load."""
    if not losses.sent or not losses.idle_sent or not losses.lost + losses.idle_lost:
        return 0.0
    expected = (losses.lost + losses.idle_lost) / (losses.sent + losses.idle_sent)
    found = likelihood.of_rates(losses.idle_lost, losses.idle_sent, expected, expected / CONGESTION_RATIO)
    return likelihood.bounded(found / max(1.0, losses.inflation))


def loss_interval(lost: int, sent: int, inflation: float) -> Quantity:
    """A share with E. B. Wilson's interval (1927), of as many independent probes as there are."""
    n, share, z = sent / max(1.0, inflation), lost / sent, 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Quantity(share, max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share)))


def _policed(side: Side) -> Finding | None:
    """Losses under load at a fixed rate, while neither probes nor flows wait: a token bucket that drops.

    It must lose probes too, which a queue for each flow does not; and the delays must rule out even a short queue.
    """
    waiting, losses, rate = side.waiting, side.losses, side.rate
    if waiting is None or waiting.by != "probes" or losses is None or rate is None or not losses.lost:
        return None
    if not side.retransmitted or waiting.induced.high > side.floor_s:
        return None
    veto = _not_ruled_out(side)
    nats = likelihood.bounded(-without_load(losses))
    return side.finding(
        "policer",
        nats,
        veto=veto,
        lost=side.lost,
        explained=1.0,
        # Flows of TCP do not use all of what a policer lets through.
        quantities={"rate_bps": Quantity(rate.value, max(0.0, rate.low), None)},
        facts=(Fact.of("losses-without-delay", limit_s=side.floor_s), *facts(side)),
    )


def _not_ruled_out(side: Side) -> Fact | None:
    load = side.loads[0]
    if not np.isfinite(load.variation) or load.variation > STEADY_VARIATION:
        return Fact.of("rate-not-fixed", variation=load.variation if np.isfinite(load.variation) else None)
    own = load.queue_steps_s[np.isfinite(load.queue_steps_s)]
    if not len(own) or float(np.median(own)) > len(load.flows) * side.floor_s:
        return Fact.of("flows-may-wait", queue_s=float(np.median(own)) if len(own) else None)
    packets = side.floor_s * load.rate.value / 8 / MTU_BYTES
    if packets > 2 * PACKETS_NO_QUEUE:
        return Fact.of("short-queue-possible", packets=packets, limit_s=side.floor_s)
    return None
