"""A verdict on a recording with sentence, evidence, reasons and advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whydrop.explaining.recordings import phrases


def in_words(
    verdict: dict[str, Any],
    phrase: Callable[[Mapping[str, Any]], str] = phrases.phrase,
    *,
    of_connections: bool = False,
) -> dict[str, Any]:
    """The verdict, complete.

    Args:
        verdict: as the reducer gave it.
        phrase: puts a fact into words, those that have none into an empty string.
        of_connections: it is on a connection of a host, and not on flows of a test.
    """
    reasons = (
        {"cause": one["cause"], "why": phrases.against(one) if one["veto"] is None else phrase(one["veto"])}
        for one in verdict["against"]
    )
    return {
        **verdict,
        "place": phrases.place(verdict["place"], of_connections=of_connections),
        "at": verdict["place"],
        "byte_basis": "ip" if "limit_bytes" in verdict["parameters"] else None,
        "family": None,
        "models": [],
        "sentence": phrases.sentence(verdict),
        "evidence": [line for fact in verdict["facts"] if (line := phrase(fact))],
        "against": [one for one in reasons if one["why"]],
        "advice": phrases.advice(verdict),
        "throughput_lost": None,
    }
