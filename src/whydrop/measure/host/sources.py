"""Where counters of a host come from while a test runs. Each source is asked at each step, and is cheap to ask."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from whydrop.measure.host import ethtool, qdiscs
from whydrop.measure.host.ethtool import Ethtool
from whydrop.measure.host.items import line_or_none
from whydrop.runtime.rtnetlink import IFLA_STATS64, Netlink, handle

# Source, object, counter, value, cumulative.
Reading = tuple[str, str, str, float, bool]

# Columns of /proc/net/softnet_stat (softnet_seq_show in net/core/net-procfs.c), in hexadecimal; the others are of no
# drops, or are zero since long.
_SOFTNET = {0: "processed_packets", 1: "dropped_packets", 2: "time_squeezed", 10: "flow_limit_dropped_packets"}
_SOFTNET_PROCESSOR = 12

# Of the tables in /proc/net/stat: what is dropped or refused.
_TABLES = {
    "nf_conntrack": ("drop", "early_drop", "insert_failed", "invalid", "clashres", "search_restart", "chaintoolong"),
    "arp_cache": ("unresolved_discards", "table_fulls", "res_failed"),
    "ndisc_cache": ("unresolved_discards", "table_fulls", "res_failed"),
    "synproxy": ("cookie_invalid",),
}

# Fields of rtnl_link_stats64 (linux/if_link.h), in order.
_LINK_COUNTERS = (
    "received_packets", "sent_packets", "received_bytes", "sent_bytes", "receive_errors", "send_errors",
    "receive_dropped_packets", "send_dropped_packets", "multicast_packets", "collisions", "receive_length_errors",
    "receive_over_errors", "receive_crc_errors", "receive_frame_errors", "receive_fifo_errors",
    "receive_missed_packets",
)  # fmt: skip

# Columns of /proc/stat (proc(5)), in order; in ticks.
_CPU_TIMES = ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s")
_IDLE = ("idle_s", "iowait_s")
_MOST_PROCESSORS = 1024

# Counters of the stack that explain bad results of TCP or UDP; the rest of some 350 is left out.
_STACK = {
    "Tcp": ("RetransSegs", "InSegs", "OutSegs", "InErrs", "AttemptFails", "EstabResets"),
    "Udp": ("InDatagrams", "OutDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors", "NoPorts"),
    "Udp6": ("Udp6InDatagrams", "Udp6OutDatagrams", "Udp6InErrors", "Udp6RcvbufErrors", "Udp6SndbufErrors"),
    "IpExt": ("InCEPkts", "InECT0Pkts", "InECT1Pkts", "InNoECTPkts"),
    "Ip": ("InDiscards", "OutDiscards", "FragFails", "ReasmFails"),
    "TcpExt": (
        "TCPLostRetransmit", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPTimeouts", "TCPLossProbes",
        "TCPLossProbeRecovery", "TCPSpuriousRTOs", "TCPSACKReorder", "TCPTSReorder", "TCPDSACKRecv",
        "TCPDSACKIgnoredOld", "TCPBacklogDrop", "TCPRcvQDrop", "TCPOFOQueue", "TCPRcvCollapsed", "PruneCalled",
        "RcvPruned", "TCPToZeroWindowAdv", "TCPZeroWindowDrop", "TCPDelivered", "TCPDeliveredCE", "TCPPureAcks",
        "TCPHystartTrainDetect", "TCPHystartDelayDetect", "TCPECNRejected", "TCPMemoryPressures", "ListenDrops",
        "TCPRetransFail", "TCPSpuriousRtxHostQueues", "TCPAutoCorking",
    ),
}  # fmt: skip


class CounterSource:
    """Something that has counters."""

    def read(self) -> Iterator[Reading]:
        """Its counters now.

        Raises:
            OSError: there are none.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds, where it holds something."""


class Queues(CounterSource):
    """Queueing disciplines of the interfaces, and the interfaces' own counters, by rtnetlink."""

    def __init__(self, interfaces: Sequence[str] | None) -> None:
        """``None``: of all, also of those that come later."""
        self._netlink = Netlink()
        self._interfaces = None if interfaces is None else set(interfaces)
        self._names = {index: name for index, (name, _) in self._netlink.links().items()}

    def read(self) -> Iterator[Reading]:
        """Statistics of disciplines and interfaces."""
        links = self._netlink.links()
        self._names = {index: name for index, (name, _) in links.items()}
        for name, found in links.values():
            data = found.get(IFLA_STATS64, b"")
            if self._wants(name) and len(data) >= 8 * len(_LINK_COUNTERS):
                values = struct.unpack_from(f"={len(_LINK_COUNTERS)}Q", data)
                for counter, value in zip(_LINK_COUNTERS, values, strict=True):
                    yield "interface", name, counter, value, True
        for qdisc in self._netlink.qdiscs():
            interface = self._names.get(qdisc.interface, "")
            if self._wants(interface):
                place = handle(qdisc.handle) if qdisc.handle else handle(qdisc.parent)
                for found_counter in qdiscs.counters(qdisc):
                    thing = f"{interface} {qdisc.kind} {place}"
                    yield "qdisc", thing, found_counter.name, found_counter.value, found_counter.cumulative

    def _wants(self, interface: str) -> bool:
        return interface != "" and (self._interfaces is None or interface in self._interfaces)

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()


class ByteQueueLimits(CounterSource):
    """How much the driver's own queues hold, and are allowed to."""

    def __init__(self, interfaces: Sequence[str], root: Path = Path("/sys")) -> None:
        self._queues = [
            (f"{name} {folder.parent.name}", folder)
            for name in interfaces
            for folder in sorted((root / "class/net" / name).glob("queues/tx-*/byte_queue_limits"))
        ]

    def read(self) -> Iterator[Reading]:
        """Limit and bytes in flight of each queue."""
        for thing, folder in self._queues:
            for file, counter in (("limit", "limit_bytes"), ("inflight", "inflight_bytes")):
                value = line_or_none(folder / file)
                if value is not None and value.isdigit():
                    yield "bql", thing, counter, float(value), False


class Drivers(CounterSource):
    """The counters of drivers themselves (`ethtool --statistics`)."""

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._asked = {name: Ethtool(name) for name in interfaces}

    def read(self) -> Iterator[Reading]:
        """The drivers' counters; those of drivers without any are absent."""
        for name, asked in list(self._asked.items()):
            try:
                found = asked.statistics()
            except OSError:
                self._asked.pop(name).close()
                continue
            for counter, value in found.items():
                yield "driver", name, counter, float(value), True

    def close(self) -> None:
        """Close the sockets."""
        for asked in self._asked.values():
            asked.close()


class Pauses(CounterSource):
    """Pause frames of Ethernet flow control."""

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._interfaces = list(interfaces)

    def read(self) -> Iterator[Reading]:
        """Pause frames received and sent; interfaces without such counters are absent."""
        for name in list(self._interfaces):
            try:
                found = ethtool.flow_control(name)
            except OSError:
                self._interfaces.remove(name)
                continue
            for counter in ethtool.PAUSES:
                if counter in found:
                    yield "interface", name, counter, float(found[counter]), True


class Processors(CounterSource):
    """How long each processor did what."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._path = root / "stat"
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Iterator[Reading]:
        """Seconds by kind, and those of work in all, of each processor and of all together ("cpu")."""
        for text in self._path.read_text().splitlines()[: _MOST_PROCESSORS + 1]:
            name, *fields = text.split()
            if not name.startswith("cpu"):
                return
            times = dict(zip(_CPU_TIMES, (int(field) * self._tick_s for field in fields), strict=False))
            for counter in ("user_s", "system_s", "softirq_s", "irq_s", "steal_s"):
                if counter in times:
                    yield "cpu", name, counter, times[counter], True
            yield "cpu", name, "busy_s", sum(time for key, time in times.items() if key not in _IDLE), True


class Stack(CounterSource):
    """Counters of TCP, UDP and IP, of the network namespace of the thread that reads."""

    def __init__(self, root: Path = Path("/proc/thread-self/net"), *, every: bool = False) -> None:
        """``every``: all that the kernel has; else those that explain bad results of TCP or UDP."""
        self._root, self._every = root, every

    def read(self) -> Iterator[Reading]:
        """The counters of ``netstat``, ``snmp`` and ``snmp6``."""
        for group, counter, value in self._counters():
            if self._every or counter in _STACK.get(group, ()):
                yield "netstat", group, counter, float(value), True

    def _counters(self) -> Iterator[tuple[str, str, str]]:
        for file in ("netstat", "snmp"):
            lines = (self._root / file).read_text().splitlines()
            for names, values in zip(lines[::2], lines[1::2], strict=False):
                group, _, keys = names.partition(":")
                for counter, value in zip(keys.split(), values.partition(":")[2].split(), strict=False):
                    yield group, counter, value
        six = self._root / "snmp6"
        for text in six.read_text().splitlines() if six.exists() else ():
            name, _, number = text.partition(" ")
            yield name.partition("6")[0] + "6", name, number.strip()


class Wireless(CounterSource):
    """Signal and airtime of wireless interfaces."""

    def __init__(self, interfaces: Sequence[str], root: Path = Path("/")) -> None:
        self._interfaces = set(interfaces)
        self._wireless = root / "proc/net/wireless"
        self._stations = root / "sys/kernel/debug/ieee80211"

    def read(self) -> Iterator[Reading]:
        """Read /proc/net/wireless, and for root the airtime of each station."""
        lines = self._wireless.read_text().splitlines()[2:] if self._wireless.exists() else []
        for text in lines:
            name, _, rest = text.partition(":")
            fields = rest.split()
            if name.strip() in self._interfaces and len(fields) >= 9:
                levels = zip(("link_quality", "signal_dbm", "noise_dbm"), fields[1:4], strict=True)
                for counter, value in levels:
                    yield "wifi", name.strip(), counter, float(value.rstrip(".")), False
                yield "wifi", name.strip(), "excessive_retries", float(fields[7]), True
                yield "wifi", name.strip(), "missed_beacons", float(fields[9 if len(fields) > 9 else 8]), True
        for path in self._stations.glob("phy*/netdev:*/stations/*/airtime") if lines else ():
            interface = path.parts[-4].partition(":")[2]
            for text in path.read_text().splitlines():
                key, _, value = text.partition(":")
                number = value.split()[:1]
                if interface in self._interfaces and key in ("RX", "TX") and number and number[0].isdigit():
                    what = "receive_airtime_us" if key == "RX" else "send_airtime_us"
                    yield "wifi", f"{interface} {path.parts[-2]}", what, float(number[0]), True


class Softnet(CounterSource):
    """Softnet counters: drops of each processor's receive queue, and how often it had to stop before it was empty."""

    def __init__(self, root: Path = Path("/proc/net")) -> None:
        self._path = root / "softnet_stat"
        if not self._path.exists():
            raise FileNotFoundError(2, "the kernel has none", str(self._path))

    def read(self) -> Iterator[Reading]:
        """The counters of each processor; they are of all network namespaces together."""
        for number, text in enumerate(self._path.read_text().splitlines()[:_MOST_PROCESSORS]):
            fields = [int(field, 16) for field in text.split()]
            # Processors that are off have no line; newer kernels print the number of the processor.
            processor = fields[_SOFTNET_PROCESSOR] if len(fields) > _SOFTNET_PROCESSOR else number
            for place, counter in _SOFTNET.items():
                if place < len(fields):
                    yield "softnet", f"cpu{processor}", counter, float(fields[place]), True


class NetworkTables(CounterSource):
    """Connection tracking and neighbours: what did not fit, or was refused."""

    def __init__(self, net: Path = Path("/proc/thread-self/net"), sysctl: Path = Path("/proc/sys/net")) -> None:
        self._net, self._sysctl = net, sysctl

    def read(self) -> Iterator[Reading]:
        """The counters of each table, of all processors together, and how full connection tracking is."""
        for table, chosen in _TABLES.items():
            path = self._net / "stat" / table
            lines = path.read_text().splitlines() if path.exists() else []
            if not lines:
                continue
            names = lines[0].split()
            rows = [[int(field, 16) for field in text.split()] for text in lines[1:]]
            for counter in chosen:
                if counter in names:
                    place = names.index(counter)
                    total = sum(row[place] for row in rows if place < len(row))
                    yield "table", table, counter, float(total), True
        for file, counter in (("nf_conntrack_count", "entries"), ("nf_conntrack_max", "most_entries")):
            value = line_or_none(self._sysctl / "netfilter" / file)
            if value is not None and value.isdigit():
                yield "table", "nf_conntrack", counter, float(value), False


class Pressure(CounterSource):
    """For how long tasks waited for memory, processors or disks (pressure stall information, Linux 4.20)."""

    def __init__(self, root: Path = Path("/proc/pressure")) -> None:
        self._root = root
        if not root.is_dir():
            raise FileNotFoundError(2, "the kernel does not report this", str(root))

    def read(self) -> Iterator[Reading]:
        """Seconds in which some, or all, tasks waited."""
        for what in ("memory", "cpu", "io"):
            path = self._root / what
            for text in path.read_text().splitlines() if path.exists() else ():
                who, _, rest = text.partition(" ")
                total = rest.rpartition("total=")[2]
                if total.isdigit():
                    yield "pressure", what, f"{who}_s", int(total) / 1e6, True


# Names of counters of dropped, refused, late or retransmitted packets; each driver has names of its own.
_OF_TROUBLE = re.compile(
    "drop|discard|err|fail|abort|reject|invalid|trunc|csum|crc|fifo|over|miss|full|backlog|prune|collaps|collision|"
    "squeez|pause|press|stall|timeout|timedout|retrans|lost|loss|spurious|undo|dsack|reorder|rcvq|listen|zerowindow|"
    "no_?buf|no_?mem|no_?port|no_?route|unknown|requeue|busy|delivered_?ce|incepkts",
    re.IGNORECASE,
)


def tells_of_trouble(reading: Reading) -> bool:
    """True if a counter is of drops, errors, waiting or repairs, rather than of traffic that went well."""
    source, _, counter, _, _ = reading
    if source in ("bql", "drops", "pressure", "sampler", "table"):
        return True
    if source == "cpu":
        return counter in ("steal_s", "softirq_s")
    if source == "qdisc":
        return not counter.startswith("sent_")
    return _OF_TROUBLE.search(counter) is not None


def all_sources(interfaces: Sequence[str] | None) -> tuple[list[CounterSource], list[str]]:
    """The sources that this host has, and in words those that it has not.

    With ``None`` for the interfaces it is all of them, and everything that the stack counts.
    """
    names = _all_interfaces() if interfaces is None else interfaces
    make: dict[str, Callable[[], CounterSource]] = {
        "queues and interfaces": lambda: Queues(interfaces),
        "byte queue limits": lambda: ByteQueueLimits(names),
        "drivers": lambda: Drivers(names),
        "flow control": lambda: Pauses(names),
        "processors": Processors,
        "stack": lambda: Stack(every=interfaces is None),
        "receive queues": Softnet,
        "tables": NetworkTables,
        "pressure": Pressure,
        "wifi": lambda: Wireless(names),
    }
    found: list[CounterSource] = []
    missing: list[str] = []
    for name, make_one in make.items():
        try:
            found.append(make_one())
        except OSError as reason:
            missing.append(f"counters of {name}: {reason.strerror or reason}")
    return found, missing


def _all_interfaces() -> list[str]:
    try:
        with contextlib.closing(Netlink()) as netlink:
            return [name for name, _ in netlink.links().values()]
    except OSError:
        return []
