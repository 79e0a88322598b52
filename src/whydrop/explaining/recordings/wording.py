"""Verdicts on recordings in words: facts, places, why causes lost, and whole verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whydrop.explaining import wording
from whydrop.explaining.words import recorded_verdicts
from whydrop.explaining.words.recorded_facts import FACTS, derived, flows_of, where
from whydrop.text.phrases import fill
from whydrop.text.quantities import times

# A cause that is less far behind than this explains as much as the winner.
_LEAST_NATS = 0.1


def phrase(fact: Mapping[str, Any]) -> str:
    """A fact of a recording, or of captures of the same test, in words; empty for one that is for machines only.

    >>> phrase({"code": "no-load", "values": {}})
    'the test made no load: the behaviour of queues is not known'
    """
    known = FACTS.get(fact["code"])
    if known is None:
        return wording.phrase(fact) or ""
    return fill(known, {**fact["values"], **derived(fact["values"])})


def place(at: Mapping[str, Any] | None, *, of_connections: bool = False) -> str | None:
    """A place in words; of connections that were watched at one end, which may be a server's.

    >>> place({"kind": "path", "direction": "up"})
    'upstream (from the client to the server)'
    >>> place({"kind": "path", "direction": "up"}, of_connections=True)
    'on the path from the watched host'
    """
    if at is None:
        return None
    kind, direction = at["kind"], at.get("direction")
    if kind in ("far-end", "this-host"):
        return {"far-end": "at the responder", "this-host": "on this host"}[kind]
    if kind in ("sender", "receiver"):
        return f"at the {kind}" + ("" if of_connections else f" of the {flows_of(direction)}s")
    if of_connections:
        ends = {"up": "on the path from the watched host", "down": "on the path to the watched host"}
        return ends.get(direction or "", where(direction))
    ends = {"up": " (from the client to the server)", "down": " (from the server to the client)"}
    return where(direction) + ends.get(direction or "", ", in one direction or both")


def against(runner_up: Mapping[str, Any]) -> str:
    """Why a cause without a veto lost."""
    nats = runner_up["behind_nats"]
    return f"it makes the measurements {times(nats)} less likely" if nats > _LEAST_NATS else "it explains no more"


def in_words(verdict: dict[str, Any], *, of_connections: bool = False) -> dict[str, Any]:
    """The verdict, complete, as the reducer gave it; on a connection of a host, or else on flows of a test."""
    reasons = (
        {"cause": one["cause"], "why": against(one) if one["veto"] is None else phrase(one["veto"])}
        for one in verdict["against"]
    )
    return {
        **verdict,
        "place": place(verdict["place"], of_connections=of_connections),
        "at": verdict["place"],
        "byte_basis": "ip" if "limit_bytes" in verdict["parameters"] else None,
        "family": None,
        "models": [],
        "sentence": recorded_verdicts.sentence(verdict),
        "evidence": [line for fact in verdict["facts"] if (line := phrase(fact))],
        "against": [one for one in reasons if one["why"]],
        "advice": recorded_verdicts.advice(verdict),
        "throughput_lost": None,
    }
