"""``whydrop watch``, end to end: real connections over loopback, beside what the sockets themselves report."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families

from patience import PATIENCE_S, wait_until
from watching.traffic import flow, pair, rows, tcp_info, watch
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]

SIZE = 3_000_000
IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


def test_an_interrupt_ends_a_watch_in_the_background_of_a_script(tmp_path: Path) -> None:
    # a shell starts background jobs with SIGINT ignored
    with pair() as connection, watch(tmp_path, "--port", connection.port, before=IN_BACKGROUND) as watching:
        connection.send(1000)
        status, _, err = watching.stop(signal.SIGINT)
    assert (status, err) == (0, "")
    assert watching.recording.status == "complete"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_what_is_recorded_last_is_what_the_socket_itself_reports(tmp_path: Path, address: str) -> None:
    with pair(address) as connection, watch(tmp_path, "--port", connection.port, "--interval", "20ms") as watching:
        connection.send(SIZE)
        status, out, err = watching.stop(signal.SIGINT)
        told = tcp_info(connection.client)
    assert (status, err) == (0, "")
    recording = watching.recording
    assert f"Recording: {recording.path}" in out
    assert recording.status == "complete"
    last = rows(recording, "tcp_info", connection.name).row(-1, named=True)
    assert last["sent_bytes"] == told["bytes_sent"]
    assert last["acked_bytes"] == told["bytes_acked"]
    assert last["retransmitted_packets"] == told["total_retrans"]
    assert last["congestion_window_packets"] == told["snd_cwnd"]
    assert last["srtt_ns"] == told["rtt"] * 1000
    assert last["path_mtu_bytes"] == told["pmtu"]
    assert last["sent_data_packets"] == told["data_segs_out"]
    assert last["state"] == "established"
    intervals = rows(recording, "intervals", connection.name)
    assert intervals["payload_bytes"].sum() == SIZE
    row = flow(recording, connection.name)
    assert (row["payload_bytes"], row["direction"], row["runner"]) == (SIZE, "up", "kernel")
    assert json.loads(row["facts"])["process"].startswith(("python", "pytest"))


def test_the_other_end_s_socket_receives_what_this_one_sends(tmp_path: Path) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port) as watching:
        connection.send(SIZE)
        watching.stop(signal.SIGTERM)
    received = rows(watching.recording, "intervals", connection.name, "down")
    assert received["payload_bytes"].sum() == SIZE


def test_only_the_connections_that_were_asked_for_are_recorded(tmp_path: Path) -> None:
    with pair() as wanted, pair() as other, watch(tmp_path, "--port", wanted.port) as watching:
        wanted.send(1000)
        other.send(1000)
        watching.stop(signal.SIGINT)
        names = watching.recording.table("flows")["name"].to_list()
    assert names
    assert all(f":{wanted.port}" in name for name in names)


@pytest.mark.parametrize(("destination", "count"), [("127.0.0.0/8", 2), ("192.0.2.1", 0)])
def test_connections_are_chosen_by_their_other_end(tmp_path: Path, destination: str, count: int) -> None:
    with pair() as connection, watch(tmp_path, "--to", destination, "--port", connection.port) as watching:
        watching.stop(signal.SIGINT)
        ups = watching.recording.table("flows").filter(pl.col("direction") == "up")
    assert ups.height == count


def test_a_connection_shorter_than_a_poll_is_recorded_with_its_last_counts(tmp_path: Path) -> None:
    with watch(tmp_path, "--interval", "1h", "--to", "127.0.0.1") as watching:
        with pair() as connection:
            name = connection.name
            connection.send(54_321)
        wait_until(lambda: name in watching.recording.table("flows")["name"])
        watching.stop(signal.SIGINT)
    recording = watching.recording
    assert flow(recording, name)["payload_bytes"] == 54_321
    assert flow(recording, name)["status"] == "complete"
    assert rows(recording, "tcp_info", name)["state"].to_list() == ["closed"]


READS_LATE = 8192


def test_a_receiver_that_reads_slowly_holds_its_sender_by_the_window(tmp_path: Path) -> None:
    with pair(receive_buffer=READS_LATE) as connection, watch(tmp_path, "--port", connection.port) as watching:
        over = threading.Event()

        def fill() -> None:
            connection.client.settimeout(0.1)
            while not over.is_set():
                try:
                    connection.client.send(bytes(1 << 16))
                except TimeoutError:
                    continue

        sender = threading.Thread(target=fill)
        sender.start()
        for _ in range(50):
            connection.server.recv(READS_LATE // 4)
            time.sleep(0.05)
        watching.stop(signal.SIGINT)
        over.set()
        sender.join()
    readings = rows(watching.recording, "tcp_info", connection.name)
    held = readings["receive_window_limited_ns"]
    busy = readings["busy_ns"]
    assert held[-1] - held[0] > 0.5 * (busy[-1] - busy[0]) > 0


def test_an_application_that_sends_now_and_then_leaves_its_connection_idle(tmp_path: Path) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port) as watching:
        for _ in range(20):
            connection.send(100)
            time.sleep(0.1)
        watching.stop(signal.SIGINT)
    readings = rows(watching.recording, "tcp_info", connection.name)
    elapsed = readings["time_ns"][-1] - readings["time_ns"][0]
    assert readings["busy_ns"][-1] - readings["busy_ns"][0] < 0.5 * elapsed


def test_a_watch_that_is_killed_keeps_what_it_saw_up_to_the_last_second(tmp_path: Path) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port, "--interval", "10ms") as watching:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            connection.send(10_000)
            time.sleep(0.01)
        killed_ns = time.time_ns()
        watching.process.kill()
        watching.process.wait()
    recording = watching.recording
    assert recording.status == "interrupted"
    last_ns = rows(recording, "tcp_info", connection.name)["time_ns"].max()
    assert isinstance(last_ns, int)
    assert last_ns < killed_ns
    assert recording.table("polls").height > 50
    assert any("killed" in note for note in recording.notes)


CLIENT = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    s.sendall(bytes(100_000)); time.sleep(1); s.shutdown(socket.SHUT_WR); s.recv(1)
sys.exit(7)
"""


def test_a_command_is_watched_from_its_first_connection_on_and_gives_its_status(tmp_path: Path, run: Run) -> None:
    with pair(), socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            with listener.accept()[0] as served:
                while served.recv(1 << 16):
                    pass

        server = threading.Thread(target=serve)
        server.start()
        done = run("watch", "--interval", "5ms", "--output", tmp_path, "--", sys.executable, "-c", CLIENT, port)
        server.join()
    assert done.returncode == 7, done.stderr
    (folder,) = tmp_path.glob("*.recording")
    recording = Recording.open(folder)
    ups = recording.table("flows").filter(pl.col("direction") == "up")
    # The other end belongs to another process, and so do others' connections.
    assert ups.height == 1
    assert ups["name"][0].endswith(f":{port}")
    assert recording.table("intervals").filter(pl.col("flow") == ups["flow"][0])["payload_bytes"].sum() == 100_000


def test_a_watch_of_a_process_ends_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as child, watch(tmp_path, "--pid", child.pid) as watching:
        child.kill()
        assert watching.process.wait(PATIENCE_S) == 0


def test_polls_are_counted_with_their_cost(tmp_path: Path, run: Run) -> None:
    done = run("watch", "--duration", "1s", "--interval", "10ms", "--output", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (folder,) = told["recordings"]
    polls = Recording.open(folder).table("polls")
    assert told["polls"] == polls.height > 1
    assert told["missed"] == polls["missed"].sum()
    # Every deadline was met or missed.
    span_ns = polls["start_ns"][-1] - polls["start_ns"][0]
    assert abs((polls.height + polls["missed"].sum()) * 10e6 - span_ns) < 50e6 + 0.1 * span_ns
    assert (polls["end_ns"] >= polls["start_ns"]).all()
    assert (polls["cpu_ns"] > 0).all()


def test_a_line_a_second_says_how_it_stands_where_there_is_no_terminal(tmp_path: Path) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port, no_live=False) as watching:
        connection.send(SIZE)
        time.sleep(2.5)
        _, out, _ = watching.stop(signal.SIGINT)
    assert out.count("2 connections  sent ") >= 1, out
    assert "\x1b" not in out


def test_a_long_watch_is_kept_in_several_recordings_and_the_oldest_go(tmp_path: Path) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port, "--rotate", "1s", "--keep", "2") as watching:
        first = watching.recording.path
        wait_until(lambda: not first.exists())
        connection.send(1000)
        status, out, _ = watching.stop(signal.SIGINT)
    assert status == 0
    folders = sorted(tmp_path.glob("*.recording"))
    assert len(folders) == 2
    assert out.count("Recording: ") == 2
    for folder in folders:
        recording = Recording.open(folder)
        assert recording.status == "complete"
        assert flow(recording, connection.name)["status"] in ("stopped", "complete")


def test_queues_and_drops_of_udp_sockets_are_counters(tmp_path: Path) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        with watch(tmp_path, "--udp", "--port", port) as watching:
            for _ in range(100):
                sender.sendto(bytes(1000), ("127.0.0.1", port))
            time.sleep(0.5)
            watching.stop(signal.SIGINT)
    counters = watching.recording.table("counters").filter(pl.col("object").str.starts_with(f"udp 127.0.0.1:{port}"))
    last = {row["counter"]: row["value"] for row in counters.sort("time_ns").to_dicts()}
    assert last["receive_queue_bytes"] > 0
    assert 0 < last["drops"] < 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--interval", "10us"), "--interval: expected a time from 1ms to 1h"),
        (("--port", "0"), "--port"),
        (("--to", "192.0.2.1/33"), "expected an address, a prefix such as 192.0.2.0/24"),
        (("--to", "nowhere.invalid"), "Give an address, a prefix"),
        (("--pid", "4194304"), "there is no such process; `pgrep -a NAME`"),
        (("--cgroup", "no/such/group"), "--cgroup no/such/group: "),
        (("--porf", "443"), "--port"),
        (("--duration", "0s"), "--duration: expected a time above zero"),
    ],
)
def test_a_wrong_flag_says_what_to_do(tmp_path: Path, run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("watch", "--output", tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_command_that_is_not_there_is_said_as_shells_do(tmp_path: Path, run: Run) -> None:
    done = run("watch", "--output", tmp_path, "--", "no-such-program", "x")
    assert (done.returncode, done.stderr) == (127, "whydrop: no-such-program: no such program\n")


def test_a_recording_of_a_watch_is_explained_shown_and_drawn(tmp_path: Path, run: Run) -> None:
    with pair() as connection, watch(tmp_path, "--port", connection.port, "--interval", "20ms") as watching:
        until = time.monotonic() + 4
        while time.monotonic() < until:
            connection.send(SIZE)
        watching.stop(signal.SIGINT)
        folder = watching.recording.path
    for words in (["explain", folder], ["explain", folder, "--json"], ["show", folder], ["stats", folder]):
        done = run(*words)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout
    picture = tmp_path / "tcp.svg"
    done = run("plot", folder, "--output", picture, "--plot", "tcp_cwnd")
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 1000


DOWNLOADS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    while s.recv(1 << 18): pass
"""


def test_a_client_that_downloads_is_not_said_to_send_too_little(tmp_path: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as served:
                until = time.monotonic() + 5
                while time.monotonic() < until:
                    served.sendall(bytes(1 << 16))

        server = threading.Thread(target=serve)
        server.start()
        port = listener.getsockname()[1]
        done = run("watch", "--output", tmp_path, "--", sys.executable, "-c", DOWNLOADS, port)
        server.join()
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*.recording")
    flows = Recording.open(folder).table("flows").sort("flow")
    assert flows["direction"].to_list() == ["up", "down"]
    assert flows["payload_bytes"][0] == 0 < flows["payload_bytes"][1]
    verdicts = json.loads(run("explain", folder, "--json").stdout)["verdicts"]
    assert "sender" not in [verdict["cause"] for verdict in verdicts]


def test_help_has_an_example(run: Run) -> None:
    done = run("watch", "--help")
    assert "whydrop watch --port 443" in done.stdout


def scraped(url: str) -> dict[tuple[str, str], float]:
    """Samples as Prometheus reads them: by name of the sample and its first label."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_reads_totals_of_the_watch(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "whydrop", "watch", "--output", str(tmp_path), "--exporter", "127.0.0.1:0"]
    with pair() as connection:
        words += ["--port", str(connection.port), "--quiet"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stderr is not None
            url = watching.stderr.readline().split()[-1]
            wait_until(lambda: scraped(url).get(("whydrop_connections", "")) == 2)
            connection.send(SIZE)
            wait_until(lambda: scraped(url)["whydrop_sent_payload_bytes_total", ""] >= SIZE)
            found = scraped(url)
            watching.send_signal(signal.SIGINT)
            watching.communicate()
    assert found["whydrop_received_payload_bytes_total", ""] == SIZE
    assert found["whydrop_connections_seen_total", ""] == 2
    assert found["whydrop_polls_total", ""] >= 1


@pytest.mark.parametrize("place", ["9797", "127.0.0.1:http", ":9797", "127.0.0.1:99999"])
def test_a_wrong_address_for_the_exporter_is_reported(place: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "whydrop", "watch", "--output", str(tmp_path), "--exporter", place]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected ADDRESS:PORT" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what this host drops")
@pytest.mark.parametrize("way", ["program", "tracepoint"])
def test_datagrams_to_a_closed_port_are_dropped_by_the_kernel_s_reason(tmp_path: Path, way: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        place = closed.getsockname()
    with watch(tmp_path, "--drops", way) as watching:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            for _ in range(30):
                sending.sendto(b"x", place)
        _, out, _ = watching.stop(signal.SIGINT)
    rows = watching.recording.table("drops").filter(pl.col("reason") == "NO_SOCKET")
    assert "NO_SOCKET" in out
    # The tracepoint reports all drops of the machine, without addresses.
    if way == "program":
        rows = rows.filter(pl.col("destination") == f"127.0.0.1:{place[1]}")
        assert rows["packets"].sum() == 30
        assert rows["here"].all()
    else:
        assert rows["packets"].sum() >= 30
        assert rows["here"].null_count() == rows.height
    assert watching.recording.series("drops NO_SOCKET::packets")
