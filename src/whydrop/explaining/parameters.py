"""Parameters of verdicts for people: their names, values and 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whydrop.explaining.document import Parameter
from whydrop.units import count, duration, percent, rate, significant, size

_PARAMETERS: dict[str, tuple[str, Callable[[float], str]]] = {
    "rate_bps": ("rate", rate),
    "peak_rate_bps": ("peak rate", rate),
    "drain_rate_bps": ("drain rate", rate),
    "burst_bytes": ("bucket (burst size)", size),
    "peak_burst_bytes": ("peak bucket", size),
    "limit_packets": ("queue limit", lambda value: f"{count(value)} packets"),
    "limit_bytes": ("queue limit", size),
    "mtu_bytes": ("path MTU", lambda value: f"{value:.0f} B"),
    "outage_s": ("outage", duration),
    "jitter_s": ("delay variation (10th to 90th percentile)", duration),
    "change_s": ("change of delay from packet to packet", duration),
    "batch_interval_s": ("time between batches", duration),
    "batch_packets": ("packets of a batch", count),
    "target_s": ("target delay", duration),
    "interval_s": ("control interval", duration),
    "threshold_s": ("lower threshold", duration),
    "loss_rate": ("loss rate", lambda value: f"{significant(value * 100)} %"),
    "loss_probability": ("loss probability", lambda value: f"{significant(value * 100)} %"),
    "window_bytes": ("window", size),
    "rtt_s": ("round-trip time", duration),
    "base_rtt_s": ("round-trip time without load", duration),
    "induced_delay_s": ("delay added by load", duration),
    "limited_share": ("share of time", percent),
    "fairness_index": ("Jain's index", significant),
}

_SUFFIXES: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bps", rate),
    ("_bytes", size),
    ("_packets", lambda value: f"{count(value)} packets"),
    ("_s", duration),
    ("_share", percent),
)


def parameter_words(name: str) -> tuple[str, Callable[[float], str]]:
    """The name of a parameter for people, and how its values are written.

    >>> label, write = parameter_words("drain_rate_bps")
    >>> label, write(60e6)
    ('drain rate', '60.0 Mbit/s')
    """
    if name in _PARAMETERS:
        return _PARAMETERS[name]
    for suffix, write in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), write
    return name.replace("_", " "), significant


def ordered(parameters: Mapping[str, Parameter]) -> list[tuple[str, Parameter]]:
    """The parameters as people read them: rates first, then sizes, then what this version does not know."""
    order = list(_PARAMETERS)
    return sorted(parameters.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def interval(name: str, parameter: Parameter) -> str:
    """The 95 % interval of a parameter.

    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, None))
    'at least 9.90 Mbit/s'
    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, 10.1e6))
    '9.90 to 10.1 Mbit/s'
    """
    _, write = parameter_words(name)
    if parameter.low is None and parameter.high is None:
        return "not bounded by this capture"
    if parameter.high is None:
        return f"at least {write(parameter.low)}" if parameter.low is not None else ""
    if parameter.low is None:
        return f"at most {write(parameter.high)}"
    low, high = write(parameter.low), write(parameter.high)
    unit = high.rpartition(" ")[2]
    if low.endswith(f" {unit}"):
        low = low.removesuffix(f" {unit}")
    return f"{low} to {high}"
