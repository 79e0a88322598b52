"""Measures whydrop beside tshark, tcptrace and a plain read of the file, on this machine.

    make bench                                  # or: .venv/bin/python bench/run.py
    .venv/bin/python bench/run.py --readme      # writes the results into bench/README.md as well
    .venv/bin/python bench/run.py --only pairs  # two captures of one path only; engine: traffic (as root)
    .venv/bin/python bench/run.py --whydrop target/release/examples/explain_json

What is measured, and why so, stands in bench/README.md.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import aims
import engine_section
import example_captures
import measuring
import presenting
from aims import grouped
from example_captures import Measured, MeasuredPair
from measuring import Series
from presenting import Section, Table
from programs import PLAIN_READ, TCPTRACE, TSHARK, TSHARK_MATCHING, Program, whydrop
from wire import WireError

README = Path(__file__).with_name("README.md")
# Sections in modules of their own, which have `measure(options, command) -> Section | None` (None: what it needs is not
# there, which it has said) and may have `arguments(parser)`.
MODULES = {
    "many": "many_section",
    "ingest": "ingest.section",
    "switches": "switches.section",
    "fleet": "fleet_section",
    "study": "study_section",
    "floods": "flood_section",
}
SECTIONS = ("engine", "captures", "pairs", *MODULES)
REFERENCE_PACKETS = 500_000
REFERENCE_PAIR_PACKETS = 200_000
OURS = "what to measure, without the captures"


def main() -> int:
    """Measure and print; the exit status is 1 where whydrop could not be measured."""
    options = parse_arguments()
    ours = shlex.split(options.whydrop)
    if not whydrop(tuple(ours)).is_installed():
        print(f"bench: no {ours[0]}: run `make setup`, or name a command with --whydrop", file=sys.stderr)
        return 1
    if options.whydrop == measured_here() and compiled_as() == "dev":
        print("bench: whydrop is compiled as for tests, and slower: run `tools/setup release` first", file=sys.stderr)
        return 1
    try:
        for measure in (measure_engine, *map(of_module, MODULES), measure_captures, measure_pairs):
            section = measure(options, tuple(ours))
            if section is None:
                continue
            print(presenting.for_terminal(section.tables, section.bars), end="\n\n")
            if options.readme:
                measured = presenting.as_markdown(*section[1:])
                presenting.write_into(README, section.name, measured)
                print(f"Written into {README}")
    except (example_captures.MakingError, measuring.ProgramError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    return 0


def measured_here(verb: str = "explain") -> str:
    """The command of this folder's whydrop, which is measured unless another is named."""
    return f"{shlex.quote(str(Path(sys.executable).parent / 'whydrop'))} {verb} --json"


def compiled_as() -> str:
    """The profile that the extension of this environment was compiled with, as tools/setup writes it down."""
    stamp = Path(sys.prefix) / ".extension-built"
    return stamp.read_text(encoding="utf-8").strip() if stamp.exists() else ""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SECTIONS, help="measure this only")
    parser.add_argument("--whydrop", metavar="COMMAND", default=measured_here(), help=OURS)
    parser.add_argument("--match", metavar="COMMAND", default=measured_here("match"), help=OURS)
    parser.add_argument("--packets", type=int, default=5_000_000, help="size of the large capture (%(default)s)")
    parser.add_argument("--pair-packets", type=int, default=2_000_000, help="of each capture of the pair (%(default)s)")
    parser.add_argument("--captures", type=Path, nargs="+", help="what to replicate (the captures in examples/)")
    parser.add_argument("--pairs", type=Path, nargs="+", help="the same for the pair: two captures of each path")
    parser.add_argument("--seconds", type=float, default=10, help="each run of the traffic engine (%(default)s)")
    folder = example_captures.ROOT / "target" / "bench"
    parser.add_argument("--folder", type=Path, default=folder, help="for the captures")
    parser.add_argument("--core", type=int, default=0, help="the processor core that everything runs on (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns on each capture (%(default)s; small one: 4x)")
    parser.add_argument(
        "--tshark-large", action="store_true", help="run tshark on the large ones too (once; minutes, gigabytes)"
    )
    for module in MODULES.values():
        if hasattr(importlib.import_module(module), "arguments"):
            importlib.import_module(module).arguments(parser)
    parser.add_argument("--readme", action="store_true", help="write the results into bench/README.md")
    options = parser.parse_args()
    if min(options.packets, options.pair_packets, options.repetitions) < 1:
        parser.error("--packets, --pair-packets and --repetitions must be at least 1")
    return options


def of_module(name: str) -> Callable[[argparse.Namespace, tuple[str, ...]], Section | None]:
    """The function that measures a section that has a module of its own."""

    def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section | None:
        if options.only not in (None, name):
            return None
        section: Section | None = importlib.import_module(MODULES[name]).measure(options, command)
        return section

    return measure


def measure_engine(options: argparse.Namespace, command: tuple[str, ...]) -> Section | None:
    """Whydrop's traffic beside iperf3's and irtt's. First of all, as the others stay on one core."""
    if options.only not in (None, "engine"):
        return None
    try:
        tables, bars, programs = engine_section.measure(options, command[:1])
    except WireError as reason:
        if options.only == "engine":
            raise measuring.ProgramError(str(reason)) from None
        print(f"bench: the traffic engine is left out: {reason}", file=sys.stderr)
        return None
    return Section("the traffic engine", tables, bars, programs, None, "")


def measure_captures(options: argparse.Namespace, command: tuple[str, ...]) -> Section | None:
    """Whydrop beside others on single captures."""
    if options.only not in (None, "captures"):
        return None
    ours, others = whydrop(command), installed([TSHARK, TCPTRACE, PLAIN_READ])
    sources = options.captures or example_captures.examples()
    small_capture = example_captures.make_small(options.folder)
    part_capture = example_captures.make_large(options.folder, min(REFERENCE_PACKETS, options.packets), sources)
    large_capture = example_captures.make_large(options.folder, options.packets, sources)
    measuring.pin_to_core(options.core)

    small = run("Small capture", small_capture, [ours, *others], 4 * options.repetitions)
    part = run("Part of the large capture", part_capture, [ours, *others], options.repetitions)
    quick = [program for program in others if program is not TSHARK]
    large = run("Large capture", large_capture, [ours, *quick], options.repetitions)
    if options.tshark_large and TSHARK in others:
        large.series.append(run_tshark_once(TSHARK, large_capture))
    return Section(
        "captures", [small, part, large], aims.of_captures(small, part, large), [ours, *others], options.core
    )


def measure_pairs(options: argparse.Namespace, command: tuple[str, ...]) -> Section | None:
    """Matching two captures of one path, and explaining them, beside the export that matching by hand begins with."""
    if options.only not in (None, "pairs"):
        return None
    matching = whydrop(tuple(shlex.split(options.match)), "whydrop match")
    ours, others = [matching, whydrop(command, "whydrop explain")], installed([TSHARK_MATCHING, PLAIN_READ])
    sources = options.pairs or example_captures.example_pairs()
    part_pair = example_captures.make_pair(options.folder, min(REFERENCE_PAIR_PACKETS, options.pair_packets), sources)
    pair = example_captures.make_pair(options.folder, options.pair_packets, sources)
    measuring.pin_to_core(options.core)

    part = run(f"Part of the pair ({each(part_pair)})", part_pair, [*ours, *others], options.repetitions)
    quick = [program for program in others if program is not TSHARK_MATCHING]
    large = run(f"Pair of captures ({each(pair)})", pair, [*ours, *quick], options.repetitions)
    if options.tshark_large and TSHARK_MATCHING in others:
        large.series.append(run_tshark_once(TSHARK_MATCHING, pair))
    return Section("pairs", [part, large], aims.of_pairs(large), [*ours, *others], options.core)


def each(pair: MeasuredPair) -> str:
    """How many packets each capture has."""
    return " and ".join(map(grouped, pair.packets_each))


def installed(programs: list[Program]) -> list[Program]:
    """Those of them that are; the others are mentioned."""
    for program in programs:
        if not program.is_installed():
            print(f"bench: {program.name} is not installed and is left out ({program.install})", file=sys.stderr)
    return [program for program in programs if program.is_installed()]


def run(title: str, on: Measured | MeasuredPair, programs: list[Program], repetitions: int) -> Table:
    """All programs in turns on one capture, or one pair."""
    series = [Series(program.name, program.command(*on.paths)) for program in programs]
    measuring.measure_in_turns(series, repetitions)
    return Table(title, on.packets, on.size_bytes(), series)


def run_tshark_once(program: Program, on: Measured | MeasuredPair) -> Series:
    """It takes minutes."""
    once = Series(program.name, program.command(*on.paths))
    measuring.measure_in_turns([once], 1, warm_up=False)
    return once


if __name__ == "__main__":
    sys.exit(main())
