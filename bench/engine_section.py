"""The section of the results about the traffic engine."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from aims import Bar
from engine_runs import Crowd, Iperf3, Irtt, Punctuality, Transfer, Whydrop, loaded
from presenting import Grid
from programs import Program
from wire import Wire, WireError, tell, wire

# Who runs whydrop: root's threads that send probes are scheduled in real time, other users' like any other.
WHO = ("as root", "as a user")
Turn = tuple[Punctuality, Punctuality, Punctuality]
"""As root, as a user, and irtt."""
PROBE_INTERVALS_S = (0.005, 0.02)


@dataclass
class Pairs:
    """The measurements of two programs in turns, whydrop first."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def add(self, ours: float, theirs: float) -> None:
        """Add the values of one turn."""
        self.ours.append(ours)
        self.theirs.append(theirs)

    def ratio(self) -> float:
        """Of whydrop's to the other's: the median over the turns of the ratio within each."""
        return statistics.median(mine / other for mine, other in zip(self.ours, self.theirs, strict=True))

    def cells(self, digits: str = ".3g") -> list[str]:
        """Medians and the ratio."""
        medians = [statistics.median(self.ours), statistics.median(self.theirs)]
        return [*(format(median, digits) for median in medians), f"{self.ratio():.3g}"]


def measure(options: argparse.Namespace, command: Sequence[str]) -> tuple[list[Grid], list[Bar], list[Program]]:
    """Everything about the engine, on one veth pair.

    Raises:
        WireError: there are no namespaces, or a program failed.
    """
    for program in (IPERF3, IRTT):
        if not program.is_installed():
            raise WireError(f"{program.name} is not installed ({program.install})")
    with wire() as made:
        root, user = (Whydrop(made, command, real_time=real_time) for real_time in (True, False))
        transfers, of_transfers = _transfers(made, user, options.repetitions, options.seconds)
        probes, of_probes = _probes(made, (root, user), options.repetitions, options.seconds)
        crowd, of_crowd = _crowd((root, user), options.repetitions, options.seconds)
    tell("")
    return [transfers, probes, crowd], [*of_transfers, *of_probes, *of_crowd], [_ours(command), IPERF3, IRTT]


def _transfers(made: Wire, ours: Whydrop, repetitions: int, seconds: float) -> tuple[Grid, list[Bar]]:
    theirs = Iperf3(made)
    tell("without a transfer")
    nothing = (
        statistics.median(ours.nothing_s() for _ in range(3)),
        statistics.median(theirs.nothing_s() for _ in range(3)),
    )
    grid = Grid(
        f"One TCP flow as fast as it goes, {seconds:g} s, {repetitions} turns",
        ["median of the turns", "whydrop", "iperf3", "ratio"],
    )
    bars = []
    for direction in ("up", "down"):
        mine, others = [], []
        for turn in range(repetitions):
            tell(f"TCP {direction}, turn {turn + 1} of {repetitions}")
            mine.append(ours.transfer(direction, seconds))
            others.append(theirs.transfer(direction, seconds))
        lines, more = compared(direction, mine, others, nothing)
        grid.lines += lines
        bars += more
    grid.lines.append(["without a transfer, CPU s", f"{nothing[0]:.3g}", f"{nothing[1]:.3g}", ""])
    return grid, bars


def compared(
    direction: str, ours: Sequence[Transfer], theirs: Sequence[Transfer], nothing: tuple[float, float]
) -> tuple[list[list[str]], list[Bar]]:
    """Lines and bars of one direction."""
    rate, cpu, whole = Pairs(), Pairs(), Pairs()
    for mine, other in zip(ours, theirs, strict=True):
        rate.add(mine.bits_per_s / 1e9, other.bits_per_s / 1e9)
        cpu.add(mine.cpu_s_per_gigabyte(nothing[0]), other.cpu_s_per_gigabyte(nothing[1]))
        whole.add(mine.cpu_s_per_gigabyte(), other.cpu_s_per_gigabyte())
    lines = [
        [f"{direction}, Gbit/s at the receiver", *rate.cells()],
        [f"{direction}, CPU s/GB of both ends", *cpu.cells()],
        [f"{direction}, the same with start and end of the programs", *whole.cells()],
    ]
    bars = [
        Bar(f"TCP {direction}, throughput against iperf3", ">= 0.97 x", f"{rate.ratio():.3g} x", rate.ratio() >= 0.97),
        Bar(f"TCP {direction}, CPU per byte against iperf3", "<= 1.1 x", f"{cpu.ratio():.3g} x", cpu.ratio() <= 1.1),
    ]
    return lines, bars


def _probes(made: Wire, ours: tuple[Whydrop, Whydrop], repetitions: int, seconds: float) -> tuple[Grid, list[Bar]]:
    programs = (*ours, Irtt(made))
    grid = Grid(
        f"How far from its time a probe is sent, {seconds:g} s, {repetitions} turns",
        ["median of the turns, µs", *(f"whydrop, {who}" for who in WHO), "irtt", *(f"ratio, {who}" for who in WHO)],
    )
    bars = []
    for busy in (False, True):
        for interval_s in PROBE_INTERVALS_S:
            found: list[Turn] = []
            for turn in range(repetitions):
                tell(f"probes each {interval_s * 1e3:g} ms, turn {turn + 1} of {repetitions}")
                with loaded(made) if busy else nullcontext():
                    one, two, three = (program.punctuality(interval_s, seconds) for program in programs)
                found.append((one, two, three))
            what = f"each {interval_s * 1e3:g} ms, {'beside 4 bulk flows' if busy else 'idle'}"
            lines, more = punctual(what, found)
            grid.lines += lines
            bars += more
    return grid, bars


def punctual(what: str, found: Sequence[Turn]) -> tuple[list[list[str]], list[Bar]]:
    """Lines and bars of one interval between probes."""
    lines = []
    for percent in (50, 99):
        figures = [[one.percentile_us(percent) for one in turn] for turn in found]
        pairs = [Pairs([turn[which] for turn in figures], [turn[-1] for turn in figures]) for which in (0, 1)]
        medians = [statistics.median(turn[which] for turn in figures) for which in (0, 1, 2)]
        ratios = [one.ratio() for one in pairs]
        lines.append(
            [
                f"{what}: {'median' if percent == 50 else 'p99'}",
                *(f"{median:.3g}" for median in medians),
                *(f"{ratio:.2g}" for ratio in ratios),
            ]
        )
    not_sent = [str(sum(turn[which].not_sent for turn in found)) for which in (0, 1, 2)]
    lines.append([f"{what}: probes not sent, all turns", *not_sent, "", ""])
    return lines, [
        Bar(f"timer error p99, probes {what}, {who}, against irtt", "<= 1 x", f"{ratio:.2g} x", ratio <= 1)
        for who, ratio in zip(WHO, ratios, strict=True)
    ]


def _crowd(ours: tuple[Whydrop, Whydrop], repetitions: int, seconds: float) -> tuple[Grid, list[Bar]]:
    found: dict[str, list[Crowd]] = {who: [] for who in WHO}
    for turn in range(repetitions):
        for who, program in zip(WHO, ours, strict=True):
            tell(f"64 flows and 10 streams of probes, {turn + 1} of {repetitions}")
            found[who].append(program.crowd(seconds))
    return crowded(found, seconds)


def crowded(found: Mapping[str, Sequence[Crowd]], seconds: float) -> tuple[Grid, list[Bar]]:
    """The table and the bars of many flows at once."""
    grid = Grid(
        f"64 TCP flows (32 in each direction) and 10 streams of probes each 5 ms at once, {seconds:g} s",
        ["run", "intervals", "missed", "probes", "not sent", "sent more than 5 ms late", "worst error ms"],
    )
    bars = []
    for who, crowds in found.items():
        for number, one in enumerate(crowds, start=1):
            counts = (one.intervals, one.missed_intervals, one.probes, one.not_sent, one.late)
            grid.lines.append([f"{who}, {number}", *map(str, counts), f"{one.worst_error_ms:.2f}"])
        missed = sum(one.missed_intervals for one in crowds)
        late = sum(one.not_sent + one.late for one in crowds)
        bars += [
            Bar(f"64 flows and 10 streams of probes, {who}: missed intervals", "0", str(missed), missed == 0),
            Bar(f"the same, {who}: probes not sent, or an interval late", "0", str(late), late == 0),
        ]
    return grid, bars


def _ours(command: Sequence[str]) -> Program:
    return Program(
        name="whydrop",
        before=(*command, "run", "bench/engine/*.toml", "--no-plot", "--no-counters"),
        version_command=(command[0], "--version"),
    )


IPERF3 = Program(
    name="iperf3",
    before=("iperf3", "-c", "ADDRESS", "-i", "0.2", "-J"),
    version_command=("iperf3", "--version"),
    install="apt-get install iperf3",
)
IRTT = Program(
    name="irtt",
    before=("irtt", "client", "-i", "INTERVAL", "-Q", "-o"),
    version_command=("irtt", "version"),
    install="apt-get install irtt",
)
