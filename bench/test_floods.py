"""The floods that explaining is measured on are what they are said to be, and explaining them adds up."""

from __future__ import annotations

from pathlib import Path

import floods
import pytest

import whydrop

# As many small connections are listed at most.
LISTED = 1 << 14


@pytest.mark.parametrize("sources", floods.SOURCES)
@pytest.mark.parametrize("exchange", floods.EXCHANGES)
def test_each_tuple_of_a_flood_sends_what_it_is_said_to(tmp_path: Path, exchange: str, sources: str) -> None:
    path = tmp_path / "flood.pcap"
    packets = floods.write(path, 10, exchange, sources)
    found = whydrop.explain(path)
    answers = any(is_answer for _, _, is_answer in floods.EXCHANGES[exchange])
    assert len(found.flows) == (20 if answers else 10)
    assert found.captures[0].packets == packets == sum(flow.packets for flow in found.flows)
    senders = [flow.flow.split(":")[0] for flow in found.flows if flow.flow.endswith(" > 192.0.2.1:80")]
    assert (len(senders), len(set(senders))) == (10, 1 if sources == "ports" else 10)
    assert {flow.retransmitted for flow in found.flows} == {1 if exchange == "repeated" else 0}
    # An answer acknowledges the byte.
    assert answers == any(flow.rtt_min_s is not None for flow in found.flows)


@pytest.mark.slow
def test_listed_and_summed_up_a_flood_has_all_its_packets(tmp_path: Path) -> None:
    path = tmp_path / "flood.pcap"
    tuples = LISTED + 1000
    packets = floods.write(path, tuples, "repeated", "spoofed")
    found = whydrop.explain(path)
    small = found.captures[0].small_connections
    assert small is not None
    assert (len(found.flows), small.connections, small.attempts, small.answered) == (LISTED, 1000, 1000, 0)
    assert small.packets + sum(flow.packets for flow in found.flows) == packets
    assert small.payload_bytes + sum(flow.payload_bytes for flow in found.flows) == 2 * tuples
    assert small.lost + sum(flow.lost for flow in found.flows) == tuples
    assert (small.initiators.hosts, small.responders.busiest) == (1000, "192.0.2.1")
