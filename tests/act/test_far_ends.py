"""Far ends without a responder: how they are written, how they are sent to, and what is said where that fails."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import whydrop
from whydrop.act.far_ends import FarEndError, far_end
from whydrop.act.meter import Meter, NoMeasurementError
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow

FLOW = PlannedFlow("TCP upload", "tcp", "up", host="server", duration_s=1.0)


@pytest.mark.parametrize("written", ["", "iperf", "iperf3:", "iperf3:0", "iperf3:70000", "nuttcp:x", "ssh:-oProxy",
                                     "ssh:a b", "http:///x", "https://a.example/x y", "ftp://a.example/"])  # fmt: skip
def test_what_names_no_far_end_is_refused_with_what_was_expected(written: str) -> None:
    with pytest.raises(FarEndError, match="expected"):
        far_end(written)


def test_uploads_go_by_the_program_that_speaks_to_the_server() -> None:
    assert far_end("iperf3:5202").flow(FLOW, "server").port == 5202
    assert far_end("nuttcp").flow(FLOW, "server").runner == "nuttcp"
    curl = far_end("https://server.example/up").flow(FLOW, "server").options["command"]
    assert (curl[0], curl[-2:]) == ("curl", ["/dev/zero", "https://server.example/up"])
    ssh = far_end("ssh:2222").flow(FLOW, "192.0.2.1").options["command"]
    assert ssh[-5:] == ["-p", "2222", "--", "192.0.2.1", "cat >/dev/null"]
    assert "BatchMode=yes" in ssh


def test_only_programs_that_can_pace_their_socket_search_without_a_change() -> None:
    paces = {kind: far_end(kind).paces_its_socket for kind in ("responder", "iperf3", "nuttcp", "ssh", "http://a/")}
    assert paces == {"responder": True, "iperf3": True, "nuttcp": False, "ssh": False, "http://a/": False}
    with pytest.raises(NoMeasurementError, match="cannot pace its own socket"):
        whydrop.pace("127.0.0.1", far_end="nuttcp", dry_run=True)


@pytest.mark.parametrize("port", ["403", "40327", "4041"])
def test_the_number_of_a_port_is_no_answer_of_a_server(port: str) -> None:
    server = far_end(f"http://127.0.0.1:{port}/")
    refused = server.advice(
        f"curl: (7) Failed to connect to 127.0.0.1 port {port} after 0 ms: Couldn't connect to server"
    )
    assert "nothing listens there" in refused
    assert "the server refuses uploads" in server.advice("curl: (22) The requested URL returned error: 403")


@pytest.mark.slow
@pytest.mark.needs_program("iperf3", "nuttcp", "curl", "ssh")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("iperf3:{}", "start a server there"),
        ("nuttcp:{}", "start a server there"),
        ("http://127.0.0.1:{}/", "nothing listens there"),
        ("ssh:{}", "start sshd"),
    ],
)
def test_a_refused_connection_says_what_to_start(tmp_path: Path, closed_port: int, kind: str, words: str) -> None:
    with pytest.raises(NoMeasurementError, match=words):
        meter(tmp_path, kind.format(closed_port)).reading("refused")


@pytest.mark.slow
@pytest.mark.needs_program("iperf3")
def test_a_busy_server_is_asked_again_and_then_named(tmp_path: Path, closed_port: int) -> None:
    port = str(closed_port)
    server = subprocess.Popen(["iperf3", "-s", "-p", port], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    other = subprocess.Popen(
        ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "60", "-b", "1M"], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.5)
        measuring = meter(tmp_path, f"iperf3:{port}")
        with pytest.raises(NoMeasurementError, match="server is busy"):
            measuring.reading("busy")
        other.kill()
        assert measuring.reading("free").goodput_bps > 1e6
    finally:
        for process in (other, server):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_program_that_is_not_installed_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(whydrop.Error, match="apt-get install iperf3"):
        meter(tmp_path, "iperf3").reading("missing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ann@server: Permission denied (publickey,password).", "ssh-copy-id"),
        ("Host key verification failed.", "log in by hand once"),
    ],
)
def test_ssh_that_would_ask_ends_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    (tmp_path / "ssh").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(NoMeasurementError, match=words) as raised:
        meter(tmp_path, "ssh").reading("asks")
    assert "sh ended" not in str(raised.value)


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class _Server(BaseHTTPRequestHandler):
    def take(self) -> None:
        while self.rfile.read1(1 << 16):
            pass

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*methods: str, **others: Callable[[Any], None]) -> Iterator[int]:
    """A web server that takes uploads by these methods, and answers 501 to others; its port."""
    answers = {**dict.fromkeys(methods, _Server.take), **others}
    handler = type("Handler", (_Server,), {f"do_{name}": answer for name, answer in answers.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_a_path_that_fails_is_no_server_that_ends_the_connection() -> None:
    server = far_end("http://server.example/")
    failed = "curl ended with status 55: curl: (55) Send failure: Connection timed out"
    assert server.otherwise(failed) is None
    assert server.advice(failed) == failed
    cut = "curl ended with status 56: curl: (56) OpenSSL SSL_read: Connection reset by peer, errno 104"
    assert server.otherwise(cut) is not None
    assert "ended the connection while data was sent" in server.advice(cut)


@pytest.mark.slow
@pytest.mark.needs_program("curl")
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_an_upload_by_curl_is_read_from_the_kernel(tmp_path: Path, method: str) -> None:
    with serving(method) as port:
        found = meter(tmp_path, f"http://127.0.0.1:{port}/").reading("upload")
    assert found.goodput_bps > 1e6
    assert found.mss_bytes > 1000


@pytest.mark.slow
@pytest.mark.needs_program("curl")
def test_a_server_that_takes_no_upload_is_named(tmp_path: Path) -> None:
    with serving("GET") as port, pytest.raises(NoMeasurementError, match="neither PUT nor POST"):
        meter(tmp_path, f"http://127.0.0.1:{port}/").reading("upload")


@pytest.mark.slow
@pytest.mark.needs_program("curl")
@pytest.mark.parametrize(
    ("asked", "words"),
    [("501", "neither PUT nor POST"), ("", "ended the connection while data was sent")],
    ids=["with an answer if it is asked first", "without an answer"],
)
def test_a_server_that_resets_the_connection_while_data_arrives_is_named(
    tmp_path: Path, asked: str, words: str
) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        if asked and request.headers["Expect"]:
            request.send_error(int(asked))
            return
        request.rfile.read1(1 << 16)
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    # curl waits for a second before it sends data unasked.
    with serving(PUT=answer, POST=answer) as port, pytest.raises(NoMeasurementError, match=words):
        meter(tmp_path, f"http://127.0.0.1:{port}/", length_s=3.0).reading("upload")


@pytest.mark.slow
@pytest.mark.needs_program("curl")
def test_a_server_that_answers_before_all_is_sent_is_named(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read1(1 << 16)
        request.send_response(201)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with serving(PUT=answer) as port, pytest.raises(NoMeasurementError, match="takes an upload of any length"):
        meter(tmp_path, f"http://127.0.0.1:{port}/").reading("upload")


@pytest.mark.slow
@pytest.mark.needs_program("nuttcp")
def test_an_upload_by_nuttcp_is_read_from_the_kernel(tmp_path: Path, closed_port: int) -> None:
    server = subprocess.Popen(["nuttcp", "-S", "--nofork", "-P", str(closed_port)])
    try:
        time.sleep(0.3)
        assert meter(tmp_path, f"nuttcp:{closed_port}").reading("upload").goodput_bps > 1e6
    finally:
        server.kill()
        server.wait()


def meter(folder: Path, kind: str, length_s: float = 1.0) -> Meter:
    return Meter(FarHost("127.0.0.1", "127.0.0.1"), folder, length_s, far_end=far_end(kind))
