"""Packets that hosts drop on purpose, named by the kernel's reason or by a counter; and as many lost elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from lab import Lab
from lab.measuring import iperf3_server, start_iperf3
from lab.watched import Watched, between, watched
from patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("pfifo", "tbf")]

COUNT = 200

SEND = """
import socket, sys
address, port, count, ttl, source = sys.argv[1:]
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sending.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, int(ttl))
sending.bind((source, 0))
for _ in range(int(count)):
    sending.sendto(bytes(1000), (address, int(port)))
"""
# Bound, and never read.
HOLD = """
import socket, sys, time
kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
kept.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
kept.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
time.sleep(1e6)
"""
LISTEN = """
import socket, sys, time
listening = socket.create_server(("0.0.0.0", int(sys.argv[1])), backlog=1)
print("ready", flush=True)
time.sleep(1e6)
"""
CONNECT = """
import socket, sys, time
address, port, count = sys.argv[1:]
made = []
for _ in range(int(count)):
    made.append(socket.socket())
    made[-1].setblocking(False)
    made[-1].connect_ex((address, int(port)))
print("asked", flush=True)
time.sleep(1e6)
"""
DAMAGED = """
import socket, struct, sys
address, udp, tcp, count = sys.argv[1], *map(int, sys.argv[2:])
for protocol, header in (
    (socket.IPPROTO_UDP, struct.pack("!HHHH", 5000, udp, 108, 0xBEEF) + bytes(100)),
    (socket.IPPROTO_TCP, struct.pack("!HHIIBBHHH", 5000, tcp, 0, 0, 0x50, 2, 100, 0xBEEF, 0)),
):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
    for _ in range(count):
        raw.sendto(header, (address, 0))
"""
# Of a header that it is given the kernel works out the checksum itself: only whole frames can have a wrong one.
DAMAGED_HEADER = """
import socket, struct, sys
interface, source, address, port, count = sys.argv[1:]
ends = socket.inet_aton(source), socket.inet_aton(address)
header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 128, 0, 0, 64, socket.IPPROTO_UDP, 0xBEEF, *ends)
frame = bytes([255] * 6 + [2, 0, 0, 0, 0, 1]) + b"\\x08\\0" + header
frame += struct.pack("!HHHH", 5000, int(port), 108, 0) + bytes(100)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind((interface, 0))
    for _ in range(int(count)):
        raw.send(frame)
"""
# The window was offered while the buffer was large; then the buffer shrinks, and what comes finds no room.
SHRINK = """
import socket, sys, time
listening = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
accepted = listening.accept()[0]
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
print("shrunk", flush=True)
time.sleep(1e6)
"""
FILL = """
import socket, sys, time
sending = socket.create_connection((sys.argv[1], int(sys.argv[2])))
sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
time.sleep(0.5)
sending.setblocking(False)
try:
    while True:
        sending.send(bytes(1400))
except BlockingIOError:
    pass
print("filled", flush=True)
time.sleep(1e6)
"""


def python(code: str, *arguments: object) -> list[str]:
    """The words that run a program."""
    return [sys.executable, "-c", code, *map(str, arguments)]


@pytest.mark.needs_program("nft")
def test_what_a_receiver_drops_is_named_and_counted(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        for code, port in ((HOLD, 7001), (LISTEN, 7004), (LISTEN, 7005), (SHRINK, 7006)):
            receiver.popen(python(code, port)).wait_for("ready")
        for rule in (
            "add table inet lab",
            "add chain inet lab arriving { type filter hook input priority 0; }",
            "add rule inet lab arriving udp dport 7002 drop",
        ):
            receiver.run(["nft", rule])
        with watched(receiver, lab.folder / "receiver", "--udp") as found:
            for port in (7001, 7002):
                sender.run(python(SEND, receiver.address, port, COUNT, 64, "0.0.0.0"))
            sender.run(python(DAMAGED, receiver.address, 7003, 7005, 40))
            leaving = router.interfaces["receiver"].name
            router.run(python(DAMAGED_HEADER, leaving, router.address, receiver.address, 7007, 40))
            sender.popen(python(CONNECT, receiver.address, 7004, 8)).wait_for("asked")
            sender.popen(python(FILL, receiver.address, 7006)).wait_for("filled")
    # What fits into the buffer is not dropped; the socket itself counts the rest.
    refused = found.counted("drops")
    assert 0.9 * COUNT < refused < COUNT + found.lost
    assert found.is_exact(7001, "SOCKET_RCVBUFF", refused)
    assert found.is_exact(7002, "NETFILTER_DROP", COUNT)
    # To a port without a listener: the checksum of datagrams for a socket is checked when they are read.
    assert found.is_exact(7003, "UDP_CSUM", 40)
    assert found.is_exact(7005, "TCP_CSUM", 40)
    assert found.is_exact(7007, "IP_CSUM", 40)
    # Each protocol has a counter of this name.
    assert found.counted("InCsumErrors") >= 120
    # A full accept queue has no reason on most kernels, but its counter.
    assert found.counted("ListenOverflows") >= 6
    lacking = found.dropped(7006)
    assert set(lacking) & {"PROTO_MEM", "SOCKET_RCVBUFF", "TCP_ZEROWINDOW"}
    # In order, and out of order behind what found no room.
    refused = found.counted("TCPRcvQDrop") + found.counted("TCPOFODrop")
    assert refused - found.lost <= lacking.get("PROTO_MEM", 0) <= refused
    assert {"NETFILTER_DROP", "SOCKET_RCVBUFF", "IP_CSUM", "TCP_CSUM", "UDP_CSUM"} < set(found.named())
    rows = found.table("drops").filter(pl.col("reason") == "NETFILTER_DROP")
    assert rows["interface"].unique().to_list() == ["to-router"]
    assert rows["protocol"].unique().to_list() == ["udp"]
    assert rows["location"].null_count() == 0


def test_what_a_router_drops_is_named_and_counted(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        for name in ("all", "to-sender"):
            router.sysctl(f"net.ipv4.conf.{name}.rp_filter", "1")
        # An address that the router would not answer by the interface that it comes by.
        sender.run(["ip", "address", "add", "203.0.113.5/32", "dev", "lo"])
        with watched(router, lab.folder / "router") as found:
            sender.run(python(SEND, receiver.address, 7001, 50, 1, "0.0.0.0"))
            sender.run(python(SEND, receiver.address, 7002, 50, 64, "203.0.113.5"))
    # The kernel's word for a packet with an expired time to live; the counter has the same name.
    assert found.is_exact(7001, "IP_INHDR", 50)
    assert found.counted("InHdrErrors") == 50
    assert found.is_exact(7002, "IP_RPFILTER", 50)
    assert set(found.named()) == {"IP_RPFILTER"}
    rows = found.table("drops").filter(pl.col("reason") == "IP_RPFILTER")
    assert rows["arrived_by"].unique().to_list() == ["to-sender"]


def test_a_full_queue_of_the_sender_is_named_and_counted(lab: Lab) -> None:
    with lab.network() as network:
        sender, _, receiver = between(network)
        leaving = sender.interfaces["router"]
        leaving.tc("qdisc add dev {} root tbf rate 1mbit burst 2k limit 4000")
        with watched(sender, lab.folder / "sender") as found:
            sender.run(python(SEND, receiver.address, 7001, COUNT, 64, "0.0.0.0"))
        dropped = leaving.dropped()
    (reason,) = found.dropped(7001)
    assert reason.startswith("QDISC_")
    assert found.is_exact(7001, reason, dropped)
    assert found.counted("dropped_packets") == dropped > 0


def laid(found: Watched) -> tuple[int, int]:
    """Segments retransmitted: after a drop on the host that was watched, and the others."""
    rows = found.table("retransmissions")
    if not rows.height:
        return 0, 0
    here = rows["reason"].is_not_null()
    return int(rows.filter(here)["packets"].sum()), int(rows.filter(~here)["packets"].sum())


def test_what_the_sender_s_own_queue_drops_is_attributed_to_it_and_what_the_network_drops_is_not(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        own, other = sender.interfaces["router"], router.interfaces["receiver"]
        with iperf3_server(receiver):
            # The queue throws away what it holds for longest: TCP has counted it as sent.
            own.tc("qdisc add dev {} root handle 1: tbf rate 20mbit burst 3k limit 30000")
            own.tc("qdisc add dev {} parent 1:1 pfifo_head_drop limit 5")
            with watched(sender, lab.folder / "own", "--port", "5201") as here:
                start_iperf3(sender, receiver.address, 2, "-P", "4").wait()
            dropped = own.dropped()
            own.tc("qdisc del dev {} root")
            other.tc("qdisc add dev {} root tbf rate 20mbit burst 3k limit 8000")
            with watched(sender, lab.folder / "other", "--port", "5201") as elsewhere:
                start_iperf3(sender, receiver.address, 2, "-P", "4").wait()
            assert other.dropped() > 0
    assert 0 < laid(here)[0] <= dropped
    none, others = laid(elsewhere)
    again = elsewhere.counted("RetransSegs")
    assert none == 0
    # The kernel's own tracepoint reports nearly all that it counts.
    assert 0 < 0.9 * again - elsewhere.lost <= others <= again
    assert any(reason.startswith("QDISC") for reason in here.named())
    assert elsewhere.named() == {}


@pytest.mark.needs_kernel("police", "fq_codel")
@pytest.mark.needs_program("nft")
def test_a_policer_full_connection_tracking_and_queue_management_are_named(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        arriving = router.interfaces["sender"]
        arriving.tc("qdisc add dev {} clsact")
        arriving.tc(
            "filter add dev {} ingress protocol ip u32 match ip dport 7001 0xffff "
            "action police rate 8kbit burst 2k conform-exceed drop"
        )
        for rule in (
            "add table ip lab",
            "add chain ip lab passing { type filter hook forward priority 0; }",
            "add rule ip lab passing ct state new accept",
        ):
            router.run(["nft", rule])
        # The limit is the machine's.
        Path("/proc/sys/net/netfilter/nf_conntrack_max").write_text("4\n")
        with watched(router, lab.folder / "router") as found:
            sender.run(python(SEND, receiver.address, 7001, COUNT, 64, "0.0.0.0"))
            for _ in range(10):
                sender.run(python(SEND, receiver.address, 7002, 1, 64, "0.0.0.0"))
        policed = json.loads(arriving.tc("-s -j filter show dev {} ingress"))
    policed_packets = sum(
        action["stats"]["drops"] for one in policed for action in one.get("options", {}).get("actions", ())
    )
    assert found.is_exact(7001, "TC_INGRESS", policed_packets)
    assert policed_packets > 0.9 * COUNT
    assert found.is_exact(7002, "NETFILTER_DROP", found.counted("drop"))
    assert found.counted("drop") > 0


@pytest.mark.needs_kernel("drop_monitor", "police")
def test_the_drop_monitor_names_them_too(lab: Lab) -> None:
    with lab.network() as network:
        sender, _, receiver = between(network)
        receiver.popen(python(HOLD, 7001)).wait_for("ready")
        leaving = sender.interfaces["router"]
        # Its messages come from all namespaces, wherever the watch is.
        with watched(receiver, lab.folder / "receiver", way="drop-monitor") as found:
            sender.run(python(SEND, receiver.address, 7001, COUNT, 64, "0.0.0.0"))
            leaving.tc("qdisc add dev {} root tbf rate 1mbit burst 2k limit 4000")
            sender.run(python(SEND, receiver.address, 7002, COUNT, 64, "0.0.0.0"))
        dropped = leaving.dropped()
    assert found.is_exact(7001, "SOCKET_RCVBUFF", found.counted("RcvbufErrors"))
    (reason,) = (one for one in found.dropped(7002) if one.startswith("QDISC_"))
    assert 0 < dropped - found.lost <= found.dropped(7002)[reason] <= dropped
    # The kernel does not report their namespace.
    assert found.table("drops")["here"].null_count() == found.table("drops").height


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("drop_monitor")
def test_a_drop_monitor_that_a_killed_watch_left_at_work_is_taken_over_and_one_in_use_is_not(lab: Lab) -> None:
    words = [sys.executable, "-m", "whydrop", "watch", "--json", "--drops", "drop-monitor"]
    with lab.network() as network:
        sender, _, receiver = between(network)
        receiver.popen(python(HOLD, 7001)).wait_for("ready")
        folder = lab.folder / "killed"
        folder.mkdir()
        killed = receiver.popen([*words, "--output", str(folder)])
        wait_until(lambda: killed.returncode is not None or any(folder.glob("*.recording/journal/polls*")))
        refused = receiver.run([*words, "--duration", "1s", "--output", str(lab.folder / "refused")])
        assert "another program uses" in json.loads(refused.stdout)["dropped"]["shortfall"]
        assert killed.returncode is None
        killed.kill()
        with watched(receiver, lab.folder / "receiver", way="drop-monitor") as found:
            sender.run(python(SEND, receiver.address, 7001, COUNT, 64, "0.0.0.0"))
    assert found.is_exact(7001, "SOCKET_RCVBUFF", found.counted("RcvbufErrors"))
