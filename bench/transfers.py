"""Transfers of Linux's TCP over known paths, recorded in the lab's virtual machine.

The machine runs in virtual time (docs/lab.md), so captures do not depend on the load of this one. Needs root, and the
programs that tools/test-programs installs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from lab.batch import TICK  # type: ignore[import-not-found]  # noqa: E402
from lab.machine import Machine  # type: ignore[import-not-found]  # noqa: E402
from lab.network import Host, Network  # type: ignore[import-not-found]  # noqa: E402
from lab.path import bottleneck_commands  # type: ignore[import-not-found]  # noqa: E402

SNAPLEN = 128
PORT = 5201
DONE = "recorded all"
# Of this machine's processor; several times what was measured.
MOST_PER_TRANSFER_S = 200.0
MOST_FOR_BOOT_S = 600.0
MODULES = (
    *("veth", "sch_netem", "sch_htb", "sch_ingress", "act_police", "cls_matchall"),
    *("sch_fq", "sch_fq_codel", "sch_codel", "sch_pie", "sch_fq_pie", "sch_red", "sch_cake", "tcp_bbr"),
)

# Programs are started once before time matters: they come out of the guest's memory then.
WARM = "ip -V; tc -V; ethtool --version; ss -V; iperf3 -v; sysctl --version"
GUEST = """\
export PATH=$PATH:/usr/sbin:/sbin PYTHONDONTWRITEBYTECODE=1
{tick}export TICK=$!
{{ {warm}; tcpdump --version; zstd -V; }} >/dev/null 2>&1
modprobe -a {modules}
sysctl -q -w net.ipv4.tcp_allowed_congestion_control="$(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
{command}
"""


@dataclass(frozen=True)
class Line:
    """A path from a sender to a receiver.

    Attributes:
        rtt_ms: round-trip time without queueing.
        rate: rate of the bottleneck, in tc's syntax; ``None`` without one.
        queue: queue at the bottleneck, in tc's syntax.
        police: policer before the bottleneck, in tc's syntax.
        ecn: true if both hosts ask for ECN.
        in_turn: packets leave one after the other even after an idle time, when the shaper's own burst is two packets.
    """

    rtt_ms: float
    rate: str | None = None
    queue: str = "pfifo limit 1000"
    police: str | None = None
    ecn: bool = False
    in_turn: bool = False


@dataclass(frozen=True)
class Scenario:
    """A path, and senders of as much as they can send.

    Attributes:
        line: the path.
        control: the congestion control of the senders.
        pace: pacing rate of each on the wire, in bit/s with a suffix; ``None`` without one.
        flows: connections.
    """

    line: Line
    control: str = "cubic"
    pace: str | None = None
    flows: int = 1


@dataclass(frozen=True)
class Set:
    """The recordings of a script.

    Attributes:
        record: by the name of a folder, records into it for a duration in seconds; what exists is left alone.
        transfers: how many.
        modules: of the kernel, beside those of paths.
    """

    record: Mapping[str, Callable[[Path, int], None]]
    transfers: int
    modules: Sequence[str] = ()


def main(
    script: str,
    about: str | None,
    sets: Sequence[str],
    wanted: Callable[[argparse.Namespace], Set],
    duration_s: int,
    options: Mapping[str, tuple[str, str]] | None = None,
) -> int:
    """Record what a command line asks for, inside of the machine; return the exit status.

    Args:
        script: the file of the caller, which runs inside once more.
        about: its help.
        sets: the names of its sets.
        wanted: what to record for the options ``set``, ``folder`` and those in ``options``.
        duration_s: of a transfer, unless the command line has another.
        options: default and help of further ones, by name.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sets)
    parser.add_argument("folder", type=Path, help="where captures go")
    parser.add_argument(
        "--duration", type=int, default=duration_s, help=f"seconds of each transfer (default: {duration_s})"
    )
    for name, (default, meaning) in (options or {}).items():
        parser.add_argument(f"--{name}", default=default, help=meaning)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.folder = given.folder.resolve()
    found = wanted(given)
    if given.inside:
        for name, record in found.record.items():
            record(given.folder / name, given.duration)
        print(DONE, flush=True)
        return 0
    for name in found.record:
        (given.folder / name).mkdir(parents=True, exist_ok=True)
    words = [given.set, str(given.folder), "--duration", str(given.duration), "--inside"]
    words += [f"--{name}={getattr(given, name)}" for name in options or {}]
    return boot(given.folder, [script, *words], found.transfers, found.modules)


def of_scenarios(scenarios: Mapping[str, Scenario]) -> Set:
    """The recordings of scenarios, each in a folder of its name: captures of both ends, and truth.json."""
    record = {name: functools.partial(record_scenario, scenario) for name, scenario in scenarios.items()}
    return Set(record, len(record))


def record_scenario(scenario: Scenario, folder: Path, duration_s: int) -> None:
    """Record one transfer at both ends."""
    if (folder / "truth.json").exists():
        return
    with Network() as network:
        ends = build(network, scenario.line)
        captures = [folder / f"{point}.pcap.zst" for point in "by"]
        measured = transfer(ends, scenario.control, captures, duration_s, scenario.pace, scenario.flows)
    truth = asdict(scenario) | {"duration_s": duration_s, "iperf3": measured}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    print(folder.name, measured, flush=True)


def boot(folder: Path, words: Sequence[str], transfers: int, modules: Sequence[str] = ()) -> int:
    """Run a program of this repository inside of the machine, which can write into ``folder``; return the exit status.

    The program prints ``DONE`` when it has ended well.
    """
    script = GUEST.format(
        tick=TICK.format(python=sys.executable),
        warm=WARM,
        modules=" ".join((*MODULES, *modules)),
        command=f"cd {shlex.quote(str(ROOT))} && {shlex.join((sys.executable, *words))}",
    )
    machine = Machine(folder, "machine", script, virtual_time=True)
    machine.start(MOST_FOR_BOOT_S + MOST_PER_TRANSFER_S * transfers)
    while (ended := machine.ended()) is None:
        time.sleep(0.5)
    print(f"{ended.wall_s:.0f} s\n{ended.console}")
    return 0 if DONE in ended.console else 1


def build(network: Network, line: Line) -> tuple[Host, Host]:
    """Make sender, router and receiver; return the two ends."""
    sender, router, receiver = (network.host(name) for name in ("sender", "router", "receiver"))
    _, arriving = network.link(sender, router)
    out, back = network.link(router, receiver)
    network.start()
    for command in bottleneck_commands(out.name, line.rate, line.queue) if line.rate else ():
        out.tc(command.replace("burst 1600", "burst 1") if line.in_turn else command)
    # All of the delay is on the path of acknowledgments: it is never the bottleneck there.
    back.tc(f"qdisc replace dev {{}} root netem limit 100000 delay {line.rtt_ms}ms")
    if line.police:
        arriving.tc("qdisc replace dev {} clsact")
        arriving.tc(f"filter add dev {{}} ingress matchall action police {line.police} conform-exceed drop")
    for host in (sender, receiver):
        host.sysctl("net.ipv4.tcp_ecn", "1" if line.ecn else "2")
    return sender, receiver


def transfer(
    ends: tuple[Host, Host],
    control: str,
    captures: Sequence[Path],
    duration_s: int,
    pace: str | None = None,
    flows: int = 1,
) -> dict[str, object]:
    """Record one transfer of iperf3; return what it measured.

    Args:
        ends: sender and receiver.
        control: the congestion control of the sender, as Linux names it.
        captures: where the packets go that the sender sees and, if given, those that the receiver sees; ``.pcap.zst``.
        duration_s: how long data are sent.
        pace: pacing rate of the sender on the wire, in bit/s with a suffix such as M; ``None`` without one.
        flows: connections with data.
    """
    sender, receiver = ends
    interface = next(iter(sender.interfaces.values()))
    if pace:
        # The sockets' own pacing counts payload, the largest rate of fq frames.
        interface.tc(f"qdisc replace dev {{}} root fq maxrate {pace.lower()}bit")
    # As the default of both hosts: DCTCP asks for ECN in the handshake, and its receiver reports each mark.
    for host in ends:
        host.sysctl("net.ipv4.tcp_congestion_control", control)
    server = receiver.popen(["iperf3", "-s", "-1", "-p", str(PORT)])
    receiver.wait_listening(PORT)
    unpacked = [Path("/dev/shm") / file.stem for file in captures]
    listening = []
    for host, file in zip(ends, unpacked, strict=False):
        words = ["tcpdump", "-i", next(iter(host.interfaces.values())).name, "-s", str(SNAPLEN), "-B", "65536"]
        listening.append(host.popen([*words, "--time-stamp-precision=nano", "-Z", "root", "-w", str(file), "tcp"]))
        listening[-1].wait_for("listening on")
    words = ["iperf3", "-c", receiver.address, "-p", str(PORT), "-C", control, "-t", str(duration_s), "-i", "0", "-J"]
    words += ["-P", str(flows)] if flows > 1 else []
    with without_tick():
        output = sender.run(words, check=False).stdout
    for program in (*listening, server):
        program.stop()
    for file, packed in zip(unpacked, captures, strict=True):
        subprocess.run(["zstd", "-q", "-f", str(file), "-o", str(packed)], check=True)
        file.unlink()
    return measured(output)


def measured(output: str) -> dict[str, object]:
    """The results in the output of iperf3."""
    with contextlib.suppress(KeyError, ValueError):
        ended = json.loads(output)["end"]
        return {
            "control": ended.get("sender_tcp_congestion"),
            "goodput_bps": ended["sum_received"]["bits_per_second"],
            "retransmits": ended["sum_sent"]["retransmits"],
        }
    return {"control": None, "output": output[-400:]}


@contextlib.contextmanager
def without_tick() -> Iterator[None]:
    """Stop the timer that keeps time from jumping while files are read; it costs more than a transfer does."""
    tick = int(os.environ["TICK"])
    os.kill(tick, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(tick, signal.SIGCONT)
