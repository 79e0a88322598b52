"""Telemetry as M-Lab's collectors wrote it: DISCO v1 (hourly, gzip, rates) and v2 (five minutes, counters)."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .fleet import Fleet
from .plan import BIN_S, BINS_PER_DAY
from .polling import RESET, WRAP, Series

Samples = list[dict[str, Any]]
Key = tuple[str, str, str]
"""Site, machine, metric."""


def write(fleet: Fleet, folder: Path, progress: Callable[[str], None] = lambda _: None) -> int:
    """Write one file for each machine and hour (v1) or five minutes (v2); returns their number.

    All samples are in memory first: use this for small fleets.
    """
    series: dict[Key, list[tuple[int, Series]]] = defaultdict(list)
    for number, found in fleet.days():
        for site, many in found.items():
            for one in many:
                kind, _, direction = one.counter.partition(".")
                series[site, one.machine, f"switch.{kind}.{one.port}.{direction}"].append((number, one))
        progress(f"{fleet.plan.day(number)}: {number + 1} of {fleet.plan.days} days")
    machines = sorted({(site, machine) for site, machine, _ in series})
    written = 0
    for site, machine in machines:
        mine = {metric: days for (at, by, metric), days in series.items() if (at, by) == (site, machine)}
        files = _v1_files if fleet.plan.telemetry == "v1" else _v2_files
        for name, content in files(fleet.plan.start_ns // 10**9, site, machine, mine):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            written += 1
    return written


def _v1_files(
    start_s: int, site: str, machine: str, series: dict[str, list[tuple[int, Series]]]
) -> Iterator[tuple[str, bytes]]:
    """From the hour to the hour, both ends included: the last sample of one is the first of the next."""
    host = f"{machine}.{site}.measurement-lab.org"
    hours: dict[int, dict[str, Samples]] = defaultdict(dict)
    for metric, days in series.items():
        # The time of a sample is the start of its window.
        stamps, values = _joined(start_s, days)
        stamps = stamps - BIN_S
        for hour in range(int(stamps[0]) // 3600, int(stamps[-1]) // 3600 + 1) if len(stamps) else ():
            first, last = np.searchsorted(stamps, [hour * 3600, hour * 3600 + 3601])
            hours[hour][metric] = [
                {"timestamp": int(stamp), "value": float(value)}
                for stamp, value in zip(stamps[first:last], values[first:last], strict=True)
            ]
    for hour, metrics in sorted(hours.items()):
        begin, end = (datetime.fromtimestamp(each * 3600, UTC) for each in (hour, hour + 1))
        switch = f"s1.{site}.measurement-lab.org"
        lines = [
            json.dumps({"sample": samples, "metric": metric, "hostname": host, "experiment": switch})
            for metric, samples in metrics.items()
        ]
        name = f"{host}/{begin:%Y/%m/%d}/{begin:%Y%m%dT%H:%M:%S}-to-{end:%Y%m%dT%H:%M:%S}-switch.json.gz"
        yield name, gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)


def _v2_files(
    start_s: int, site: str, machine: str, series: dict[str, list[tuple[int, Series]]]
) -> Iterator[tuple[str, bytes]]:
    """The time of a sample is that of the poll; differences are of 64 bits, whatever the counter's width."""
    host = f"{machine}-{site}.mlab-oti.measurement-lab.org"
    files: dict[int, dict[str, Samples]] = defaultdict(lambda: defaultdict(list))
    for metric, days in series.items():
        before = 0
        for number, one in days:
            assert one.total is not None
            for window, value, total, quality in zip(one.window, one.value, one.total, one.quality, strict=True):
                stamp = start_s + (number * BINS_PER_DAY + int(window)) * BIN_S
                # What the collector made of them: it knew nothing of resets and wraps.
                growth = int(total) - before if quality & RESET else int(value) - (2**32 if quality & WRAP else 0)
                before = int(total)
                files[stamp // 300][metric].append(
                    {
                        "timestamp": stamp, "collectstart": stamp * 10**9 + 1_000_000,
                        "collectend": stamp * 10**9 + 40_000_000, "value": growth % 2**64, "counter": int(total),
                    }
                )  # fmt: skip
    for file, metrics in sorted(files.items()):
        begin, end = (datetime.fromtimestamp(each * 300, UTC) for each in (file, file + 1))
        switch = f"s1-{site}.measurement-lab.org"
        lines = [
            json.dumps({"experiment": switch, "hostname": host, "metric": metric, "sample": samples})
            for metric, samples in metrics.items()
        ]
        name = f"{host}/{begin:%Y/%m/%d}/{begin:%Y-%m-%dT%H:%M:%S}-to-{end:%Y-%m-%dT%H:%M:%S}-switch.jsonl"
        yield name, "".join(line + "\n" for line in lines).encode()


def _joined(start_s: int, days: list[tuple[int, Series]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ends of windows in seconds since the epoch, and growths."""
    ends = [start_s + (number * BINS_PER_DAY + one.window) * BIN_S for number, one in days]
    return np.concatenate(ends), np.concatenate([one.value for _, one in days])
