"""Counters of packets that the kernel itself drops or delays: receive queues, tables, memory pressure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from whydrop.measure.host.items import line_or_none

# Source, object, counter, value, cumulative; as in `sources`.
Reading = tuple[str, str, str, float, bool]

# Columns of /proc/net/softnet_stat (softnet_seq_show in net/core/net-procfs.c), in hexadecimal; the others are of no
# drops, or are zero since long.
_SOFTNET = {0: "processed_packets", 1: "dropped_packets", 2: "time_squeezed", 10: "flow_limit_dropped_packets"}
_SOFTNET_PROCESSOR = 12
_MOST_PROCESSORS = 1024

# Of the tables in /proc/net/stat: what is dropped or refused.
_TABLES = {
    "nf_conntrack": ("drop", "early_drop", "insert_failed", "invalid", "clashres", "search_restart", "chaintoolong"),
    "arp_cache": ("unresolved_discards", "table_fulls", "res_failed"),
    "ndisc_cache": ("unresolved_discards", "table_fulls", "res_failed"),
    "synproxy": ("cookie_invalid",),
}


class Softnet:
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

    def close(self) -> None:
        """Nothing to do."""


class NetworkTables:
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

    def close(self) -> None:
        """Nothing to do."""


class Pressure:
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

    def close(self) -> None:
        """Nothing to do."""
