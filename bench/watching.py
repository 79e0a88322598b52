"""The cost of watching: `whydrop watch` beside `ss -tinOH`, on thousands of established connections over loopback.

    .venv/bin/python bench/watching.py [--connections 10000] [--every 0.1] [--seconds 60]
    .venv/bin/python bench/watching.py --connections 1 --every 0.001 [--real-time]
    .venv/bin/python bench/watching.py --drops 100000 [--seconds 20]    # as root

All connections are at rest, so that what is measured is the asking: the kernel lists each of them, both ends, ten
times a second. Processor time is user and system of the whole process with its start (`whydrop watch` with its
recording; `ss` started for each poll, as scripts do), the median of three turns. The polls alone are those of table
`polls`. A bare dump asks the kernel as we do and throws away what it says: the least that any program could take.
whydrop is the release build, and Python's modules are compiled before, as where programs are installed.

An interval is missed when no poll begins nearest to its deadline (docs/watching.md); how many were missed is of an idle
core. Where others use the machine, `--real-time` (as root) runs the watch ahead of them (SCHED_FIFO), as on a core of
its own. The kernel looks through all TCP sockets of the machine at each poll, those in TIME-WAIT too: how many there
are is said.

With `--drops`, so many datagrams a second go to a socket with a full buffer, and the kernel drops each of them. This
measures the processor time of the watch beside a flood, and whether it counted all drops.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
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
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--real-time", action="store_true", help="run the watch ahead of all else, as on an idle core")
    parser.add_argument("--drops", type=int, metavar="RATE", help="packets a second that this host drops")
    wanted = parser.parse_args()
    if (built := _build()) != "release":
        print(f"bench: the extension is built as {built}: run `tools/setup release`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as compiled:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        if wanted.drops is not None:
            return flooded(wanted.drops, wanted.seconds)
        return beside_others(wanted)


def _build() -> str:
    """The profile that the extension was compiled with, as `tools/setup` notes it."""
    stamp = Path(sys.prefix) / ".extension-built"
    return stamp.read_text().strip() if stamp.exists() else "an unknown profile"


def beside_others(wanted: argparse.Namespace) -> int:
    """Print what watching costs beside others that ask the kernel the same."""
    with established(wanted.connections) as port:
        load = os.getloadavg()[0]
        print(f"{wanted.connections} connections over loopback, both ends, every {wanted.every:g} s; load {load:.1f},")
        waiting = Path("/proc/net/sockstat").read_text().partition(" tw ")[2].split()[0]
        print(f"{waiting} sockets in TIME-WAIT; before the turns, a watch of a second:")
        watched(port, wanted.every, 1.0, real_time=wanted.real_time)
        ours: list[float] = []
        theirs: list[float] = []
        polls: list[float] = []
        bare: list[float] = []
        for _ in range(TURNS):
            cpu, told = watched(port, wanted.every, wanted.seconds, real_time=wanted.real_time)
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
        # Closed by a reset: in TIME-WAIT they would cost who measures next.
        for one in held:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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


def watched(port: int, every_s: float, seconds: float, *, real_time: bool) -> tuple[float, float]:
    """The share of a processor that a watch takes, and that its polls take."""
    with tempfile.TemporaryDirectory() as output:
        words = [sys.executable, "-m", "whydrop", "watch", "--port", str(port), "--interval", f"{every_s}s"]
        words += ["--duration", f"{seconds}s", "--output", output, "--json"]
        words = ["chrt", "--fifo", "1", *words] if real_time else words
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        summary = json.loads(done.stdout)
        size = sum(file.stat().st_size for file in Path(output).rglob("*") if file.is_file())
        due = summary["polls"] + summary["missed"]
        missed = 100 * summary["missed"] / due
        print(f"  {summary['polls']} polls, {missed:.3f} % missed, {summary['connections']} ends, {size / 1e6:.1f} MB")
        # As if none had been missed: what is not done costs nothing, and the others do all of theirs.
        polls = summary["cpu_share"] * due / summary["polls"]
        return _used_since(before) / seconds - summary["cpu_share"] + polls, polls


def flooded(rate: int, seconds: float) -> int:
    """Print what a watch takes beside a flood of drops, and beside none."""
    for wanted in (0, rate):
        with full_socket() as port, tempfile.TemporaryDirectory() as output:
            words = [sys.executable, "-m", "whydrop", "watch", "--port", "1", "--quiet", "--json"]
            watching = subprocess.Popen([*words, "--output", output], stdout=subprocess.PIPE, text=True)
            while not any(Path(output).glob("*.recording/journal/polls*")):
                time.sleep(0.05)
            at_rest = _process_s(watching.pid)
            sent, took_s = flood(port, wanted, seconds)
            cpu = (_process_s(watching.pid) - at_rest) / took_s
            status = Path(f"/proc/{watching.pid}/status").read_text()
            most_kib = int(status.partition("VmHWM:")[2].split()[0])
            watching.send_signal(signal.SIGINT)
            drops = json.loads(watching.communicate()[0])["dropped"]
            how = drops["way"]
            size = sum(file.stat().st_size for file in Path(output).rglob("*") if file.is_file())
        print(f"{sent / took_s:.0f} datagrams a second for {took_s:.1f} s to a socket that is full, by {how}:")
        print(f"  {100 * cpu:.1f} % of a processor, at most {most_kib / 1024:.0f} MiB of memory, {size / 1e6:.2f} MB")
        counted = drops["reasons"].get("SOCKET_RCVBUFF", 0)
        print(f"  {counted} of {sent} counted, {drops['lost_events']} lost, {drops['not_looked_at']} by reason only")
    return 0


@contextlib.contextmanager
def full_socket() -> Iterator[int]:
    """A UDP port with a socket that accepts nothing more."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        held.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            for _ in range(100):
                sending.sendto(bytes(1000), held.getsockname())
        yield held.getsockname()[1]


def flood(port: int, rate: int, seconds: float) -> tuple[int, float]:
    """Send so many datagrams a second, a millisecond's worth at a time; how many there were, and how long it took.

    The kernel makes many of one (UDP_SEGMENT): what sends them must not be what the measurement waits for.
    """
    at_once = min(50, max(1, rate // 1000))
    sent, start = 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.connect(("127.0.0.1", port))
        sending.setsockopt(socket.IPPROTO_UDP, 103, 10)
        while (elapsed := time.monotonic() - start) < seconds:
            for _ in range(min(1000, round(rate * elapsed) - sent) // at_once):
                sending.send(bytes(10 * at_once))
                sent += at_once
            time.sleep(0.001)
    return sent, time.monotonic() - start


def _process_s(pid: int) -> float:
    """Processor time of a process, as it is now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
