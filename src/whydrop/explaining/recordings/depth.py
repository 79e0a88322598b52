"""A recording of ``whydrop depth``: its result, as the measurement itself said it, as a verdict of the JSON contract.

The bursts were judged when they were measured, and the recording keeps what was found. Nothing is judged a second time:
the recording, its page and the measurement say the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from whydrop.explaining.recordings import wording
from whydrop.explaining.recordings.thresholds import DEEP_LEAST_S, DEEP_MOST_S
from whydrop.measure.depth.result import Depth, Quantity, sentences, standing
from whydrop.recording.errors import RecordingError
from whydrop.text.quantities import count

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

_NAME = "depth"


def is_of_depth(recording: Recording) -> bool:
    """True of a recording of ``whydrop depth``, whatever became of the measurement."""
    return recording.metadata["name"] == _NAME and recording.metadata.get("imported") is None


def found_in(recording: Recording) -> Depth | None:
    """The result that it keeps; ``None`` where it ended before there was one.

    Raises:
        RecordingError: what it keeps is no such result.
    """
    told = recording.metadata.get("depth")
    try:
        return None if told is None else Depth.of_document(told)
    except ValueError as reason:
        raise RecordingError(f"{recording.path}: {reason}") from None


def in_words(recording: Recording) -> list[str]:
    """The lines that the measurement itself printed: of one that did not come to its end that first, then the answer.

    Raises:
        RecordingError: what it keeps is no result of a depth.
    """
    found, said = found_in(recording), standing(recording.status, _whole_rounds(recording))
    return ([said] if said else []) + ([] if found is None else sentences(found))


def verdict(recording: Recording) -> dict[str, Any]:
    """The result as a verdict, complete.

    Raises:
        RecordingError: what it keeps is no result of a depth.
    """
    found, lines = found_in(recording), in_words(recording)
    is_whole = recording.status == "complete"
    place = {"kind": "path", "direction": _direction(recording)}
    return {
        "cause": "unknown" if found is None else _cause(found, recording),
        "detail": None,
        "confidence": 0.0 if found is None else found.confidence,
        "place": wording.place(place),
        "flows": [row["name"] for row in rounds(recording)],
        "start_s": None,
        "end_s": None,
        "lost": 0 if found is None else found.lost,
        # Of a full queue that is how sure it is: the share of the losses that found it full.
        "explained": found.confidence if found is not None and found.lost and found.limit_bytes is not None else 0.0,
        "limited_share": 0.0,
        "parameters": {} if found is None else _parameters(found),
        "facts": [],
        "sources": ["recording"],
        "against": [],
        "at": place,
        "byte_basis": None if found is None else found.byte_basis,
        "family": None,
        "models": [],
        "sentence": lines[0] if is_whole or found is None else " ".join(lines[:2]),
        "evidence": [*lines[1 if is_whole or found is None else 2 :], *_counts(recording, found)],
        "advice": [],
        "throughput_lost": None,
    }


def kept(recording: Recording) -> dict[str, Any] | None:
    """The result as the recording's entry of the document has it.

    Raises:
        RecordingError: what it keeps is no result of a depth.
    """
    found = found_in(recording)
    return None if found is None else {**found.document(), "whole_rounds": _whole_rounds(recording)}


def rounds(recording: Recording) -> list[dict[str, Any]]:
    """Its flows, one for each round of bursts."""
    return recording.table("flows").to_dicts()


def _whole_rounds(recording: Recording) -> int:
    """The rounds behind the result. The last round may have packets that are not in the result."""
    told = recording.metadata.get("depth") or {}
    whole = told.get("whole_rounds")
    if isinstance(whole, int) and 0 <= whole <= len(rounds(recording)):
        return whole
    return sum(row["status"] == "complete" for row in rounds(recording)) if told else 0


def _direction(recording: Recording) -> str:
    return next((str(row["direction"]) for row in rounds(recording)), "up")


def _counts(recording: Recording, found: Depth | None) -> list[str]:
    """Lines on what it stands on, and why it ended where it did."""
    told = list(map(str, recording.metadata["failures"]))
    if found is not None:
        rounds = _whole_rounds(recording)
        rounds_in_words = f"{count(rounds)} round{'s' * (rounds != 1)} of bursts"
        told.append(f"{rounds_in_words}: {count(found.packets)} packets sent, {count(found.lost)} of them lost")
    return told


def _cause(found: Depth, recording: Recording) -> str:
    if found.kind == "queue":
        if _wait_s(found) > _long_s(recording):
            return "deep-queue"
        # Of one that was never full it is not known how much more it holds.
        return "shallow-queue" if found.lost else "unknown"
    if found.kind == "none":
        return "random-loss" if found.lost else "none"
    return {"policer": "policer", "shaper": "shaper", "managed-queue": "aqm"}.get(found.kind, "unknown")


def _wait_s(found: Depth) -> float:
    """The wait of the last packet that a full queue takes."""
    holds, rate = found.limit_bytes, found.rate_bit_s
    return 0.0 if holds is None or rate is None or not rate.value > 0 else holds.value * 8 / rate.value


def _long_s(recording: Recording) -> float:
    """A wait of more than a round trip makes a queue deep; the exchange of time stamps shows how long that is."""
    half_ns = recording.table("clocks")["uncertainty_ns"].min()
    round_trip_s = 2e-9 * half_ns if isinstance(half_ns, int) else math.inf
    return max(DEEP_LEAST_S, min(round_trip_s, DEEP_MOST_S))


def _parameters(found: Depth) -> dict[str, dict[str, float | None]]:
    """Under the names that verdicts on captures have."""
    is_bucket = found.kind in ("policer", "shaper")
    named: dict[str, Quantity | None] = {
        "rate_bps" if is_bucket else "drain_rate_bps": found.rate_bit_s,
        "burst_bytes": found.burst_bytes,
        "limit_packets": found.limit_packets if found.limited_by != "bytes" else None,
        "limit_bytes": found.limit_bytes,
    }
    return {
        name: {"value": one.value, "low": one.low, "high": one.high} for name, one in named.items() if one is not None
    }
