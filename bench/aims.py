"""The aims that we hold whydrop to, and whether they were met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from measuring import ratio

if TYPE_CHECKING:
    from presenting import Table


@dataclass(frozen=True)
class Bar:
    """Something that we hold whydrop to."""

    what: str
    wanted: str
    measured: str
    met: bool

    def answer(self) -> str:
        """For people."""
        return "met" if self.met else "not met"


def of_captures(small: Table, part: Table, large: Table) -> list[Bar]:
    """By processor time: other work on the machine stretches wall time."""
    found = []
    if tshark := small.named("tshark"):
        measured = ratio(tshark, small.series[0], wall=False)
        found.append(_at_least("small capture, whole process, against tshark", 10, measured))
    if tshark := part.named("tshark"):
        measured = ratio(tshark, large.series[0], wall=False, packets=(part.packets, large.packets))
        what = f"per packet, large capture, against tshark (on its first {grouped(part.packets)} packets)"
        found.append(_at_least(what, 100, measured))
    if tcptrace := large.named("tcptrace"):
        measured = ratio(tcptrace, large.series[0], wall=False)
        found.append(_at_least("per packet, large capture, against tcptrace", 5, measured))
    found.append(_peak_below(large, 400, "peak memory, large capture"))
    return found


def of_pairs(pair: Table) -> list[Bar]:
    """Of matching, the first program on the pair."""
    per_s = pair.packets / max(pair.series[0].cpu_s(), 1e-6)
    what = "matching, packets of both captures per second on one core"
    rate = Bar(what, ">= 1.5 million", f"{per_s / 1e6:.2f} million", per_s >= 1.5e6)
    return [rate, _peak_below(pair, 1000, "peak memory of matching")]


def grouped(number: int) -> str:
    """With a space between the thousands."""
    return f"{number:,}".replace(",", " ")


def times(value: float) -> str:
    """A ratio to two digits."""
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def _at_least(what: str, wanted: float, measured: float) -> Bar:
    return Bar(what, f">= {wanted:g} x", f"{times(measured)} x", measured >= wanted)


def _peak_below(table: Table, wanted_mb: int, what: str) -> Bar:
    peak_mb = table.series[0].peak_bytes() / 1e6
    return Bar(what, f"< {wanted_mb} MB", f"{peak_mb:.0f} MB", peak_mb < wanted_mb)
