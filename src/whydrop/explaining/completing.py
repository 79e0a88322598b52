"""The document of the JSON contract: what the analysis found, put into words."""

from __future__ import annotations

from whydrop._core import dumps
from whydrop.explaining.wording import advice, model, phrase, place, sentence
from whydrop.text.phrases import fill
from whydrop.text.quantities import plural

# As type checkers know it: importing typing would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_METHOD = "the payload rate that the cause permits, less the acknowledged rate, while data was in flight"


# Keys that stand behind the words in the document, or among them.
_AFTER_WORDS = ("at", "detail", "family", "models", "facts", "against", "throughput_lost")


def document(found: Mapping[str, Any]) -> dict[str, Any]:
    """The document of an analysis, complete. What is in words already stays as it is."""
    captures = [_capture(entry) for entry in found["captures"]]
    kept = min((snaplen for entry in captures if (snaplen := entry.get("snaplen"))), default=None)
    lossy = any(entry.get("lost") for entry in found["verdicts"])
    verdicts = [verdict(entry, kept, among_lossy=lossy) for entry in found["verdicts"]]
    return {**found, "captures": captures, "verdicts": verdicts}


def text(found: Mapping[str, Any], *, pretty: bool = False) -> str:
    """The document as JSON text."""
    return dumps(found, pretty=pretty)


def verdict(found: Mapping[str, Any], snaplen_bytes: int | None = None, *, among_lossy: bool = False) -> dict[str, Any]:
    """A verdict with its words: of an analysis, or of any producer's findings; see :func:`advice` for the snapshot.

    With ``among_lossy`` another verdict of the document has losses.
    """
    if "sentence" in found:
        return dict(found)
    where = place(found.get("at"))
    lost = found.get("throughput_lost")
    phrases = (phrase(fact, where) for fact in found["facts"])
    return {
        **{name: value for name, value in found.items() if name not in _AFTER_WORDS},
        "place": where,
        "at": found.get("at"),
        "detail": found.get("detail"),
        "family": found.get("family"),
        "models": [_model(entry, where) for entry in found.get("models", ())],
        "sentence": sentence(found, among_lossy=among_lossy),
        "evidence": [line for line in phrases if line is not None],
        "against": [_against(one, where) for one in found["against"]],
        "advice": advice(found, snaplen_bytes),
        "throughput_lost": None if lost is None else {**lost, "method": _METHOD},
        "facts": found["facts"],
    }


def _model(found: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    why = None if found["fact"] is None else phrase(found["fact"], where)
    named = {"role": found["role"], "element": found["element"], "title": model(found)}
    return {
        **named,
        **{name: value for name, value in found.items() if name != "fact"},
        "why": why,
        "fact": found["fact"],
    }


def _against(found: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    return {"cause": found["cause"], "why": phrase(found["fact"], where) or "", "fact": found["fact"]}


def _capture(found: Mapping[str, Any]) -> dict[str, Any]:
    without, small = found.get("connections_without_data", 0), found.get("small_connections")
    notes = []
    if without:
        notes.append(f"{plural(without, 'TCP connection')} without data: not listed")
    if small is not None and "packets_below" in small:
        notes.append(_summed_up(small))
    return {**found, "notes": [*found["notes"], *(note for note in notes if note not in found["notes"])]}


def _summed_up(small: Mapping[str, Any]) -> str:
    ends = {end: _hosts(small[end], small["connections"]) for end in ("initiators", "responders")}
    return fill(
        "{connections|TCP connection} of fewer than {packets_below} packets each: counted, not listed. From "
        "{initiators} to {responders}: {packets|packet} with {payload_bytes} of data, {lost} lost; {attempts} began "
        "with a SYN, {answered} had packets in both directions",
        {**small, **ends},
    )


def _hosts(ends: Mapping[str, Any], connections: int) -> str:
    """``1 host (192.0.2.1)``, ``about 4 980 000 hosts``, ``20 hosts (mostly 192.0.2.1)``."""
    number, busiest = ends["hosts"], ends["busiest"]
    words = f"about {plural(_three_digits(number), 'host')}" if ends["is_estimate"] else plural(number, "host")
    if busiest is not None and number == 1:
        return f"{words} ({busiest})"
    if busiest is not None and 2 * ends["busiest_connections"] > connections:
        return f"{words} (mostly {busiest})"
    return words


def _three_digits(number: int) -> int:
    """An estimate has no more digits than it knows.

    >>> _three_digits(4_983_211), _three_digits(42)
    (4980000, 42)
    """
    unit: int = 10 ** max(0, len(str(number)) - 3)
    return (number + unit // 2) // unit * unit
