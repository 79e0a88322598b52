"""A recorded test as the setting of a prediction: its queue, by the rate and the delay under load, and its flows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from whydrop.explaining.document import Verdict
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.described import sender
from whydrop.explaining.predicting.recorded import MOST_PACKETS, Quantities
from whydrop.explaining.predicting.running import Json, PredictionError
from whydrop.explaining.predicting.setting import Candidate

# Rates of recordings are those of IP packets of this size, with headers of this size.
_PACKET_BYTES, _HEADER_BYTES = 1500, 52


def quantities(found: Explained) -> Quantities:
    """The quantities of the flows in the direction of the headline, under load.

    Raises:
        PredictionError: the headline is not a queue with a rate, or retransmissions were not counted.
    """
    verdict = _queue(found)
    rate_bps = _fact(verdict, "rate-under-load")["rate_bps"]
    delay = _fact(verdict, "delay-under-load")
    delay_s = max(0.0, delay["high_quantile_s"] - delay["idle_s"])
    lost = _fact(verdict, "retransmissions")["share"]
    packets = int(rate_bps / 8 / _PACKET_BYTES * _duration_s(found, rate_bps))
    return Quantities(rate_bps * (1 - _HEADER_BYTES / _PACKET_BYTES), lost, delay_s, delay_s, packets)


def settings(found: Explained, controls: Sequence[str]) -> list[Candidate]:
    """The settings that may have been, one for each congestion control.

    Raises:
        PredictionError: the headline is not a queue with a rate.
    """
    verdict = _queue(found)
    rate_bps, limit = verdict.parameters["drain_rate_bps"].value, verdict.parameters.get("limit_bytes")
    seen_bytes = quantities(found).delay_greatest_s or 0.0
    limit_bytes = limit.value if limit is not None else max(_PACKET_BYTES, seen_bytes * rate_bps / 8)
    path = {"elements": [{"element": "fifo", "rate_bps": rate_bps, "limit_bytes": limit_bytes}]}
    load = _fact(verdict, "rate-under-load")
    # The least round trip is that of a small packet, without the time of a full one on the link.
    setting = {
        "path": path,
        "line_bps": None,
        "round_trip_ns": round(verdict.parameters["base_rtt_s"].value * 1e9),
        "duration_ns": round(_duration_s(found, load["rate_bps"]) * 1e9),
    }
    flows = [sender(control, _PACKET_BYTES) for control in controls]
    return [
        Candidate(setting | {"flows": [flow] * load["flows"]}, "limit" if limit is None else "nothing")
        for flow in flows
    ]


def control_of(found: Explained, recording: pl.DataFrame, known: Sequence[str]) -> str | None:
    """The congestion control of the flows of the headline, by the kernel; ``None`` where it is unknown or mixed.

    Args:
        found: the explained recording.
        recording: its table of flows.
        known: those that can be simulated.
    """
    names = recording.filter(pl.col("name").is_in(list(_queue(found).flows)))["congestion_control"].unique()
    return names[0] if len(names) == 1 and names[0] in known else None


def _queue(found: Explained) -> Verdict:
    verdict = found.verdicts[0] if found.verdicts else None
    if verdict is None or not {"drain_rate_bps", "base_rtt_s"} <= verdict.parameters.keys():
        cause = "missing" if verdict is None else verdict.cause
        raise PredictionError(
            f"the headline of the recording is {cause}, and a queue with a known rate was expected; captures of the "
            "same test may show the path"
        )
    return verdict


def _fact(verdict: Verdict, code: str) -> Mapping[str, Any]:
    for fact in verdict.facts:
        if fact["code"] == code:
            values: Mapping[str, Any] = fact["values"]
            return values
    raise PredictionError(f"the recording does not show {code.replace('-', ' ')}: the model could not be checked")


def _duration_s(found: Explained, rate_bps: float) -> float:
    """The time under load, and no more than can be simulated soon."""
    recording: Json = found.recordings[0]
    begin, end = recording["load_start"], recording["load_end"]
    if begin is None or end is None or not end > begin or not math.isfinite(end - begin):
        raise PredictionError("the recording has no time under load")
    return min(float(end - begin), MOST_PACKETS * _PACKET_BYTES * 8 / max(1.0, rate_bps))
