"""The lab's networks: namespaces, links, rates and FIFOs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, LabError
from lab.measuring import (
    iperf3_of,
    iperf3_server,
    ping,
    pings_of,
    received_bps,
    start_iperf3,
    start_ping,
)
from lab.network import Network, existing, sweep
from lab.path import bottleneck_commands
from patience import wait_until

# This kernel could do it too. But rates and delays are exact only where no other program needs the processor.
in_virtual_time = pytest.mark.needs_kernel("htb", virtual_time=True)


def test_every_host_reaches_every_other_over_ipv4_and_ipv6(lab: Lab) -> None:
    with lab.path(rate="10mbit", clients=2, servers=2) as path:
        for client in path.clients:
            for server in path.servers:
                assert len(ping(client, server.address, 3).rtt_s) == 3
                assert len(ping(client, server.address6, 3).rtt_s) == 3


@pytest.mark.exhaustive
@in_virtual_time
def test_iperf3_gets_what_htb_gives_less_the_headers(lab: Lab) -> None:
    with lab.path(rate="10mbit", queue="pfifo limit 100") as path, iperf3_server(path.server):
        up = received_bps(iperf3_of(start_iperf3(path.client, path.server.address, 4)))
        down = received_bps(iperf3_of(start_iperf3(path.client, path.server.address, 4, "-R")))
    # 1448 of the 1514 bytes that htb counts are payload: 9.56 Mbit/s.
    assert 9.3e6 < up < 9.6e6
    assert 9.3e6 < down < 9.6e6


@pytest.mark.exhaustive
@in_virtual_time
def test_directions_may_differ(lab: Lab) -> None:
    with lab.path(rate="4mbit", rate_down="16mbit", queue="pfifo limit 50") as path, iperf3_server(path.server):
        up = received_bps(iperf3_of(start_iperf3(path.client, path.server.address6, 3)))
        down = received_bps(iperf3_of(start_iperf3(path.client, path.server.address6, 3, "-R")))
    assert 3.4e6 < up < 3.9e6
    assert 13.5e6 < down < 15.5e6


@pytest.mark.exhaustive
@in_virtual_time
def test_a_full_fifo_delays_by_its_length_over_its_rate(lab: Lab) -> None:
    with lab.path(rate="10mbit", queue="pfifo limit 100") as path, iperf3_server(path.server):
        # A fifth more than the line carries: most pings find room in the queue. They leave at whole milliseconds; what
        # is sent at others does not always fill the last place just before them.
        flood = start_iperf3(
            path.client, path.server.address, 4, "-u", "-b", "12M", "-l", "1448", "--pacing-timer", "730"
        )
        time.sleep(1)
        waited = ping(path.client, path.server.address, 25, 0.1)
        iperf3_of(flood)
        dropped = path.up.dropped()
    # 100 packets of 1490 bytes at 10 Mbit/s: 119 ms. A ping that found room has waited for the whole queue.
    assert waited.rtt_s, "no ping found room in the queue"
    assert 0.113 < waited.median_s < 0.133
    assert dropped > 300


@pytest.mark.exhaustive
@in_virtual_time
def test_tcp_fills_a_long_fifo(lab: Lab) -> None:
    with lab.path(rate="10mbit", queue="pfifo limit 1000") as path, iperf3_server(path.server, 4) as ports:
        flows = [start_iperf3(path.client, path.server.address, 10, "-p", str(port), "-P", "4") for port in ports]
        pings = pings_of(start_ping(path.client, path.server.address, 8))
        for flow in flows:
            iperf3_of(flow)
    assert max(pings.rtt_s) > 0.5


def test_no_packet_is_larger_than_the_mtu(lab: Lab) -> None:
    capture = lab.folder / "up.pcap"
    with (
        lab.path(rate="50mbit") as path,
        iperf3_server(path.server),
        # At the sender, where segmentation by the interface would still be to come.
        path.client.interfaces["near"].captured(capture),
    ):
        iperf3_of(start_iperf3(path.client, path.server.address, 1))
    assert largest_packet(capture) == 1514


def largest_packet(capture: Path) -> int:
    """The largest original length in a pcap file (little-endian, as tcpdump writes it here)."""
    content = capture.read_bytes()
    at, largest = 24, 0
    while at + 16 <= len(content):
        held = int.from_bytes(content[at + 8 : at + 12], "little")
        largest = max(largest, int.from_bytes(content[at + 12 : at + 16], "little"))
        at += 16 + held
    return largest


def test_a_link_that_goes_down_comes_back_with_its_routes(lab: Lab) -> None:
    with lab.path(rate="10mbit") as path:
        path.up.down()
        assert ping(path.client, path.server.address, 2).rtt_s == []
        path.up.up()
        for address in (path.server.address, path.server.address6):
            # The first packets may be lost while neighbours are found again.
            wait_until(lambda address=address: ping(path.client, address, 1).rtt_s)


@pytest.mark.exhaustive
@in_virtual_time
def test_the_bottleneck_changes_while_traffic_runs(lab: Lab) -> None:
    with lab.path(rate="20mbit", queue="pfifo limit 50") as path, iperf3_server(path.server):
        flow = start_iperf3(path.client, path.server.address, 4)
        time.sleep(2)
        path.shape(path.up, "5mbit", "bfifo limit 60000")
        rates = [step["sum"]["bits_per_second"] for step in iperf3_intervals(flow.wait())]
        assert path.up.qdiscs()[-1]["kind"] == "bfifo"
    assert rates[0] > 15e6
    assert rates[-1] < 6e6


def iperf3_intervals(printed: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed)["intervals"]
    return found


def test_hosts_of_ones_own_topology_find_each_other_over_several_hops(lab: Lab) -> None:
    with lab.network() as network:
        hosts = [network.host(name) for name in "abcde"]
        for one, other in pairwise(hosts):
            network.link(one, other)
        network.start()
        trip = hosts[0].run(["ping", "-n", "-c", "1", hosts[-1].address]).stdout
    # Three routers between them: 64 - 3.
    assert "ttl=61" in trip


def test_nothing_is_left_of_a_network(lab: Lab) -> None:
    with lab.path() as path:
        sleeper = path.client.popen(["sleep", "1000"])
        names = [host.namespace for host in path.network.hosts.values()]
        assert set(names) <= set(existing())
    assert not set(names) & set(existing())
    assert sleeper.returncode is not None


def test_what_a_crash_left_is_swept_by_the_next_run(lab: Lab) -> None:
    crash = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from lab.network import Network\n"
        "network = Network(); host = network.host('left'); host.popen(['sleep', '1000'])\n"
        "print(host.namespace, flush=True); os._exit(1)"
    )
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", crash, tests], capture_output=True, text=True, check=False)
    left = done.stdout.strip()
    assert left in existing()
    with Network() as ours:
        mine = ours.host("mine").namespace
        assert left in sweep()
        assert mine in existing(), "what a living process owns must stay"
    assert left not in existing()


def test_a_program_that_fails_is_named_with_what_it_said(lab: Lab) -> None:
    with lab.network() as network:
        host = network.host("a")
        with pytest.raises(LabError, match=r"in a: ls /nowhere failed \(2\):\nls: cannot access"):
            host.run(["ls", "/nowhere"], env={**os.environ, "LC_ALL": "C"})


def test_a_rate_without_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="'10' is not understood; expected a number and one of bit, kbit"):
        bottleneck_commands("x", "10", None)
