"""Measure the cost of watching connections in ``whydrop web``: many of them, and several pages that look.

    .venv/bin/python bench/web/watch.py --connections 200 --readers 3

Printed is processor time as a share of one core: of the server, which hands on states, and of its process that asks the
kernel. The connections are pairs of sockets of this host that exchange a few packets a second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

_TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def connections(count: int) -> Iterator[None]:
    """Pairs of sockets, each of which carries a kilobyte a few times a second."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=count)
    pairs = []
    for _ in range(count):
        sending = socket.create_connection(listening.getsockname())
        pairs.append((sending, listening.accept()[0]))
    over = threading.Event()

    def exchange() -> None:
        while not over.wait(0.3):
            for sending, receiving in pairs:
                sending.sendall(bytes(1000))
                receiving.recv(1 << 16)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for one in pairs:
            for end in one:
                end.close()
        listening.close()


@contextlib.contextmanager
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of an empty folder, and its address."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        (Path(folder) / "files").mkdir()
        with log.open("w") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "whydrop", "web", f"{folder}/files"], stdout=sink, stderr=sink, text=True
            )
        try:
            while not (found := re.search(r"http://\S+", log.read_text())):
                time.sleep(0.1)
            yield process, found[0]
        finally:
            process.terminate()
            process.wait()


def used_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def worker_of(pid: int) -> int:
    """The process of a server that asks the kernel."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise SystemExit("the server has no process that watches")


def read(address: str, token: str, counts: list[int], number: int, over: threading.Event) -> None:
    """A page: takes every event."""
    headers, topic = {"Authorization": f"Bearer {token}"}, {"topic": "watch/connections"}
    with httpx.stream("GET", f"{address}/api/events", params=topic, headers=headers, timeout=30) as answer:
        for line in answer.iter_lines():
            counts[number] += line.startswith("data: ") * len(line)
            if over.is_set():
                return


def measure(connection_count: int, readers: int, seconds: float) -> None:
    """Measure once, and print."""
    with connections(connection_count), server() as (process, opened):
        address, _, token = opened.partition("/?token=")
        over, counts = threading.Event(), [0] * readers
        threads = [threading.Thread(target=read, args=(address, token, counts, one, over)) for one in range(readers)]
        for thread in threads:
            thread.start()
        while not all(counts):
            time.sleep(0.2)
        worker, began_s = worker_of(process.pid), time.monotonic()
        before, bytes_before = [used_s(process.pid), used_s(worker)], sum(counts)
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        shares = [(used_s(pid) - at) / took_s for pid, at in zip([process.pid, worker], before, strict=True)]
        rate = (sum(counts) - bytes_before) / took_s / max(1, readers)
        over.set()
        for thread in threads:
            thread.join()
    print(f"{connection_count} connections ({2 * connection_count} sockets), {readers} readers, {took_s:.0f} s:")
    print(f"  server {100 * shares[0]:.2f} % of a core, its process {100 * shares[1]:.2f} %")
    print(f"  {rate / 1e3:.1f} kB/s to each reader")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    measure(given.connections, given.readers, given.seconds)


if __name__ == "__main__":
    main()
