"""The segment of the path in which delay and loss arise, said with the verdicts that they are part of."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from whydrop.explaining.recordings.wording import phrase
from whydrop.recording.metrics.segments import Interval, Segments, segments

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

DELAY_CODE, LOSS_CODE = "segment-of-delay", "segment-of-loss"
_OF_DELAY = ("delay-under-load",)
_KNOWN = ("near", "beyond", "both")
# Seconds, and a share: where the other part is less, it is not said that this is the main one.
_WORTH_A_WORD = {DELAY_CODE: 0.0005, LOSS_CODE: 0.005}


def said_of(verdicts: list[dict[str, Any]], recording: Recording) -> list[dict[str, Any]]:
    """Add the facts, and their words, to the verdicts on the path; the segments, for the recording's document."""
    found = segments(recording)
    for verdict in verdicts:
        if (verdict["at"] or {}).get("kind") != "path":
            continue
        codes = {fact["code"] for fact in verdict["facts"]}
        for one in found:
            if one.delay in _KNOWN and codes.intersection(_OF_DELAY):
                _add(verdict, _of_delay(one))
            if one.loss in _KNOWN and verdict["lost"]:
                _add(verdict, _of_loss(one))
    return [asdict(one) for one in found]


def _add(verdict: dict[str, Any], fact: dict[str, Any]) -> None:
    # Behind the headline's fact: no other says more of where to look.
    verdict["facts"].insert(1, fact)
    verdict["evidence"].insert(1, phrase(fact))


def _of_delay(one: Segments) -> dict[str, Any]:
    assert one.near is not None
    assert one.beyond is not None
    near, beyond = (_known(part.added_ms) / 1e3 for part in (one.near, one.beyond))
    return _fact(DELAY_CODE, one, one.delay, one.delay_reason, near_s=near, beyond_s=beyond)


def _of_loss(one: Segments) -> dict[str, Any]:
    assert one.near is not None
    assert one.beyond is not None
    near, beyond = (max(0.0, _known(part.lost_percent)) / 1e2 for part in (one.near, one.beyond))
    return _fact(LOSS_CODE, one, one.loss, one.loss_reason, near=near, beyond=beyond)


def _known(found: Interval) -> float:
    """The value; none where it may be none."""
    return 0.0 if found.low <= 0 <= found.high else found.value


def _fact(code: str, one: Segments, side: str, condition: str, **parts: float) -> dict[str, Any]:
    mainly = side != "both" and min(map(abs, parts.values())) > _WORTH_A_WORD[code]
    hosts = {"access_point": one.access_point, "far_end": one.far_end}
    return {"code": code, "values": {**hosts, "side": side, "mainly": mainly, "condition": condition, **parts}}
