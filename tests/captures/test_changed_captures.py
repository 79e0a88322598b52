"""A verdict survives what captures of the same packets differ in; where the evidence is gone, none takes its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import whydrop
from captures import changed
from captures.changed import MS, Records
from example_files import EXAMPLES

KEEPS: dict[str, tuple[Callable[[Records], Records], int]] = {
    "one record in a hundred missed": (changed.lose(0.01, 1), changed.ETHERNET),
    "96 bytes of each packet": (changed.cut(96), changed.ETHERNET),
    "64 bytes of each packet": (changed.cut(64), changed.ETHERNET),
    "stamps of a microsecond": (changed.rounded(1000), changed.ETHERNET),
    "stamps of 100 microseconds": (changed.rounded(MS // 10), changed.ETHERNET),
    "clock set on by 50 ms": (changed.stepped(50 * MS), changed.ETHERNET),
    "clock set back by 50 ms": (changed.stepped(-50 * MS), changed.ETHERNET),
    "clock set on by a second": (changed.stepped(1000 * MS), changed.ETHERNET),
    "clock slewed": (changed.stamped(lambda since_ns, _: since_ns + since_ns // 2000), changed.ETHERNET),
    "first half": (changed.part(0, 0.5), changed.ETHERNET),
    "super-segments": (changed.joined(MS // 5), changed.ETHERNET),
    "mirrored": (changed.copied(3000), changed.ETHERNET),
    "mirrored behind a router": (changed.copied(30_000, changed.hopped), changed.ETHERNET),
    "mirrored in a VLAN": (changed.copied(3000, changed.tagged), changed.ETHERNET),
    "IPv6": (changed.framed(changed.version_6), changed.ETHERNET),
    "IPv6, mirrored late": (
        lambda records: changed.copied(100_000)(changed.framed(changed.version_6)(records)),
        changed.ETHERNET,
    ),
    "on any interface": (changed.framed(changed.cooked), changed.LINUX_COOKED_2),
    "raw IP": (changed.framed(lambda frame: frame[changed.ETHERNET_BYTES :]), changed.RAW),
    "VXLAN": (changed.framed(changed.vxlan), changed.ETHERNET),
    "records out of order": (changed.disordered(50_000), changed.ETHERNET),
    "no timestamps": (changed.framed(changed.without_options(8)), changed.ETHERNET),
    "no selective acknowledgments": (changed.framed(changed.without_options(4, 5)), changed.ETHERNET),
    "sequence numbers wrap": (changed.wrapping, changed.ETHERNET),
}
MAY_TAKE: dict[str, Callable[[Records], Records]] = {
    "records missed in clumps": changed.lose(0.05, 50),
    "stamps of a millisecond": changed.rounded(MS),
    "stamps of 10 milliseconds": changed.rounded(10 * MS),
    "last half": changed.part(0.5, 1),
    "data alone": changed.one_way(data=True),
    "acknowledgments alone": changed.one_way(data=False),
}
SILENT = {"unknown", "none", "capture-loss"}
TRUTHS = {"policed": "policer", "shallow": "shallow-queue"}
FAST = "policed-download.pcap.zst"
FILES = [
    pytest.param(path.name, marks=[] if path.name == FAST else pytest.mark.exhaustive)
    for path in sorted(EXAMPLES.glob("*.pcap.zst"))
]


@cache
def records_of(name: str) -> Records:
    """The records of an example."""
    return changed.read(EXAMPLES / name)


@cache
def told_by(name: str) -> tuple[str, int]:
    """The headline of an example as it is, and the packets that it counts as lost."""
    return headline(whydrop.explain(EXAMPLES / name))


def headline(found: whydrop.Explanation) -> tuple[str, int]:
    """The first cause and all losses."""
    return (found.verdicts[0].cause if found.verdicts else "none", sum(flow.lost for flow in found.flows))


@pytest.mark.parametrize("change", KEEPS)
@pytest.mark.parametrize("name", FILES)
def test_a_verdict_survives(tmp_path: Path, name: str, change: str) -> None:
    make, link = KEEPS[change]
    found = headline(whydrop.explain(changed.write(tmp_path / "changed.pcap", make(records_of(name)), link)))
    cause, lost = told_by(name)
    # without a verdict on an example, the impairment that made it may show
    shows = {cause, TRUTHS[name.split("-")[0]]} if cause in SILENT else {cause}
    assert found[0] in shows
    assert found[1] <= lost + max(2, lost // 50)


@pytest.mark.parametrize("change", MAY_TAKE)
@pytest.mark.parametrize("name", FILES)
def test_no_other_cause_takes_the_place_of_evidence_that_is_gone(tmp_path: Path, name: str, change: str) -> None:
    records = MAY_TAKE[change](records_of(name))
    found = headline(whydrop.explain(changed.write(tmp_path / "changed.pcap", records)))
    cause, lost = told_by(name)
    assert found[0] in SILENT | {cause}
    assert found[1] <= lost + max(2, lost // 50)


def test_a_direction_that_was_not_captured_is_said_to_be_missing(tmp_path: Path) -> None:
    records = changed.one_way(data=False)(records_of(FAST))
    found = whydrop.explain(changed.write(tmp_path / "acknowledgments.pcap", records)).verdicts[0]
    assert (found.cause, found.detail) == ("capture-loss", "one-direction")
