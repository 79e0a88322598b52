"""``whydrop depth``: what bursts show of queues and policers with known truth.

A line, the sender's own, leads to a bottleneck of a lower rate; what stands there is what shall be found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.far_path import far_path
from lab.network import Host
from lab.path import NetworkPath, bottleneck_commands
from lab.units import bits_per_second
from whydrop.measure.depth.result import Depth, sentences

pytestmark = pytest.mark.slow

WHYDROP = [sys.executable, "-m", "whydrop"]
LARGE_BYTES = 1500


@dataclass(frozen=True)
class Case:
    """A drop-tail queue behind a step of the rate.

    Attributes:
        queue: as ``tc`` writes it.
        rate_mbit: of the bottleneck, as Ethernet frames.
        step: of the line's rate over it.
    """

    queue: str
    rate_mbit: float
    step: float

    @property
    def limit(self) -> int:
        return int(self.queue.split()[-1])

    @property
    def in_packets(self) -> bool:
        return self.queue.startswith("pfifo")

    @property
    def name(self) -> str:
        return f"{self.queue.replace(' limit ', '-')}-{self.step:g}"


LIMITS = [f"pfifo limit {packets}" for packets in (20, 45, 100, 300)]
LIMITS += [f"bfifo limit {size}" for size in (30_000, 70_000, 250_000)]
# At the smallest step it takes a hundred times what a queue holds to fill it: slower lines make that long, and faster
# ones are more than small packets of this machine can fill.
STEPS = [(10.0, 4.0), (1.1, 36.0), (1.01, 39.6)]
GRID = [Case(queue, rate_mbit, step) for queue in LIMITS for step, rate_mbit in STEPS]
IN_EVERY_RUN = Case("pfifo limit 45", 36.0, 1.1)


def mbit(rate: float) -> str:
    return f"{rate * 1e3:.0f}kbit"


# Packets of 1000 bytes in a Poisson process of this rate, bit/s, to a port where no program reads them.
OTHERS = """
import random, socket, sys, time
address, rate_bps = sys.argv[1], float(sys.argv[2])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
due = time.monotonic()
while True:
    due += random.expovariate(rate_bps / 8 / 1000)
    while (left := due - time.monotonic()) > 0:
        time.sleep(left)
    out.sendto(bytes(972), (address, 9))
"""


@contextmanager
def path_with(lab: Lab, case: Case) -> Iterator[NetworkPath]:
    with lab.path(rate=mbit(case.rate_mbit), queue=case.queue) as path:
        line_of(path, case.rate_mbit * case.step)
        yield path


def line_of(path: NetworkPath, rate_mbit: float) -> None:
    """Give the client a line of this rate."""
    interface = path.client.interfaces["near"]
    for command in bottleneck_commands(interface.name, mbit(rate_mbit), None):
        interface.tc(command)


def depth_of(path: NetworkPath, folder: Path, *options: str) -> dict[str, Any]:
    """The document of a measurement, with the bytes that the client's interface sent meanwhile."""
    # Metadata of the far host take long to gather in the machine, and have no use here.
    responder = path.server.popen([*WHYDROP, "responder", "--open", "--no-metadata"])
    path.server.wait_listening(17370)
    before = sent_bytes(path)
    done = path.client.run([*WHYDROP, "depth", path.server.address, "--json", "-o", folder, *options])
    found: dict[str, Any] = json.loads(done.stdout)
    responder.stop()
    return {**found, "interface_bytes": sent_bytes(path) - before}


def sent_bytes(path: NetworkPath) -> int:
    name = path.client.interfaces["near"].name
    return int(path.client.run(["cat", f"/sys/class/net/{name}/statistics/tx_bytes"]).stdout)


def says_the_same(recording: Path, found: dict[str, Any]) -> None:
    """That ``explain`` and ``show`` of its recording say what the measurement said, in its words and numbers."""
    lines = sentences(Depth.of_document(found))
    for verb in ("explain", "show"):
        text = flat(said_of(recording, verb))
        assert all(flat(line) in text for line in lines), (verb, lines, text)
    assert json.loads(said_of(recording, "show", "--json"))["depth"]["rate_bit_s"] == found["rate_bit_s"]
    verdict = json.loads(said_of(recording, "explain", "--json"))["verdicts"][0]
    rate = verdict["parameters"].get("rate_bps") or verdict["parameters"]["drain_rate_bps"]
    assert (verdict["sentence"], rate) == (lines[0], found["rate_bit_s"])


def flat(text: str) -> str:
    """Text on one line, with ordinary spaces."""
    return " ".join(text.split())


def said_of(recording: Path, *words: str) -> str:
    verb, *options = words
    done = subprocess.run([*WHYDROP, verb, str(recording), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def complaints(case: Case, found: dict[str, Any]) -> list[str]:
    """Faults of the result, by the bars of the measurement."""
    wrong = []
    counted = "packets" if case.in_packets else "bytes"
    if (found["kind"], found["limited_by"]) != ("queue", counted):
        wrong.append(f"{found['kind']} limited by {found['limited_by']}")
    unit = 1 if case.in_packets else LARGE_BYTES
    limit = (found[f"limit_{counted}"] or {"value": 0})["value"]
    if found["byte_basis"] != "ethernet":
        wrong.append(f"bytes as {found['byte_basis']}")
    if abs(limit - case.limit) > max(unit, 0.03 * case.limit):
        wrong.append(f"limit {limit:.0f}")
    rate_mbit = (found["rate_bit_s"] or {"value": 0})["value"] / 1e6
    if abs(rate_mbit / case.rate_mbit - 1) > min(0.01, 0.1 * (case.step - 1)):
        wrong.append(f"rate {rate_mbit:.3f}")
    return wrong


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[] if case == IN_EVERY_RUN else [pytest.mark.exhaustive]) for case in GRID],
)
def test_a_queue_is_found_with_its_limit_and_what_it_counts_and_its_rate(lab: Lab, case: Case) -> None:
    """Here time is the machine's: what is disturbed is measured again, twice at most."""
    caps = ["--max-bytes", "1GB", "--max-duration", "150s"] if case.step < 1.05 else []
    for _ in range(3):
        with path_with(lab, case) as path:
            found = depth_of(path, lab.folder, *caps)
        if not complaints(case, found):
            break
    (lab.folder / "found.json").write_text(json.dumps(found))
    assert complaints(case, found) == [], found


@dataclass(frozen=True)
class Fifo:
    """A drop-tail queue as the kernel makes it: of packets, of bytes, and of a token bucket filter.

    Attributes:
        rate: at which it drains, Ethernet frames.
        queue: as ``tc`` writes it.
        line: of the client, as ``tc`` writes it; ``None``: as fast as the machine.
    """

    rate: str
    queue: str
    line: str | None = None

    @property
    def limit(self) -> int:
        return int(self.queue.split()[-1])

    @property
    def in_packets(self) -> bool:
        return self.queue.startswith("pfifo")

    def complaints(self, found: dict[str, Any]) -> list[str]:
        """Faults of the result: of the rate 2 %, of the size a packet or 3 %."""
        counted = "packets" if self.in_packets else "bytes"
        rate, limit = found["rate_bit_s"], found[f"limit_{counted}"]
        wrong = [] if found["status"] == "complete" else [found["status"]]
        if rate is None or abs(rate["value"] / bits_per_second(self.rate) - 1) > 0.02:
            wrong.append(f"rate {rate}")
        if limit is None or abs(limit["value"] - self.limit) > max(
            1 if self.in_packets else LARGE_BYTES, 0.03 * self.limit
        ):
            wrong.append(f"limit {limit}")
        return wrong


# Of 1 to 200 Mbit/s, of two packets to a megabyte; behind a line that is many times faster hardly more of a burst
# passes than a short queue holds.
FIFOS = [
    Fifo("20mbit", "tbf rate 20mbit burst 1600 limit 20000"),
    Fifo("1mbit", "pfifo limit 5"),
    Fifo("1mbit", "bfifo limit 10000"),
    Fifo("2mbit", "pfifo limit 2", "10mbit"),
    Fifo("5mbit", "pfifo limit 3"),
    Fifo("20mbit", "tbf rate 20mbit burst 10000 limit 20000", "25mbit"),
    Fifo("50mbit", "bfifo limit 1000000"),
    Fifo("100mbit", "pfifo limit 20"),
    Fifo("100mbit", "tbf rate 100mbit burst 5000 limit 20000"),
    Fifo("200mbit", "bfifo limit 60000"),
    Fifo("200mbit", "pfifo limit 100"),
    Fifo("200mbit", "tbf rate 200mbit burst 20000 limit 100000"),
]


@pytest.mark.needs_kernel("htb", "tbf", "pfifo", "bfifo")
@pytest.mark.parametrize(
    "fifo",
    [
        pytest.param(
            fifo, id=f"{fifo.rate}-{fifo.queue.replace(' ', '-')}", marks=[pytest.mark.exhaustive] * (place > 0)
        )
        for place, fifo in enumerate(FIFOS)
    ],
)
def test_every_fifo_has_its_rate_and_size_and_its_recording_says_the_same(lab: Lab, fifo: Fifo) -> None:
    is_tbf = fifo.queue.startswith("tbf")
    for _ in range(3):
        with lab.path(rate=None if is_tbf else fifo.rate, queue=fifo.queue) as path:
            if fifo.line:
                line_of(path, bits_per_second(fifo.line) / 1e6)
            found = depth_of(path, lab.folder)
        if not fifo.complaints(found):
            break
    assert fifo.complaints(found) == [], found
    says_the_same(Path(found["recording"]), found)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in GRID if case.limit in (100, 70_000) and case.step == 1.1]
)
def test_beside_a_fifth_of_others_traffic_limit_and_rate_are_found_within_a_tenth(lab: Lab, case: Case) -> None:
    for _ in range(3):
        with lab.path(rate="20mbit", queue=case.queue) as path:
            line_of(path, 40)
            path.near.popen([sys.executable, "-c", OTHERS, path.server.address, "4e6"])
            found = depth_of(path, lab.folder)
        counted = "packets" if case.in_packets else "bytes"
        if (found["kind"], found["limited_by"]) == ("queue", counted):
            break
    assert (found["kind"], found["limited_by"]) == ("queue", counted), found
    assert found[f"limit_{counted}"]["value"] == pytest.approx(case.limit, rel=0.1)
    assert found["rate_bit_s"]["value"] == pytest.approx(20e6, rel=0.1)


@pytest.mark.exhaustive
def test_the_way_down_is_measured_from_the_responder(lab: Lab) -> None:
    case = Case("pfifo limit 45", 4.0, 10.0)
    for _ in range(3):
        with lab.path(rate_down="4mbit", rate="100mbit", queue_down=case.queue) as path:
            interface = path.server.interfaces["far"]
            for command in bottleneck_commands(interface.name, "40mbit", None):
                interface.tc(command)
            found = depth_of(path, lab.folder, "--reverse")
        if not complaints(case, found):
            break
    assert complaints(case, found) == [], found


def test_no_cap_is_exceeded_as_the_interface_counts(lab: Lab) -> None:
    """Of a path that never drops anything, so that the caps alone end it."""
    with lab.path(rate="200mbit", queue="pfifo limit 10000") as path:
        for _ in range(3):
            found = depth_of(path, lab.folder, "--max-bytes", "8MB", "--max-duration", "40s", "--max-rate", "100mbit")
            assert found["lost"] == 0
            assert 1e6 < found["interface_bytes"] <= 8e6
            if found["kind"] in ("none", "queue"):
                break
    assert found["kind"] in ("none", "queue")


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("police", "htb", virtual_time=True)
@pytest.mark.parametrize("burst_kb", [15, 50, 200])
def test_a_policer_is_distinguished_from_a_queue_with_its_rate_and_burst(lab: Lab, burst_kb: int) -> None:
    with lab.path(police=f"rate 10mbit burst {burst_kb}k") as path:
        line_of(path, 40)
        found = depth_of(path, lab.folder, "--max-bytes", "30MB")
    assert found["kind"] == "policer", found
    assert found["rate_bit_s"]["value"] == pytest.approx(10e6, rel=0.01)
    # Of its burst, `act_police` counts what is sent at its rate in whole ticks of 64 ns: within a packet.
    assert found["burst_bytes"]["value"] == pytest.approx(burst_kb * 1024, abs=LARGE_BYTES)
    says_the_same(Path(found["recording"]), found)


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("netem", "htb", virtual_time=True)
def test_a_long_path_changes_nothing(lab: Lab) -> None:
    with lab.path(rate="18mbit", queue="pfifo limit 45", delay="25ms") as path:
        line_of(path, 20)
        found = depth_of(path, lab.folder)
    assert complaints(Case("pfifo limit 45", 18.0, 20 / 18), found) == [], found


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("codel", "htb", virtual_time=True)
def test_queue_management_is_no_full_queue(lab: Lab) -> None:
    with lab.path(rate="10mbit", queue="codel") as path:
        line_of(path, 12)
        found = depth_of(path, lab.folder, "--max-bytes", "40MB")
    assert found["limited_by"] is None
    assert found["kind"] in ("managed-queue", "unknown"), found


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("codel", "htb", virtual_time=True)
def test_a_queue_that_marks_is_seen_to_mark(lab: Lab) -> None:
    with lab.path(rate="10mbit", queue="codel ecn") as path:
        line_of(path, 12)
        found = depth_of(path, lab.folder, "--max-bytes", "40MB", "--ecn")
    assert found["marked"] > 0
    assert found["kind"] == "managed-queue", found


# Servers of other programs, and how near to the truth their limit and their rate come.
SERVERS = {"irtt": ["irtt", "server", "-i", "0"], "iperf3": ["iperf3", "-s"], "nuttcp": ["nuttcp", "-S", "--nofork"]}


def told_by(program: str, client: Host, server: Host, folder: Path) -> dict[str, Any]:
    """The document of a measurement against another program's server."""
    serving = server.popen(SERVERS[program])
    waits_for = {"iperf3": 5201, "nuttcp": 5000}.get(program)
    server.wait_listening(waits_for) if waits_for else serving.wait_for("listener")
    words = ["depth", server.address, "--far-end", program, "--json", "-o", folder]
    found: dict[str, Any] = json.loads(client.run([*WHYDROP, *words]).stdout)
    serving.stop()
    return found


def holds(quantity: dict[str, float] | None, truth: float, share: float) -> bool:
    """True if the interval holds the truth, and is no wider than this share of it to each side."""
    return (
        quantity is not None
        and quantity["low"] <= truth <= quantity["high"]
        and quantity["high"] - quantity["low"] <= 2 * share * truth
    )


@pytest.mark.parametrize(
    ("program", "queue"),
    [
        pytest.param("iperf3", "bfifo limit 30000", marks=pytest.mark.needs_program("iperf3")),
        *(
            pytest.param(program, queue, marks=[pytest.mark.exhaustive, pytest.mark.needs_program(program)])
            for program, queue in (
                # A busy host stamps a program's packets too early or too late to show a limit: alone on a machine.
                ("irtt", "pfifo limit 45"),
                ("irtt", "bfifo limit 70000"),
                ("iperf3", "pfifo limit 100"),
                ("nuttcp", "pfifo limit 45"),
                ("nuttcp", "bfifo limit 70000"),
            )
        ),
    ],
)
def test_servers_of_other_programs_show_a_queue_with_wider_intervals(lab: Lab, program: str, queue: str) -> None:
    case = Case(queue, 4.0, 10.0)
    counted = "packets" if case.in_packets else "bytes"
    for _ in range(3):
        with path_with(lab, case) as path:
            found = told_by(program, path.client, path.server, lab.folder)
        # If the byte basis is unknown, the rate is in IP bytes.
        truth = 4e6 * (1.0 if found["byte_basis"] else LARGE_BYTES / (LARGE_BYTES + 14))
        right = found["limited_by"] == counted and holds(found[f"limit_{counted}"], case.limit, 0.3)
        if right and holds(found["rate_bit_s"], truth, 0.03):
            break
    assert (found["kind"], found["limited_by"]) == ("queue", counted), found
    assert holds(found[f"limit_{counted}"], case.limit, 0.3), found
    assert holds(found["rate_bit_s"], truth, 0.03), found


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "program", [pytest.param(program, marks=pytest.mark.needs_program(program)) for program in SERVERS]
)
def test_servers_of_other_programs_distinguish_a_policer_from_a_queue(lab: Lab, program: str) -> None:
    for _ in range(3):
        with far_path(lab, delay_s=0.005, line="20mbit", police=(4e6, 50_000)) as path:
            found = told_by(program, path.client, path.server, lab.folder)
        if found["kind"] == "policer" and holds(found["burst_bytes"], 50_000, 0.3):
            break
    assert found["kind"] == "policer", found
    assert holds(found["burst_bytes"], 50_000, 0.3), found
    assert found["rate_bit_s"]["value"] == pytest.approx(4e6, rel=0.03)
