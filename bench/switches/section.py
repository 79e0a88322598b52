"""The section of the results about the collector of switches' counters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aims import Bar, grouped
from presenting import Grid, Section
from programs import Program

from switches import agents
from switches.runs import Collected, collect

NAME = "the collector"
PORTS = 48
MANY = 100
# snmpsim, a Python program, answers some thousands of objects a second and no more.
PORTS_OF_MANY = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this section."""
    parser.add_argument(
        "--switch-seconds", type=int, default=600, help="one switch each second for so long (%(default)s)"
    )
    parser.add_argument("--many-switches-seconds", type=int, default=120, help="100 switches each 10 s (%(default)s)")


def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section:
    """One switch of 48 ports each second, and a hundred each ten seconds on one core."""
    folder, whydrop = options.folder / "switches", command[:1]
    found = []
    if agents.snmpd():
        with agents.real(folder / "snmpd", PORTS) as one:
            found.append(collect(whydrop, one, folder / "run", 1, options.switch_seconds))
        with agents.real(folder / "snmpd", PORTS, MANY) as many:
            found.append(collect(whydrop, many, folder / "run", 10, options.many_switches_seconds, options.core))
    else:
        print("bench: no snmpd (as root: apt-get install snmpd): snmpsim stands in for it", file=sys.stderr)
        with agents.simulated(folder / "snmpsim", PORTS) as one:
            found.append(collect(whydrop, one, folder / "run", 1, options.switch_seconds))
    with agents.simulated(folder / "snmpsim", PORTS_OF_MANY, MANY) as many:
        found.append(collect(whydrop, many, folder / "run", 10, options.many_switches_seconds, options.core))
    return Section(NAME, [table(found)], bars(found), programs(whydrop), None, "")


def table(found: Sequence[Collected]) -> Grid:
    """A line for each run."""
    grid = Grid(
        "whydrop collect, one run each, whole processes",
        [
            "what is polled", "polls", "missed", "samples", "late, median ms", "late, p99 ms", "sleeper, p99 ms",
            "poll, median ms", "poll, p99 ms", "CPU s", "of a core", "peak MB",
        ],
    )  # fmt: skip
    for one in found:
        cells = [grouped(one.due), str(one.missed), grouped(one.samples)]
        cells += [f"{one.late_ms(50):.2f}", f"{one.late_ms(99):.2f}", f"{one.asleep_ms(99):.2f}"]
        cells += [f"{one.took_ms(50):.3g}", f"{one.took_ms(99):.3g}"]
        cells += [f"{one.cpu_s:.1f}", f"{100 * one.cpu_share():.1f} %", f"{one.peak_bytes / 1e6:.0f}"]
        grid.lines.append([what(one), *cells])
    return grid


def what(one: Collected) -> str:
    """A run in words."""
    switches = "1 switch" if one.switches == 1 else f"{one.switches} switches"
    every = "each second" if one.interval_s == 1 else f"each {one.interval_s} s"
    return f"{switches} of {one.ports} ports x {agents.COUNTERS} counters {every}, {one.wall_s:.0f} s ({one.agent})"


def bars(found: Sequence[Collected]) -> list[Bar]:
    """No poll missed and no sample lacking anywhere; of a single switch also how punctual, and what it takes."""
    made = []
    for one in found:
        name = what(one)
        made.append(Bar(f"{name}: polls missed", "0", str(one.missed), one.missed == 0))
        made.append(Bar(f"{name}: samples lacking", "0", str(one.short), one.short == 0))
        if one.switches == 1:
            late_ms, share = one.late_ms(99), one.cpu_share()
            made.append(Bar(f"{name}: p99 of how late polls began", "< 20 ms", f"{late_ms:.2f} ms", late_ms < 20))
            made.append(Bar(f"{name}: processor time", "< 10 % of a core", f"{100 * share:.1f} %", share < 0.1))
    return made


def programs(whydrop: Sequence[str]) -> list[Program]:
    """The programs that ran."""
    ours = Program(
        name="whydrop",
        before=(*whydrop, "collect", "--duration", "TIME"),
        version_command=(whydrop[0], "--version"),
    )
    sim = Program(
        name="snmpsim",
        before=("snmpsim-command-responder", "--agent-udpv4-endpoint", "ADDRESS:PORT", "--data-dir"),
    )
    snmpd = agents.snmpd()
    if snmpd is None:
        return [ours, sim]
    return [ours, Program(name="net-snmp", before=(snmpd, "-f", "-C", "-c"), version_command=(snmpd, "-v")), sim]
