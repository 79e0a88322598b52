"""The cost of a live run in the server of ``whydrop web``, with 1 and with 5 pages that follow it.

    .venv/bin/python bench/web/live.py

The run has 20 TCP flows and 10 probe streams to a responder on this host, all paced, since the server does the same
for any rate. The processor time is that of the kernel's accounts (/proc/PID/stat): of the server, and apart from it of
the worker that measures. Their shares of one core do not depend on what else the machine does; the worker's, which
sends and receives everything, does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

TARGET = 5.0
MEASURED_S = 30.0
PROBE_HOSTS = [f"127.0.0.{number}" for number in range(2, 10)]
RUN = {
    "test": "rrul_be_nflows",
    "parameters": {
        "upload_streams": 10, "download_streams": 10, "delay_s": 0, "length_s": 300, "pacing_rate_bps": 2e6,
        "ping_hosts": PROBE_HOSTS, "icmp_interval_s": 0.02,
    },
}  # fmt: skip


@contextmanager
def started(*arguments: str, wanted: str) -> Iterator[tuple[subprocess.Popen[bytes], re.Match[str]]]:
    """A command of whydrop, and what it printed when it was ready."""
    with tempfile.NamedTemporaryFile("r") as log, Path(log.name).open("wb") as sink:
        process = subprocess.Popen([sys.executable, "-m", "whydrop", *arguments], stdout=sink, stderr=sink)
        try:
            while (found := re.search(wanted, Path(log.name).read_text())) is None:
                if process.poll() is not None:
                    raise SystemExit(f"whydrop {arguments[0]} ended: {Path(log.name).read_text()}")
                time.sleep(0.05)
            yield process, found
        finally:
            process.terminate()
            process.wait(20)


def processor_s(pid: int) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worker_of(server: int, recording: Path) -> int:
    """The process of the server that writes a recording."""
    for task in Path(f"/proc/{server}/task").iterdir():
        for child in (task / "children").read_text().split():
            if any(one.readlink().is_relative_to(recording) for one in Path(f"/proc/{child}/fd").iterdir()):
                return int(child)
    raise SystemExit("no process of the server writes the recording")


class Reader:
    """A page that follows the run: it reads its events, and counts their bytes."""

    def __init__(self, root: str, headers: dict[str, str], own: str) -> None:
        self.read_bytes = 0
        self._request = (f"{root}/api/events?topic=jobs/{own}", headers)
        self._end = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        address, headers = self._request
        with httpx.stream("GET", address, headers=headers, timeout=60) as stream:
            for part in stream.iter_raw():
                self.read_bytes += len(part)
                if self._end.is_set():
                    return

    def close(self) -> None:
        """Read no further."""
        self._end.set()


def measured(server: int, worker: int, readers: list[Reader]) -> tuple[float, float, float]:
    """Per cent of a core of the server and of the worker, and kB/s that a page reads."""
    time.sleep(3)
    began, before = time.monotonic(), [processor_s(server), processor_s(worker), readers[0].read_bytes]
    time.sleep(MEASURED_S)
    took_s = time.monotonic() - began
    after = [processor_s(server), processor_s(worker), readers[0].read_bytes]
    spent = [new - old for new, old in zip(after, before, strict=True)]
    return 100 * spent[0] / took_s, 100 * spent[1] / took_s, spent[2] / took_s / 1e3


def main() -> None:
    """Measure, and print a row for each number of readers."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        far = ["responder", "--open", "--listen", "127.0.0.1", "--port", "0"]
        _, port = stack.enter_context(started(*far, wanted=r"port (\d+)"))
        server, address = stack.enter_context(started("web", folder, wanted=r"(http://\S+)/\?token=(\S+)"))
        root, headers = address[1], {"Authorization": f"Bearer {address[2]}"}
        client = stack.enter_context(httpx.Client(base_url=root, headers=headers, timeout=60))
        asked = RUN | {"to": [f"127.0.0.1:{port[1]}"]}
        own = client.post("/api/runs", json=asked).raise_for_status().json()["id"]
        while not (progress := client.get(f"/api/runs/{own}").json()["progress"]).get("elapsed_s"):
            time.sleep(0.1)
        series = client.get(f"/api/runs/{own}/live").json()["series"]
        worker = worker_of(server.pid, Path(progress["recording"]))
        print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; target {TARGET:g} % of a core")
        worst = 0.0
        for count in (1, 5):
            readers = [Reader(root, headers, own) for _ in range(count)]
            of_server, of_worker, rate = measured(server.pid, worker, readers)
            worst = max(worst, of_server)
            print(f"{count} readers: server {of_server:.1f} %, worker {of_worker:.1f} %, {rate:.1f} kB/s each")
            for reader in readers:
                reader.close()
        series = client.get(f"/api/runs/{own}/live").json()["series"]
        print(f"{len(series)} series: {sum(name.startswith(('up/', 'down/')) for name in series)} of goodput")
        client.post(f"/api/runs/{own}/stop")
        while client.get(f"/api/runs/{own}").json()["state"] not in ("complete", "interrupted", "failed"):
            time.sleep(0.2)
    raise SystemExit(0 if worst < TARGET else 1)


if __name__ == "__main__":
    main()
