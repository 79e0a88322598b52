"""The section of the results about floods: millions of 5-tuples that each carry a byte, explained by one process."""

from __future__ import annotations

import argparse
from pathlib import Path

import floods
import measuring
from aims import Bar, grouped
from measuring import Series
from presenting import Grid, Section
from programs import whydrop

TUPLES = 5_000_000
LONGEST_S, MOST_MB = 20, 400
# What each 5-tuple sends, and whether all are of one host: keys of floods.EXCHANGES, and of floods.SOURCES.
KINDS = (
    ("data", "ports"),
    ("data", "spoofed"),
    ("syn", "ports"),
    ("syn", "spoofed"),
    ("repeated", "spoofed"),
    ("answered", "spoofed"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this section."""
    parser.add_argument("--tuples", type=int, default=TUPLES, metavar="N", help="5-tuples of a flood (%(default)s)")


def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section:
    """Every kind of flood; a capture is deleted before the next is made, as some take more than a gigabyte."""
    measuring.pin_to_core(options.core)
    title = f"{grouped(options.tuples)} 5-tuples with a byte each, one run each"
    grid = Grid(title, ["each 5-tuple", "packets", "file MB", "wall s", "CPU s", "peak MB"])
    bars = []
    for exchange, sources in KINDS:
        name = f"{exchange}, {sources}"
        path = options.folder / "flood.pcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        packets = floods.write(path, options.tuples, exchange, sources)
        one = Series(name, [*command, str(path)])
        one.runs.append(measuring.run_once(one.command))
        grid.lines.append(_line(one, packets, path))
        bars += _bars(one)
        path.unlink()
    return Section("floods", [grid], bars, [whydrop(command)], options.core)


def _line(one: Series, packets: int, path: Path) -> list[str]:
    size_mb = path.stat().st_size / 1e6
    taken = (f"{one.wall_s():.1f}", f"{one.cpu_s():.1f}", f"{one.peak_bytes() / 1e6:.0f}")
    return [one.name, grouped(packets), f"{size_mb:.0f}", *taken]


def _bars(one: Series) -> list[Bar]:
    cpu_s, peak_mb = one.cpu_s(), one.peak_bytes() / 1e6
    return [
        Bar(f"flood ({one.name}): whole process", f"< {LONGEST_S} s", f"{cpu_s:.1f} s", cpu_s < LONGEST_S),
        Bar(f"flood ({one.name}): peak memory", f"< {MOST_MB} MB", f"{peak_mb:.0f} MB", peak_mb < MOST_MB),
    ]
