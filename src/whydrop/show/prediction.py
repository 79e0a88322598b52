"""A prediction as a document: what was recorded and reproduced, and what a change would bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from whydrop.explaining.predicting.gains import LEAST_GAIN, Gain, best
from whydrop.explaining.predicting.prediction import Prediction, Value
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.running import Json
from whydrop.show.document import Column, Document, Facts, Part, Section, Table, Text, known, parts
from whydrop.text.quantities import duration, interval, percent, rate, size

_NAMES: dict[str, tuple[str, Callable[[float], str]]] = {
    "goodput_bps": ("goodput", rate),
    "loss_rate": ("lost data packets", percent),
    "delay_p95_s": ("queueing delay, 95th percentile", duration),
}
_CONTROL_FROM = {
    "user": "stated with --cc",
    "default": "Linux's default",
    "kernel": "by the sender's kernel",
    "windows": "its windows show it",
    "runs": "not known; of those simulated, it reproduces the recorded values best",
}


_NO_LIMIT = "delay:time=0ns"
_ASSUMED = {
    "limit": " (its limit is assumed)",
    "law": " (its rate is measured; law and limit are assumed)",
}


def document(found: Prediction) -> Document:
    """A prediction for people."""
    return Document(_headline(found), parts(*_parts(found)), notes=found.notes)


def ranking(found: Prediction) -> Section:
    """The changes that were tried, as a section of an explanation."""
    said = Text(_headline(found), "bad" if found.refusal is not None else "strong")
    return Section("Predicted effect of changes", parts(said, _tried(found), _basis(found)), key="predicted")


def _headline(found: Prediction) -> str:
    if found.refusal is not None:
        return f"No prediction: {found.refusal}."
    before = found.recorded or found.reproduced
    if (value := found.goodput_bps) is not None:
        bounds = interval(rate, value.low, value.high)
        return f"Goodput would be {rate(value.value)} ({bounds}) instead of {rate(before.goodput_bps)}."
    if found.recorded is None:
        return f"Goodput would be {rate(before.goodput_bps)}."
    return _best(found) if found.tried else "The model reproduces what was recorded."


def _best(found: Prediction) -> str:
    """The change that helps most, if one does."""
    was = found.recorded
    if was is None or all(one.goodput_bps is None for one in found.tried):
        return "The model reproduces what was recorded; what the usual changes would bring is not known."
    helps = best(found.tried)
    if helps is None:
        return "None of the changes tried would bring clearly more goodput, less delay or fewer losses."
    one, gain = helps
    said = [_instead(one, was, gain)]
    if gain != "goodput_bps" and one.goodput_bps and one.goodput_bps.value < (1 - LEAST_GAIN) * was.goodput_bps:
        said.append(_instead(one, was, "goodput_bps"))
    return f"Of the changes tried, {', '.join(one.changes)} would help most: {', and '.join(said)}."


def _instead(one: Prediction, was: Quantities, name: Gain) -> str:
    write = _NAMES[name][1]
    values = f"{write(getattr(one, name).value)} instead of {write(getattr(was, name))}"
    match name:
        case "goodput_bps":
            return f"goodput of {values}"
        case "delay_p95_s":
            return f"queueing delay (95th percentile) of {values}"
        case "loss_rate":
            return f"data packets lost: {values}"


def _parts(found: Prediction) -> Iterator[Part | None]:
    yield Text(_headline(found), "bad" if found.refusal is not None else "strong")
    yield _tried(found)
    yield _table(found)
    yield Facts(tuple(_facts(found)))
    yield _basis(found)


def _basis(found: Prediction) -> Part | None:
    if found.goodput_bps is None and not found.tried:
        return None
    return Text(
        "90 % intervals, by the spread of the runs, the error of the reproduction and that of the model; how often "
        "they were right in the lab: docs/prediction.md.",
        "quiet",
    )


def _tried(found: Prediction) -> Table | None:
    """The changes that were tried, the best first."""
    if not found.tried:
        return None
    columns = {
        Column("Change"): lambda one: ", ".join(one.changes),
        Column("Goodput", number=True): lambda one: _predicted(one.goodput_bps, "goodput_bps"),
        Column("90 % interval", number=True, rank=1): lambda one: _interval(one.goodput_bps, "goodput_bps"),
        Column("Lost", number=True): lambda one: _predicted(one.loss_rate, "loss_rate"),
        Column("Delay, 95th percentile", number=True, rank=2): lambda one: _predicted(one.delay_p95_s, "delay_p95_s"),
    }
    unknown = [f"{', '.join(one.changes)}: {one.refusal}." for one in found.tried if one.refusal is not None]
    return Table.of("", columns, found.tried, notes=unknown).without_empty_columns()


def _facts(found: Prediction) -> Iterator[tuple[str, str]]:
    yield "Path", _path(found)
    if found.changed_path != found.path:
        yield "Changed path", found.changed_path
    if found.changes:
        yield "Changes", ", ".join(found.changes)
    if found.simulated_s is not None:
        yield "Simulated", f"only the first {duration(found.simulated_s)}{' of the captures' if found.recorded else ''}"
    yield "Congestion control", f"{found.control} ({_CONTROL_FROM[found.control_from]})"
    for limit, count in Counter(limit for sender in found.senders for limit in _limits(sender)).items():
        yield "Senders", limit if len(found.senders) == 1 else f"{limit} ({count} of {len(found.senders)})"


def _path(found: Prediction) -> str:
    if found.path == _NO_LIMIT:
        return "nothing that limits"
    return found.path + _ASSUMED.get(found.assumed, "")


def _limits(sender: Json) -> Iterator[str]:
    """Limits of a simulated sender other than the congestion window."""
    match sender["load"]:
        case {"rate": {"rate_bps": rate_bps}}:
            yield f"the application writes or reads at {rate(rate_bps)}"
        case {"transfer": {"bytes": size_bytes}}:
            yield f"the transfer ends after {size(size_bytes)}"
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
