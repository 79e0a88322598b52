"""Measure how long ``whydrop web`` takes to open recordings in the view Compare, the first time and again.

    .venv/bin/python bench/web/compare.py --recordings 500

Three methods in turn, over the same files: each column is read to see whether a series has values, as it was done
before; the ends of the files are read; it is kept beside the index. Each has a process of its own, as in the page.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))


def make(folder: Path, count: int) -> list[str]:
    """Write recordings of a test with some twenty series, and a few values each."""
    recordings = importlib.import_module("recordings")
    folder.mkdir()
    for number in range(count):
        variables = {"qdisc": ("fifo", "fq_codel")[number % 2], "run": number}
        recordings.rrul(folder / f"{number:04}.recording", scale=1 + number / count, batch={"variables": variables})
    return sorted(map(str, folder.iterdir()))


def opened(way: str, paths: list[str], kept: str, answer: multiprocessing.SimpleQueue[tuple[float, int]]) -> None:
    """Open recordings as a comparison of the page does, and say how long it took, and how many plots there are."""
    from whydrop.recording import table_files
    from whydrop.web.work.comparison import Comparison

    if way == "columns":
        table_files.nulls_of = lambda *_: {}
    began_s = time.perf_counter()
    page = Comparison(lambda _: None, paths, [kept] if way == "kept" else []).page()
    answer.put((time.perf_counter() - began_s, len(page["plots"])))


def measured(way: str, paths: list[str], kept: str) -> tuple[float, int]:
    """Seconds, and the number of plots."""
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.SimpleQueue[tuple[float, int]] = context.SimpleQueue()
    process = context.Process(target=opened, args=(way, paths, kept, answer))
    process.start()
    found = answer.get()
    process.join()
    return found


def main() -> None:
    """Measure each method a few times, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recordings", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    ways = {"columns": "each column read", "ends": "ends of files read", "kept": "kept"}
    with tempfile.TemporaryDirectory() as base:
        paths = make(Path(base) / "recordings", given.recordings)
        measured("kept", paths, base)
        print(f"load {os.getloadavg()[0]:.1f}, {given.recordings} recordings")
        print("| round | " + " | ".join(ways.values()) + " | plots |\n|--:|--:|--:|--:|--:|")
        for number in range(given.rounds):
            found = {way: measured(way, paths, base) for way in ways}
            assert len({plots for _, plots in found.values()}) == 1
            times = [f"{seconds:.2f} s" for seconds, _ in found.values()]
            print(f"| {number + 1} | {' | '.join(times)} | {found['kept'][1]} |", flush=True)


if __name__ == "__main__":
    main()
