"""Verdicts on captures in words: headline, evidence, advice, and the names of places and models.

The words are in the tables of :mod:`whydrop.explaining.words`. A fact with a code in none of them is for machines only.
"""

from __future__ import annotations

import math

from whydrop.explaining.words import captures, connections, datagrams, hosts, path, policers, queues
from whydrop.text.phrases import capital, fill
from whydrop.text.quantities import count

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from whydrop.text.phrases import Phrase

    Values = Mapping[str, Any]

_SUBJECTS = (policers, queues, hosts, connections, path, captures, datagrams)
_HEADLINES: dict[str, Phrase] = {code: words for one in _SUBJECTS for code, words in one.HEADLINES.items()}
_EVIDENCE: dict[str, Phrase] = {code: words for one in _SUBJECTS for code, words in one.EVIDENCE.items()}
_ADVICE = {about: steps for one in _SUBJECTS for about, steps in one.ADVICE.items()}
_OF_ADVICE = {
    cause: derive
    for one in (policers, queues, hosts, connections, path, captures)
    for cause, derive in one.DERIVED.items()
}

CODES = frozenset(_HEADLINES) | frozenset(_EVIDENCE)

# Packets named in a phrase at most; the document has more.
_MOST_PACKETS = 4


def phrase(fact: Mapping[str, Any], place: str | None = None) -> str | None:
    """The fact in words, ``None`` where there are none; ``place`` is where the verdict's cause is."""
    known = _EVIDENCE.get(fact["code"])
    if known is None:
        return None
    return fill(known, _derived({"place": place or "on the path", **fact["values"]})) + _numbered(
        fact.get("packets") or ()
    )


def _derived(values: Values) -> dict[str, Any]:
    """The values with those that distinguish one from several, and the like."""
    derived: dict[str, Any] = {}
    for derive in (
        path.with_singulars,
        policers.with_clumps,
        hosts.with_limiter_part,
        connections.with_both_signs,
        connections.with_responders,
        captures.with_numbers,
        queues.with_interval,
        datagrams.derived,
    ):
        derived |= derive(values)
    return {**derived, **values}


def _numbered(packets: Sequence[int]) -> str:
    """The packets that show a fact, by their numbers in the capture."""
    numbers = ", ".join(str(number) for number in packets[:_MOST_PACKETS])
    more = ", ..." if len(packets) > _MOST_PACKETS else ""
    return f" (packet{'s' if len(packets) > 1 else ''} {numbers}{more})" if packets else ""


# Of findings without a headline from their producer.
_BY_CAUSE = {
    "policer": "dropped-by-policer",
    "shallow-queue": "dropped-by-shallow-queue",
    "deep-queue": "dropped-by-deep-queue",
    "shaper": "delayed-by-shaper",
    "aqm": "dropped-by-aqm",
    "random-loss": "dropped-at-random",
    "none": "nothing-lost",
}


def sentence(verdict: Mapping[str, Any], *, among_lossy: bool = False) -> str:
    """The verdict in one sentence: that of its headline fact, else that of its cause."""
    headline = next((fact for fact in verdict["facts"] if fact["code"] in _HEADLINES), None)
    code = headline["code"] if headline else _BY_CAUSE.get(verdict["cause"], "unexplained")
    if code == "nothing-lost" and among_lossy:
        return hosts.NOTHING_LOST_HERE
    parameters = {name: quantity["value"] for name, quantity in verdict["parameters"].items()}
    values = {**parameters, "lost": verdict["lost"], **(headline["values"] if headline else {})}
    values["about"] = int(max(parameters.get("limit_packets", 0), 1))
    values["limited_share_of_all"] = verdict.get("limited_share", 1.0)
    values["loss_share"] = parameters.get("loss_probability")
    flows = values.get("flows") or 0
    values["losses"] = _losses(verdict["lost"], verdict["explained"]) + (f" of {flows} flows" if flows > 1 else "")
    return capital(fill(_HEADLINES[code], _derived(values)))


def _losses(lost: int, explained: float) -> str:
    if lost == 1:
        return "the one lost packet"
    if explained >= 0.9995:
        return f"all {count(lost)} lost packets"
    return f"{count(math.floor(explained * lost + 0.5))} of {count(lost)} lost packets"


def advice(verdict: Mapping[str, Any], snaplen_bytes: int | None = None) -> list[str]:
    """Sentences, and commands, which begin with ``$ ``; none for a cause that this version has no advice on.

    ``snaplen_bytes`` is the most that was kept of a packet, where that is known.
    """
    cause, detail = verdict["cause"], verdict.get("detail")
    steps = _ADVICE.get((cause, detail)) or _ADVICE.get((cause, None), ())
    measured: Values = next((fact["values"] for fact in verdict["facts"] if fact["code"] == "path"), {})
    headline: Values = verdict["facts"][0]["values"] if verdict["facts"] else {}
    values = {
        **headline,
        **{"base_rtt_s": 0.0, "mss_bytes": 1460.0, "goodput_bps": 0.0},
        **{name: value for name, value in measured.items() if value is not None},
        **{f"{name}_{end}": one[end] for name, one in verdict["parameters"].items() for end in ("low", "high")},
        **{name: one["value"] for name, one in verdict["parameters"].items()},
        "snaplen_bytes": snaplen_bytes or 1 << 18,
        "detail": detail,
        "is_ipv6": any(flow.startswith("[") for flow in verdict.get("flows", ())[:1]),
    }
    derive = datagrams.for_advice if (cause, detail) in datagrams.ADVICE else _OF_ADVICE.get(cause)
    derived = derive(values) if derive is not None else {}
    if derived.get("is_unknown"):
        return []
    filled = (fill(step, {**values, **derived}) for step in steps)
    return [step for step in filled if step]


def place(where: Mapping[str, Any] | None) -> str | None:
    """A place of the path in words.

    >>> place({"kind": "between", "points": [1, 2]}), place({"kind": "switch-port", "name": "xe-0/0/1"})
    ('between capture 1 and capture 2', 'at xe-0/0/1')
    """
    if where is None:
        return None
    points = " and ".join(f"capture {number}" for number in where.get("points", ()))
    if points:
        return f"{where['kind']} {points}"
    return f"at {where['name']}" if where.get("name") else captures.PLACES.get(where["kind"], where["kind"])


def model(replayed: Mapping[str, Any]) -> str:
    """A mechanism with its parameters.

    >>> model({"element": "codel", "rate_bps": 18e6, "limit_bytes": None, "limit_packets": None})
    'CoDel draining at 18.0\\xa0Mbit/s'
    """
    fact = replayed.get("fact")
    if fact is not None and fact["code"] == "policer-misses" and not fact["values"]["hits"]:
        # The rate and bucket of a policer that would have dropped no lost packet mean nothing.
        return "Policer (none fits)"
    return fill(queues.MODELS.get(replayed["element"], "{element} at {rate_bps}"), replayed)
