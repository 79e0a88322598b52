"""Queue management of Linux's own qdiscs, named by its law from captures before and after it.

The captures are recorded in the lab and stay in ``build/lab``; other tests evaluate them, out here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.measuring import iperf3_of, iperf3_server, start_iperf3

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump")]

LOAD_S = 12
FLOWS = 4


@dataclass(frozen=True)
class Managed:
    """A managed queue: as ``tc`` writes it, the family that it is of, and on what path."""

    queue: str
    family: str
    rate: str
    delay: str
    ecn: bool = False
    target_s: float | None = None
    interval_s: float | None = None

    @property
    def kernel(self) -> str:
        return self.queue.split()[0]

    @property
    def name(self) -> str:
        return "-".join([self.kernel, self.rate, self.delay, *(["ecn"] if self.ecn else [])])


RED = "red limit 400000 min 30000 max 90000 avpkt 1000 burst 50 bandwidth {} probability 0.1{}"

# `make test` has the first; all of them are what `make test-all` measures.
QUEUES = [
    Managed("codel", "codel", "10mbit", "20ms", target_s=0.005, interval_s=0.1),
    Managed("pie", "pie", "10mbit", "20ms"),
    Managed("codel target 10ms interval 60ms", "codel", "20mbit", "10ms", target_s=0.01, interval_s=0.06),
    Managed("codel ecn", "codel", "10mbit", "40ms", ecn=True, target_s=0.005, interval_s=0.1),
    Managed("fq_codel noecn", "fq-codel", "10mbit", "20ms", target_s=0.005, interval_s=0.1),
    Managed("fq_codel", "fq-codel", "20mbit", "10ms", ecn=True, target_s=0.005, interval_s=0.1),
    Managed("cake", "cake", "10mbit", "20ms", target_s=0.005, interval_s=0.1),
    Managed("cake", "cake", "20mbit", "10ms", ecn=True, target_s=0.005, interval_s=0.1),
    Managed("pie target 5ms", "pie", "20mbit", "10ms"),
    Managed("pie ecn", "pie", "10mbit", "40ms", ecn=True),
    Managed("fq_pie", "fq-pie", "10mbit", "20ms"),
    Managed("fq_pie target 10ms", "fq-pie", "20mbit", "10ms"),
    Managed(RED.format("10mbit", ""), "red", "10mbit", "20ms"),
    Managed(RED.format("20mbit", " ecn"), "red", "20mbit", "10ms", ecn=True),
]
FIRST = 1
CASES = [
    pytest.param(
        managed,
        id=managed.name,
        marks=[pytest.mark.needs_kernel("netem", managed.kernel)]
        + ([pytest.mark.exhaustive] if number >= FIRST else []),
    )
    for number, managed in enumerate(QUEUES)
]


@pytest.mark.parametrize("managed", CASES)
def test_recorded(lab: Lab, managed: Managed) -> None:
    """Four flows through the queue, captured at their sender and after the queue."""
    with ExitStack() as captures:
        path = captures.enter_context(lab.path(rate=managed.rate, delay=managed.delay, queue=managed.queue))
        captures.enter_context(iperf3_server(path.server))
        if managed.ecn:
            for host in (path.client, path.server):
                host.run(["sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1"])
        sender = path.client.interfaces["near"]
        captures.enter_context(sender.captured(lab.folder / "sender.pcap", expression="tcp port 5201"))
        captures.enter_context(path.up.captured(lab.folder / "after.pcap", expression="tcp port 5201"))
        iperf3_of(start_iperf3(path.client, path.server.address, LOAD_S, "-P", str(FLOWS)))


LeftBy = Callable[[str], Path]


def found(captures: list[Path]) -> dict[str, Any]:
    """The verdict on the queue."""
    import whydrop  # not in the machine, where Python is slow

    explained = whydrop.explain(*captures)
    document = explained.document
    verdicts: list[dict[str, Any]] = document["verdicts"]
    return next((one for one in verdicts if one["cause"] == "aqm"), verdicts[0])


def left(left_by: LeftBy, managed: Managed) -> Path:
    return left_by(f"tests/lab/test_queue_management.py::test_recorded[{managed.name}]")


def law(family: str | None) -> str | None:
    """The law of a family, whether or not flows have queues of their own."""
    return {"fq-codel": "codel", "cake": "codel", "fq-pie": "pie"}.get(family or "", family)


@pytest.mark.parametrize(
    "managed",
    [pytest.param(*case.values, id=case.id, marks=[m for m in case.marks if m.name == "exhaustive"]) for case in CASES],
)
def test_the_family_is_named_by_its_law(left_by: LeftBy, managed: Managed) -> None:
    folder = left(left_by, managed)
    both = found([folder / "sender.pcap", folder / "after.pcap"])
    assert (both["cause"], law(both["family"])) == ("aqm", law(managed.family))
    for name, truth_s in (("target_s", managed.target_s), ("interval_s", managed.interval_s)):
        if truth_s is not None:
            assert both["parameters"][name]["value"] == pytest.approx(truth_s, rel=0.25)


def test_one_capture_at_the_sender_names_the_families_that_two_name_first(left_by: LeftBy) -> None:
    for managed in QUEUES[:FIRST]:
        alone = found([left(left_by, managed) / "sender.pcap"])
        assert (alone["cause"], alone["family"]) == ("aqm", managed.family)


@pytest.mark.exhaustive
def test_most_families_are_named_exactly(left_by: LeftBy) -> None:
    """Nine of ten from two captures, and the law of four of five from the sender's alone."""
    folders = [left(left_by, managed) for managed in QUEUES]
    both = [found([folder / "sender.pcap", folder / "after.pcap"])["family"] for folder in folders]
    alone = [found([folder / "sender.pcap"])["family"] for folder in folders]
    families = [managed.family for managed in QUEUES]
    right = sum(one == family for one, family in zip(both, families, strict=True))
    right_alone = sum(law(one) == law(family) for one, family in zip(alone, families, strict=True))
    assert right >= 0.9 * len(QUEUES), list(zip(both, families, strict=True))
    assert right_alone >= 0.8 * len(QUEUES), list(zip(alone, families, strict=True))
