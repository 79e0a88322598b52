"""Measures whydrop beside tshark, tcptrace and a plain read of the file, on this machine.

    make bench                                  # or: .venv/bin/python bench/run.py
    .venv/bin/python bench/run.py --readme      # writes the results into bench/README.md as well
    .venv/bin/python bench/run.py --whydrop target/release/examples/explain_json

What is measured, and why so, stands in bench/README.md.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import captures
import measuring
import presenting
from measuring import Series
from presenting import Table
from programs import PLAIN_READ, TCPTRACE, TSHARK, Program, whydrop

README = Path(__file__).with_name("README.md")
REFERENCE_PACKETS = 500_000


def main() -> int:
    """Measure and print; the exit status is 1 where whydrop could not be measured."""
    options = parse_arguments()
    ours = whydrop(tuple(shlex.split(options.whydrop)))
    if not ours.is_installed():
        print(f"bench: no {ours.before[0]}: run `make setup`, or name a command with --whydrop", file=sys.stderr)
        return 1
    others = [TSHARK, TCPTRACE, PLAIN_READ]
    missing = [program for program in others if not program.is_installed()]
    for program in missing:
        print(f"bench: {program.name} is not installed and is left out ({program.install})", file=sys.stderr)
    try:
        tables = measure(options, ours, [program for program in others if program not in missing])
    except (captures.MakingError, measuring.ProgramError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    programs = [ours, *(program for program in others if program not in missing)]
    print(presenting.for_terminal(tables))
    if options.readme:
        presenting.write_into(README, presenting.as_markdown(tables, programs, options.core))
        print(f"Written into {README}")
    return 0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ours = f"{shlex.quote(str(Path(sys.executable).parent / 'whydrop'))} explain --json"
    parser.add_argument("--whydrop", metavar="COMMAND", default=ours, help="what to measure, without the capture")
    parser.add_argument("--packets", type=int, default=5_000_000, help="size of the large capture (%(default)s)")
    parser.add_argument("--captures", type=Path, nargs="+", help="what to replicate (the captures in examples/)")
    parser.add_argument("--folder", type=Path, default=captures.ROOT / "target" / "bench", help="for the captures")
    parser.add_argument("--core", type=int, default=0, help="the processor core that everything runs on (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns on each capture (%(default)s; small one: 4x)")
    parser.add_argument(
        "--tshark-large", action="store_true", help="run tshark on the large capture too (once; minutes, gigabytes)"
    )
    parser.add_argument("--readme", action="store_true", help="write the results into bench/README.md")
    options = parser.parse_args()
    if options.packets < 1 or options.repetitions < 1:
        parser.error("--packets and --repetitions must be at least 1")
    return options


def measure(options: argparse.Namespace, ours: Program, others: list[Program]) -> list[Table]:
    """Make the captures, run everything on them, compare."""
    sources = options.captures or sorted(captures.EXAMPLES.glob("*.pcap.zst"))
    small_capture = captures.make_small(options.folder)
    part_capture = captures.make_large(options.folder, min(REFERENCE_PACKETS, options.packets), sources)
    large_capture = captures.make_large(options.folder, options.packets, sources)
    measuring.pin_to_core(options.core)

    small = run("Small capture", small_capture, [ours, *others], 4 * options.repetitions)
    part = run("Part of the large capture", part_capture, [ours, *others], options.repetitions)
    quick = [program for program in others if program is not TSHARK]
    large = run("Large capture", large_capture, [ours, *quick], options.repetitions)
    if options.tshark_large and TSHARK in others:
        once = Series(TSHARK.name, TSHARK.command(large_capture.path))
        measuring.measure_in_turns([once], 1, warm_up=False)
        large.series.append(once)
    return [small, part, large]


def run(title: str, capture: captures.Measured, programs: list[Program], repetitions: int) -> Table:
    """All programs in turns on one capture."""
    series = [Series(program.name, program.command(capture.path)) for program in programs]
    measuring.measure_in_turns(series, repetitions)
    return Table(title, capture.packets, capture.size_bytes(), series)


if __name__ == "__main__":
    sys.exit(main())
