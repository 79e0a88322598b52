"""Parameters that every test has, and turning what users set into values."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    seconds = functools.partial(Parameter, type="duration")
    size = functools.partial(Parameter, type="size", minimum=1)
    return {
        "length_s": seconds(default=60, minimum=0.1, maximum=604_800, help="Duration of the load.", aliases=["length"]),
        "delay_s": seconds(
            default=5, minimum=0, maximum=3600, help="Idle time before and after the load.", aliases=["delay"]
        ),
        "step_s": seconds(
            default=0.2,
            minimum=0.001,
            maximum=60,
            help="Step of the grid on which series are compared; interval of the counts of flows.",
            aliases=["step", "step_size"],
        ),
        "probe_interval_s": seconds(
            default=0.02,
            minimum=0.001,
            maximum=1,
            help="Time from one UDP probe to the next.",
            aliases=["probe_interval"],
        ),
        "icmp_interval_s": seconds(
            default="${step_s}", minimum=0.001, maximum=60, help="Time from one ICMP echo request to the next."
        ),
        "ip_version": Parameter(type="integer", choices=[4, 6], help="IP version of flows without one of their own."),
        "local_address": Parameter(
            type="text",
            help="Source address, of this host, of flows without one of their own.",
            aliases=["local_bind"],
        ),
        "interface": Parameter(type="text", help="Outgoing interface of flows without one of their own."),
        "congestion_control": Parameter(
            type="list",
            default=[],
            maximum=2,
            help="Congestion control of TCP flows without one of their own: one for both directions, or UP,DOWN.",
            aliases=["tcp_cong_control", "cc"],
        ),
        "ecn": Parameter(
            type="boolean", help="Request explicit congestion notification on TCP flows without a setting of their own."
        ),
        "pacing_rate_bps": Parameter(
            type="rate", minimum=1, help="Maximum rate of each TCP flow without one of its own."
        ),
        "send_buffer_bytes": size(help="Send buffer of TCP flows without one of their own."),
        "receive_buffer_bytes": size(help="Receive buffer of TCP flows without one of their own."),
        "swap_directions": Parameter(
            type="boolean", default=False, help="Exchange up and down of TCP and UDP flows, also in their names."
        ),
    }
