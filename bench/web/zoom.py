"""Measure how soon ``whydrop web`` shows the charts of a large capture, and how fast they zoom.

    .venv/bin/python bench/web/zoom.py --packets 5000000

The capture is of one TCP flow at 1 Gbit/s with a few losses: all of its packets are in each chart, which is harder than
many small flows. Times are those of the server alone, and of Chromium from the click to the finer picture; beside each
is the processor time of the server's processes, or of Chromium's, on which other load has less influence.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

PAYLOAD, RTT_S, RATE_BPS, LOSSES = 1448, 0.02, 1e9, 24
FIRST = 1_000
START_NS = 1_790_000_000_000_000_000
ZOOMS = ("in", "in", "in", "right", "right", "in", "left", "out", "in", "in", "all")

# Classic pcap in nanoseconds; frames cut to their headers: Ethernet, IPv4, TCP with timestamps (RFC 7323).
RECORD = np.dtype([
    ("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("wire", "<u4"), ("ethernet", "S12"), ("type", ">u2"),
    ("version", "u1"), ("tos", "u1"), ("ip_bytes", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
    ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("destination", ">u4"), ("from", ">u2"), ("to", ">u2"),
    ("sequence", ">u4"), ("acknowledgment", ">u4"), ("offset", "u1"), ("flags", "u1"), ("window", ">u2"),
    ("tcp_checksum", ">u2"), ("urgent", ">u2"), ("options", ">u4"), ("value", ">u4"), ("echo", ">u4"),
])  # fmt: skip
SENDER, RECEIVER = 0x0A000001, 0x0A000002


def write(path: Path, packets: int) -> None:
    """Write a capture at the sender: data, acknowledgments, and losses that are retransmitted after a round trip."""
    count = packets // 2
    gap_s = (PAYLOAD + 90) * 8 / RATE_BPS
    sent_s = np.arange(count) * gap_s
    order = np.arange(count, dtype=np.int64)
    lost = np.linspace(count * 0.05, count * 0.95, LOSSES).astype(np.int64)
    acknowledged = order + 1
    for one in lost:
        # Until the retransmission arrives, acknowledgments stay at the lost packet.
        acknowledged[one : min(count, one + int(RTT_S / gap_s))] = one
    arrived = np.ones(count, dtype=bool)
    arrived[lost] = False
    times = np.concatenate([sent_s, sent_s[lost] + RTT_S, sent_s[arrived] + RTT_S, sent_s[lost] + 2 * RTT_S])
    sequences = np.concatenate([order, lost])
    made = np.zeros(len(times), dtype=RECORD)
    data, acks = made[: len(sequences)], made[len(sequences) :]
    _fill(data, SENDER, RECEIVER, 5001, 5201, PAYLOAD)
    _fill(acks, RECEIVER, SENDER, 5201, 5001, 0)
    data["sequence"] = (FIRST + sequences * PAYLOAD) % 2**32
    data["acknowledgment"] = FIRST
    acks["sequence"] = FIRST
    after = np.concatenate([acknowledged[arrived], np.minimum(count, lost + int(RTT_S / gap_s))])
    acks["acknowledgment"] = (FIRST + after * PAYLOAD) % 2**32
    _stamp(made, times)
    with path.open("wb") as file:
        file.write(bytes.fromhex("4d3cb2a1020004000000000000000000ffff000001000000"))
        made[np.argsort(times, kind="stable")].tofile(file)


def _fill(rows: NDArray[Any], source: int, destination: int, sender: int, receiver: int, payload: int) -> None:
    rows["captured"], rows["wire"], rows["ip_bytes"] = 66, 66 + payload, 52 + payload
    rows["ethernet"], rows["type"], rows["version"], rows["ttl"], rows["protocol"] = b"\x02" * 12, 0x0800, 0x45, 64, 6
    rows["source"], rows["destination"], rows["from"], rows["to"] = source, destination, sender, receiver
    rows["offset"], rows["flags"], rows["window"], rows["options"] = 0x80, 0x10, 65535, 0x0101080A
    rows["id"] = np.arange(len(rows)) % 65536


def _stamp(rows: NDArray[Any], times_s: NDArray[np.float64]) -> None:
    stamps = START_NS + np.round(times_s * 1e9).astype(np.int64)
    rows["s"], rows["ns"] = stamps // 1_000_000_000, stamps % 1_000_000_000
    rows["value"] = rows["echo"] = (times_s * 1e3).astype(np.int64)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server of a folder: its address without a slash, its token, and its process."""
    log = folder.parent / "log"
    with log.open("w") as sink:
        process = subprocess.Popen([sys.executable, "-m", "whydrop", "web", str(folder)], stderr=sink)
        try:
            while not (found := re.search(r"(http://\S+)/\?token=(\S+)", log.read_text())):
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield found[1], found[2], process.pid
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    """Make the capture, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="of the capture, which is kept  [default: a temporary one]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / "captures"
        folder.mkdir(parents=True, exist_ok=True)
        capture = folder / f"flow-{given.packets}.pcap"
        if not capture.exists():
            write(capture, given.packets)
        with served(folder) as (address, token, server):
            measure(address, token, server, capture.name)


def measure(address: str, token: str, server: int, name: str) -> None:
    """Print the times of the analysis, the first picture and the zooms."""
    client = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=600)
    while not (entries := client.get("/api/library").raise_for_status().json()["entries"]):
        time.sleep(0.1)
    (source,) = (one["id"] for one in entries if one["path"] == name)

    def analysed() -> str:
        job = client.post("/api/analyses", json={"source": [source]}).raise_for_status().json()["id"]
        client.get(f"/api/analyses/{job}/page").raise_for_status()
        return str(job)

    spent: list[tuple[float, float]] = []
    began, cpu = time.monotonic(), processor_s(server)
    job = analysed()
    show("analysis and document", [(time.monotonic() - began, processor_s(server) - cpu)])
    print("the server alone:")

    def get(**window: float) -> None:
        asked: dict[str, str | float] = {"part": "charts", "columns": 2300, **window}
        client.get(f"/api/analyses/{job}/figures", params=asked).raise_for_status()

    show("  first picture", [timed(get, lambda: processor_s(server))])
    duration_s = 29.0
    windows = [(duration_s * at, duration_s * (at + width)) for width in (0.3, 0.03, 0.003) for at in (0.1, 0.4, 0.6)]
    for low, high in windows:
        spent.append(timed(lambda low=low, high=high: get(low=low, high=high), lambda: processor_s(server)))
    show("  zoom", spent)
    in_browser(address, token, server, source)


def show(what: str, spent: list[tuple[float, float]]) -> None:
    """Print the median and the longest of wall time and of processor time."""
    columns = list(zip(*spent, strict=True))
    words = [f"{statistics.median(one) * 1e3:7.0f} ms, longest {max(one) * 1e3:6.0f} ms" for one in columns]
    print(f"{what:24} wall {words[0]}   processor {words[1]}", flush=True)


def processor_s(root: int, without: int = 0) -> float:
    """The processor time of a process and of those below it, without another such tree."""
    parents, times = {}, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own = int(entry.parent.name)
        parents[own], times[own] = int(words[1]), (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def above(own: int) -> set[int]:
        found = set()
        while own in parents and own not in found:
            found.add(own)
            own = parents[own]
        return found

    return sum(spent for own, spent in times.items() if root in above(own) and without not in above(own))


def timed(work: Any, processor: Any) -> tuple[float, float]:
    """The seconds that something takes, by the clock and of the processor."""
    began, spent = time.monotonic(), processor()
    work()
    return time.monotonic() - began, processor() - spent


def in_browser(address: str, token: str, server: int, source: str) -> None:
    """Print the times that a reader in Chromium sees."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(600_000)
        page.goto(f"{address}/?token={token}")
        page.goto(f"{address}/open?source={source}")
        page.wait_for_selector("#verdict h1")

        def first() -> None:
            page.evaluate("document.querySelector('#charts').scrollIntoView()")
            page.wait_for_selector("#charts canvas")

        def zoom(how: str) -> None:
            with page.expect_response(lambda answer: "/figures?" in answer.url):
                page.click(f"#charts [data-zoom={how}]")
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

        def chromium() -> float:
            return processor_s(os.getpid(), without=server)

        print("in Chromium:")
        show("  first picture", [timed(first, chromium)])
        times = []
        for how in ZOOMS:
            times.append(timed(lambda how=how: zoom(how), chromium))
            page.wait_for_timeout(300)
        show("  zoom", times)
        browser.close()


if __name__ == "__main__":
    main()
