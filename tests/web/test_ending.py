"""The end of the server: by a signal, and by force. No process is left behind."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from patience import is_running, wait_until
from web.conftest import EXAMPLES, Server, client_of, running

pytestmark = pytest.mark.slow


def children(pid: int) -> set[int]:
    """All processes that a process started, and those started by them."""
    own = {
        int(child) for listed in Path(f"/proc/{pid}/task").glob("*/children") for child in listed.read_text().split()
    }
    return own.union(*map(children, own)) if own else own


def busy(folder: Path, server: Server) -> set[int]:
    """Let the server have processes of all kinds: those that describe files, and one that holds an analysis."""
    client = client_of(server)
    content = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    own = client.post("/api/uploads", params={"name": "a.pcap.zst"}, content=content).raise_for_status().json()["id"]
    job = client.post("/api/analyses", json={"source": [own]}).raise_for_status().json()["id"]
    client.get(f"/api/analyses/{job}/page").raise_for_status()
    found = children(server.process.pid)
    assert len(found) >= 2
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_no_process_outlives_the_server(tmp_path: Path, number: signal.Signals):
    folder = tmp_path / "library"
    folder.mkdir()
    with running(folder) as server:
        left = busy(folder, server)
        server.process.send_signal(number)
        server.process.wait()
        wait_until(lambda: not any(map(is_running, left)), f"the end of the processes behind {number.name}")
        if number in (signal.SIGTERM, signal.SIGINT):
            assert "Traceback" not in server.log.read_text()


def test_a_server_ends_soon_with_event_streams_open(tmp_path: Path):
    folder = tmp_path / "library"
    folder.mkdir()
    with running(folder) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.stream("GET", f"{server.root}/api/events?topic=x", headers=headers, timeout=60) as events:
            next(events.iter_text())
            server.process.terminate()
            server.process.wait(60)
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
