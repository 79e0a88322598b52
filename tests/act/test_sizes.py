"""Packets of two sizes: which the path prefers, in words and as a route."""

from __future__ import annotations

import ipaddress
import math

import pytest

from example_files import Run
from plain_text import plain
from whydrop.act import pacing
from whydrop.act.changes import segmented
from whydrop.act.planning import NoPlanError
from whydrop.act.sizes import Size, Sizes
from whydrop.act.snapshot import Snapshot
from whydrop.runtime import rtnetlink

HOST = ipaddress.ip_address("192.0.2.7")
QUEUES = Snapshot(1, 1000, (), (), ())
# The loopback interface; its MTU is 65 536 bytes.
ROUTE = pacing.Route((HOST,), "lo", 1, QUEUES)


def sizes(large_bps: float, usual_bps: float, share: float = 0.14) -> Sizes:
    return Sizes(Size(9000, large_bps, share), Size(1500, usual_bps, 0.0))


def test_a_path_that_large_packets_harm_is_named_with_both_figures() -> None:
    found = sizes(5.88e6, 9.29e6)
    assert found.prefers_usual
    words = plain(found.words)
    assert "9.29 Mbit/s at an MTU of 1 500 B (nothing retransmitted)" in words
    assert "5.88 Mbit/s at an MTU of 9 000 B (14 % retransmitted)" in words


def test_differences_that_runs_have_anyway_are_none() -> None:
    assert sizes(9.0e6, 9.5e6).words.startswith("the size of packets makes no difference")
    assert not sizes(9.0e6, 9.5e6).prefers_usual
    assert sizes(9.0e6, 5.0e6).words.startswith("large packets help")


def test_what_is_not_known_of_retransmissions_is_not_said() -> None:
    assert "retransmitted" not in Size(9000, 1e6, math.nan).words


def test_the_route_is_to_the_host_alone_as_packets_go_now() -> None:
    now = rtnetlink.Route(1, "198.51.100.1", "198.51.100.7", None)
    change = segmented("eth0", QUEUES, [HOST], [now], 1500)
    assert change.commands() == [
        "ip route add 192.0.2.7/32 via 198.51.100.1 dev eth0 src 198.51.100.7 mtu lock 1500 proto 119"
    ]
    assert rtnetlink.route_settings(change.steps[0].request.body)[-1] == 1500


@pytest.mark.parametrize("mtu_bytes", [0, 551, 65_536, 100_000])
def test_a_size_that_is_none_is_refused(mtu_bytes: int) -> None:
    with pytest.raises(NoPlanError, match="expected 552 at least, and less than the 65536 bytes of lo"):
        pacing.kept_to(mtu_bytes, ROUTE)


def test_routes_survive_the_state_file_and_those_of_older_versions_have_none() -> None:
    found = Snapshot(
        1, 1000, (), (), (), (rtnetlink.host_route("192.0.2.7", rtnetlink.Route(1, None, None, None), 119),)
    )
    assert Snapshot.from_json(found.as_json()) == found
    assert not found.same_as(QUEUES)
    older = {name: value for name, value in QUEUES.as_json().items() if name != "routes"}
    assert Snapshot.from_json(older) == QUEUES


def test_a_rate_beside_a_size_is_refused(run_here: Run) -> None:
    done = run_here("pace", "192.0.2.7", "--mtu", "1500", "--rate", "5M", "--max-rate", "9M")
    assert done.returncode == 2
    assert "leave out --rate, --max-rate" in " ".join(done.stderr.split())
