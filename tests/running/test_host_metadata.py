"""Metadata of hosts, checked against other programs; what is sampled; and what redaction hides."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from patience import wait_until
from whydrop.measure.host import CounterSampler, gather, interfaces, with_after
from whydrop.measure.host.counters import (
    byte_queue_limits,
    network_tables,
    pressure,
    processors,
    softnet,
    stack,
    wireless,
)
from whydrop.recording.redaction import HIDDEN, Redactor, redacted

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def gathered() -> dict[str, Any]:
    return gather(["127.0.0.1", "::1", "no-such-system.invalid"])


def test_the_host_is_described_as_the_system_says(gathered: dict[str, Any]) -> None:
    assert gathered["host_name"] == platform.node()
    assert gathered["kernel"]["release"] == os.uname().release
    assert gathered["processors"]["count"] == os.cpu_count()
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    assert gathered["memory_bytes"] == pytest.approx(memory_kib * 1024, rel=0.05)
    for name in ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.core.default_qdisc"):
        assert str(gathered["sysctls"][name]) == Path("/proc/sys", *name.split(".")).read_text().strip()


def test_the_way_to_each_target_is_that_of_the_routes(gathered: dict[str, Any]) -> None:
    assert gathered["egress"]["127.0.0.1"]["interface"] == "lo"
    loopback = gathered["interfaces"]["lo"]
    assert loopback["mtu_bytes"] == int(Path("/sys/class/net/lo/mtu").read_text())
    assert loopback["qdiscs"][0]["kind"] == "noqueue"
    assert set(loopback["offloads"]) >= {"tcp-segmentation-offload", "generic-receive-offload"}
    assert "127.0.0.1/8" in gathered["addresses"]["lo"]
    assert interfaces(gathered) == ["lo"]


def test_what_could_not_be_found_out_is_said_in_words(gathered: dict[str, Any]) -> None:
    assert any("no-such-system.invalid" in words for words in gathered["not_gathered"])


def test_what_is_gathered_fits_into_a_message_to_the_client(gathered: dict[str, Any]) -> None:
    assert len(json.dumps(gathered)) < 128 * 1024


def test_the_state_behind_the_test_stands_beside_that_before_it(gathered: dict[str, Any]) -> None:
    both = with_after(gathered, ["127.0.0.1"])["interfaces"]["lo"]
    assert both["qdiscs"] == gathered["interfaces"]["lo"]["qdiscs"]
    assert both["qdiscs_after"][0]["kind"] == "noqueue"


# Queueing disciplines, made by tc in a network namespace, and by hand where this kernel has them not.


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"whydrop-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        # Nothing shall be sent but by the test.
        inside(name, "sysctl", "--quiet", "net.ipv6.conf.default.disable_ipv6=1")
        inside(name, "ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
        for interface, address in (("va", "10.9.0.1/24"), ("vb", "10.9.0.2/24")):
            inside(name, "ip", "address", "add", address, "dev", interface)
            inside(name, "ip", "link", "set", interface, "up")
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)


def inside(namespace: str, *command: str) -> str:
    full = ["ip", "netns", "exec", namespace, *command]
    return subprocess.run(full, check=True, capture_output=True, text=True, cwd=TESTS).stdout


@pytest.mark.slow
@pytest.mark.needs_root
def test_queues_are_described_as_tc_describes_them(namespace: str) -> None:
    for command in (
        "qdisc add dev va root handle 1: htb default 10",
        "class add dev va parent 1: classid 1:10 htb rate 10mbit burst 15k",
        "qdisc add dev va parent 1:10 handle 10: pfifo limit 77",
        "qdisc add dev vb root handle 2: tbf rate 20mbit burst 32k limit 100000",
    ):
        inside(namespace, "tc", *command.split())
    inside(namespace, "ip", "route", "add", "10.8.0.0/24", "dev", "vb")
    program = "import json; from whydrop.measure.host import gather; print(json.dumps(gather(['10.9.0.99'])))"
    found = json.loads(inside(namespace, sys.executable, "-c", program))
    assert found["egress"]["10.9.0.99"]["source"] == "10.9.0.1"
    interface = found["interfaces"]["va"]
    assert interface["kind"] == "veth"
    by_kind = {qdisc["kind"]: qdisc for qdisc in interface["qdiscs"]}
    assert by_kind["pfifo"]["options"] == {"limit_packets": 77}
    assert (by_kind["pfifo"]["handle"], by_kind["pfifo"]["parent"]) == ("10:", "1:10")
    assert by_kind["htb"]["options"]["default_class"] == "10"
    (htb,) = interface["classes"]
    assert htb["options"]["rate_bps"] == 10_000_000
    assert htb["options"]["burst_bytes"] == pytest.approx(15 * 1024, rel=0.01)
    program = "import json; from whydrop.measure.host import gather; print(json.dumps(gather(['10.8.0.99'])))"
    (tbf,) = json.loads(inside(namespace, sys.executable, "-c", program))["interfaces"]["vb"]["qdiscs"]
    assert tbf["options"]["rate_bps"] == 20_000_000
    assert tbf["options"]["burst_bytes"] == pytest.approx(32 * 1024, rel=0.01)
    assert tbf["options"]["limit_bytes"] == 100_000


@pytest.mark.slow
@pytest.mark.needs_root
def test_counters_sampled_while_packets_flow_are_those_of_tc(namespace: str) -> None:
    command = "qdisc add dev va root handle 1: tbf rate 100kbit burst 4k limit 6000"
    inside(namespace, "tc", *command.split())
    # Somebody beyond the pair, or the packets would go over the loopback interface.
    neighbour = "neighbour add 10.9.0.99 lladdr 02:00:00:00:00:99 dev va"
    inside(namespace, "ip", *neighbour.split())
    program = textwrap.dedent(
        """
        import socket, sys, time
        import polars as pl
        from whydrop.measure.host import CounterSampler
        sampler = CounterSampler("va", 0.1)
        sampler.start()
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        rows, deadline = [], time.monotonic() + 120

        def backlogs():
            rows.append(sampler.drain())
            return pl.concat(rows).filter(pl.col("counter") == "backlog_bytes", pl.col("source") == "qdisc")["value"]

        # A full queue is empty after half a second; on a busy machine no sample may come in that time.
        while (backlogs().max() or 0) <= 3000 and time.monotonic() < deadline:
            for _ in range(40):
                udp.sendto(bytes(1000), ("10.9.0.99", 9))
            time.sleep(0.1)
        while backlogs().to_list()[-1] > 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        sampler.stop()
        pl.concat([*rows, sampler.drain()]).write_parquet(sys.argv[1])
        """
    )
    path = Path(f"/tmp/whydrop-counters-{os.getpid()}.parquet")
    try:
        inside(namespace, sys.executable, "-c", program, str(path))
        rows = pl.read_parquet(path)
    finally:
        path.unlink(missing_ok=True)
    told = json.loads(inside(namespace, "tc", "-s", "-j", "qdisc", "show", "dev", "va"))[0]
    queue = rows.filter((pl.col("source") == "qdisc") & (pl.col("object") == "va tbf 1:"))
    last = dict(queue.group_by("counter").agg(pl.col("value").last()).iter_rows())
    assert last["dropped_packets"] == told["drops"] > 20
    assert last["sent_bytes"] == told["bytes"]
    backlog = queue.filter(pl.col("counter") == "backlog_bytes")["value"]
    assert backlog.max() > 3000
    link = rows.filter((pl.col("source") == "interface") & (pl.col("counter") == "sent_packets"))["value"]
    sent = json.loads(inside(namespace, "ip", "-s", "-j", "link", "show", "va"))[0]["stats64"]["tx"]["packets"]
    assert link[-1] == sent


# Sampling.


def busy(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a counter that every sample has."""
    return rows.filter((pl.col("source") == "cpu") & (pl.col("object") == "cpu") & (pl.col("counter") == "busy_s"))


def test_samples_are_taken_at_each_step_and_drained_once() -> None:
    sampler = CounterSampler("lo", 0.1)
    drained: list[pl.DataFrame] = []

    def three_more() -> bool:
        drained.append(sampler.drain())
        return sum(busy(rows).height for rows in drained) >= 3

    began_ns = time.time_ns()
    sampler.start()
    wait_until(three_more)
    sampler.stop()
    ended_ns = time.time_ns()
    drained.append(sampler.drain())
    rows = busy(pl.concat(drained))
    assert (rows["value"].diff().drop_nulls() >= 0).all()
    times = rows["time_ns"]
    assert times.is_sorted()
    assert times.is_unique().all()
    # At most one for each step, one when it starts and one when it ends.
    assert rows.height <= (ended_ns - began_ns) / 1e8 + 2
    assert all(began_ns - 5 * 10**9 <= time_ns <= ended_ns + 5 * 10**9 for time_ns in times)
    assert sampler.drain().height == 0
    assert sampler.notes == []


def test_the_samplers_own_cost_is_among_the_counters() -> None:
    sampler = CounterSampler("lo", 0.1)
    drained: list[pl.DataFrame] = []

    def own_cost() -> bool:
        drained.append(sampler.drain())
        return sum(rows.filter(pl.col("source") == "sampler").height for rows in drained) >= 3

    sampler.start()
    wait_until(own_cost)
    sampler.stop()


def test_an_interface_that_is_not_there_has_no_counters_and_costs_nothing_else() -> None:
    sampler = CounterSampler(["no-such-link"], 0.1)
    sampler.start()
    sampler.stop()
    rows = sampler.drain()
    assert rows.filter(pl.col("source") == "interface").height == 0
    assert rows.filter(pl.col("source") == "cpu").height > 0


def test_counters_of_the_stack_that_stay_as_they_are_are_left_out() -> None:
    sampler = CounterSampler("lo", 10.0)
    sampler._keep(1, [("netstat", "TcpExt", "TCPTimeouts", 5.0, True), ("qdisc", "x", "drops", 0.0, True)])
    sampler._keep(2, [("netstat", "TcpExt", "TCPTimeouts", 5.0, True), ("qdisc", "x", "drops", 0.0, True)])
    sampler._keep(3, [("netstat", "TcpExt", "TCPTimeouts", 7.0, True)])
    sampler._keep(4, [("netstat", "TcpExt", "TCPTimeouts", 7.0, True)])
    sampler._keep(5, [("netstat", "TcpExt", "TCPTimeouts", 8.0, True)])
    rows = sampler.drain()
    stack = rows.filter(pl.col("source") == "netstat")
    assert stack.select("time_ns", "value").rows() == [(2, 5.0), (3, 7.0), (4, 7.0), (5, 8.0)]
    assert rows.filter(pl.col("source") == "qdisc").height == 2


def test_counters_in_files_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 50 800 0 10 40 0 0 0\ncpu0 100 0 50 800 0 10 40 0 0 0\nintr 1 2\n")
    found = {(thing, counter): value for _, thing, counter, value, _ in processors(tmp_path)}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert found["cpu0", "busy_s"] == pytest.approx(200 * tick_s)
    assert found["cpu0", "softirq_s"] == pytest.approx(40 * tick_s)
    (tmp_path / "netstat").write_text("TcpExt: A TCPTimeouts B\nTcpExt: 1 42 3\n")
    (tmp_path / "snmp").write_text("Tcp: RetransSegs X\nTcp: 7 8\n")
    found = {(thing, counter): value for _, thing, counter, value, _ in stack(tmp_path)}
    assert found == {("TcpExt", "TCPTimeouts"): 42.0, ("Tcp", "RetransSegs"): 7.0}


def test_of_all_interfaces_only_counters_of_trouble_that_move_are_kept() -> None:
    sampler = CounterSampler(None, 10.0)
    for time_ns, grown in ((1, 0.0), (2, 0.0), (3, 1.0)):
        sampler._keep(
            time_ns,
            [
                ("qdisc", "eth0 pfifo 1:", "dropped_packets", grown, True),
                ("qdisc", "eth0 pfifo 1:", "sent_packets", grown, True),
                ("interface", "eth0", "receive_missed_packets", grown, True),
                ("interface", "eth0", "received_packets", grown, True),
                ("netstat", "TcpExt", "ListenOverflows", grown, True),
                ("netstat", "Ip", "InReceives", grown, True),
                ("driver", "eth0", "rx_no_buffer_count", grown, True),
                ("driver", "eth0", "tx_queue_0_bytes", grown, True),
                ("cpu", "cpu0", "steal_s", 2 * grown, True),
                ("cpu", "cpu0", "user_s", grown, True),
                ("netstat", "TcpExt", "TCPTimeouts", 3.0, True),
            ],
        )
    kept = sampler.drain()
    assert kept["time_ns"].to_list() == [2, 3] * 5
    assert kept["counter"].unique(maintain_order=True).to_list() == [
        "dropped_packets", "receive_missed_packets", "ListenOverflows", "rx_no_buffer_count", "steal_s",
    ]  # fmt: skip


def test_receive_queues_tables_and_pressure_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    line = "00c9ca8a 00000003 0000000f 0 0 0 0 0 0 0 00000002 0 00000005 0 0"
    (tmp_path / "softnet_stat").write_text(f"{line}\n")
    found = {(thing, counter): value for _, thing, counter, value, _ in softnet(tmp_path)}
    assert found["cpu5", "dropped_packets"] == 3
    assert (found["cpu5", "time_squeezed"], found["cpu5", "flow_limit_dropped_packets"]) == (15, 2)
    (tmp_path / "stat").mkdir()
    (tmp_path / "stat/nf_conntrack").write_text("entries insert_failed drop early_drop\n2 1 a 0\n2 1 1 0\n")
    (tmp_path / "netfilter").mkdir()
    (tmp_path / "netfilter/nf_conntrack_count").write_text("12\n")
    tables = {(thing, counter): value for _, thing, counter, value, _ in network_tables(tmp_path, tmp_path)}
    assert tables == {
        ("nf_conntrack", "drop"): 11.0, ("nf_conntrack", "early_drop"): 0.0, ("nf_conntrack", "insert_failed"): 2.0,
        ("nf_conntrack", "entries"): 12.0,
    }  # fmt: skip
    (tmp_path / "memory").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n")
    assert list(pressure(tmp_path)) == [("pressure", "memory", "some_s", 2.5, True)]


def test_wireless_links_and_byte_queue_limits_are_read_where_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/wireless").write_text(
        "Inter-| sta-|   Quality        |   Discarded packets               | Missed | WE\n"
        " face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon | 22\n"
        " wlan0: 0000   54.  -56.  -256        0      0      0      3     17        2\n"
    )
    station = tmp_path / "sys/kernel/debug/ieee80211/phy0/netdev:wlan0/stations/02:00:00:00:00:01"
    station.mkdir(parents=True)
    (station / "airtime").write_text("RX: 123 us\nTX: 456 us\nWeight: 256\n")
    found = {(thing, counter): value for _, thing, counter, value, _ in wireless(["wlan0"], tmp_path)}
    assert found["wlan0", "signal_dbm"] == -56.0
    assert (found["wlan0", "excessive_retries"], found["wlan0", "missed_beacons"]) == (3.0, 2.0)
    assert found["wlan0 02:00:00:00:00:01", "send_airtime_us"] == 456.0
    limits = tmp_path / "class/net/eth0/queues/tx-0/byte_queue_limits"
    limits.mkdir(parents=True)
    (limits / "limit").write_text("3028\n")
    (limits / "inflight").write_text("1514\n")
    found = [(thing, counter, value) for _, thing, counter, value, _ in byte_queue_limits(["eth0"], tmp_path)]
    assert found == [("eth0 tx-0", "limit_bytes", 3028.0), ("eth0 tx-0", "inflight_bytes", 1514.0)]


# Redaction.

PRIVATE = {
    "hosts": {
        "local": {
            "host_name": "annas-laptop",
            "addresses": {
                "eth0": ["198.51.100.7/24", "2001:db8::7/64", "fe80::1%eth0"],
                "lo": ["127.0.0.1/8", "::1/128"],
            },
            "interfaces": {"eth0": {"hardware_address": "02:AA:bb:00:00:01"}},
            "wifi": {"ssid": "Anna's home"},
        },
        "server.example.net": {"host_name": "server"},
    },
    "name": "rrul",
    "note": "from annas-laptop (198.51.100.7) to server.example.net, not to server.example.netx; version 1.2.3.4.5",
    "test": {
        "hosts": ["server.example.net"],
        "parameters": {"secret": "s3cr3t", "urls": "http://intranet.example/x?y", "file": "/home/anna/urls.txt"},
        "flows": [{"name": "Ping (ms) server.example.net"}],
    },
    "imported": {"metadata": {"COMMAND": "netperf -H 198.51.100.7 --secret hunter2 -4", "LOCAL_HOST": "annas-laptop"}},
}


def test_no_name_address_path_or_secret_survives_redaction() -> None:
    text = json.dumps(Redactor().metadata(PRIVATE))
    for private in (
        "annas", "198.51.100.7", "2001:db8::7", "fe80::1", "02:aa", "02:AA", "server.example.net\"", "s3cr3t",
        "hunter2", "/home/anna", "intranet", "Anna",
    ):  # fmt: skip
        assert private not in text, private


def test_pseudonyms_are_the_same_everywhere_and_leave_the_rest_readable() -> None:
    found = Redactor().metadata(PRIVATE)
    local = found["hosts"]["local"]
    name, address = local["host_name"], local["addresses"]["eth0"][0].removesuffix("/24")
    (far,) = set(found["hosts"]) - {"local"}
    assert found["test"]["hosts"] == [far]
    assert found["note"].startswith(f"from {name} ({address}) to {far}, not to server.example.netx; version 1.2.3.4.5")
    assert found["imported"]["metadata"]["COMMAND"] == f"netperf -H {address} --secret {HIDDEN} -4"
    assert local["addresses"]["lo"] == ["127.0.0.1/8", "::1/128"]
    assert found["test"]["parameters"]["secret"] == HIDDEN
    assert found["redacted"] is True
    assert PRIVATE["name"] == found["name"]


def test_tables_are_redacted_with_the_pseudonyms_of_the_metadata() -> None:
    redactor = Redactor()
    metadata = redactor.metadata(recordings.metadata())
    flows = redactor.rows(recordings.tables()["flows"])
    assert flows["host"].unique().to_list() == metadata["test"]["hosts"]
    assert "192.0.2.7" not in flows["address"].to_list()
    assert flows["name"].to_list() == recordings.tables()["flows"]["name"].to_list()
    far = pl.DataFrame({"flow": [1], "facts": [json.dumps({"host": "other.example", "password": "x"})]})
    assert json.loads(redactor.rows(far)["facts"][0]) == {"host": "host-3", "password": HIDDEN}


def test_a_time_or_a_version_is_no_address() -> None:
    redactor = Redactor()
    for text in ("12:30:45", "1.2.3", "tcp_upload::1", "5.10.0-8-amd64", "00:11:22", "a::b::c", "x 999.1.1.1"):
        assert redactor.text(text) == text


def test_this_hosts_own_metadata_hold_its_name_no_more() -> None:
    text = json.dumps(Redactor().metadata({"hosts": {"local": gather(["127.0.0.1"])}}))
    name = socket.gethostname()
    assert len(name) < 3 or f'"{name}"' not in text


def test_a_redacted_address_of_one_link_keeps_its_zone() -> None:
    found = redacted({"hosts": {"fe80::7%eth0": {"address": "fe80::7%eth0"}}}, [])[0]
    assert found["hosts"] == {"ipv6-1%eth0": {"address": "ipv6-1%eth0"}}
