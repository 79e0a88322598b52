"""The limits that the sender's kernel counted for each flow: the times of ``TCP_INFO`` since Linux 4.10.

``tcpi_busy_time`` runs while there is data to send or to be acknowledged, ``tcpi_rwnd_limited`` while the receive
window stops the sender, ``tcpi_sndbuf_limited`` while its buffer does (F. Baker, Y. Cheng, "tcp: instrument how long
TCP is limited by ...", commits 0f87230d1a6c and following). What of the time is not busy, the application left unused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whydrop.explaining.recordings.likelihood import dependence
from whydrop.explaining.recordings.measures.series import Flow
from whydrop.explaining.recordings.measures.spans import Spans

LIMITS = ("receive-window", "send-buffer", "application")


@dataclass(frozen=True)
class HeldShares:
    """Shares of the steady load in which one flow was held, by what held it.

    ``samples`` is how many independent samples of it there are, by limit.
    """

    flow: Flow
    shares: dict[str, float]
    samples: dict[str, float]
    span_s: float


def measure(flows: Sequence[Flow], spans: Spans) -> list[HeldShares]:
    """Of each TCP flow whose kernel told.

    An end that receives more than it sends has only requests to send: that these do not fill the path limits nobody.
    """
    sending = [flow for flow in flows if flow.kind == "tcp" and flow.makes_load]
    return [found for flow in sending if (found := _of(flow, spans)) is not None]


def _of(flow: Flow, spans: Spans) -> HeldShares | None:
    times = flow.counted.times_ns
    columns = [flow.counted[name] for name in ("receive_window_limited_ns", "send_buffer_limited_ns", "busy_ns")]
    kept = np.isfinite(np.vstack([times.astype(float), *columns])).all(axis=0)
    kept &= spans.loaded(times) & (times >= flow.start_ns) & (times < flow.end_ns)
    times, columns = times[kept], [column[kept] for column in columns]
    if len(times) < 4 or times[-1] <= times[0]:
        return None
    elapsed = np.diff(times).astype(float)
    usable = elapsed > 0
    window, buffer, busy = (np.clip(np.diff(column)[usable] / elapsed[usable], 0.0, 1.0) for column in columns)
    parts = dict(zip(LIMITS, (window, buffer, 1.0 - busy), strict=True))
    weights = elapsed[usable] / elapsed[usable].sum()
    return HeldShares(
        flow,
        {name: float(part @ weights) for name, part in parts.items()},
        {name: len(part) / dependence(part) for name, part in parts.items()},
        float(times[-1] - times[0]) / 1e9,
    )


def largest(limits: HeldShares) -> tuple[str, float]:
    """The limit that held a flow for longest, and its share of the time."""
    name = max(limits.shares, key=lambda one: limits.shares[one])
    share = limits.shares[name]
    return name, share if math.isfinite(share) else 0.0
