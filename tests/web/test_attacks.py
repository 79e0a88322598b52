"""Attacks on a running server: each is refused, and the server still answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from web.conftest import Server, client_of

pytestmark = pytest.mark.slow


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as asking:
        yield asking
        # What every test here must leave.
        assert asking.get("/health").text == "ok\n"
        assert asking.get("/api/library").status_code == 200


def address(server: Server) -> tuple[str, int]:
    host, _, port = server.root.removeprefix("http://").rpartition(":")
    return host, int(port)


def sent(server: Server, raw: bytes) -> bytes:
    """All that the server answers to these bytes until it closes the connection, or falls silent."""
    with socket.create_connection(address(server)) as connection:
        connection.settimeout(2)
        connection.sendall(raw)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def head(server: Server, first: str, *lines: str) -> bytes:
    """The head of a request with the token."""
    host, port = address(server)
    all_lines = [first, f"Host: {host}:{port}", f"Authorization: Bearer {server.token}", *lines, "", ""]
    return "\r\n".join(all_lines).encode()


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d\d\d)", answer)]


# --- other sites ---


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1", "localhost:1", "[::1]"])
def test_a_name_that_an_attacker_leads_to_this_host_is_not_answered(client: httpx.Client, host: str):
    answer = client.get("/api/library", headers={"Host": host})
    assert answer.status_code == 421
    assert "entries" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/analyses"),
        ("POST", "/api/uploads"),
        ("POST", "/api/runs"),
        ("DELETE", "/api/analyses/1"),
        ("PUT", "/api/library/1/marks"),
    ],
)
def test_a_page_of_another_site_changes_nothing(client: httpx.Client, method: str, path: str, headers: dict[str, str]):
    assert client.request(method, path, headers=headers, content=b"{}").status_code == 403


def test_an_origin_of_another_scheme_is_another_site(server: Server, client: httpx.Client):
    origin = server.root.replace("http://", "https://")
    assert client.post("/api/analyses", headers={"Origin": origin}, json={}).status_code == 403
    assert client.post("/api/analyses", headers={"Origin": server.root}, json={}).status_code == 400


def test_a_form_of_another_site_is_not_sent_with_the_cookie(server: Server):
    given = httpx.get(server.address).headers["set-cookie"]
    assert "SameSite=strict" in given
    assert "HttpOnly" in given


def test_nothing_is_shared_with_other_origins(client: httpx.Client):
    for method in ("OPTIONS", "GET"):
        answer = client.request(
            method, "/api/library",
            headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
        )  # fmt: skip
        assert not [name for name in answer.headers if name.startswith("access-control")]


# --- files ---

SPELLINGS = [
    "../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "....//", "..%252f", "%c0%ae%c0%ae/", "..%00/", "/", "//",
    "file:///", "..%ef%bc%8f",
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("place", ["/assets/", "/api/library/", "/api/tests/", "/api/analyses/", "/"])
def test_no_spelling_of_a_path_leads_out(server: Server, client: httpx.Client, place: str, spelling: str):
    # A client would tidy the path: it is sent as it is.
    answer = sent(server, head(server, f"GET {place}{spelling * 8}etc/passwd HTTP/1.1", "Connection: close"))
    assert statuses(answer)[0] in range(400, 500)
    assert b"root:" not in answer


# --- HTTP ---


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "PROPFIND", "DELETE", "X" * 200, "PUT"]
)
@pytest.mark.parametrize("path", ["/", "/browse", "/api", "/api/library", "/api/events", "/assets/app.js", "/health"])
def test_an_odd_method_is_answered_and_never_by_a_defect(client: httpx.Client, method: str, path: str):
    with client.stream(method, path, headers={"Connection": "close"}) as answer:
        assert answer.status_code < 500
        if method not in ("HEAD", "OPTIONS"):
            assert answer.status_code >= 400


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Content-Length: -1",),
        ("Content-Length: 0x4",),
        ("Content-Length: 4, 5",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding : chunked",),
        ("Host: evil.example",),
        ("X: a\x00b",),
        (" folded: yes",),
    ],
)
def test_a_request_with_two_readings_is_one_refusal(server: Server, client: httpx.Client, lines: tuple[str, ...]):
    smuggled = head(server, "GET /api/library HTTP/1.1")
    answer = sent(server, head(server, "POST /api/analyses HTTP/1.1", *lines) + b"0\r\n\r\n" + smuggled)
    # A folded line belongs to the token before it, which is wrong then.
    assert statuses(answer)[0] in (400, 401, 501)
    assert b'"entries"' not in answer


@pytest.mark.parametrize(
    "raw",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"get / HTTP/1.1\r\n\r\n", b"\r\n" * 1000, b"\x00" * 70_000],
)
def test_what_is_no_http_is_refused(server: Server, client: httpx.Client, raw: bytes):
    assert set(statuses(sent(server, raw))) <= {400}


def test_a_flood_of_headers_is_refused(server: Server, client: httpx.Client):
    lines = [f"X-{number}: {'a' * 100}" for number in range(2000)]
    assert statuses(sent(server, head(server, "GET /health HTTP/1.1", *lines))) in ([400], [])


def test_a_cookie_of_many_quotes_takes_no_time(client: httpx.Client):
    cookie = "a=" + '"' + "\\" * 40_000
    assert client.get("/health", headers={"Cookie": cookie}).status_code == 200


# --- many ---


def test_a_thousand_idle_event_streams_leave_the_server_answering(server: Server, client: httpx.Client):
    request = head(server, "GET /api/events?topic=x HTTP/1.1")
    streams = []
    try:
        for _ in range(1000):
            streams.append(socket.create_connection(address(server)))
            streams[-1].sendall(request)
        for stream in streams:
            stream.settimeout(60)
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        assert client.get("/api/library").status_code == 200
        assert client.get("/browse").status_code == 200
    finally:
        for stream in streams:
            stream.close()


def test_connections_that_say_nothing_are_not_in_the_way(server: Server, client: httpx.Client):
    silent = [socket.create_connection(address(server)) for _ in range(300)]
    try:
        assert client.get("/api/library").status_code == 200
    finally:
        for one in silent:
            one.close()


def test_requests_of_many_at_once_are_all_answered(client: httpx.Client):
    with ThreadPoolExecutor(20) as people:
        answers = list(people.map(lambda n: client.get("/api/library", params={"q": f"x{n}"}).status_code, range(200)))
    assert set(answers) == {200}


# --- identifiers ---

IDENTIFIERS = [
    "0",
    "x" * 10_000,
    "%00",
    "%ff%fe",
    "%e2%80%ae",
    "<script>",
    "'; DROP TABLE entries; --",
    "-1",
    "%F0%9F%92%A9",
    "NaN",
    "null",
    "~",
    "*",
    "%25",
    "%0d%0aSet-Cookie:x=1",
]


@pytest.mark.parametrize("own", IDENTIFIERS, ids=range(len(IDENTIFIERS)))
@pytest.mark.parametrize(
    "path",
    [
        "/api/library/{}",
        "/api/analyses/{}",
        "/api/analyses/{}/page",
        "/api/comparisons/{}",
        "/api/runs/{}/live",
        "/api/tests/{}",
    ],
)
def test_a_malformed_identifier_is_not_found(client: httpx.Client, path: str, own: str):
    answer = client.get(path.format(own))
    assert 400 <= answer.status_code < 500
    assert "set-cookie" not in answer.headers
    assert len(answer.content) < 10_000


@pytest.mark.parametrize("own", IDENTIFIERS, ids=range(len(IDENTIFIERS)))
def test_a_malformed_place_in_the_events_begins_anew(server: Server, client: httpx.Client, own: str):
    with socket.create_connection(address(server)) as connection:
        connection.settimeout(60)
        connection.sendall(head(server, f"GET /api/events?topic=x&after={own.replace(' ', '+')} HTTP/1.1"))
        assert connection.recv(15).startswith(b"HTTP/1.1 200 OK") or len(own) > 60_000
