#!/usr/bin/env python
"""Record each congestion control of Linux over known paths, at the sender, in the lab's virtual machine.

    sudo python bench/controls/record.py training /tmp/controls
    sudo python bench/controls/record.py held-out /tmp/controls --only cubic,bbr --paths loss

Writes SET/PATH/CONTROL.pcap.zst (the first 128 bytes of each packet) and SET/PATH/truth.json into the folder. The
machine runs in virtual time (docs/lab.md), so captures do not depend on the load of this one. A capture that exists is
not recorded again. Needs root, and the programs that tools/test-programs installs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from paths import CONTROLS, MODULES, SETS  # noqa: E402
from paths import Path as Line  # noqa: E402

from lab.batch import TICK  # type: ignore[import-not-found]  # noqa: E402
from lab.machine import Machine  # type: ignore[import-not-found]  # noqa: E402
from lab.network import Host, Network  # type: ignore[import-not-found]  # noqa: E402
from lab.path import bottleneck_commands  # type: ignore[import-not-found]  # noqa: E402

SNAPLEN = 128
PORT = 5201
DURATION_S = 12
DONE = "recorded all"
# Of this machine's processor; several times what was measured.
MOST_PER_TRANSFER_S = 150.0
MOST_FOR_BOOT_S = 600.0
MODULES_OF_PATHS = (
    *("veth", "sch_netem", "sch_htb", "sch_ingress", "act_police", "cls_matchall"),
    *("sch_fq_codel", "sch_codel", "sch_pie", "sch_red"),
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


def main() -> int:
    """Record a set; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path, help="where captures go")
    parser.add_argument("--only", default=",".join(CONTROLS), help="congestion controls, separated by commas")
    parser.add_argument("--paths", default="", help="kinds of paths, separated by commas (default: all)")
    parser.add_argument("--duration", type=int, default=DURATION_S, help="seconds of each transfer (default: 12)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    controls = given.only.split(",")
    lines = [line for line in SETS[given.set] if not given.paths or line.kind in given.paths.split(",")]
    folder = given.folder.resolve() / given.set
    if given.inside:
        for line in lines:
            record(line, controls, folder / line.kind, given.duration)
        print(DONE, flush=True)
        return 0
    for line in lines:
        (folder / line.kind).mkdir(parents=True, exist_ok=True)
    return boot(folder, len(lines) * len(controls))


def boot(folder: Path, transfers: int) -> int:
    """Run this very command inside of the machine; return the exit status."""
    words = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--inside"]
    words[words.index(sys.argv[2], 2)] = str(folder.parent)
    script = GUEST.format(
        tick=TICK.format(python=sys.executable),
        warm=WARM,
        modules=" ".join((*MODULES_OF_PATHS, *MODULES)),
        command=f"cd {shlex.quote(str(ROOT))} && {shlex.join(words)}",
    )
    machine = Machine(folder, "machine", script, virtual_time=True)
    machine.start(MOST_FOR_BOOT_S + MOST_PER_TRANSFER_S * transfers)
    while (ended := machine.ended()) is None:
        time.sleep(0.5)
    print(f"{ended.wall_s:.0f} s\n{ended.console}")
    return 0 if DONE in ended.console else 1


def record(line: Line, controls: list[str], folder: Path, duration_s: int) -> None:
    """Record all controls over one path, one after the other."""
    file = folder / "truth.json"
    known = json.loads(file.read_text())["controls"] if file.exists() else {}
    truth = {"path": asdict(line), "duration_s": duration_s, "controls": known}
    with Network() as network:
        sender, receiver = build(network, line)
        for control in controls:
            if (folder / f"{control}.pcap.zst").exists():
                continue
            known[control] = transfer(sender, receiver, control, folder, duration_s)
    file.write_text(json.dumps(truth, indent=1))
    print(f"recorded {line.kind}", flush=True)


def build(network: Network, line: Line) -> tuple[Host, Host]:
    """Make sender, router and receiver; return the two ends."""
    sender, router, receiver = (network.host(name) for name in ("sender", "router", "receiver"))
    _, arriving = network.link(sender, router)
    out, back = network.link(router, receiver)
    network.start()
    for command in bottleneck_commands(out.name, line.rate, line.queue) if line.rate else ():
        out.tc(command)
    # All of the delay is on the path of acknowledgments: it is never the bottleneck there.
    back.tc(f"qdisc replace dev {{}} root netem limit 100000 delay {line.rtt_ms}ms")
    if line.police:
        arriving.tc("qdisc replace dev {} clsact")
        arriving.tc(f"filter add dev {{}} ingress matchall action police {line.police} conform-exceed drop")
    for host in (sender, receiver):
        host.sysctl("net.ipv4.tcp_ecn", "1" if line.ecn else "2")
    return sender, receiver


def transfer(sender: Host, receiver: Host, control: str, folder: Path, duration_s: int) -> dict[str, object]:
    """Record one transfer; return what iperf3 measured."""
    # As the default of both hosts: DCTCP asks for ECN in the handshake, and its receiver reports each mark.
    for host in (sender, receiver):
        host.sysctl("net.ipv4.tcp_congestion_control", control)
    server = receiver.popen(["iperf3", "-s", "-1", "-p", str(PORT)])
    receiver.wait_listening(PORT)
    capture = Path("/dev/shm") / f"{control}.pcap"
    interface = next(iter(sender.interfaces.values()))
    words = ["tcpdump", "-i", interface.name, "-s", str(SNAPLEN), "-B", "65536", "--time-stamp-precision=nano"]
    tcpdump = sender.popen([*words, "-Z", "root", "-w", str(capture), "tcp"])
    tcpdump.wait_for("listening on")
    words = ["iperf3", "-c", receiver.address, "-p", str(PORT), "-C", control, "-t", str(duration_s), "-i", "0", "-J"]
    with without_tick():
        output = sender.run(words, check=False).stdout
    tcpdump.stop()
    server.stop()
    packed = folder / f"{control}.pcap.zst"
    subprocess.run(["zstd", "-q", "-f", str(capture), "-o", str(packed)], check=True)
    capture.unlink()
    with contextlib.suppress(KeyError, ValueError):
        ended = json.loads(output)["end"]
        print(control, f"{ended['sum_received']['bits_per_second'] / 1e6:.2f} Mbit/s", flush=True)
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


if __name__ == "__main__":
    sys.exit(main())
