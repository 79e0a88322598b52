"""Two builds of whydrop side by side: how much longer the second takes on small, large, paired and flooded captures.

    cargo build --release -p whydrop-explain --example explain_json     # in both checkouts
    .venv/bin/python bench/speeds.py ../before/target/release/examples/explain_json target/release/examples/explain_json

Both run in turns on one core; a ratio is the median over the turns of the processor time of the second by that of the
first. Exit status: 0 measured, 1 a program failed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import example_captures
import floods
import measuring
from measuring import ProgramError, Series

FOLDER = Path(__file__).resolve().parent.parent / "target" / "bench"


def main() -> int:
    """Measure, and print a line for each capture."""
    options = _options()
    before, now = shlex.split(options.before), shlex.split(options.now)
    options.folder.mkdir(parents=True, exist_ok=True)
    captures = list(_captures(options))
    measuring.pin_to_core(options.core)
    print(f"{'capture':<24} {'before':>9} {'now':>9} {'ratio':>6} {'memory':>7}")
    try:
        for name, paths, turns in captures:
            print(_line(name, before, now, paths, turns), flush=True)
    except ProgramError as error:
        print(f"speeds: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="command that explains the captures which are appended to it")
    parser.add_argument("now", help="the same of the other build")
    parser.add_argument("--packets", type=int, default=3_000_000, help="of the large capture (%(default)s)")
    parser.add_argument("--pair-packets", type=int, default=1_000_000, help="of each capture of the pair (%(default)s)")
    parser.add_argument("--tuples", type=int, default=1_000_000, help="5-tuples of a flood (%(default)s)")
    parser.add_argument("--turns", type=int, default=7, help="on each capture; small ones 3x (%(default)s)")
    parser.add_argument("--core", type=int, default=0, help="the processor that everything runs on (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the captures")
    return parser.parse_args()


def _captures(options: argparse.Namespace) -> Iterator[tuple[str, Sequence[Path], int]]:
    """The name of each measurement, its captures and its turns."""
    folder = options.folder
    yield "small", example_captures.make_small(folder).paths, 3 * options.turns
    yield (
        "large",
        example_captures.make_large(folder, options.packets, example_captures.examples()).paths,
        options.turns,
    )
    pair = example_captures.make_pair(folder, options.pair_packets, example_captures.example_pairs())
    yield "pair", pair.paths, options.turns
    for exchange in ("syn", "answered"):
        path = folder / f"flood-{exchange}-{options.tuples}.pcap"
        if not path.exists():
            floods.write(path, options.tuples, exchange, "spoofed")
        yield f"flood: {exchange}", (path,), options.turns


def _line(name: str, before: Sequence[str], now: Sequence[str], paths: Sequence[Path], turns: int) -> str:
    captures = [str(path) for path in paths]
    both = Series(f"{name}, before", [*before, *captures]), Series(f"{name}, now", [*now, *captures])
    measuring.measure_in_turns(both, turns)
    ratio = measuring.ratio(both[1], both[0], wall=False)
    memory = both[1].peak_bytes() / both[0].peak_bytes()
    return f"{name:<24} {both[0].cpu_s():>7.3f} s {both[1].cpu_s():>7.3f} s {ratio:>6.2f} {memory:>7.2f}"


if __name__ == "__main__":
    sys.exit(main())
