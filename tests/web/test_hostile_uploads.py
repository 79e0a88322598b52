"""Uploads that a hostile client sends to a running server: huge, slow, abandoned, under any name."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from patience import wait_until
from web.conftest import EXAMPLES, Server, client_of, running
from web.hostile import hostile_names
from web.test_attacks import address, head, sent, statuses

pytestmark = pytest.mark.slow

CAPTURE = (EXAMPLES / "policed-download.pcap.zst").read_bytes()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as asking:
        yield asking
        assert asking.get("/api/library").status_code == 200


def partial_files(server: Server) -> list[Path]:
    # Folders vanish while they are listed: os.walk passes over them.
    return [Path(at, name) for at, _, names in os.walk(server.folder) for name in names if name.endswith(".part")]


def test_a_huge_upload_is_refused_before_it_comes(server: Server, client: httpx.Client):
    for length in ("9000000000", "99999999999999999999", "9" * 5000):
        answer = sent(
            server, head(server, "POST /api/uploads?name=x HTTP/1.1", f"Content-Length: {length}", "Connection: close")
        )
        assert statuses(answer)[0] in (400, 413)
    assert partial_files(server) == []


def test_an_abandoned_upload_leaves_nothing(server: Server, client: httpx.Client):
    with socket.create_connection(address(server)) as leaving:
        leaving.sendall(
            head(server, "POST /api/uploads?name=left.pcap HTTP/1.1", "Content-Length: 1000000") + b"x" * 1000
        )
        wait_until(lambda: partial_files(server), "the partial file")
    wait_until(lambda: not partial_files(server), "the end of the partial file")
    assert not [path for path in (server.folder / "uploads").iterdir() if path.is_dir() and not any(path.iterdir())]
    assert "Traceback" not in server.log.read_text()


def test_uploads_that_trickle_are_in_nobodys_way(server: Server, client: httpx.Client):
    first = head(server, "POST /api/uploads?name=slow.pcap HTTP/1.1", "Content-Length: 1000000")
    slow = [socket.create_connection(address(server)) for _ in range(10)]
    try:
        for _ in range(3):
            for one in slow:
                one.sendall(first or b"x")
            first = b""
            assert client.get("/api/library").status_code == 200
        answer = client.post("/api/uploads", params={"name": "quick.pcap.zst"}, content=CAPTURE)
        assert answer.status_code == 200, answer.text
    finally:
        for one in slow:
            one.close()
    wait_until(lambda: not partial_files(server), "the end of the partial files")


def test_more_uploads_than_allowed_are_told_to_come_back(server: Server, client: httpx.Client):
    request = head(server, "POST /api/uploads?name=slow.pcap HTTP/1.1", "Content-Length: 1000000") + b"x"
    slow = [socket.create_connection(address(server)) for _ in range(16)]
    try:
        for one in slow:
            one.sendall(request)
        wait_until(lambda: len(partial_files(server)) == 16, "the partial files")
        assert client.post("/api/uploads", params={"name": "x.pcap"}, content=CAPTURE).status_code == 503
    finally:
        for one in slow:
            one.close()
    wait_until(lambda: not partial_files(server), "the end of the partial files")


def test_hostile_names_of_sent_files_stay_in_the_folder(tmp_path: Path):
    folder = tmp_path / "library"
    folder.mkdir()
    with running(folder) as server:
        for name in hostile_names(50):
            answer = httpx.post(
                f"{server.root}/api/uploads", params={"name": f"{name}.pcap.zst"}, content=CAPTURE, timeout=60,
                headers={"Authorization": f"Bearer {server.token}"},
            )  # fmt: skip
            assert answer.status_code == 200, (name, answer.text)
        found = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    outside = {path.name for path in found if path.parts[1:2] not in (("uploads",), (".whydrop-library",))}
    assert outside == {server.log.name}
    assert len([path for path in found if path.suffix == ".zst"]) == 50
