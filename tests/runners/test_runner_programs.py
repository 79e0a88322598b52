"""The real programs, against servers of theirs on the loopback interface."""

from __future__ import annotations

import contextlib
import http.server
import random
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from runner_fixtures import Clock, ended, flow, run, started, wait_until

from whydrop.measure.runners import Outcome
from whydrop.measure.runners.registry import runner_for

needs = pytest.mark.needs_program


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port outside the ephemeral range: another program could get one of those before we use it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket(socket.AF_INET, kind) as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


@contextmanager
def server(*words: str, port: int, protocol: str = "tcp") -> Iterator[None]:
    """A server that listens on ``port``."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or is_bound(port, protocol))
        assert process.poll() is None, f"{words[0]} ended at once with status {process.returncode}"
        yield
    finally:
        process.kill()
        process.wait()


def is_bound(port: int, protocol: str) -> bool:
    """Found out without connecting: a server may take that for its client."""
    # Local and remote address, and the state of a socket that listens, or of UDP waits for anybody.
    waiting = re.compile(rf":{port:04X} 0+:0000 (0A|07)")
    return any(waiting.search(Path(f"/proc/net/{protocol}{version}").read_text()) for version in ("", "6"))


@pytest.fixture
def iperf3() -> Iterator[int]:
    port = free_port()
    with server("iperf3", "-s", "-p", str(port), port=port):
        yield port


def tcp(**settings: Any) -> Any:
    limits = {"rate_bps": 20e6, "duration_s": 1.0, "interval_s": 0.2, "direction": "up"}
    return flow(**{"kind": "tcp", "host": "127.0.0.1", **limits, **settings})


@needs("iperf3")
@pytest.mark.parametrize("direction", ["up", "down", "both"])
def test_iperf3_measures_tcp(iperf3: int, direction: str) -> None:
    outcome, found = run(tcp(runner="iperf3", port=iperf3, direction=direction, dscp=46))
    assert (outcome.status, outcome.message) == ("complete", None)
    assert found["intervals"]["payload_bytes"].sum() > 1e5
    # Wall-clock time, and not seconds since the start.
    assert abs(found["intervals"]["end_ns"][-1] - time.time_ns()) < 1000e9
    assert outcome.facts["version"].startswith("iperf 3")


@needs("iperf3")
def test_iperf3_measures_udp_downwards_with_losses(iperf3: int) -> None:
    planned = tcp(runner="iperf3", port=iperf3, kind="udp", direction="down", rate_bps=1e6, packet_payload_bytes=500)
    outcome, found = run(planned)
    assert outcome.status == "complete"
    assert found["intervals"]["packets"].sum() > 100
    assert found["intervals"]["lost"].null_count() == 0


@needs("iperf3")
def test_iperf3_sends_so_many_bytes_and_no_more(iperf3: int) -> None:
    outcome, found = run(tcp(runner="iperf3", port=iperf3, duration_s=None, payload_bytes=1_000_000))
    assert outcome.status == "complete"
    assert found["intervals"]["payload_bytes"].sum() >= 1_000_000 * 0.9


@needs("iperf3")
def test_iperf3_ends_within_the_second(iperf3: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("whydrop.measure.runners.process.time", clock)
    runner, found = started(tcp(runner="iperf3", port=iperf3, duration_s=1000.7))
    assert found["intervals"].height >= 1
    clock.ahead_s = 1000.7
    outcome, _ = ended(runner)
    assert outcome.status == "complete"
    # Left alone, it would go on: it takes whole seconds only.
    words = outcome.facts["command"]
    assert words[words.index("-t") + 1] == "1001"


@needs("iperf3")
def test_a_busy_iperf3_server_is_reported_with_what_to_do(iperf3: int) -> None:
    first, _ = started(tcp(runner="iperf3", port=iperf3, duration_s=1000.0))
    outcome, _ = run(tcp(runner="iperf3", port=iperf3))
    first.stop()
    assert ended(first)[0].status == "stopped"
    assert outcome.status == "failed"
    assert f"start one for each flow on a port of its own (iperf3 -s -p {iperf3 + 1})" in (outcome.message or "")


@needs("iperf3")
def test_without_a_server_iperf3_says_how_to_start_one() -> None:
    outcome, found = run(tcp(runner="iperf3", port=free_port()))
    assert (outcome.status, found) == ("failed", {})
    assert "start a server there (iperf3 -s -p" in (outcome.message or "")


@needs("iperf3")
def test_an_iperf3_server_that_dies_costs_nothing_that_was_measured() -> None:
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(server("iperf3", "-s", "-p", str(port), port=port))
        runner, found = started(tcp(runner="iperf3", port=port, duration_s=1000.0))
        assert found["intervals"].height >= 1
    outcome, _ = ended(runner)
    assert outcome.status == "failed"
    assert outcome.message is not None
    assert outcome.message.startswith("iperf3 to 127.0.0.1")


@needs("nuttcp")
@pytest.mark.parametrize("direction", ["up", "down"])
def test_nuttcp_measures_tcp_at_the_receiver(direction: str) -> None:
    port, data_port = free_port(), free_port()
    with server("nuttcp", "-S", "--nofork", "-P", str(port), port=port):
        outcome, found = run(
            tcp(runner="nuttcp", port=port, direction=direction, options={"data_port": data_port}, interval_s=0.3)
        )
    assert (outcome.status, outcome.message) == ("complete", None)
    assert found["intervals"]["payload_bytes"].sum() == pytest.approx(outcome.facts["received_bytes"], rel=0.01)


@needs("irtt")
def test_irtt_measures_every_probe_with_its_timer_s_error() -> None:
    port = free_port(socket.SOCK_DGRAM)
    with server("irtt", "server", "-b", f"127.0.0.1:{port}", "-i", "1ms", "--hmac=sesame", port=port, protocol="udp"):
        planned = flow(
            kind="probe",
            runner="irtt",
            host="127.0.0.1",
            port=port,
            interval_s=0.02,
            duration_s=0.6,
            options={"hmac": "sesame"},
        )
        outcome, found = run(planned)
    assert (outcome.status, outcome.message) == ("complete", None)
    # irtt drops a probe that its own timer missed, as on a busy machine; all that it sent is reported.
    assert found["probes"].height == outcome.facts["packets_sent"]
    assert 1 <= found["probes"].height <= 30
    assert any(key.startswith("timer_error_") for key in outcome.facts)
    assert found["probes"].filter(fate="ok")["up_ns"].null_count() == 0
    assert found["clocks"].height == 1
    assert "sesame" not in str(outcome)


@needs("irtt")
def test_irtt_that_is_stopped_still_reports_its_measurements() -> None:
    port = free_port(socket.SOCK_DGRAM)
    with server("irtt", "server", "-b", f"127.0.0.1:{port}", "-i", "1ms", port=port, protocol="udp"):
        # It prints nothing before its end, so its start is not visible.
        for seconds in (1, 10, 60):
            planned = flow(kind="probe", runner="irtt", host="127.0.0.1", port=port, interval_s=0.02, duration_s=1000.0)
            runner = runner_for(planned, 7)
            runner.start(time.monotonic_ns())
            time.sleep(seconds)
            runner.stop()
            outcome, found = ended(runner)
            if "probes" in found and found["probes"].filter(fate="ok").height > 10:
                break
    assert outcome.status == "stopped"
    assert found["probes"].filter(fate="ok").height > 10
    assert "read_from" not in outcome.facts


@needs("irtt")
def test_without_a_server_irtt_says_how_to_start_one() -> None:
    outcome, _ = run(flow(kind="probe", runner="irtt", host="127.0.0.1", port=free_port(socket.SOCK_DGRAM)))
    assert outcome.status == "failed"
    assert "start a server there (irtt server)" in (outcome.message or "")


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in ("ping", "fping")])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_pings_measure_round_trips(name: str, host: str) -> None:
    outcome, found = run(flow(kind="icmp", runner=name, host=host, interval_s=0.2, duration_s=0.8, dscp=46))
    if "permitted" in (outcome.message or ""):
        pytest.skip("ICMP is not permitted here")
    assert (outcome.status, outcome.message) == ("complete", None)
    assert found["probes"].height == 4
    assert found["probes"]["fate"].to_list() == ["ok"] * 4


@needs("ping")
def test_ping_of_a_host_that_is_not_known_says_so() -> None:
    outcome, _ = run(flow(kind="icmp", runner="ping", host="no-such-host.invalid"))
    assert outcome.status == "failed"
    assert "no-such-host.invalid" in (outcome.message or "")


# HTTP


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[tuple[str, int]]] = set()

    def do_GET(self) -> None:
        self.connections.add(self.client_address)
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            for _ in range(100_000):
                self.wfile.write(b"x" * 10)
                time.sleep(0.1)
            return
        if self.path == "/broken":
            self.wfile.write(b"\xff\xfe not HTTP at all\r\n\r\n")
            self.close_connection = True
            return
        body = f"http://127.0.0.1:{self.server.server_address[1]}/a\n# end\n".encode() * (self.path == "/list")
        body = body or b"x" * 5000
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as one:
        one.daemon_threads = True
        one.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{one.server_address[1]}"
        one.shutdown()


def fetch(options: dict[str, Any], *, rounds: int = 1, **settings: Any) -> tuple[Outcome, Any]:
    """Fetch for as long as this machine needs for so many rounds."""
    for duration_s in (0.5, 5.0, 50.0):
        wanted = {"kind": "http", "runner": "http", "duration_s": duration_s, "interval_s": 0.2, **settings}
        Pages.connections.clear()
        outcome, found = run(flow(options=options, **wanted))
        if outcome.facts["rounds"] >= rounds and "fetches" in found:
            break
    return outcome, found.get("fetches")


def test_every_address_is_fetched_in_each_round(pages: str) -> None:
    outcome, fetches = fetch({"urls": [f"{pages}/a", f"{pages}/b"]}, rounds=3)
    assert outcome.status == "complete"
    # The end of the flow may have come in the middle of the last round.
    rounds = outcome.facts["rounds"]
    assert rounds >= 3
    assert 2 * (rounds - 1) <= fetches.height <= 2 * rounds
    assert {url: count for url, count in fetches["url"].value_counts().rows() if count < rounds - 1} == {}
    assert fetches["url"].n_unique() == 2
    assert fetches["payload_bytes"].unique().to_list() == [5000]
    assert (fetches["first_byte_ns"] <= fetches["duration_ns"]).all()
    assert fetches["error"].null_count() == fetches.height


@pytest.mark.slow
def test_connections_are_used_again_unless_they_shall_not(pages: str) -> None:
    outcome, fetches = fetch({"urls": [f"{pages}/a"], "workers": 1}, rounds=2)
    assert len(Pages.connections) < fetches.height
    outcome, fetches = fetch({"urls": [f"{pages}/a"], "workers": 1, "reuse_connections": False})
    assert outcome.status == "complete"
    assert len(Pages.connections) == fetches.height


@pytest.mark.slow
def test_the_list_may_be_a_file_or_at_an_address(pages: str, tmp_path: Path) -> None:
    (tmp_path / "urls").write_text(f"# two\n{pages}/a\n\n{pages}/b\n")
    _, fetches = fetch({"url_list": str(tmp_path / "urls")})
    assert sorted(set(fetches["url"])) == [f"{pages}/a", f"{pages}/b"]
    _, fetches = fetch({"url_list": f"{pages}/list"})
    assert set(fetches["url"]) == {f"{pages}/a"}


def test_a_fetch_that_fails_is_measured_and_reported(pages: str) -> None:
    outcome, fetches = fetch({"urls": [f"{pages}/a", f"{pages}/missing", f"{pages}/broken"]}, rounds=2)
    assert outcome.status == "complete"
    by_path = {
        url.rpartition("/")[2]: (status, error) for url, status, error in fetches["url", "status", "error"].rows()
    }
    assert by_path["a"] == (200, None)
    assert by_path["missing"] == (404, "status 404")
    assert by_path["broken"][0] is None
    assert by_path["broken"][1]


def test_when_every_fetch_fails_the_flow_has_failed() -> None:
    outcome, fetches = fetch({}, host="127.0.0.1", port=free_port())
    assert outcome.status == "failed"
    assert (outcome.message or "").endswith("Connection refused")
    assert fetches.height == outcome.facts["failed"]


@pytest.mark.slow
def test_a_server_that_trickles_does_not_hold_the_round_up(pages: str) -> None:
    outcome, fetches = fetch({"urls": [f"{pages}/slow"]}, timeout_s=0.7)
    assert "not complete within 0.7 s" in (outcome.message or "")
    assert fetches["payload_bytes"].max() > 0


def test_fetching_stops_when_it_is_asked_to(pages: str) -> None:
    runner = runner_for(flow(kind="http", runner="http", options={"urls": [f"{pages}/slow"]}, duration_s=None), 1)
    runner.start(time.monotonic_ns())
    wait_until(lambda: bool(Pages.connections))
    runner.stop()
    # The server would go on for hours.
    assert ended(runner)[0].status == "stopped"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"urls": ["ftp://example.net/"]}, "line 1: 'ftp://example.net/' is no address"),
        ({"urls": []}, "it has no addresses"),
        ({"url_list": "/nonexistent/list"}, "No such file"),
        ({"urls": ["http://h/"], "workers": 0}, "expected 1 to 256"),
        ({}, "give options.urls"),
    ],
)
def test_a_mistake_in_a_list_is_reported_before_the_test(options: dict[str, Any], part: str) -> None:
    assert part in (runner_for(flow(kind="http", runner="http", options=options), 1).check() or "")
