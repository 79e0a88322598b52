"""How runs and responders end: Ctrl-C in every phase, readers that leave, far ends that lie."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from running.responders import HANGS_S, WHYDROP, Program, Responder, ended, free_port, responder, wait_until
from whydrop.measure.engine import Engine, _parsed
from whydrop.measure.far_hosts import FarHost, far_hosts, host_and_port
from whydrop.measure.plan import Plan, PlannedFlow, Settings
from whydrop.measure.run import run as measure
from whydrop.measure.tally import Tally
from whydrop.recording.recording import Recording
from whydrop.runtime import cancelling, long_calls

Run = Callable[..., subprocess.CompletedProcess[str]]

UPLOAD = """
schema = 1
title = "One upload"
description = "For a short time."

[[flows]]
name = "TCP upload"
kind = "tcp"
direction = "up"
rate_bps = "20 Mbit/s"
start_s = 0
duration_s = 1.5
"""

SILENT = """
schema = 1
title = "Nothing at all"
description = "A command that says nothing."

[[flows]]
name = "Nothing"
kind = "value"
runner = "command"
units = "W"
start_s = 0
duration_s = 1
options = { command = ["true"], parser = { format = "key-value", value = "power" } }
"""


@pytest.fixture
def far() -> Iterator[Responder]:
    with responder("--open") as running:
        yield running


def upload(duration_s: float) -> Plan:
    flow = PlannedFlow("TCP upload", "tcp", "up", host="127.0.0.1", duration_s=duration_s, rate_bps=20e6)
    return Plan("upload", "", duration_s, 0.0, 0.2, ("127.0.0.1",), (flow,))


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["measuring", "finishing"])
def test_ctrl_c_in_any_phase_of_a_measurement_leaves_a_finished_recording(
    far: Responder, tmp_path: Path, phase: str
) -> None:
    def tell(what: str) -> None:
        if what == phase:
            os.kill(os.getpid(), signal.SIGINT)

    settings = Settings(output=tmp_path, hosts=[FarHost("127.0.0.1", port=far.port)], counters=False)
    with cancelling.signals_raised():
        finished = measure(upload(1.0), settings, say=tell)
    assert finished.status == "interrupted"
    recording = Recording.open(finished.folder)
    assert recording.metadata["status"] == "interrupted"
    assert not (recording.path / "journal").exists()
    assert (recording.table("intervals").height > 0) == (phase == "finishing")


def test_waiting_outside_python_hears_ctrl_c_and_hands_over_results_and_errors() -> None:
    assert long_calls.waited_for(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        long_calls.waited_for(lambda: 1 // 0)
    let_go = threading.Event()
    results: list[bool] = []

    def long() -> None:
        # It comes when we wait, and not before.
        os.kill(os.getpid(), signal.SIGINT)
        results.append(let_go.wait(HANGS_S))

    with pytest.raises(KeyboardInterrupt):
        long_calls.waited_for(long)
    assert not results, "it did not wait for the end"
    let_go.set()


def test_ctrl_c_while_the_picture_is_drawn_says_where_the_recording_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from whydrop.cli import ending, run
    from whydrop.cli.commands import whydrop
    from whydrop.measure.run import Finished

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_run", lambda *_, **__: Finished(tmp_path / "one.recording", "complete"))
    monkeypatch.setattr(run, "_draw", interrupted)
    notes: list[str] = []

    def status(reason: BaseException) -> int:
        notes.extend(reason.__notes__)
        return ending.INTERRUPTED

    monkeypatch.setattr(ending, "status", status)
    done = CliRunner().invoke(whydrop, ["run", "tcp_1up", "--to", "127.0.0.1"])
    assert done.exit_code == 130
    assert notes == [f"the recording is complete: {tmp_path / 'one.recording'}"]


def test_a_reader_of_the_summary_that_leaves_does_not_hide_how_the_test_went(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from whydrop.cli import ending, run
    from whydrop.cli.commands import whydrop
    from whydrop.measure.run import Finished

    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(run, "_run", lambda *_, **__: Finished(tmp_path / "one.recording", "failed"))
    monkeypatch.setattr(run, "_draw", lambda *_, **__: None)
    monkeypatch.setattr(run, "_report", gone)
    monkeypatch.setattr(ending, "status", lambda _: 0)
    assert CliRunner().invoke(whydrop, ["run", "tcp_1up", "--to", "127.0.0.1"]).exit_code == 1


def on_a_terminal(*words: str | Path, stdout: int | None = None, **environment: str) -> tuple[int, str]:
    """The output of the program on a terminal, and its status; standard output too where that goes nowhere else."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*WHYDROP, *map(str, words)],
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    shown = b""
    # Reading a terminal without a writer is an error.
    with contextlib.suppress(OSError):
        while more := os.read(ours, 65536):
            shown += more
    process.wait(timeout=HANGS_S)
    os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.slow
def test_a_narrow_terminal_is_left_as_it_was_whatever_the_test_is_called(far: Responder, tmp_path: Path) -> None:
    test = tmp_path / "my{0}[bold]{x}.toml"
    test.write_text(UPLOAD)
    words = ("run", test, "--to", far.place, "--output", tmp_path, "--no-plot")
    status, text = on_a_terminal(*words, stdout=subprocess.DEVNULL, COLUMNS="30")
    assert status == 0, text
    assert "my{0}" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")
    assert "Traceback" not in text


@pytest.mark.slow
def test_on_a_terminal_a_failure_is_said_once(tmp_path: Path) -> None:
    test = tmp_path / "silent.toml"
    test.write_text(SILENT)
    status, text = on_a_terminal("run", test, "--to", "127.0.0.1", "--output", tmp_path, "--no-plot", COLUMNS="120")
    assert status == 1, text
    assert text.count("ended without a measurement") == 1


@pytest.mark.slow
def test_a_dry_run_with_json_prints_json_alone(run: Run) -> None:
    done = run("run", "tcp_1up", "--to", "127.0.0.1:4000", "--dry-run", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["hosts"] == ["127.0.0.1"]


def test_two_ports_of_one_host_are_two_far_ends() -> None:
    found = far_hosts(["192.0.2.1:1", "192.0.2.1:2", "[2001:db8::7]:3", "[2001:db8::7]:3"])
    assert [place.name for place in found] == ["192.0.2.1:1", "192.0.2.1:2", "2001:db8::7", "2001:db8::7"]
    assert [(place.address, place.port) for place in found[:2]] == [("192.0.2.1", 1), ("192.0.2.1", 2)]
    flows = [PlannedFlow(place.name, "tcp", "up", host=place.name) for place in found[:2]]
    engine = Engine(dict(enumerate(flows)), found)
    hosts = json.loads(engine._config())["hosts"]
    assert [(host["name"], host["port"]) for host in hosts] == [("192.0.2.1", 1), ("192.0.2.1", 2)]


@pytest.mark.parametrize("written", ["", "host:", "[::1]4000", "[::1]:", "a:0", "a:" + "9" * 5000, "a:\u0661"])
def test_what_is_no_place_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="expected a host"):
        host_and_port(written)


class LyingTest:
    """A far end that says of itself what only we can know."""

    def far_ends(self) -> list[tuple[Any, ...]]:
        lies = json.dumps({"address": "203.0.113.9", "lost": "no", "without_udp": "yes", "kernel": "6.1"})
        return [("here", "127.0.0.1", lies, None, None), ("here", "::1", None, None, None)]


def engine_of_two_versions() -> Engine:
    flows = {
        number: PlannedFlow(f"IPv{version}", "tcp", "up", host="here", ip_version=version)
        for number, version in ((3, 4), (5, 6))
    }
    engine = Engine(flows, [])
    engine._test = LyingTest()  # type: ignore[assignment]
    return engine


def test_a_far_end_cannot_say_where_it_is() -> None:
    assert engine_of_two_versions().far_ends() == {"here": {"address": "127.0.0.1", "kernel": "6.1"}}


def test_every_flow_has_the_address_of_its_own_version_of_ip() -> None:
    assert engine_of_two_versions().addresses() == {3: "127.0.0.1", 5: "::1"}


@pytest.mark.parametrize("text", ["{", "[]", '"text"'])
def test_metadata_that_are_none_are_noted_and_not_taken(text: str) -> None:
    assert "metadata" in _parsed(text)["not_gathered"]


def test_a_limit_that_is_no_number_does_not_end_a_run() -> None:
    from whydrop.measure.end_limits import EndLimits

    tally = Tally(0, PlannedFlow("one", "tcp"))
    tally.first_ns, tally.last_ns = 0, 10**9
    tally.facts["held_to_bps_by_responder"] = tally.facts["held_back_s_by_responder"] = "much"
    limits = EndLimits({0: tally})
    limits.count(
        {
            "intervals": pl.DataFrame(
                [(0, 0, 10**9, 10**6)], ["flow", "start_ns", "end_ns", "payload_bytes"], orient="row"
            )
        }
    )
    assert limits.warnings() == []


def test_a_flow_that_had_to_be_stopped_behind_its_time_has_failed() -> None:
    for interrupted in (False, True):
        tally = Tally(0, PlannedFlow("one", "tcp"))
        tally.end("stopped", None)
        tally.settle(interrupted=interrupted)
        assert (tally.failure() is None) == interrupted


def test_a_responder_names_the_port_that_is_in_use(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ended(program, "--open", "--listen", "127.0.0.1", "--port", str(port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr


def test_a_responder_takes_only_addresses_to_listen_at(program: Program) -> None:
    done = ended(program, "--open", "--listen", "localhost", "--port", "0")
    assert done.returncode == 2
    assert "'localhost': expected an address" in done.stderr


def test_a_responder_serves_and_stops_also_where_its_output_is_not_read(program: Program) -> None:
    for_reading, for_writing = os.pipe()
    os.close(for_reading)
    port = free_port()
    words = [*program, "--open", "--listen", "127.0.0.1", "--port", str(port)]
    # Unbuffered, Python leaves nothing to be written at the exit.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(words, stdout=for_writing, stderr=subprocess.PIPE, text=True, env=buffered)
    os.close(for_writing)

    def serves() -> bool:
        assert process.poll() is None
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        return False

    wait_until(serves)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    try:
        _, said = process.communicate(timeout=HANGS_S)
    finally:
        process.kill()
    assert (process.returncode, said) == (0, "")
