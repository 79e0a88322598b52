"""Time from a trigger of `whydrop roll` to the verdict, on a path that drops; and the processor time of the capture.

    sudo .venv/bin/python bench/web/rolling.py [RUNS]

Each run uploads over a bottleneck of 20 Mbit/s with a queue of 20 packets, between namespaces. The capture is on
the sender; its trigger is three retransmissions within a second. Of the time, three seconds are the packets after the
trigger. The load: 20 000 UDP packets of 100 bytes a second over a veth pair, without a trigger, for ten seconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from lab.measuring import iperf3_server, start_iperf3  # type: ignore[import-not-found]  # noqa: E402
from lab.network import Network, Process  # type: ignore[import-not-found]  # noqa: E402
from lab.path import NetworkPath  # type: ignore[import-not-found]  # noqa: E402
from patience import wait_until  # type: ignore[import-not-found]  # noqa: E402

ROLL = [sys.executable, "-m", "whydrop", "roll", "--json"]
LOAD = ["-u", "-b", "16M", "-l", "100"]


def main() -> None:
    """Print each run, and the summary."""
    runs = [delay() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10)]
    for one in runs:
        print(f"{one['took_s']:.2f} s  {one['cause']}: {one['verdict']}")
    times = sorted(one["took_s"] for one in runs)
    print(f"trigger to verdict: median {statistics.median(times):.2f} s, longest {times[-1]:.2f} s, {len(times)} runs")
    state = load()
    print(
        f"load: {state['packets'] / 10:.0f} packets/s, {100 * state['cpu_share']:.1f} % of a core, "
        f"{state['dropped']} dropped by the kernel"
    )


def delay() -> dict[str, Any]:
    """The kept capture of a loss."""
    with (
        Network() as network,
        tempfile.TemporaryDirectory() as folder,
    ):
        path = NetworkPath(network, rate="20mbit", queue="pfifo limit 20")
        with iperf3_server(path.server) as (port,):
            options = ["--loss", "3", "--filter", f"tcp and port {port}", "--duration", "8s"]
            rolling = started(path.client, [*options, "--output", folder], Path(folder))
            upload = start_iperf3(path.client, path.server.address, 5)
            state = ended(rolling)
            upload.wait()
    found: dict[str, Any] = state["kept"][0]
    return found


def load() -> dict[str, Any]:
    """The state after ten seconds of many packets."""
    with Network() as network, tempfile.TemporaryDirectory() as folder:
        one, other = network.host("one"), network.host("other")
        network.link(one, other)
        network.start()
        with iperf3_server(other):
            rolling = started(one, ["--duration", "11s", "--filter", "udp", "--output", folder], Path(folder))
            upload = start_iperf3(one, other.address, 10, *LOAD)
            state = ended(rolling)
            upload.wait()
    return state


def started(host: Any, options: list[str], folder: Path) -> Process:
    """A rolling capture that captures."""
    rolling: Process = host.popen([*ROLL, *options])
    wait_until(lambda: any(folder.glob(".rolling-*")), "the start of the rolling capture")
    return rolling


def ended(rolling: Process) -> dict[str, Any]:
    """Its state at the end."""
    printed = rolling.wait()
    found: dict[str, Any] = json.loads(printed[printed.index("{") :])
    return found


if __name__ == "__main__":
    main()
