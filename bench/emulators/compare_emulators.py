#!/usr/bin/env python
"""`whydrop emulate` beside other emulators of one queue: the rate and the limit that packets met, and processor time.

    sudo python bench/emulators/compare_emulators.py /tmp/emulators --mahimahi /opt/mahimahi/bin

All run in the lab's virtual machine (docs/lab.md), in virtual time: one kernel, and no other load. For each queue and
emulator a transfer of iperf3 is captured before and behind the queue. `whydrop explain` measures from the captures the
rate at which the queue drained, and how many packets it could contain. The return path delays by 20 ms.

Processor time is the time for which the whole machine was busy during the transfer (1 ns is one instruction), for each
data packet: iperf3, tcpdump and the kernel of both hosts are in it, and cost the same with each emulator. So the last
column, the difference to netem, is the emulator's.

Needs root, and the programs that tools/test-programs installs. mahimahi is not among Debian 12's packages:
``--mahimahi`` names the folder of its `mm-link`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

from transfers import DONE, boot, without_tick  # noqa: E402

from lab.batch import COMPILED, compile_whydrop  # type: ignore[import-not-found]  # noqa: E402
from lab.network import Host, Network, Process  # type: ignore[import-not-found]  # noqa: E402
from lab.path import bottleneck_commands  # type: ignore[import-not-found]  # noqa: E402

RTT_MS = 20
PORT = 5201
TCPDUMP = "tcpdump -i {interface} -s 100 -B 16000 -Z root --time-stamp-precision=nano -w {file} tcp"
MODULES = ("sch_tbf", "tun")
# In the guest's memory: a wait for a file of the host would be an idle time of the machine.
MEMORY = Path("/dev/shm/emulators")
# Of Ethernet frames without their checksum, and of the IP packets in them.
FRAME_BYTES, PACKET_BYTES = 1514, 1500
# Real user and group of a program that refuses to be started by root.
UNPRIVILEGED = 65534


@dataclass(frozen=True)
class Queue:
    """A drop-tail queue: rate in Mbit/s of Ethernet frames without checksum, limit in packets.

    Attributes:
        duration_s: of the transfer.
    """

    rate_mbps: int
    limit_packets: int
    duration_s: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.rate_mbps}M-{self.limit_packets}"

    @property
    def packets_per_s(self) -> float:
        """Full packets at its rate."""
        return self.rate_mbps * 1e6 / 8 / FRAME_BYTES


QUEUES = (Queue(10, 30, 6), Queue(20, 60, 5), Queue(100, 200, 3))


def main() -> int:
    """Record and compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where captures go")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each emulator, in turns (default: 3)")
    parser.add_argument("--mahimahi", type=Path, help="folder of mm-link (default: where PATH has it)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.inside:
        record(folder, given.rounds, given.mahimahi)
        return 0
    found = given.mahimahi / "mm-link" if given.mahimahi else shutil.which("mm-link")
    if not found:
        print("mahimahi is not compared: there is no mm-link on PATH, and --mahimahi names no folder")
    folder.mkdir(parents=True, exist_ok=True)
    compile_whydrop()
    words = [__file__, str(folder), "--rounds", str(given.rounds), "--inside"]
    words += ["--mahimahi", str(Path(found).resolve().parent)] if found else []
    status = boot(folder, words, given.rounds * len(QUEUES) * (len(EMULATORS) + 1))
    print(*table(folder), sep="\n")
    return status


def record(folder: Path, rounds: int, mahimahi: Path | None) -> None:
    """Record all that is missing, inside of the machine."""
    subprocess.run(["modprobe", "-a", *MODULES], check=False)
    emulators: dict[str, Emulator] = dict(EMULATORS)
    if mahimahi:
        emulators["mahimahi"] = lambda queue, own: by_mahimahi(mahimahi / "mm-link", queue, own)
    # Each program is read into the machine's memory before time matters.
    for emulator in emulators.values():
        run(emulator, Queue(20, 60, 1), MEMORY / "warm")
    for number in range(rounds):
        for queue in QUEUES:
            for name, emulator in emulators.items():
                kept = folder / queue.name / f"{name}-{number}"
                if (kept / "busy").exists():
                    continue
                own = MEMORY / "run"
                run(emulator, queue, own)
                kept.mkdir(parents=True, exist_ok=True)
                for file in own.iterdir():
                    shutil.copyfile(file, kept / file.name)
                print(queue.name, kept.name, flush=True)
    print(DONE, flush=True)


def run(emulator: Emulator, queue: Queue, folder: Path) -> None:
    """Run one transfer over one emulator in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    emulator(queue, folder)


def sending(address: str, duration_s: int, folder: Path) -> str:
    """Lines for a shell of the sending host: send, and note how long the machine has been idle.

    /proc/uptime has the time since the start, and that of it without work, both in s.
    """
    noted = f"cat /proc/uptime > {folder}/{{}}"
    words = f"iperf3 -c {address} -p {PORT} -t {duration_s} -i 0"
    return f"sleep 0.5; {noted.format('start')}; {words}; {noted.format('busy')}; sleep 0.3"


def client(address: str, duration_s: int, interface: str, folder: Path) -> str:
    """The same with a capture."""
    tcpdump = TCPDUMP.format(interface=interface, file=folder / "near.pcap")
    return f"{tcpdump} & {sending(address, duration_s, folder)}; kill $!; wait"


def by_whydrop(queue: Queue, folder: Path) -> None:
    """Run the transfer over `whydrop emulate`."""
    limit = f"limit={queue.limit_packets}packets,in-service=counted"
    emulate(f"fifo:rate={queue.rate_mbps}M,{limit},overhead={FRAME_BYTES - PACKET_BYTES}B", queue.duration_s, folder)


def emulate(path: str, duration_s: int, folder: Path) -> None:
    """Run a transfer over a path, with captures in both hosts."""
    words = [sys.executable, "-m", "whydrop", "emulate", path, "--rtt", f"{RTT_MS}ms", "--json"]
    tcpdump = TCPDUMP.format(interface="eth0", file=folder / "far.pcap")
    far = ["--far", f"exec {tcpdump}", "--far", f"exec iperf3 -s -p {PORT}"]
    command = client("$WHYDROP_FAR", duration_s, "eth0", folder)
    environment = {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(COMPILED), "PATH": PROGRAMS}
    words += [*far, "--", "sh", "-c", command]
    with without_tick():
        done = subprocess.run(words, capture_output=True, check=True, env=environment)
    (folder / "lateness.json").write_bytes(done.stdout)


PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def by_netem(queue: Queue, folder: Path) -> None:
    """Run the transfer over netem with a rate."""
    routed(queue, folder, [f"qdisc replace dev {{}} root netem rate {queue.rate_mbps}mbit limit {queue.limit_packets}"])


def by_htb(queue: Queue, folder: Path) -> None:
    """Run the transfer over htb with a pfifo, as the lab's bottlenecks are made."""
    routed(queue, folder, bottleneck_commands("{}", f"{queue.rate_mbps}mbit", f"pfifo limit {queue.limit_packets}"))


def by_tbf(queue: Queue, folder: Path) -> None:
    """Run the transfer over tbf with a pfifo: as a burst one frame, at high rates what is sent in 0.1 ms."""
    burst_bytes = max(1600, int(queue.rate_mbps * 1e6 / 8 * 1e-4))
    tbf = f"qdisc replace dev {{}} root handle 1: tbf rate {queue.rate_mbps}mbit burst {burst_bytes} latency 1s"
    routed(queue, folder, [tbf, f"qdisc replace dev {{}} parent 1:1 handle 10: pfifo limit {queue.limit_packets}"])


def routed(queue: Queue, folder: Path, commands: Sequence[str]) -> None:
    """Run the transfer through a router with these commands of tc."""
    with Network() as network:
        sender, router, receiver = (network.host(name) for name in ("sender", "router", "receiver"))
        network.link(sender, router)
        out, back = network.link(router, receiver)
        network.start()
        for command in commands:
            out.tc(command)
        back.tc(DELAY)
        near, far = (next(iter(host.interfaces.values())).name for host in (sender, receiver))
        listening = captured(receiver, far, folder / "far.pcap")
        server(receiver)
        with without_tick():
            sender.run(["sh", "-c", client(receiver.address, queue.duration_s, near, folder)])
        listening.stop()


def by_mahimahi(program: Path, queue: Queue, folder: Path) -> None:
    """Run the transfer through mm-link; its queue is between two interfaces of its own."""
    trace, free = folder / "rate.trace", folder / "free.trace"
    # 10 s, as delivery opportunities at the rate of IP packets; the other direction has 120 Mbit/s.
    times_ms = [round(number * 1000 / queue.packets_per_s) for number in range(1, round(10 * queue.packets_per_s) + 1)]
    trace.write_text("".join(f"{time}\n" for time in [*times_ms[:-1], 10_000]))
    free.write_text("1\n" * 10)
    folder.chmod(0o777)
    with Network() as network:
        sender, receiver = network.host("sender"), network.host("receiver")
        _, back = network.link(sender, receiver)
        network.start()
        back.tc(DELAY)
        # Where mm-link does not translate the address of its own host.
        receiver.run(["ip", "route", "add", "100.64.0.0/10", "via", sender.address])
        server(receiver)
        queues = ["--uplink-queue=droptail", f"--uplink-queue-args=packets={queue.limit_packets}"]
        # The sending host has no name and no rights to capture.
        script = f"echo $$ > {folder}/inside; sleep 2; {sending(receiver.address, queue.duration_s, folder)}"
        words = [str(program), *queues, str(trace), str(free), "sh", "-c", script]
        start = f"import os, sys\nos.setresgid({UNPRIVILEGED}, 0, 0)\nos.setresuid({UNPRIVILEGED}, 0, 0)\n"
        link = sender.popen([sys.executable, "-c", f"{start}os.execv(sys.argv[1], sys.argv[1:])", *words])
        listening = [captured(sender, link_interface(sender), folder / "far.pcap")]
        entered = ["nsenter", "-t", (folder / "inside").read_text().strip(), "-n"]
        listening.append(captured(sender, "ingress", folder / "near.pcap", entered))
        with without_tick():
            link.wait()
        for program_at in listening:
            program_at.stop()


DELAY = f"qdisc replace dev {{}} root netem limit 100000 delay {RTT_MS}ms"
Emulator = Callable[[Queue, Path], None]
EMULATORS: dict[str, Emulator] = {
    "whydrop": by_whydrop,
    "netem": by_netem,
    "htb": by_htb,
    "tbf": by_tbf,
}


def captured(host: Host, interface: str, file: Path, entered: Sequence[str] = ()) -> Process:
    """Start a capture, if need be in a namespace without a name."""
    listening = host.popen([*entered, *TCPDUMP.format(interface=interface, file=file).split()])
    listening.wait_for("listening on")
    return listening


def server(host: Host) -> None:
    """Start a server for one transfer; it ends with its network at the latest."""
    host.popen(["iperf3", "-s", "-1", "-p", str(PORT)])
    host.wait_listening(PORT)


def link_interface(host: Host) -> str:
    """The name of the interface behind the queue of mahimahi, as soon as it exists."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in host.run(["ip", "-o", "link", "show", "up"]).stdout.splitlines():
            name: str = line.split(": ")[1]
            if name.startswith("link-"):
                return name
        time.sleep(0.02)
    raise SystemExit("mm-link made no interface")


def table(folder: Path) -> Iterator[str]:
    """The measured values of all runs in a folder."""
    # Not inside of the machine, where each start would cost seconds.
    import whydrop
    from whydrop.explaining.predicting import recorded

    yield f"{'':36}{'rate':>10}{'error':>9}{'limit':>9}{'error':>8}{'CPU a packet':>15}{'to netem':>12}"
    for queue in QUEUES:
        own: dict[str, list[tuple[Any, float]]] = {}
        for run in sorted((folder / queue.name).glob("*-*")):
            found = whydrop.explain(run / "near.pcap", run / "far.pcap")
            each_s = busy_s(run) / max(1, recorded.data_crossings(found).height)
            own.setdefault(run.name.rpartition("-")[0], []).append((found.verdicts[0], each_s))
        netem_s = median(each_s for _, each_s in own.get("netem", [(None, math.nan)]))
        for name, runs in own.items():
            yield from (line(queue, name, verdict, each_s, netem_s) for verdict, each_s in runs)


def line(queue: Queue, name: str, verdict: Any, each_s: float, netem_s: float) -> str:
    """The measured values of one run."""
    said = f"{queue.rate_mbps} Mbit/s, {queue.limit_packets} packets"
    cpu = f"{each_s * 1e6:12.1f} µs{(each_s - netem_s) * 1e6:+9.1f} µs"
    rate, limit = (verdict.parameters.get(one) for one in ("drain_rate_bps", "limit_packets"))
    if rate is None or limit is None:
        return f"{said:24}{name:>10}  {verdict.cause + ': no queue':36}{cpu}"
    # Explain states rates of IP packets.
    rate_error = rate.value / (queue.packets_per_s * 8 * PACKET_BYTES) - 1
    limit_error = limit.value - queue.limit_packets
    values = f"{rate.value / 1e6:9.3f} M{rate_error:+9.2%}{limit.value:9.1f}{limit_error:+8.1f}"
    return f"{said:24}{name:>10}  {values}{cpu}"


def busy_s(folder: Path) -> float:
    """How long the machine was busy during a transfer."""
    (start_s, start_idle_s), (end_s, end_idle_s) = (
        map(float, (folder / name).read_text().split()) for name in ("start", "busy")
    )
    return (end_s - start_s) - (end_idle_s - start_idle_s)


if __name__ == "__main__":
    sys.exit(main())
