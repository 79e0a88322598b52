"""The limit of a connection, named from its sender's kernel statistics, beside a capture of the same.

One connection of each kind goes through a path of drawn rate, delay and queue, watched every 10 ms and captured at its
sender. The recordings are made in the lab and stay in ``build/lab``; other tests evaluate them.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab import Lab
from lab.measuring import iperf3_of, iperf3_server, start_iperf3, watched
from lab.network import Interface
from lab.path import NetworkPath

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump"), pytest.mark.needs_program("iperf3")]

MSS_BYTES, FRAME_BYTES = 1448, 1514


@dataclass(frozen=True)
class Flow:
    """A connection and its path.

    Attributes:
        kind: what limits it.
        rate_bps: of the bottleneck, Ethernet frames.
        rtt_s: without any queue, but for the time that a full packet takes to be sent.
        queue_packets: of the bottleneck.
        share: what limits it lets it have this share of what the path would carry.
    """

    kind: str
    rate_bps: int
    rtt_s: float
    queue_packets: int
    share: float
    length_s: int

    @property
    def payload_bps(self) -> float:
        """The share of the rate that is payload, in full segments."""
        return self.rate_bps * MSS_BYTES / FRAME_BYTES

    @property
    def product_bytes(self) -> float:
        """Bandwidth-delay product, payload: of the round trip that includes the time to send a packet."""
        return self.payload_bps / 8 * (self.rtt_s + FRAME_BYTES * 8 / self.rate_bps)


KINDS = ("shallow-queue", "standing-queue", "receive-window", "send-buffer", "application", "pacing")


def drawn(number: int) -> list[Flow]:
    """One flow of each kind, by the number of the draw: rates, round trips and depths that paths have."""
    chance = random.Random(f"limits {number}")
    return [_flow(kind, chance) for kind in KINDS]


def _flow(kind: str, chance: random.Random) -> Flow:
    rate_bps = round(math.exp(chance.uniform(math.log(6e6), math.log(12e6))))
    rtt_s = chance.randrange(30, 80, 2) / 1000
    packets = rate_bps * rtt_s / 8 / FRAME_BYTES
    # Cubic goes down to 0.7 of its window: through a queue of less than 0.43 of the product below it, too.
    depth = {"shallow-queue": chance.uniform(0.15, 0.35), "standing-queue": chance.uniform(2, 4)}.get(kind, 2.0)
    share = chance.uniform(0.2, 0.6)
    return Flow(kind, rate_bps, rtt_s, max(8, round(packets * depth)), share, 12 if kind == "shallow-queue" else 6)


DRAWS = [
    pytest.param(number, marks=[pytest.mark.needs_kernel("netem", "fq")] + ([pytest.mark.exhaustive] if number else []))
    for number in range(21)
]


@pytest.mark.parametrize("number", DRAWS)
def test_recorded(lab: Lab, number: int) -> None:
    """One connection of each kind after the other, in one watch."""
    flows = drawn(number)
    with ExitStack() as open_ones:
        path = open_ones.enter_context(lab.path(rate="10mbit", delay="20ms", queue="pfifo limit 1000"))
        path.client.interfaces["near"].tc("qdisc replace dev {} root fq")
        # Each flow finds its own window: the threshold of slow start that one left would hold back the next (tcp(7)).
        path.client.sysctl("net.ipv4.tcp_no_metrics_save", "1")
        ports = []
        with watched(path.client, lab.folder, 5201, "10ms"):
            for index, flow in enumerate(flows):
                port = 40_000 + index
                ports.append(port)
                _play(path, flow, port, lab.folder / f"{flow.kind}.pcap")
    truth = [{**asdict(flow), "port": port} for flow, port in zip(flows, ports, strict=True)]
    (lab.folder / "truth.json").write_text(json.dumps(truth, indent=1))


def _play(path: NetworkPath, flow: Flow, port: int, capture: Path) -> None:
    path.shape(path.up, f"{flow.rate_bps}bit", f"pfifo limit {flow.queue_packets}")
    path.shape(path.down, f"{flow.rate_bps}bit", "pfifo limit 1000")
    for interface in _delays(path):
        interface.tc(f"qdisc change dev {{}} root netem limit 100000 delay {flow.rtt_s / 2 * 1e6:.0f}us")
    # Half of the memory is for overhead (tcp_adv_win_scale); of what is sent it is the buffers' own.
    held = round(2 * flow.share * flow.product_bytes)
    receive = held if flow.kind == "receive-window" else 16_777_216
    send = held if flow.kind == "send-buffer" else 16_777_216
    path.server.sysctl("net.ipv4.tcp_rmem", f"4096 {min(receive, 131_072)} {receive}")
    path.client.sysctl("net.ipv4.tcp_wmem", f"4096 {min(send, 131_072)} {send}")
    options = {
        "application": ["-b", f"{flow.share * flow.payload_bps:.0f}", "-l", "4K"],
        "pacing": ["--fq-rate", f"{flow.share * flow.payload_bps:.0f}"],
    }.get(flow.kind, [])
    # A server of each flow's own: what a socket may hold is that of when it began to listen.
    capturing = path.client.interfaces["near"].captured(capture, expression=f"tcp port {port}")
    with iperf3_server(path.server), capturing:
        iperf3_of(start_iperf3(path.client, path.server.address, flow.length_s, "--cport", str(port), *options))


def _delays(path: NetworkPath) -> Iterator[Interface]:
    hop = path.network.hosts["delay-1"]
    yield from hop.interfaces.values()


# What the recordings show, out here.

NAMED = {"standing-queue": "path-rate", **{kind: kind for kind in KINDS[2:]}}
"""The limit that holds each kind for most of the time; through a shallow queue the window and the path take turns."""
VERDICTS = {
    "shallow-queue": "shallow-queue",
    "standing-queue": "deep-queue",
    "receive-window": "receiver-window",
    "send-buffer": "sender",
    "application": "sender",
    "pacing": "sender",
}
LeftBy = Callable[[str], Path]


class Draw:
    """One draw: its flows, the recording of the watch, and the captures."""

    def __init__(self, folder: Path) -> None:
        from whydrop.recording.recording import Recording  # not in the machine, where Python is slow

        self.folder = folder
        told = json.loads((folder / "truth.json").read_text())
        self.ports = {one.pop("port"): Flow(**one) for one in told}
        (path,) = folder.glob("*.recording")
        self.recording = Recording.open(path)

    def flows(self, recording: Recording, captured: Any = None) -> dict[str, dict[str, Any]]:
        """The findings on each flow by its kind, with the causes of the verdicts on it."""
        from whydrop.explaining.recordings import document

        found = document.of_recording(recording, captured).document()
        by_kind = {}
        for flow in found["recordings"][0]["flows"]:
            true = self.ports.get(_port(flow["flow"])) if flow["direction"] == "up" else None
            if true is not None:
                causes = [one["cause"] for one in found["verdicts"] if flow["flow"] in one["flows"]]
                by_kind[true.kind] = {**flow, "causes": causes}
        return by_kind

    def of_samples_alone(self) -> Recording:
        """The recording without the kernel's own clocks of what limited it."""
        import polars as pl

        from whydrop.recording.recording import Recording

        clocks = ["busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns"]
        parts = {name: self.recording.table(name) for name in ("flows", "intervals", "tcp_info")}
        parts["tcp_info"] = parts["tcp_info"].with_columns(pl.lit(None).alias(name) for name in clocks)
        return Recording(self.folder, self.recording.metadata, parts)


def _port(flow: str) -> int:
    return int(flow.split(" > ")[0].rpartition(":")[2])


def largest(flow: dict[str, Any]) -> str:
    shares: dict[str, float] = flow["limits"]["shares"]
    return max(shares, key=shares.__getitem__)


def named(draw: Draw) -> dict[str, dict[str, bool]]:
    """The kinds that are named: by the kernel's clocks and samples, by samples alone, and with its capture too."""
    from whydrop import _core

    told, alone = draw.flows(draw.recording), draw.flows(draw.of_samples_alone())
    found = {}
    for kind in KINDS:
        captured = _core.explain([str(draw.folder / f"{kind}.pcap")])
        both = draw.flows(draw.recording, captured)[kind]
        found[kind] = {
            "clocks": kind not in NAMED or largest(told[kind]) == NAMED[kind],
            "samples": kind not in NAMED or largest(alone[kind]) == NAMED[kind],
            "both": VERDICTS[kind] in both["causes"],
        }
    return found


def kinks(draw: Draw) -> float:
    """The kink of the flow through the shallow queue, over the true product; NaN where there is none."""
    fit = draw.flows(draw.recording)["shallow-queue"]["window_fit"]
    true = next(flow for flow in draw.ports.values() if flow.kind == "shallow-queue")
    return fit["kink_bytes"]["value"] / true.product_bytes if fit and fit["plateau_of"] == "path" else math.nan


def left(left_by: LeftBy, number: int) -> Draw:
    return Draw(left_by(f"tests/lab/test_limits.py::test_recorded[{number}]"))


@pytest.mark.parametrize("way", ["clocks", "samples", "both"])
def test_what_limits_each_is_named(left_by: LeftBy, way: str) -> None:
    found = named(left(left_by, 0))
    assert [kind for kind in KINDS if not found[kind][way]] == []


def test_the_kink_is_the_bandwidth_delay_product(left_by: LeftBy) -> None:
    assert kinks(left(left_by, 0)) == pytest.approx(1.0, rel=0.05)


def test_a_watch_agrees_with_the_capture_of_the_same(left_by: LeftBy) -> None:
    import polars as pl

    import whydrop

    draw = left(left_by, 0)
    flows, rows = draw.recording.table("flows"), draw.recording.table("tcp_info")
    for port, flow in draw.ports.items():
        seen = whydrop.explain(draw.folder / f"{flow.kind}.pcap")
        order, captured = next(
            (place, one) for place, one in enumerate(seen.document["flows"]) if _port(one["flow"]) == port
        )
        number = flows.filter(pl.col("name") == captured["flow"])["flow"].item()
        samples = rows.filter(pl.col("flow") == number)
        assert samples["retransmitted_packets"].max() == captured["retransmitted"]
        assert samples["min_rtt_ns"].min() / 1e9 == pytest.approx(captured["rtt_min_s"], abs=0.0005)
        # The kernel's is smoothed: an acknowledgment that waits for a second packet (RFC 1122) lifts it, by less than
        # what a slow flow's packets are apart.
        apart_s = MSS_BYTES * 8 / (flow.share * flow.payload_bps)
        smoothed_s = samples["srtt_ns"].median() / 1e9
        assert smoothed_s == pytest.approx(captured["rtt_median_s"], rel=0.1, abs=apart_s)
        # As much was in flight when a packet left as the kernel says, within the packets of one poll.
        segments = seen.table("segments").filter(pl.col("flow") == order)
        flight = segments.sort("time_ns").select("time_ns", "in_flight_bytes")
        compared = samples.filter(pl.col("congestion_state") == "open").sort("time_ns")
        compared = compared.join_asof(flight, on="time_ns", strategy="backward").drop_nulls("in_flight_bytes")
        apart = (compared["in_flight_bytes"] / MSS_BYTES - compared["unacked_packets"]).abs()
        assert apart.median() <= 3, flow.kind


@pytest.mark.exhaustive
def test_nineteen_of_twenty_are_named_and_nine_of_ten_kinks_within_five_percent(left_by: LeftBy) -> None:
    draws = [left(left_by, number) for number in range(1, 21)]
    found = [named(draw) for draw in draws]
    missed = {
        (kind, way): [number for number, one in enumerate(found, 1) if not one[kind][way]]
        for kind in KINDS
        for way in ("clocks", "samples", "both")
    }
    assert {key: numbers for key, numbers in missed.items() if len(numbers) > 1} == {}
    ratios = [kinks(draw) for draw in draws]
    assert sum(abs(ratio - 1) <= 0.05 for ratio in ratios) >= 18, ratios
