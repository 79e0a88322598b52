"""A prediction as a document: what was recorded and reproduced, and what a change would bring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

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
# Less than this is no gain: the interval of a prediction is wider.
_LEAST_GAIN = 0.05
# Delay matters from here on.
_LEAST_DELAY_S = 0.01
_LEAST_LOSS = 0.001


def document(found: Prediction) -> Document:
    """A prediction for people."""
    return Document(_headline(found), parts(*_parts(found)))


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
    """The change that helps most, if one does: more goodput, else less delay, else fewer losses."""
    was = found.recorded
    known = [one for one in found.tried if one.goodput_bps is not None]
    if not known or was is None:
        return "The model reproduces what was recorded; what the usual changes would bring is not known."
    for gain in (_more_goodput, _less_delay, _fewer_losses):
        for one in known:
            if said := gain(one, was):
                return f"Of the changes tried, {', '.join(one.changes)} would help most: {said}."
    return "None of the changes tried would bring clearly more goodput, less delay or fewer losses."


def _more_goodput(one: Prediction, was: Quantities) -> str | None:
    """A gain that is larger than its interval."""
    value = one.goodput_bps
    if value is None or value.value <= (1 + _LEAST_GAIN) * was.goodput_bps or value.low <= was.goodput_bps:
        return None
    return f"goodput of {rate(value.value)} instead of {rate(was.goodput_bps)}"


def _keeps_goodput(one: Prediction, was: Quantities) -> bool:
    return one.goodput_bps is not None and one.goodput_bps.value >= (1 - 2 * _LEAST_GAIN) * was.goodput_bps


def _less_delay(one: Prediction, was: Quantities) -> str | None:
    delays = _shorter(one.delay_p95_s, was.delay_p95_s)
    if delays is None or not _keeps_goodput(one, was):
        return None
    return f"queueing delay (95th percentile) of {duration(delays[1])} instead of {duration(delays[0])}"


def _fewer_losses(one: Prediction, was: Quantities) -> str | None:
    value = one.loss_rate
    if value is None or was.loss_rate < _LEAST_LOSS or 2 * value.high > was.loss_rate or not _keeps_goodput(one, was):
        return None
    return f"{percent(value.value)} of the data packets lost instead of {percent(was.loss_rate)}"


def _shorter(value: Value | None, was_s: float | None) -> tuple[float, float] | None:
    """The delay before and with a change, if that makes it much shorter."""
    if value is None or was_s is None or was_s <= _LEAST_DELAY_S:
        return None
    return (was_s, value.value) if 2 * value.value < was_s else None


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
        yield "Simulated", f"only the first {duration(found.simulated_s)} of the captures"
    yield "Congestion control", f"{found.control} ({_CONTROL_FROM[found.control_from]})"
    for limit, count in Counter(limit for sender in found.senders for limit in _limits(sender)).items():
        yield "Senders", limit if len(found.senders) == 1 else f"{limit} ({count} of {len(found.senders)})"


def _path(found: Prediction) -> str:
    if found.path == _NO_LIMIT:
        return "nothing that limits"
    return found.path + _ASSUMED.get(found.assumed, "")


def _limits(sender: Json) -> Iterator[str]:
    """Limits of a simulated sender other than the congestion window."""
    load = sender["load"]
    if "rate" in load:
        yield f"the application writes or reads at {rate(load['rate']['rate_bps'])}"
    elif "transfer" in load:
        yield f"the transfer ends after {size(load['transfer']['bytes'])}"
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
