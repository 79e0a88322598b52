"""The section of the results about many captures: explained into a store, beside a loop over them."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import example_captures
import measuring
from aims import Bar
from measuring import Series
from presenting import Grid, Section
from programs import Program

COPIES = 600


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this section."""
    parser.add_argument("--many", type=int, default=COPIES, metavar="N", help="captures in a folder (%(default)s)")


def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section:
    """So many captures, by a loop, by one worker and by one worker for each processor."""
    folder = options.folder / "many"
    make(folder, options.many)
    store = options.folder / "many.store"
    ours = command[0]
    into = ("sh", "-c", 'rm -rf "$1"; shift; exec "$@"', "sh", str(store), ours, "store", "explain", str(store))
    loop = 'for one in "$2"/*; do "$1" explain "$one" --json; done'
    cores = len(os.sched_getaffinity(0))
    ways = {
        "a loop of whydrop explain --json": ("sh", "-c", loop, "sh", ours, str(folder)),
        "whydrop store explain, 1 worker": (*into, "--workers", "1", str(folder)),
        f"whydrop store explain, {cores} workers": (*into, "--workers", str(cores), str(folder)),
    }
    series = [Series(name, words) for name, words in ways.items()]
    measuring.measure_in_turns(series, options.repetitions)
    grid = Grid(
        f"{options.many} captures of one example, {options.repetitions} turns",
        ["method", "wall s", "CPU s", "captures/s", "peak MB of one process"],
        [_line(one, options.many) for one in series],
    )
    shutil.rmtree(store, ignore_errors=True)
    faster = series[0].wall_s() / series[-1].wall_s()
    bars = [Bar("many captures, wall time against a loop", "< 1 x", f"{1 / faster:.2f} x", faster > 1)]
    return Section("many captures", [grid], bars, [_program(ours)], None, "")


def make(folder: Path, copies: int) -> None:
    """Copies of an example that differ, so that none is known from another."""
    source = example_captures.examples()[0].read_bytes()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(copies):
        # A skippable frame of zstd (RFC 8878, section 3.1.2) makes each another file with the same packets.
        frame = b"\x50\x2a\x4d\x18" + (8).to_bytes(4, "little") + number.to_bytes(8, "little")
        (folder / f"{number:05}.pcap.zst").write_bytes(source + frame)


def _line(one: Series, copies: int) -> list[str]:
    wall_s = one.wall_s()
    return [one.name, f"{wall_s:.2f}", f"{one.cpu_s():.2f}", f"{copies / wall_s:.0f}", f"{one.peak_bytes() / 1e6:.0f}"]


def _program(ours: str) -> Program:
    return Program(
        name="whydrop",
        before=(ours, "store", "explain", "STORE", "--workers", "N", "FOLDER"),
        version_command=(ours, "--version"),
    )
