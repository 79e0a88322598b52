"""The cost of watching: `whydrop watch` beside `ss -tinOH`, on thousands of established connections over loopback.

    .venv/bin/python bench/watching.py [--connections 10000] [--every 0.1] [--seconds 20]

All connections are at rest, so that what is measured is the asking: the kernel lists each of them, both ends, ten
times a second. Processor time is user and system of the whole process with its start (`whydrop watch` with its
recording; `ss` started for each poll, as scripts do), the median of three turns. The polls alone are those of table
`polls`. A bare dump asks the kernel as we do and throws away what it says: the least that any program could take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TURNS = 3
# Each process of connections keeps to what it may open.
_PER_PROCESS = 2000


def main() -> int:
    """Print what each costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two polls")
    parser.add_argument("--seconds", type=float, default=20.0)
    wanted = parser.parse_args()
    with established(wanted.connections) as port:
        print(f"{wanted.connections} connections over loopback, both ends, every {wanted.every:g} s")
        ours: list[float] = []
        theirs: list[float] = []
        polls: list[float] = []
        bare: list[float] = []
        for _ in range(TURNS):
            cpu, told = watched(port, wanted.every, wanted.seconds)
            ours.append(cpu)
            polls.append(told)
            bare.append(dumped(port, wanted.every, wanted.seconds))
            if shutil.which("ss"):
                theirs.append(listed(port, wanted.every, wanted.seconds))
        _print("whydrop watch, whole process", ours)
        _print("its polls alone", polls)
        _print("a bare dump of the kernel", bare)
        if theirs:
            _print("ss -tinOH", theirs)
            ratio = statistics.median(each / own for each, own in zip(theirs, ours, strict=True))
            print(f"ss takes {ratio:.1f} times the processor time of whydrop watch")
    return 0


def _print(what: str, shares: list[float]) -> None:
    low, high = min(shares), max(shares)
    print(f"{what}: {100 * statistics.median(shares):.1f} % of a processor ({100 * low:.1f} to {100 * high:.1f})")


@contextlib.contextmanager
def established(count: int) -> Iterator[int]:
    """So many connections to one port, each in processes of its own."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=4096))
        port = listener.getsockname()[1]
        for first in range(0, count, _PER_PROCESS):
            child = _holding(listener, port, min(_PER_PROCESS, count - first))
            opened.callback(_end, child)
        yield port


def _holding(listener: socket.socket, port: int, count: int) -> int:
    """A child that holds both ends of connections."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * _PER_PROCESS + 100), hard))
        held = []
        for _ in range(count):
            held.append(socket.create_connection(("127.0.0.1", port)))
            held.append(listener.accept()[0])
        os.write(tell, b"x")
        time.sleep(1e6)
        os._exit(0)
    os.close(tell)
    assert os.read(told, 1) == b"x", "connections could not be made: ulimit -n"
    os.close(told)
    return child


def _end(child: int) -> None:
    os.kill(child, 9)
    os.waitpid(child, 0)


def watched(port: int, every_s: float, seconds: float) -> tuple[float, float]:
    """The share of a processor that a watch takes, and that its polls take."""
    with tempfile.TemporaryDirectory() as output:
        words = [sys.executable, "-m", "whydrop", "watch", "--port", str(port), "--every", f"{every_s}s"]
        words += ["--for", f"{seconds}s", "--output", output, "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        size = sum(file.stat().st_size for file in Path(output).rglob("*") if file.is_file())
        print(f"  {told['polls']} polls, {told['missed']} missed, {told['connections']} ends, {size / 1e6:.1f} MB")
        return _used_since(before) / seconds, told["cpu_share"]


def listed(port: int, every_s: float, seconds: float) -> float:
    """The share of a processor that `ss` takes when it is started at the same times."""
    words = ["ss", "-tinOH", f"sport = :{port} or dport = :{port}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    polls = 0
    while (due := polls * every_s) < seconds:
        time.sleep(max(0.0, start + due - time.monotonic()))
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        polls += 1
    # Where it cannot keep up it takes longer for as many polls.
    return _used_since(before) / seconds


def dumped(port: int, every_s: float, seconds: float) -> float:
    """The share of a processor that the kernel's answers take, unread."""
    extensions = 0b0111_1110  # INET_DIAG_INFO to INET_DIAG_SKMEMINFO
    condition = [struct.pack("=BBHBBHi", code, 12, no, 0, 0, 0, port) for code, no in ((7, 16), (8, 16))]
    program = condition[0] + struct.pack("=BBH", 1, 4, 16) + condition[1]
    question = struct.pack("=BBBBI48s", socket.AF_INET, 6, extensions, 0, 0xB3E, b"")
    question += struct.pack("=HH", 4 + len(program), 1) + program
    message = struct.pack("=IHHII", 16 + len(question), 20, 0x301, 0, 0) + question
    buffer = bytearray(1 << 16)
    start, before, polls = time.monotonic(), time.process_time(), 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asked:
        while (due := polls * every_s) < seconds:
            time.sleep(max(0.0, start + due - time.monotonic()))
            asked.send(message)
            length = 0
            # The last message is NLMSG_DONE, of 20 bytes.
            while length < 20 or struct.unpack_from("=IH", buffer, length - 20) != (20, 3):
                length = asked.recv_into(buffer)
            polls += 1
    return (time.process_time() - before) / seconds


def _used_since(before: resource.struct_rusage) -> float:
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
