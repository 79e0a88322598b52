#!/usr/bin/env python3
"""Explains mutated captures: no crash, no traceback, no minutes, no gigabytes.

Captures are drawn, or taken from files, and mutated packet by packet: few of them, flows without start or end, flags,
windows, clocks, numbers, lengths, order; one capture or two of a path, with a report now and then. A case is made of a
seed and its number, the same at each time. What goes wrong is kept in --keep, with what was said. Run it in whydrop's
environment:

    .venv/bin/python tools/fuzz_packets.py --seconds 60 examples
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzzing import cases
from fuzzing.frames import Frames

ROOT = Path(__file__).resolve().parent.parent
_START_S = 900.0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("corpus", nargs="*", type=Path, help="captures, and folders of them, to take packets from")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--cases", type=int, default=2000, help="cases of each seed")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--limit-s", type=float, default=30.0, help="seconds for one case")
    parser.add_argument("--limit-mb", type=int, default=4096, help="address space of one process")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "fuzz-packets", help="folder for findings")
    return parser.parse_args()


def work(pipe: Connection, corpus: list[Path], limit_bytes: int) -> None:
    """Try the cases that come through the pipe, in a process of its own."""
    seeds = cases.corpus(corpus)
    cases.limit_memory(limit_bytes)
    with tempfile.TemporaryDirectory(prefix="fuzz-packets-") as folder:
        pipe.send(None)
        while (asked := pipe.recv()) is not None:
            seed, number = asked
            pipe.send(cases.tried(cases.case(seed, number, seeds), Path(folder)))


class Worker:
    """A process that tries cases, and the case that it is at."""

    def __init__(self, options: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        corpus, limit_bytes = options.corpus, options.limit_mb << 20
        self.process: BaseProcess = context.Process(target=work, args=(theirs, corpus, limit_bytes), daemon=True)
        self.process.start()
        theirs.close()
        self.case: tuple[int, int] | None = None
        self.due = time.monotonic() + _START_S

    def give(self, case: tuple[int, int] | None, limit_s: float) -> None:
        """Have it try a case; ``None`` ends it."""
        self.case, self.due = case, time.monotonic() + limit_s
        self.pipe.send(case)

    def outcome(self) -> str | None:
        """Hear what it says of its case; that it is gone, where it is."""
        try:
            said: str | None = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return f"the process died: {self.process.exitcode}"
        return said

    def kill(self) -> None:
        """End it, wherever it is."""
        self.process.kill()
        self.process.join()


class Run:
    """All cases, and what went wrong."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.seeds: list[Frames] | None = None
        self.tried = self.findings = 0
        self.slowest_s = 0.0
        numbers = range(options.first, options.first + options.cases)
        self.todo = ((options.seed + seed, number) for seed in range(options.seeds) for number in numbers)
        self.ends = time.monotonic() + options.seconds

    def run(self) -> None:
        """Try all cases, or as many as there is time for."""
        workers = [Worker(self.options) for _ in range(self.options.workers)]
        while workers:
            ready = wait([worker.pipe for worker in workers], timeout=0.2)
            done = [worker for worker in workers if worker.pipe in ready or time.monotonic() > worker.due]
            workers = [worker for worker in workers if worker not in done]
            for worker in done:
                self.note(worker, worker.outcome() if worker.pipe in ready else "too slow")
                workers += self.goes_on(worker, is_slow=worker.pipe not in ready)

    def goes_on(self, worker: Worker, *, is_slow: bool) -> list[Worker]:
        """The worker with its next case; another one where it is gone; none where nothing is left to do."""
        if is_slow or not worker.process.is_alive():
            worker.kill()
            return [Worker(self.options)]
        case = next(self.todo, None) if time.monotonic() < self.ends else None
        if case is None:
            worker.kill()
            return []
        worker.give(case, self.options.limit_s)
        return [worker]

    def note(self, worker: Worker, said: str | None) -> None:
        """Count a case, and keep it with what went wrong."""
        if worker.case is None:
            if said is not None:
                sys.exit(f"fuzz_packets: no process starts: {said}")
            return
        self.tried += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - worker.due + self.options.limit_s)
        if said is None:
            return
        self.findings += 1
        seed, number = worker.case
        self.seeds = cases.corpus(self.options.corpus) if self.seeds is None else self.seeds
        case = cases.case(seed, number, self.seeds)
        self.options.keep.mkdir(parents=True, exist_ok=True)
        name = f"{seed}-{number}"
        for place, content in enumerate(case.files):
            (self.options.keep / f"{name}-{place}.pcap").write_bytes(content)
        how = f"{len(case.files)} captures{', with a report' if case.reports else ''}"
        (self.options.keep / f"{name}.txt").write_text(f"{how}\n{said}\n")
        print(f"seed {seed} case {number} ({how}): {said.strip().splitlines()[-1]}", flush=True)


def main() -> int:
    """Run the fuzzer; return 1 where something went wrong."""
    options = arguments()
    run = Run(options)
    run.run()
    print(f"{run.tried} cases, {run.findings} findings, slowest {run.slowest_s:.1f} s", flush=True)
    if run.findings:
        print(f"kept in {options.keep}", flush=True)
    return 1 if run.findings else 0


if __name__ == "__main__":
    sys.exit(main())
