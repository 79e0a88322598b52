"""Counters of this host while a test runs: where they come from, and a thread that samples them at each step."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from whydrop import _core
from whydrop.measure.host import ethtool
from whydrop.measure.host.ethtool import Ethtool
from whydrop.recording.tables import COUNTERS
from whydrop.runtime.rtnetlink import Netlink

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


# Something that has counters, asked for them at each step. It raises OSError where there are none.
CounterSource = Callable[[], Iterable[Reading]]


def queues(interfaces: Sequence[str] | None) -> list[Reading]:
    """Queueing disciplines of the interfaces (``None``: of all), and the interfaces' own counters, by rtnetlink."""
    return _core.queue_counters(interfaces)


def line_or_none(path: Path) -> str | None:
    """The contents of a file of one line, if it can be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return None


def byte_queue_limits(interfaces: Sequence[str], root: Path = Path("/sys")) -> Iterator[Reading]:
    """How much the driver's own queues hold, and are allowed to."""
    for name in interfaces:
        for folder in sorted((root / "class/net" / name).glob("queues/tx-*/byte_queue_limits")):
            for file, counter in (("limit", "limit_bytes"), ("inflight", "inflight_bytes")):
                value = line_or_none(folder / file)
                if value is not None and value.isdigit():
                    yield "bql", f"{name} {folder.parent.name}", counter, float(value), False


class Asked:
    """Counters of interfaces that have some; one that fails once is asked no more."""

    def __init__(self, interfaces: Sequence[str], ask: Callable[[str], Iterable[Reading]]) -> None:
        self._interfaces, self._ask = list(interfaces), ask

    def __call__(self) -> Iterator[Reading]:
        """The counters of all of them."""
        for name in list(self._interfaces):
            try:
                yield from list(self._ask(name))
            except OSError:
                self._interfaces.remove(name)


def driver(interface: str) -> Iterator[Reading]:
    """The counters of a driver itself (`ethtool --statistics`)."""
    with contextlib.closing(Ethtool(interface)) as asked:
        for counter, value in asked.statistics().items():
            yield "driver", interface, counter, float(value), True


def pauses(interface: str) -> Iterator[Reading]:
    """Pause frames of Ethernet flow control, received and sent."""
    found = ethtool.flow_control(interface)
    for counter in ethtool.PAUSES:
        if counter in found:
            yield "interface", interface, counter, float(found[counter]), True


def processors(root: Path = Path("/proc")) -> Iterator[Reading]:
    """How long each processor, and all together ("cpu"), did what: seconds by kind, and those of work in all."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    for text in (root / "stat").read_text().splitlines()[: _MOST_PROCESSORS + 1]:
        name, *fields = text.split()
        if not name.startswith("cpu"):
            return
        times = dict(zip(_CPU_TIMES, (int(field) * tick_s for field in fields), strict=False))
        for counter in ("user_s", "system_s", "softirq_s", "irq_s", "steal_s"):
            if counter in times:
                yield "cpu", name, counter, times[counter], True
        yield "cpu", name, "busy_s", sum(time for key, time in times.items() if key not in _IDLE), True


def stack(root: Path = Path("/proc/thread-self/net"), *, every: bool = False) -> Iterator[Reading]:
    """Counters of TCP, UDP and IP, of the network namespace of the thread that reads.

    ``every``: all that the kernel has; else those that explain bad results of TCP or UDP.
    """
    for group, counter, value in _stack_counters(root):
        if every or counter in _STACK.get(group, ()):
            yield "netstat", group, counter, float(value), True


def _stack_counters(root: Path) -> Iterator[tuple[str, str, str]]:
    for file in ("netstat", "snmp"):
        lines = (root / file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            group, _, keys = names.partition(":")
            for counter, value in zip(keys.split(), values.partition(":")[2].split(), strict=False):
                yield group, counter, value
    six = root / "snmp6"
    for text in six.read_text().splitlines() if six.exists() else ():
        name, _, number = text.partition(" ")
        yield name.partition("6")[0] + "6", name, number.strip()


def wireless(interfaces: Sequence[str], root: Path = Path("/")) -> Iterator[Reading]:
    """Signal of wireless interfaces, and for root the airtime of each station."""
    levels_file = root / "proc/net/wireless"
    lines = levels_file.read_text().splitlines()[2:] if levels_file.exists() else []
    for text in lines:
        name, _, rest = text.partition(":")
        fields = rest.split()
        if name.strip() in interfaces and len(fields) >= 9:
            levels = zip(("link_quality", "signal_dbm", "noise_dbm"), fields[1:4], strict=True)
            for counter, value in levels:
                yield "wifi", name.strip(), counter, float(value.rstrip(".")), False
            yield "wifi", name.strip(), "excessive_retries", float(fields[7]), True
            yield "wifi", name.strip(), "missed_beacons", float(fields[9 if len(fields) > 9 else 8]), True
    for path in (root / "sys/kernel/debug/ieee80211").glob("phy*/netdev:*/stations/*/airtime") if lines else ():
        interface = path.parts[-4].partition(":")[2]
        for text in path.read_text().splitlines():
            key, _, value = text.partition(":")
            number = value.split()[:1]
            if interface in interfaces and key in ("RX", "TX") and number and number[0].isdigit():
                what = "receive_airtime_us" if key == "RX" else "send_airtime_us"
                yield "wifi", f"{interface} {path.parts[-2]}", what, float(number[0]), True


def softnet(root: Path = Path("/proc/net")) -> Iterator[Reading]:
    """Drops of each processor's receive queue, and how often it had to stop before it was empty, of all namespaces."""
    for number, text in enumerate((root / "softnet_stat").read_text().splitlines()[:_MOST_PROCESSORS]):
        fields = [int(field, 16) for field in text.split()]
        # Processors that are off have no line; newer kernels print the number of the processor.
        processor = fields[_SOFTNET_PROCESSOR] if len(fields) > _SOFTNET_PROCESSOR else number
        for place, counter in _SOFTNET.items():
            if place < len(fields):
                yield "softnet", f"cpu{processor}", counter, float(fields[place]), True


def network_tables(
    net: Path = Path("/proc/thread-self/net"), sysctl: Path = Path("/proc/sys/net")
) -> Iterator[Reading]:
    """Connection tracking and neighbours: what did not fit, or was refused, and how full connection tracking is."""
    for table, chosen in _TABLES.items():
        path = net / "stat" / table
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
        value = line_or_none(sysctl / "netfilter" / file)
        if value is not None and value.isdigit():
            yield "table", "nf_conntrack", counter, float(value), False


def pressure(root: Path = Path("/proc/pressure")) -> Iterator[Reading]:
    """Seconds in which some, or all, tasks waited for memory, processors or disks (since Linux 4.20)."""
    if not root.is_dir():
        raise FileNotFoundError(2, "the kernel does not report this", str(root))
    for what in ("memory", "cpu", "io"):
        path = root / what
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


def all_sources(interfaces: Sequence[str] | None) -> tuple[dict[str, CounterSource], list[str]]:
    """The sources that this host has by name, and in words those that it has not.

    With ``None`` for the interfaces it is all of them, and everything that the stack counts.
    """
    names = _all_interfaces() if interfaces is None else interfaces
    known: dict[str, CounterSource] = {
        "queues and interfaces": partial(queues, interfaces),
        "byte queue limits": partial(byte_queue_limits, names),
        "drivers": Asked(names, driver),
        "flow control": Asked(names, pauses),
        "processors": processors,
        "stack": partial(stack, every=interfaces is None),
        "receive queues": softnet,
        "tables": network_tables,
        "pressure": pressure,
        "wifi": partial(wireless, names),
    }
    found: dict[str, CounterSource] = {}
    missing: list[str] = []
    for name, source in known.items():
        try:
            next(iter(source()), None)
            found[name] = source
        except OSError as reason:
            missing.append(f"counters of {name}: {reason.strerror or reason}")
    return found, missing


def _all_interfaces() -> list[str]:
    try:
        with contextlib.closing(Netlink()) as netlink:
            return [name for name, _ in netlink.links().values()]
    except OSError:
        return []


# Of the host that the test runs on.
LOCAL = "local"

# Sampling faster than this would be a load of its own.
_SHORTEST_STEP_S = 0.05

# A source that fails so often in a row is asked no more.
_MOST_FAILURES = 3

# Of these only what changes is kept: drivers and the stack have hundreds of counters that stay as they are.
_ONLY_CHANGING = {"driver", "netstat", "pressure", "softnet", "table"}

Row = tuple[int, str, str, str, str, float, bool]


class CounterSampler:
    """Samples queues, interfaces, drivers, processors, the stack and wireless links at each step.

    What a sampler costs is itself a counter: ``sampler whydrop::busy_s``, the processor time of its thread.
    """

    def __init__(
        self,
        interfaces: Sequence[str] | str | None,
        step_s: float,
        host: str = LOCAL,
        further: Mapping[str, CounterSource] | None = None,
    ) -> None:
        """A sampler that does not run yet; reads the network namespace of the thread that calls :meth:`start`.

        Args:
            interfaces: names, such as ``eth0``; ``None``: all, of which only the counters of trouble are kept
                (`sources.tells_of_trouble`), and of them only what changes, so that it may run for days.
            step_s: from one sample to the next.
            host: for the column of that name.
            further: sources beside those of every host, by name.
        """
        self.notes: list[str] = []
        self._interfaces = [interfaces] if isinstance(interfaces, str) else interfaces
        self._step_s = max(step_s, _SHORTEST_STEP_S)
        self._host = host
        self._rows: list[Row] = []
        # When each counter that is kept only where it changes was read last, its value, and whether it was kept.
        self._before: dict[tuple[str, str, str], tuple[int, float, bool]] = {}
        self._failures: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sources: dict[str, CounterSource] = {}
        self._further = further or {}

    def start(self) -> None:
        """Take the first sample, and go on in a thread."""
        self._sources, missing = all_sources(self._interfaces)
        self._sources |= self._further
        self.notes += missing
        self._sample()
        self._thread = threading.Thread(target=self._run, name="counters", daemon=True)
        self._thread.start()

    def drain(self) -> pl.DataFrame:
        """The rows sampled since the last call, for the table of counters."""
        with self._lock:
            rows, self._rows = self._rows, []
        return pl.DataFrame(rows, schema=COUNTERS, orient="row")

    def stop(self) -> None:
        """Take the last sample; :meth:`drain` may be called once more after it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None

    def _run(self) -> None:
        began = time.monotonic()
        step = 1
        while not self._stop.wait(max(0.0, began + step * self._step_s - time.monotonic())):
            self._sample()
            # Steps missed on a busy machine are left out.
            step = max(step + 1, int((time.monotonic() - began) / self._step_s) + 1)
        self._sample()

    def _sample(self) -> None:
        for name, source in self._sources.items():
            if self._failures[name] >= _MOST_FAILURES:
                continue
            # One stamp a source: reading one takes microseconds, reading all of them may take a millisecond.
            time_ns = now_ns()
            try:
                readings = list(source())
                self._failures[name] = 0
            except (OSError, ValueError, IndexError) as reason:
                self._failures[name] += 1
                if self._failures[name] == _MOST_FAILURES:
                    self.notes.append(f"counters of {name} ended: {reason}")
                continue
            self._keep(time_ns, readings)
        self._keep(now_ns(), [("sampler", "whydrop", "busy_s", time.thread_time(), True)])

    def _keep(self, time_ns: int, readings: list[Reading]) -> None:
        rows: list[Row] = []
        for reading in readings:
            source, thing, counter, value, cumulative = reading
            samples = [(time_ns, float(value))]
            if self._interfaces is None:
                samples = self._changed((source, thing, counter), *samples[0]) if tells_of_trouble(reading) else []
            elif source in _ONLY_CHANGING:
                samples = self._changed((source, thing, counter), *samples[0])
            rows += [(when, self._host, source, thing, counter, known, cumulative) for when, known in samples]
        with self._lock:
            self._rows += rows

    def _changed(self, key: tuple[str, str, str], time_ns: int, value: float) -> list[tuple[int, float]]:
        """The sample, if it is another value than before; and the one before, so that it shows when it changed."""
        before_ns, before, kept = self._before.get(key, (time_ns, value, False))
        changed = value != before
        self._before[key] = (time_ns, value, changed)
        if not changed:
            return []
        return [(time_ns, value)] if kept else [(before_ns, before), (time_ns, value)]


# What is added to the monotonic clock: a clock that is set while a test runs must not move its samples.
_EPOCH_MINUS_MONOTONIC_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Nanoseconds since the Unix epoch that never jump while the process lives."""
    return time.monotonic_ns() + _EPOCH_MINUS_MONOTONIC_NS
