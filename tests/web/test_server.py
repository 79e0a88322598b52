"""Tests of the server as a whole: attacks, damaged requests, many idle readers, and its description of itself."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from web.conftest import EXAMPLES, Server, client_of

pytestmark = pytest.mark.slow


@pytest.fixture
def client(server: Server) -> httpx.Client:
    return client_of(server)


def entries(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    return list(client.get("/api/library", params=query).raise_for_status().json()["entries"])


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../../../etc/passwd",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/api/library/..%2f..%2fetc%2fpasswd",
        "/api/library/%00",
        "/api/analyses/" + "a" * 5000,
        "/api/analyses/1/figures?part=../x&choice=-1",
        "/api/tests/..%2f..%2fsecret",
        "/api/library?limit=-1&offset=x",
        "/api/library?q=rtt%3E",
    ],
)
def test_a_damaged_address_is_answered_by_an_error_and_no_file(client: httpx.Client, path: str):
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert "root:" not in answer.text
    assert client.get("/health").text == "ok\n"


@pytest.mark.parametrize(
    "body", [b"", b"[", b"[]", b'{"source": []}', b'{"source": [1]}', b'{"source": ["x"]}', b"[" * 100_000]
)
def test_a_damaged_body_is_answered_by_an_error_in_words(client: httpx.Client, body: bytes):
    answer = client.post("/api/analyses", content=body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]


def test_a_long_body_is_refused(client: httpx.Client):
    assert client.post("/api/analyses", content=b" " * (2 << 20)).status_code == 413


def test_a_hostile_name_of_a_sent_file_stays_in_its_folder(server: Server, client: httpx.Client):
    content = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    for name in (
        "../../../evil.pcap.zst",
        "/etc/evil.pcap.zst",
        "..\\..\\evil.pcap.zst",
        ".hidden.pcap.zst",
        "\x00a\n.pcap.zst",
    ):
        own = client.post("/api/uploads", params={"name": name}, content=content).raise_for_status().json()["id"]
        path = Path(client.get(f"/api/library/{own}").json()["path"])
        assert path.parts[0] == "uploads"
        assert ".." not in path.parts
    outside = [path for path in server.folder.parent.rglob("evil.pcap*") if "uploads" not in path.parts]
    assert outside == []


def test_a_request_that_never_ends_blocks_nobody(server: Server, client: httpx.Client):
    host, port = server.root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /api/uploads?name=x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\nabc")
        assert client.get("/health").status_code == 200


def test_many_idle_event_streams_leave_the_server_answering(server: Server, client: httpx.Client):
    host, port = server.root.removeprefix("http://").split(":")
    lines = [
        "GET /api/events?topic=x HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: Bearer {server.token}",
        "",
        "",
    ]
    request = "\r\n".join(lines).encode()
    streams = []
    for _ in range(900):
        stream = socket.create_connection((host, int(port)))
        stream.sendall(request)
        streams.append(stream)
    try:
        assert streams[-1].recv(100).startswith(b"HTTP/1.1 200")
        assert client.get("/api/library").status_code == 200
    finally:
        for stream in streams:
            stream.close()


def test_two_people_at_once_get_their_own_answers(client: httpx.Client):
    by_name = {entry["path"]: entry["id"] for entry in entries(client, q="kind:capture -path:uploads")}

    def explained(name: str) -> str:
        started = client.post("/api/analyses", json={"source": [by_name[name]]}).raise_for_status().json()
        return str(client.get(f"/api/analyses/{started['id']}/page").raise_for_status().json()["title"])

    with ThreadPoolExecutor(2) as people:
        titles = list(people.map(explained, ["policed-download.pcap.zst", "shallow-queue.pcap.zst"]))
    assert "policer" in titles[0]
    assert "shallow queue" in titles[1]


def test_the_api_describes_itself(client: httpx.Client):
    described = client.get("/api").json()
    assert described["openapi"] == "3.1.0"
    assert described["paths"]["/api/analyses"]["post"]["requestBody"]
    references = {part.partition('"')[0] for part in json.dumps(described).split('"#/components/schemas/')[1:]}
    assert references <= described["components"]["schemas"].keys()
