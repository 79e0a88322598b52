"""The volume of a test before it runs: what it sends at its own rate, and what only the path limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from whydrop.measure.plan import Plan, PlannedFlow
from whydrop.text import quantities

# What the engine sends where a flow says nothing (crates/traffic).
_PROBE_BYTES, _ECHO_BYTES, _STREAM_BYTES, _PER_BURST, _BURST_EVERY_S = 64, 56, 1200, 100, 1.0


@dataclass(frozen=True)
class Volume:
    """The payload that a test sends in one direction.

    Attributes:
        fixed_bytes: of probes, and of flows with a rate or a size of their own: no more than this.
        unlimited_s: how long TCP flows run that only the path limits.
    """

    fixed_bytes: float
    unlimited_s: float

    def at_bytes(self, rate_bps: float) -> float:
        """The volume on a path of this rate, where TCP takes what the other flows leave; no more than this."""
        return self.fixed_bytes + self.unlimited_s * rate_bps / 8


def volume(plan: Plan, direction: str) -> Volume:
    """The payload that a plan sends ``up`` or ``down``."""
    flows = [flow for flow in plan.flows if flow.direction in (direction, "both")]
    endless = [flow for flow in flows if _bytes_of(flow, plan) is None and flow.kind == "tcp"]
    spans = ((flow.start_s, flow.start_s + (flow.duration_s or plan.length_s)) for flow in endless)
    return Volume(sum(_bytes_of(flow, plan) or 0.0 for flow in flows), _covered_s(spans))


def in_words(plan: Plan) -> list[str]:
    """List what a plan sends, for people who pay for it, or share the path.

    >>> from whydrop.measure.tests import resolve
    >>> in_words(resolve("tcp_1up", ["HOST"], {"length_s": 60, "delay_s": 0}))[1].replace(chr(160), " ")
    'TCP up: as fast as the path allows for 60.0 s; 750 MB on a path of 100 Mbit/s.'
    """
    both = {direction: volume(plan, direction) for direction in ("up", "down")}
    lines = []
    if any(one.fixed_bytes for one in both.values()):
        sizes = " and ".join(f"{quantities.size(one.fixed_bytes)} {direction}" for direction, one in both.items())
        lines.append(f"Probes, and flows with a rate or size of their own: at most {sizes}.")
    for direction, one in both.items():
        if one.unlimited_s:
            lines.append(
                f"TCP {direction}: as fast as the path allows for {quantities.duration(one.unlimited_s)}; "
                f"{quantities.size(one.unlimited_s * 100e6 / 8)} on a path of {quantities.rate(100e6)}."
            )
    fetching = {flow.runner for flow in plan.flows if flow.kind == "http"}
    if "responsiveness" in fetching:
        lines.append("Probes of responsiveness: a share of the goodput (probe_share_percent).")
    if fetching - {"responsiveness"}:
        lines.append("Web pages: as large as they are.")
    return lines or ["Nothing is sent."]


def _bytes_of(flow: PlannedFlow, plan: Plan) -> float | None:
    """The payload of a flow in each of its directions, at most; ``None``: only the path limits it, or it is unknown."""
    lasts_s = flow.duration_s if flow.duration_s is not None else plan.length_s
    if flow.kind in ("probe", "icmp"):
        size = flow.packet_payload_bytes or (_PROBE_BYTES if flow.kind == "probe" else _ECHO_BYTES)
        return lasts_s / flow.interval_s * size
    if flow.kind == "burst":
        size = flow.packet_payload_bytes or _STREAM_BYTES
        return lasts_s / (flow.burst_every_s or _BURST_EVERY_S) * (flow.packets_per_burst or _PER_BURST) * size
    if flow.payload_bytes is not None:
        return float(flow.payload_bytes)
    rates = [rate for rate in (flow.rate_bps, flow.pacing_rate_bps) if rate is not None]
    if not rates:
        return None
    share = flow.on_s / (flow.on_s + flow.off_s) if flow.on_s and flow.off_s else 1.0
    return min(rates) / 8 * lasts_s * share


def _covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of these spans lasts."""
    return sum(end - start for start, end in _merged(sorted(spans)))


def _merged(spans: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    current: tuple[float, float] | None = None
    for start, end in spans:
        if current is None or start > current[1]:
            if current is not None:
                yield current
            current = (start, end)
        else:
            current = (current[0], max(current[1], end))
    if current is not None:
        yield current
