"""``whydrop depth`` against a responder of this host."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from example_files import Run
from running.responders import responder
from whydrop.measure.depth.responder import dropped_by_sender, entered, joined
from whydrop.measure.depth.result import standing
from whydrop.recording.recording import Recording

slow = pytest.mark.slow


@slow
@pytest.mark.parametrize(("direction", "host"), [([], "127.0.0.1"), (["--reverse"], "127.0.0.1"), ([], "[::1]")])
def test_a_path_through_this_host_alone_has_a_recording_with_every_departure(
    run: Run, tmp_path: Path, direction: list[str], host: str
) -> None:
    with responder(address=host.strip("[]")) as far:
        caps = ["--max-bytes", "3MB", "--max-rate", "40mbit"]
        done = run("depth", f"{host}:{far.port}", "--json", "-o", tmp_path, *caps, *direction)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["lost"]) == ("complete", 0)
    recording = Recording.open(found["recording"])
    assert recording.metadata["depth"]["kind"] == found["kind"]
    bursts, departures = recording.table("bursts"), recording.table("departures")
    assert bursts.height == found["packets"] == departures.unique(["flow", "sequence"]).height
    both = bursts.join(departures, on=["flow", "sequence"])
    # What left later than it arrived would be a matter of two clocks; here there is one.
    assert (both["left_ns"] <= both["received_ns"] + 1_000_000).all()
    assert (both["left_ns"] >= both["sent_ns"] - 1_000_000).all()
    assert "round 1: 4 bursts of 50 packets" in done.stderr


@slow
@pytest.mark.parametrize("rounds", [0, 1])
def test_one_that_is_interrupted_says_so_first_and_keeps_what_was_measured(tmp_path: Path, rounds: int) -> None:
    words = [sys.executable, "-m", "whydrop", "depth", "--max-rate", "40mbit", "-o", str(tmp_path)]
    with responder() as far:
        process = subprocess.Popen(
            [*words, f"127.0.0.1:{far.port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        while f"round {rounds + 1}:" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    assert process.returncode == 130
    first = said.splitlines()[0]
    assert first == standing("interrupted", rounds)
    recording = Recording.open(said.split("Recording: ")[1].strip())
    assert recording.status == "interrupted"
    assert (recording.metadata["depth"] is not None) == (rounds > 0)
    assert recording.table("bursts").height >= 200 * rounds


@slow
def test_text_says_the_answer_first(run: Run, tmp_path: Path) -> None:
    with responder() as far:
        done = run(
            "depth", f"127.0.0.1:{far.port}", "-o", tmp_path, "--max-bytes", "1500kB", "--max-rate", "40mbit"
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(("No queue", "A queue"))
    assert "Recording: " in done.stdout


@slow
def test_caps_that_allow_nothing_and_hosts_without_a_responder_are_reported_in_one_line(
    run: Run, tmp_path: Path
) -> None:
    with responder() as far:
        place = f"127.0.0.1:{far.port}"
        for options in (["--max-bytes", "100kB"], ["--max-duration", "1s"]):
            done = run("depth", place, "-o", tmp_path, *options)
            assert done.returncode == 1
            assert "raise --max-bytes or --max-duration" in done.stderr
    done = run("depth", place, "-o", tmp_path)
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr.splitlines()[-1]
    assert run("depth").returncode == 2


@contextmanager
def irtt_server(*options: str) -> Iterator[int]:
    """A server of irtt on a port of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(["irtt", "server", "-b", f"127.0.0.1:{port}", *options], stdout=subprocess.DEVNULL)
    yield port
    server.terminate()
    server.wait()


@slow
@pytest.mark.needs_program("irtt")
def test_trains_to_an_irtt_server_are_bursts_of_a_recording(run: Run, tmp_path: Path) -> None:
    with irtt_server("-i", "0") as port:
        caps = ["--max-bytes", "3500kB", "--max-rate", "40mbit"]
        done = run("depth", "127.0.0.1", "--port", port, "--far-end", "irtt", "--json", "-o", tmp_path, *caps)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == "complete"
    bursts = Recording.open(found["recording"]).table("bursts")
    assert bursts.height > 0
    assert (bursts["received_ns"] > bursts["sent_ns"] - 50_000_000).all()


@slow
@pytest.mark.needs_program("irtt")
def test_an_irtt_server_that_restricts_its_clients_and_what_it_cannot_serve_are_reported(
    run: Run, tmp_path: Path
) -> None:
    with irtt_server() as port:
        place = ["depth", "127.0.0.1", "--port", port, "--far-end", "irtt", "-o", tmp_path]
        done = run(*place)
        assert done.returncode == 1
        assert "the server restricts it" in done.stderr.splitlines()[-1]
        done = run(*place, "--reverse")
        assert done.returncode == 1
        assert "both need a responder" in done.stderr


def bursts_of(received_ns: list[int | None]) -> pl.DataFrame:
    count = len(received_ns)
    return pl.DataFrame(
        {
            "flow": [0] * count, "burst": [0] * count, "sequence": list(range(count)), "sent_ns": [0] * count,
            "received_ns": received_ns, "payload_bytes": [1472] * count, "marked": [None] * count,
        },
        schema_overrides={"marked": pl.Boolean()},
    )  # fmt: skip


def test_packets_get_the_time_at_which_they_left_and_what_was_never_sent_is_left_out() -> None:
    departures = pl.DataFrame({"flow": [0, 0], "sequence": [0, 2], "left_ns": [100, 300]})
    packets = entered(joined(bursts_of([500, None, 700, None]), departures, 1500))
    assert packets["left_ns"].to_list() == [100, 200, 300]
    assert packets["received_ns"].to_list() == [500, None, 700]
    without = joined(bursts_of([500, None]), None, 1500)
    assert without["left_ns"].to_list() == [0, 0]


def test_packets_that_a_queue_of_the_sender_dropped_came_to_it_when_they_were_sent() -> None:
    arrived = [500 if place % 2 == 0 else None for place in range(11)]
    stamped = [0, 2, 4, 6, 8, 10]
    departures = pl.DataFrame({"flow": [0] * 6, "sequence": stamped, "left_ns": [400 + place for place in stamped]})
    packets = joined(bursts_of(arrived), departures, 1500)
    assert dropped_by_sender(packets)
    assert entered(packets)["left_ns"].to_list() == [0] * 11


def test_packets_that_left_were_lost_behind_the_sender_also_where_its_kernel_forgot_some_stamps() -> None:
    arrived = [500 if place % 2 == 0 else None for place in range(11)]
    for missing in ([], [1, 2, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8]):
        stamped = [place for place in range(11) if place not in missing]
        departures = pl.DataFrame(
            {"flow": [0] * len(stamped), "sequence": stamped, "left_ns": [400 + place for place in stamped]}
        )
        packets = joined(bursts_of(arrived), departures, 1500)
        assert not dropped_by_sender(packets)
        assert entered(packets)["left_ns"].to_list() == [400 + place for place in range(11)]
