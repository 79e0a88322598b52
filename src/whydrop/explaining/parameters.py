"""Parameters of verdicts for people: their names, values and 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whydrop.explaining.document import Parameter
from whydrop.text import quantities
from whydrop.text.quantities import count, duration, exact_size, percent, plural, rate, significant, size


def _packets(value: float) -> str:
    return plural(value, "packet")


def _mean_packets(value: float) -> str:
    return f"{significant(value)} packets"


_PARAMETERS: dict[str, tuple[str, Callable[[float], str]]] = {
    "rate_bps": ("rate", rate),
    "peak_rate_bps": ("peak rate", rate),
    "drain_rate_bps": ("drain rate", rate),
    "burst_bytes": ("bucket (burst size)", size),
    "peak_burst_bytes": ("peak bucket", size),
    "limit_packets": ("queue limit", _packets),
    "limit_bytes": ("queue limit", size),
    "mtu_bytes": ("path MTU", exact_size),
    "outage_s": ("outage", duration),
    "jitter_s": ("delay variation (10th to 90th percentile)", duration),
    "change_s": ("change of delay from packet to packet", duration),
    "batch_interval_s": ("time between batches", duration),
    "batch_packets": ("packets of a batch", count),
    "target_s": ("target delay", duration),
    "interval_s": ("control interval", duration),
    "threshold_s": ("lower threshold", duration),
    "loss_rate": ("loss rate", percent),
    "loss_probability": ("loss probability", percent),
    "mean_burst_packets": ("mean run of losses", _mean_packets),
    "window_bytes": ("window", size),
    "rtt_s": ("round-trip time", duration),
    "base_rtt_s": ("round-trip time without load", duration),
    "induced_delay_s": ("delay added by load", duration),
    "limited_share": ("share of time", percent),
    "fairness_index": ("Jain's index", significant),
}


def parameter_words(name: str) -> tuple[str, Callable[[float], str]]:
    """The name of a parameter for people, and how its values are written.

    >>> label, write = parameter_words("drain_rate_bps")
    >>> label, write(60e6)
    ('drain rate', '60.0\xa0Mbit/s')
    """
    if name in _PARAMETERS:
        return _PARAMETERS[name]
    if name.endswith("_packets"):
        return name.removesuffix("_packets").replace("_", " "), _packets
    if (write := quantities.by_name(name)) is not None:
        return name.rpartition("_")[0].replace("_", " "), write
    return name.replace("_", " "), significant


def ordered(parameters: Mapping[str, Parameter]) -> list[tuple[str, Parameter]]:
    """The parameters as people read them: rates first, then sizes, then what this version does not know."""
    order = list(_PARAMETERS)
    return sorted(parameters.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def interval(name: str, parameter: Parameter) -> str:
    """The 95 % interval of a parameter.

    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, None))
    'at least 9.90\xa0Mbit/s'
    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, 10.1e6))
    '9.90 to 10.1\xa0Mbit/s'
    """
    _, write = parameter_words(name)
    if parameter.low is None and parameter.high is None:
        return "not bounded by this capture"
    if parameter.high is None:
        return f"at least {write(parameter.low)}" if parameter.low is not None else ""
    if parameter.low is None:
        return f"at most {write(parameter.high)}"
    return quantities.interval(write, parameter.low, parameter.high)
