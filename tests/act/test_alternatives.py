"""The same effect by other settings: fq with a maximal rate, the socket's own pacing, the interface's MTU."""

from __future__ import annotations

import ipaddress
import math

from whydrop.act.alternatives import alternatives
from whydrop.act.changes import Change, Pace, paced, segmented
from whydrop.act.pacing import Plan
from whydrop.act.planning import Bottleneck, Estimate
from whydrop.act.snapshot import Snapshot
from whydrop.runtime import rtnetlink

HOST = ipaddress.ip_address("192.0.2.7")
QUEUES = Snapshot(1, 1000, (), (), ())
UNKNOWN = Bottleneck("unknown", Estimate(9.6e6))


def pace() -> Change:
    # Loopback takes large packets, so that the leaf is one that splits them.
    return paced("lo", QUEUES, Pace(9.6e6, 1600, (HOST,)))


def test_pacing_is_also_given_as_lines_for_fq_and_as_a_rate_of_sockets() -> None:
    below, alone, sockets = alternatives(Plan(9.6e6, 1600, "", None, UNKNOWN), pace())
    assert below.commands == ("tc qdisc replace dev lo parent 7764:2 fq maxrate 9600000bit",)
    assert alone.commands == ("tc qdisc replace dev lo root fq maxrate 9600000bit",)
    assert "1200000 bytes a second" in sockets.words
    assert "--fq-rate 9600000" in sockets.words


def test_a_size_of_packets_is_also_given_for_the_whole_interface() -> None:
    change = segmented("eth0", QUEUES, [HOST], [rtnetlink.Route(1, None, None, None)], 1500)
    (whole,) = alternatives(Plan(math.nan, 0, "", None, UNKNOWN, mtu_bytes=1500), change)
    assert whole.commands == ("ip link set dev eth0 mtu 1500",)
