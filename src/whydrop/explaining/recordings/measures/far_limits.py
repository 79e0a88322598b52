"""The share of the load in which a responder's own limit held a flow: neither the path nor a host was at its end then.

A responder with a limit (``--max-rate``; every open one) paces the flows that it sends, and says to which rate
(``held_to_bps_by_responder``). What it receives it reads no faster than its limit, which all uploads of a test share,
and it says for how long it kept each from being read (``held_back_s_by_responder``). A path that is slower than the
limit never makes it wait, so this time is the limit's alone.
"""

from __future__ import annotations

import numpy as np

from whydrop.explaining.recordings.measures.series import Flow
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import AT_FAR_LIMIT
from whydrop.recording import document


def share(flow: Flow, spans: Spans) -> float:
    """Of this flow; 0 where its responder told of no limit."""
    return max(_read_late(flow), _paced(flow, spans))


def _read_late(flow: Flow) -> float:
    waited_s = document.number(flow.told.get("held_back_s_by_responder")) or 0.0
    # What the flow left in the receive buffer at its end is read late too, and counted with it.
    lasted_ns = flow.end_ns - flow.start_ns
    return min(1.0, waited_s * 1e9 / lasted_ns) if waited_s > 0 and lasted_ns > 0 else 0.0


def _paced(flow: Flow, spans: Spans) -> float:
    """The share of the steady load in which a flow was about as fast as the rate that it was paced to."""
    limit_bps = document.number(flow.told.get("held_to_bps_by_responder")) or 0.0
    if limit_bps <= 0 or not len(flow.intervals):
        return 0.0
    starts, ends, sizes = flow.intervals.T
    inside = (starts >= min(spans.steady_ns, flow.end_ns)) & (starts < spans.end_ns)
    starts, ends, sizes = (values[inside] for values in (starts, ends, sizes))
    spent_ns = float((ends - starts).sum())
    if not spent_ns > 0:
        return 0.0
    at_limit = sizes * 8e9 >= AT_FAR_LIMIT * limit_bps * (ends - starts)
    return float(np.where(at_limit, ends - starts, 0.0).sum()) / spent_ns
