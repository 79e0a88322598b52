"""The share of the load in which a responder's own limit set the rate of a flow, and not the path or a host."""

from __future__ import annotations

from whydrop.explaining.recordings.measures.series import Flow
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.recording.end_limits import Paced, share_at_responder


def share(flow: Flow, spans: Spans) -> float:
    """The share of this flow in the steady load; 0 where its responder reported no limit."""
    starts = flow.intervals[:, 0]
    steady = flow.intervals[(starts >= min(spans.steady_ns, flow.end_ns)) & (starts < spans.end_ns)]
    return share_at_responder(flow.runner_facts, Paced.of(flow.runner_facts, steady), flow.end_ns - flow.start_ns)
