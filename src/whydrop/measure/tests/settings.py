"""Parameters that every test has, and turning what users set into values."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whydrop.measure.tests.schema import Parameter, truth, whole
from whydrop.runtime.user_files import quantities
from whydrop.runtime.user_files.spelling import suggestion


def _number(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r}: expected a number")
    return value


def _text(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r}: expected a text")


_VALUES: dict[str, Callable[[Any], Any]] = {
    "integer": whole,
    "number": _number,
    "text": _text,
    "boolean": truth,
    "duration": quantities.seconds,
    "rate": quantities.rate_bps,
    "size": quantities.size_bytes,
    "dscp": quantities.dscp,
}
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def coerced(parameter: Parameter, value: Any) -> Any:
    """A value of the parameter's type and within its bounds, from what a user wrote in a file or on a command line.

    Raises:
        ValueError: it is not; says what was expected.
    """
    if parameter.type == "list":
        items = value if isinstance(value, list) else _listed(value)
        found: Any = [_one(parameter.items, item) for item in items]
        _within(parameter, len(found), " items")
        return found
    found = _one(parameter.type or "text", value)
    if isinstance(found, int | float) and not isinstance(found, bool):
        _within(parameter, found, "")
    if parameter.choices is not None and found not in parameter.choices:
        choices = [str(choice) for choice in parameter.choices]
        raise ValueError(f"{found!r}: expected one of {', '.join(choices)}{suggestion(str(found), choices)}")
    return found


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [item.strip() for item in value.replace(";", ",").split(",") if item.strip()]
    return [value]


def _one(kind: str, value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if kind == "boolean" and text.lower() in _TRUTHS:
            return _TRUTHS[text.lower()]
        if kind in ("integer", "number"):
            value = _from_text(text)
    return _VALUES[kind](value)


def _from_text(text: str) -> Any:
    for read in (lambda: int(text, 0), lambda: int(text), lambda: float(text)):
        try:
            return read()
        except ValueError:
            continue
    return text


def _within(parameter: Parameter, value: float, unit: str) -> None:
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low:g}" if high is None else f"at most {high:g}" if low is None else f"{low:g} to {high:g}"
        raise ValueError(f"{value:g}{unit}: expected {bounds}{unit}")


@functools.cache
def common() -> dict[str, Parameter]:
    """The parameters that every test has."""
    tables = tomllib.loads(Path(__file__).with_name("every-test.toml").read_text())["parameters"]
    return {name: Parameter.model_validate(table) for name, table in tables.items()}
