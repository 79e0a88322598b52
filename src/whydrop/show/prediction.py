"""A prediction as a document: what was recorded and reproduced, and what a change would bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from whydrop.explaining.predicting.prediction import Prediction, Value
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.running import Json
from whydrop.show.document import Column, Document, Facts, Part, Table, Text, known, parts
from whydrop.text.quantities import duration, interval, percent, rate, size

_NAMES: dict[str, tuple[str, Callable[[float], str]]] = {
    "goodput_bps": ("goodput", rate),
    "loss_rate": ("lost data packets", percent),
    "delay_p95_s": ("queueing delay, 95th percentile", duration),
}
_CONTROL_FROM = {
    "user": "stated with --cc",
    "default": "Linux's default",
    "windows": "its windows show it",
    "runs": "of those simulated, it reproduces the capture best",
}


def document(found: Prediction) -> Document:
    """A prediction for people."""
    return Document(_headline(found), parts(*_parts(found)))


def _headline(found: Prediction) -> str:
    if found.refusal is not None:
        return f"No prediction: {found.refusal}."
    before = found.recorded or found.reproduced
    if (value := found.goodput_bps) is not None:
        bounds = interval(rate, value.low, value.high)
        return f"Goodput would be {rate(value.value)} ({bounds}) instead of {rate(before.goodput_bps)}."
    if found.recorded is None:
        return f"Goodput would be {rate(before.goodput_bps)}."
    return "The model reproduces what was recorded."


def _parts(found: Prediction) -> Iterator[Part]:
    yield Text(_headline(found), "bad" if found.refusal is not None else "strong")
    yield _table(found)
    yield Facts(tuple(_facts(found)))
    if found.goodput_bps is not None:
        yield Text(
            "90 % intervals, by the spread of the runs, the error of the reproduction and that of the model; how often "
            "they were right in the lab: docs/prediction.md.",
            "quiet",
        )


def _facts(found: Prediction) -> Iterator[tuple[str, str]]:
    yield "Path", found.path
    if found.changed_path != found.path:
        yield "Changed path", found.changed_path
    if found.changes:
        yield "Changes", ", ".join(found.changes)
    if found.simulated_s is not None:
        yield "Simulated", f"only the first {duration(found.simulated_s)} of the captures"
    yield "Congestion control", f"{found.control} ({_CONTROL_FROM[found.control_from]})"
    for limit, count in Counter(limit for sender in found.senders for limit in _limits(sender)).items():
        yield "Senders", limit if len(found.senders) == 1 else f"{limit} ({count} of {len(found.senders)})"


def _limits(sender: Json) -> Iterator[str]:
    """Limits of a simulated sender other than the congestion window."""
    if sender["load"] != "full":
        yield f"the application writes or reads at {rate(sender['load']['rate']['rate_bps'])}"
    if sender["receive_window_bytes"] is not None:
        yield f"receive window of {size(sender['receive_window_bytes'])}"
    if sender["send_buffer_bytes"] is not None:
        yield f"send buffer of {size(sender['send_buffer_bytes'])}"
    if sender["pace_bps"] is not None:
        yield f"paced at {rate(sender['pace_bps'])}"


def _table(found: Prediction) -> Table:
    recorded = found.recorded
    columns = {
        Column("Quantity"): lambda name: _NAMES[name][0],
        **({Column("Recorded", number=True): lambda name: _written(recorded, name)} if recorded else {}),
        Column("Reproduced" if recorded else "Simulated", number=True): lambda name: _written(found.reproduced, name),
        Column("With the change", number=True): lambda name: _predicted(getattr(found, name), name),
        Column("90 % interval", number=True, rank=1): lambda name: _interval(getattr(found, name), name),
    }
    names = [name for name in _NAMES if getattr(recorded or found.reproduced, name) is not None]
    return Table.of("", columns, names).without_empty_columns()


def _written(values: Quantities, name: str) -> str:
    return known(getattr(values, name), _NAMES[name][1])


def _predicted(value: Value | None, name: str) -> str:
    return "–" if value is None else _NAMES[name][1](value.value)


def _interval(value: Value | None, name: str) -> str:
    return "–" if value is None else interval(_NAMES[name][1], value.low, value.high)
