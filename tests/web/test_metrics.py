"""Tests of the server's metrics: who may read them, that Prometheus can, and that they are true."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from patience import wait_until
from web.conftest import EXAMPLES, Server, client_of
from web.test_attacks import address, head

pytestmark = pytest.mark.slow

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\}'
SAMPLE = re.compile(rf"({NAME})({LABELS})? (\S+)")
# Of base units, and of what has none.
UNITS = (
    "_seconds",
    "_bytes",
    "_ratio",
    "_total",
    "_running",
    "_streams",
    "_jobs",
    "_entries",
    "_fds",
    "_bucket",
    "_count",
    "_sum",
)


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as asking:
        yield asking


def parsed(text: str) -> dict[str, float]:
    """Samples by name and labels; fails by what the text format (version 0.0.4) does not allow."""
    assert text.endswith("\n")
    found: dict[str, float] = {}
    types: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {NAME} \S.*", line), line
        elif line.startswith("# TYPE "):
            kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)", line)
            assert kind, line
            assert kind[1] not in types, f"{kind[1]} twice"
            types[kind[1]] = kind[2]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            family = next(
                (name for name in (sample[1], re.sub(r"_(bucket|sum|count)$", "", sample[1])) if name in types), ""
            )
            assert family, f"{sample[1]} has no type"
            assert sample[1].endswith(UNITS), sample[1]
            assert types[family] != "counter" or family.endswith("_total"), family
            key = sample[1] + (sample[2] or "")
            assert key not in found, f"{key} twice"
            found[key] = float(sample[3])
    return found


def metrics(client: httpx.Client) -> dict[str, float]:
    answer = client.get("/metrics").raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.text)


def test_metrics_are_for_who_has_the_token(server: Server, client: httpx.Client):
    assert httpx.get(f"{server.root}/metrics").status_code == 401
    assert client.get("/metrics").status_code == 200


def test_requests_are_counted_by_what_was_answered(client: httpx.Client):
    before = metrics(client)
    for _ in range(3):
        client.get("/api/library/none")
    client.request("BREW", "/api/library")
    after = metrics(client)

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert more('whydrop_web_requests_total{method="GET",status="404"}') == 3
    assert more('whydrop_web_requests_total{method="other",status="405"}') == 1
    # The three, the odd one, and the first question for metrics.
    assert more("whydrop_web_request_duration_seconds_count") == 5
    assert (
        after['whydrop_web_request_duration_seconds_bucket{le="+Inf"}']
        == after["whydrop_web_request_duration_seconds_count"]
    )
    assert after["whydrop_web_requests_running"] == 1


def test_entries_jobs_and_bytes_are_those_of_the_server(client: httpx.Client):
    before = metrics(client)
    content = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    own = client.post("/api/uploads", params={"name": "a.pcap.zst"}, content=content).raise_for_status().json()["id"]
    job = client.post("/api/analyses", json={"source": [own]}).raise_for_status().json()["id"]
    client.get(f"/api/analyses/{job}/page").raise_for_status()
    after = metrics(client)
    assert after["whydrop_web_uploaded_bytes_total"] - before["whydrop_web_uploaded_bytes_total"] == len(content)
    assert after["whydrop_web_library_entries"] == client.get("/api/library").json()["count"]
    assert after['whydrop_web_jobs{kind="analysis",state="ready"}'] == 1
    assert after["whydrop_web_workers_started_total"] == 1
    assert after["whydrop_web_workers_died_total"] == 0
    assert after["process_cpu_seconds_total"] > 0
    assert after["process_resident_memory_bytes"] > 1e7


def test_open_streams_are_counted_until_they_end(server: Server, client: httpx.Client):
    streams = [socket.create_connection(address(server)) for _ in range(5)]
    for one in streams:
        one.sendall(head(server, "GET /api/events?topic=x HTTP/1.1"))
    wait_until(lambda: metrics(client)["whydrop_web_event_streams"] == 5, "five streams")
    for one in streams:
        one.close()
    wait_until(lambda: metrics(client)["whydrop_web_event_streams"] == 0, "the end of the streams")
