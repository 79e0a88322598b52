"""Responsiveness over a link with a queue of known length, from the nginx of packaging/nginx-responsiveness.conf."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from lab import Lab
from lab.network import Host
from web.certificates import certificate
from whydrop.recording.metrics.responsiveness import Responsiveness, of_recording
from whydrop.recording.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.needs_root, pytest.mark.needs_program("nginx")]

PACKAGED = Path(__file__).resolve().parents[2] / "packaging" / "nginx-responsiveness.conf"
PORT, DISCARDS_AT = 4443, 9009
RATE_BPS = 20e6

# What reads and discards at port 9, as `socat -u TCP-LISTEN:9,fork OPEN:/dev/null` does.
DISCARD = f"""
import socketserver
class Discard(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(1 << 20): pass
socketserver.ThreadingTCPServer(("127.0.0.1", {DISCARDS_AT}), Discard).serve_forever()
"""


def configured(folder: Path) -> Path:
    """The packaged configuration with the ports and files of a test."""
    crt, key = certificate(folder)
    with (folder / "large").open("wb") as large:
        large.truncate(8 << 30)
    changes = {
        r"listen 443": f"listen {PORT}",
        r"listen \[::\]:443": f"listen [::]:{PORT}",
        r"/etc/ssl/certs/ssl-cert-snakeoil.pem": str(crt),
        r"/etc/ssl/private/ssl-cert-snakeoil.key": str(key),
        r"root /srv/responsiveness": f"root {folder}",
        r"http://127.0.0.1:9;": f"http://127.0.0.1:{DISCARDS_AT};",
    }
    text = PACKAGED.read_text("utf-8")
    for pattern, instead in changes.items():
        text, count = re.subn(pattern, instead, text)
        assert count, pattern
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    written = folder / "nginx.conf"
    written.write_text(
        f"daemon off;\nuser root;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\nevents {{}}\n"
        f"http {{\n{temporary}{text}}}\n"
    )
    return written


@contextmanager
def served(lab: Lab, queue_bytes: int) -> Iterator[tuple[Host, str]]:
    """A client, and the address of a server behind a link of 20 Mbit/s with such a queue for each direction."""
    with lab.network() as network:
        client, router, server = (network.host(name) for name in ("client", "router", "server"))
        # The queues are a router's: of its own queue a sender keeps its sockets' data out (TCP small queues).
        _, down = network.link(client, router)
        up, _ = network.link(router, server)
        network.start()
        for end in (down, up):
            end.tc(f"qdisc replace dev {{}} root tbf rate {RATE_BPS / 1e6:g}mbit burst 5kb limit {queue_bytes}")
        server.sysctl("net.ipv4.tcp_notsent_lowat", "16384")
        for host in (client, server):
            # CUBIC leaves slow start when the delay grows, and on so short a link fills the queue after a minute only.
            host.sysctl("net.ipv4.tcp_congestion_control", "reno")
        nginx = server.popen(["nginx", "-c", str(configured(lab.folder))])
        discard = server.popen([sys.executable, "-c", DISCARD])
        server.wait_listening(PORT)
        server.wait_listening(DISCARDS_AT)
        yield client, server.address
        nginx.stop()
        discard.kill()


@dataclass(frozen=True)
class Found:
    """A direction, with the median of the pings in its last seconds."""

    result: Responsiveness
    ping_ms: float


def measured(lab: Lab, queue_bytes: int) -> dict[str, Found]:
    """Both directions, one after the other."""
    with served(lab, queue_bytes) as (client, address):
        words = [sys.executable, "-m", "whydrop", "run", "responsiveness", "--to", f"{address}:{PORT}", "--quiet"]
        settings = ["verify_certificate=false", "first_connections=4", "most_connections=4"]
        client.run([*words, *(word for one in settings for word in ("--set", one)), "--output", str(lab.folder)])
    [folder] = lab.folder.glob("*.recording")
    recording = Recording.open(folder)
    return {one.direction: Found(one, _ping_ms(recording, one)) for one in of_recording(recording)}


def _ping_ms(recording: Recording, one: Responsiveness) -> float:
    [load] = recording.table("flows").filter(pl.col("name") == one.name)["flow"]
    end_ns = recording.of_flow("intervals", load)["end_ns"].max()
    assert isinstance(end_ns, int)
    pings = recording.samples("Ping (ms) ICMP").filter(pl.col("time_ns").is_between(end_ns - 4_000_000_000, end_ns))
    median = pings["value"].median()
    assert isinstance(median, float)
    return median


def test_a_deep_queue_is_in_every_round_trip_of_both_directions(lab: Lab) -> None:
    queue_bytes = 200_000
    for found in measured(lab, queue_bytes).values():
        one = found.result
        # It is full at times, and Reno leaves half of it at others.
        full_ms = 8e3 * queue_bytes / RATE_BPS
        assert one.tcp_f_ms is not None
        assert 0.4 * full_ms < one.tcp_f_ms < 1.2 * full_ms
        assert one.tcp_f_ms == pytest.approx(found.ping_ms, rel=0.25)
        assert one.rpm is not None
        assert one.rpm < 1500
        assert one.foreign_rpm is not None
        assert one.foreign_rpm < 60_000 / (0.4 * full_ms)
        assert one.goodput_mbit_per_s == pytest.approx(19, rel=0.1)


def test_a_shallow_queue_is_answered_faster_than_a_deep_one(lab: Lab) -> None:
    for found in measured(lab, 40_000).values():
        one = found.result
        assert one.tcp_f_ms is not None
        assert one.tcp_f_ms < 20
        assert one.foreign_rpm is not None
        assert one.foreign_rpm > 1500
