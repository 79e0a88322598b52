"""Hourly files of DISCO as its first generation wrote them, and files of five minutes as its second does."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2018, 5, 15, tzinfo=UTC)
START_2 = datetime(2022, 6, 1, tzinfo=UTC)  # behind the fault of octets.local
PORTS = ("uplink", "local")
DIRECTIONS = ("rx", "tx")
KINDS_1 = ("octets", "unicast", "multicast", "broadcast", "discards", "errors")
KINDS_2 = ("octets", "unicast", "discards", "errors")


def first_generation(folder: Path, hours: int) -> int:
    """Write a gzipped file for each hour of one switch; the number of samples that are a reader's to keep."""
    folder.mkdir(parents=True, exist_ok=True)
    source = random.Random(1)
    for hour in range(hours):
        start = START + timedelta(hours=hour)
        name = f"{start:%Y%m%dT%H:%M:%S}-to-{start + timedelta(hours=1):%Y%m%dT%H:%M:%S}-switch.json.gz"
        lines = []
        for kind in KINDS_1:
            for port in PORTS:
                for direction in DIRECTIONS:
                    at = int(start.timestamp())
                    # One sample more than an hour has: the next file's first.
                    samples = [{"timestamp": at + 10 * n, "value": float(_grown(kind, source))} for n in range(361)]
                    lines.append(json.dumps({"sample": samples, **_names(f"{kind}.{port}.{direction}", "s1.", ".")}))
        (folder / name).write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 6, mtime=0))
    return hours * len(KINDS_1) * len(PORTS) * len(DIRECTIONS) * 360


def second_generation(folder: Path, files: int) -> int:
    """Write a file for each five minutes of one switch; the number of samples."""
    folder.mkdir(parents=True, exist_ok=True)
    source = random.Random(2)
    counters = {
        (kind, port, direction): source.randrange(10**12)
        for kind in KINDS_2
        for port in PORTS
        for direction in DIRECTIONS
    }
    for number in range(files):
        start = START_2 + timedelta(minutes=5 * number)
        name = f"{start:%Y-%m-%dT%H:%M:%S}-to-{start + timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}-switch.jsonl"
        lines = []
        for (kind, port, direction), before in counters.items():
            samples = []
            counter = before
            for n in range(30):
                at = int(start.timestamp()) + 10 * n
                grown = _grown(kind, source)
                counter += grown
                poll = {"collectstart": at * 10**9 + 953_123, "collectend": at * 10**9 + 53_000_111}
                samples.append({"timestamp": at, **poll, "value": grown, "counter": counter})
            counters[kind, port, direction] = counter
            document = {**_names(f"{kind}.{port}.{direction}", "s1-", "-"), "sample": samples}
            lines.append(json.dumps(document, separators=(",", ":")))
        (folder / name).write_bytes("\n".join(lines).encode() + b"\n")
    return files * len(counters) * 30


def _grown(kind: str, source: random.Random) -> int:
    """In ten seconds: busy ports, and discards now and then."""
    if kind in ("discards", "errors"):
        return 0 if source.random() < 0.98 else source.randrange(2000)
    return source.randrange(10**8) if kind == "octets" else source.randrange(10**5)


def _names(metric: str, prefix: str, between: str) -> dict[str, str]:
    return {
        "metric": f"switch.{metric}",
        "hostname": f"mlab1{between}dfw02.measurement-lab.org",
        "experiment": f"{prefix}dfw02.measurement-lab.org",
    }
