"""``whydrop run`` and ``whydrop responder``, end to end over loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from running.responders import HANGS_S, WHYDROP, Program, Responder, ended, responder, wait_for_rows, wait_until
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]


SECRET = "a secret of some length"

MIXED = """
schema = 1
title = "Some of everything"
description = "Flows of every kind of the engine, for a short time."

[[flows]]
name = "TCP ${dir}load"
each = { dir = ["up", "down"] }
kind = "tcp"
direction = "${dir}"
rate_bps = "50 Mbit/s"
start_s = 0
duration_s = 2

[[flows]]
name = "UDP probe"
kind = "probe"
start_s = 0
duration_s = 2
interval_s = "20 ms"

[[flows]]
name = "ICMP echo"
kind = "icmp"
start_s = 0
duration_s = 2

[[flows]]
name = "UDP stream"
kind = "udp"
direction = "down"
rate_bps = "1 Mbit/s"
start_s = 0
duration_s = 2

[[flows]]
name = "UDP bursts"
kind = "burst"
direction = "up"
packets_per_burst = 20
burst_every_s = 0.5
start_s = 0
duration_s = 2
"""

NOTHING = """
[[flows]]
name = "Nothing"
kind = "value"
runner = "command"
units = "W"
start_s = 0
duration_s = 1
options = { command = ["sleep", "1"], parser = { format = "key-value", value = "power" } }
"""


@pytest.fixture
def far() -> Iterator[Responder]:
    with responder("--open") as running:
        yield running


@pytest.fixture
def either(program: Program) -> Iterator[Responder]:
    with responder("--open", program=program) as running:
        yield running


def only_recording(folder: Path) -> Recording:
    (found,) = folder.glob("*.recording")
    return Recording.open(found)


def test_a_run_leaves_a_complete_recording_with_what_every_flow_measured(
    run: Run, either: Responder, tmp_path: Path
) -> None:
    (tmp_path / "mixed.toml").write_text(MIXED)
    done = run("run", tmp_path / "mixed.toml", "--to", either.place, "--output", tmp_path, "--title", "first")
    assert (done.returncode, done.stderr) == (0, "")
    assert "TCP upload" in done.stdout
    recording = only_recording(tmp_path)
    assert (recording.metadata["status"], recording.metadata["failures"]) == ("complete", [])
    flows = recording.table("flows")
    assert flows["status"].to_list() == ["complete"] * 6
    goodput = recording.table("intervals").group_by("flow").agg(pl.col("payload_bytes").sum()).sort("flow")
    assert goodput.height == 3
    assert goodput["payload_bytes"].min() > 10_000
    probes = recording.table("probes")
    # A row for each, also where a busy machine did not send it.
    assert probes.height == 110
    assert probes.filter(pl.col("sent_ns").is_not_null())["fate"].is_in(["ok", "late"]).mean() > 0.5
    bursts = recording.table("bursts")
    # A busy machine leaves bursts out, but none in part.
    assert 1 <= bursts["burst"].n_unique() <= 4
    assert bursts.height == 20 * bursts["burst"].n_unique()
    assert recording.metadata["hosts"]["local"]
    assert recording.metadata["hosts"]["127.0.0.1"]["kernel"] == recording.metadata["hosts"]["local"]["kernel"]
    assert "<script" in (recording.path / "plot.html").read_text()


def test_goodput_at_the_receiver_is_what_the_sender_had_acknowledged(run: Run, far: Responder, tmp_path: Path) -> None:
    done = run(
        "run", "tcp_download", "--to", far.place, "--duration", "2s", "--set", "delay=0.5", "--output", tmp_path,
        "--no-plot", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    recording = Recording.open(json.loads(done.stdout)["recording"])
    flow = recording.table("flows").filter(pl.col("kind") == "tcp")["flow"].item()
    received = recording.table("intervals").filter(pl.col("flow") == flow)
    last = recording.table("tcp_info").filter(pl.col("flow") == flow).sort("time_ns").row(-1, named=True)
    # What was received so long before the last sample had been acknowledged by then.
    long_before = received.filter(pl.col("end_ns") < last["time_ns"] - 500_000_000)["payload_bytes"].sum()
    assert last["acked_bytes"] > 0
    assert long_before <= last["acked_bytes"] <= 1.02 * received["payload_bytes"].sum()


def test_the_secret_must_be_the_same_at_both_ends(run: Run, program: Program, tmp_path: Path) -> None:
    for name, text in (("right", SECRET), ("wrong", SECRET + "!")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    with responder("--secret-file", str(tmp_path / "right"), program=program) as far:
        arguments = ("run", "ping", "--to", far.place, "--duration", "1s", "--output", tmp_path, "--no-plot")
        refused = run("run", "tcp_1up", *arguments[2:], "--secret-file", tmp_path / "wrong")
        assert refused.returncode == 1
        assert "different ones" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert "secret" not in " ".join(str(path) for path in tmp_path.glob("*.recording"))
        without = run("run", "tcp_1up", *arguments[2:])
        assert (without.returncode, without.stderr.count("\n")) == (1, 1)
        assert "--secret-file" in without.stderr
        served = run("run", "tcp_1up", *arguments[2:], "--secret-file", tmp_path / "right", "--set", "delay=0.2")
        assert served.returncode == 0, served.stderr
    for file in only_recording(tmp_path).path.rglob("*"):
        assert SECRET.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_a_responder_killed_in_mid_run_ends_it_with_one_line_and_keeps_what_was_measured(
    either: Responder, tmp_path: Path
) -> None:
    words = [*WHYDROP, "run", "tcp_1down", "--to", either.place, "--duration", "60s", "--set", "delay=0",
             "--output", str(tmp_path), "--no-plot"]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path, "intervals")
    either.kill()
    _, said = process.communicate(timeout=HANGS_S)
    assert process.returncode == 1
    assert "TCP download" in said
    assert "responder" in said
    recording = only_recording(tmp_path)
    assert recording.metadata["status"] == "failed"
    assert recording.table("intervals")["payload_bytes"].sum() > 0


def test_ctrl_c_ends_a_run_and_keeps_what_was_measured(far: Responder, tmp_path: Path) -> None:
    words = [*WHYDROP, "run", "tcp_1up", "--to", far.place, "--duration", "60s", "--set", "delay=0",
             "--output", str(tmp_path), "--no-plot"]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path, "intervals")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANGS_S)
    assert process.returncode == 130
    recording = only_recording(tmp_path)
    assert recording.metadata["status"] == "interrupted"
    assert recording.table("intervals")["payload_bytes"].sum() > 0


def test_a_run_that_is_killed_keeps_every_sample_up_to_the_last_second(far: Responder, tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(MIXED.replace("duration_s = 2", "duration_s = 60"))
    words = [*WHYDROP, "run", str(tmp_path / "long.toml"), "--to", far.place, "--output", str(tmp_path), "--no-plot"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_rows(tmp_path, "intervals")
    wait_for_rows(tmp_path, "probes")
    kept_ns = 0

    def has_the_last_second() -> bool:
        # Of what is on the disk now, if we are interrupted between looking at the clock and at the disk.
        nonlocal kept_ns
        now_ns = time.time_ns()
        kept_ns = only_recording(tmp_path).table("intervals")["end_ns"].max() or 0
        return now_ns - kept_ns < 1_000_000_000

    # It may take a busy machine some time to write, but not always.
    wait_until(has_the_last_second)
    process.kill()
    process.wait()
    recording = only_recording(tmp_path)
    assert any("interrupted" in note for note in recording.notes)
    assert recording.table("intervals")["end_ns"].max() >= kept_ns
    assert recording.table("probes").height > 0


def test_a_flow_that_yields_no_data_fails_the_run_loudly(run: Run, tmp_path: Path) -> None:
    (tmp_path / "late.toml").write_text(MIXED + NOTHING)
    with responder("--open") as far:
        done = run("run", tmp_path / "late.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert done.returncode == 1
    assert "Nothing: sleep ended without a measurement" in done.stderr
    assert only_recording(tmp_path).metadata["failures"]


def test_a_responder_that_is_not_there_is_one_line_that_says_what_to_start(run: Run, tmp_path: Path) -> None:
    done = run("run", "tcp_1up", "--to", "127.0.0.1:9", "--output", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "whydrop responder" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_missing_is_said_once_for_all_flows_that_need_it(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "no-programs"
    empty.mkdir()
    done = run(
        "run", "tcp_4up", "--with", "netperf", "--to", "127.0.0.1", "--output", tmp_path,
        env={**os.environ, "PATH": str(empty)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("netperf is not installed") == 1
    assert "3 more flows" in done.stderr


def test_a_responder_says_at_its_end_what_it_did(either: Responder) -> None:
    said = either.ask_to_stop()
    assert re.fullmatch(
        r"whydrop responder: stopped after 0 connections: 0 authenticated, 0 with another secret, "
        r"0 of another protocol, 0 above the rate of handshakes, 0 silent, "
        r"0 for lack of room, 0 without an active flow\n",
        said,
    )
    assert either.process.returncode == 0


def test_a_responder_must_know_which_clients_it_serves(program: Program) -> None:
    for options in ((), ("--open", "--secret-file", "anything")):
        done = ended(program, *options)
        assert done.returncode == 2
        assert "--open" in done.stderr


@pytest.mark.parametrize("place", ["", "host:", "host:port", "[::1]:99999", ":17370"])
def test_a_far_end_that_is_no_place_is_bad_usage(run: Run, place: str) -> None:
    done = run("run", "tcp_1up", "--to", place)
    assert done.returncode == 2
    assert "expected a host" in done.stderr


def test_names_and_addresses_can_be_hidden_before_anything_is_written(run: Run, far: Responder, tmp_path: Path) -> None:
    done = run(
        "run", "tcp_1up", "--to", far.place, "--duration", "1s", "--set", "delay=0", "--output", tmp_path, "--no-plot",
        "--redact",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    recording = only_recording(tmp_path)
    written = (recording.path / "recording.json").read_text() + recording.table("flows").write_json()
    # Addresses of loopback identify no host.
    addresses = re.findall(
        r"\b\d+\.\d+\.\d+\.\d+\b", subprocess.check_output(["ip", "-4", "-br", "address"], text=True)
    )
    assert not [one for one in addresses if one in written and not one.startswith("127.")]
    assert f'"{os.uname().nodename}"' not in written
