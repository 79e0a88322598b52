"""Programs that are missing, die, hang, flood, babble or leave children behind: each becomes an outcome in words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_fixtures import Clock, command, ended, flow, run, started, wait_until

from patience import is_running
from whydrop.measure.plan import Plan
from whydrop.measure.runners.command import CommandRunner
from whydrop.measure.runners.process import Splitter
from whydrop.runtime.masking import masked_command, masked_options


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which processes are ended, so that a program has all the time that it needs to begin."""
    found = Clock()
    monkeypatch.setattr("whydrop.measure.runners.process.time", found)
    return found


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long a program has from the polite signal to its end."""

    def be(patience_s: float) -> None:
        for module in ("process", "program"):
            monkeypatch.setattr(f"whydrop.measure.runners.{module}.PATIENCE_S", patience_s)

    return be


def test_a_program_that_ends_by_itself_is_complete() -> None:
    outcome, found = run(command(["printf", "1\\n2.5\\n"]))
    assert outcome.status == "complete"
    assert found["values"].select("flow", "key", "value").rows() == [(7, "", 1.0), (7, "", 2.5)]
    assert outcome.facts["command"] == ["printf", "1\\n2.5\\n"]
    assert outcome.facts["exit_status"] == 0
    assert outcome.facts["cpu_s"] >= 0


def test_a_program_that_is_missing_is_named_before_and_after_the_start() -> None:
    runner = CommandRunner(command(["no-such-program"]), 7)
    assert "there is no program 'no-such-program'" in (runner.check() or "")
    runner.start(time.monotonic_ns())
    outcome, found = ended(runner)
    assert (outcome.status, found) == ("failed", {})
    assert "no such program" in (outcome.message or "")


def test_a_program_that_cannot_be_executed_fails_in_words(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("neither a script nor a program")
    (tmp_path / "text").chmod(0o755)
    outcome, _ = run(command([str(tmp_path / "text")]))
    assert outcome.status == "failed"
    assert str(tmp_path / "text") in (outcome.message or "")


def test_a_program_that_dies_at_once_is_quoted() -> None:
    outcome, _ = run(command(python("import sys; sys.exit('no such sensor')")))
    assert outcome.status == "failed"
    assert outcome.message == f"{sys.executable} ended with status 1: no such sensor"


def test_a_program_that_is_killed_keeps_what_it_measured() -> None:
    outcome, found = run(command(python("import os; print(5, flush=True); os.kill(os.getpid(), 9)"), duration_s=5.0))
    assert outcome.status == "failed"
    assert "signal 9" in (outcome.message or "")
    assert found["values"]["value"].to_list() == [5.0]


def test_a_program_that_measures_nothing_has_no_data() -> None:
    outcome, found = run(command(["true"]))
    assert (outcome.status, found) == ("no-data", {})
    outcome, _ = run(command(["echo", "no number here"]))
    assert outcome.status == "no-data"
    assert "no number here" in (outcome.message or "")


def test_a_program_that_never_ends_is_ended_when_its_time_is_over(clock: Clock) -> None:
    runner, found = started(command(["sh", "-c", "while :; do echo 1; sleep 0.05; done"], duration_s=1000.0))
    assert found["values"].height >= 1
    assert not runner.done()
    clock.ahead_s = 1000
    assert ended(runner)[0].status == "complete"


def test_a_program_that_ignores_signals_is_killed_with_all_its_children(
    tmp_path: Path, clock: Clock, patience: Callable[[float], None]
) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' INT TERM; sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; echo 3; wait; sleep 1000"
    patience(0.2)
    runner, found = started(command(["sh", "-c", script], duration_s=1000.0))
    clock.ahead_s = 1000
    assert ended(runner)[0].status == "complete"
    assert found["values"].height == 1
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: not is_running(int(pid)))


def test_a_child_that_holds_the_pipe_open_does_not_hold_the_test_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    outcome, _ = run(command(["sh", "-c", f"echo 3; sleep 1000 & echo $! > {pid}"], duration_s=1000.0))
    assert outcome.status == "complete"
    wait_until(lambda: not is_running(int(pid.read_text())))


def test_a_program_that_hangs_beyond_its_time_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommandRunner, "ends_itself", lambda self: True)
    monkeypatch.setattr(CommandRunner, "grace_s", 0.2)
    outcome, _ = run(command(["sleep", "100"], duration_s=0.2))
    assert outcome.status == "failed"
    assert "did not end in time" in (outcome.message or "")


def test_finish_kills_what_takes_too_long() -> None:
    runner, _ = started(command(["sh", "-c", "echo 1; exec sleep 1000"], duration_s=None))
    outcome = runner.finish(0.1)
    assert outcome.status == "failed"
    assert "killed" in (outcome.message or "")
    assert runner.done()


@pytest.mark.slow
def test_a_program_that_may_not_be_killed_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: Callable[[float], None]
) -> None:
    def refused(group: int, number: int) -> None:
        raise PermissionError

    # As what sudo has started.
    monkeypatch.setattr(os, "killpg", refused)
    monkeypatch.setattr("whydrop.measure.runners.process._DEAD_WITHIN_S", 0.1)
    monkeypatch.setattr("whydrop.runtime.process_groups._DEAD_WITHIN_S", 0.1)
    patience(0.1)
    runner, _ = started(command(["sh", "-c", f"echo $$ > {tmp_path}/pid; echo 1; exec sleep 1000"], duration_s=None))
    pid = int((tmp_path / "pid").read_text())
    try:
        runner.stop()
        outcome, _ = ended(runner)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert outcome.status == "failed"
    assert outcome.message is not None
    assert f"process {pid} (sleep 1000) is left running" in outcome.message
    assert f"end it by: kill {pid}" in outcome.message


def test_stop_returns_at_once_and_keeps_what_was_measured(tmp_path: Path, patience: Callable[[float], None]) -> None:
    let_go = tmp_path / "let go"
    script = f"trap 'while [ ! -e \"{let_go}\" ]; do sleep 0.02; done; exit' INT; echo 1; while :; do sleep 0.02; done"
    patience(1000)
    runner, found = started(command(["sh", "-c", script], duration_s=None))
    runner.stop()
    # The program does not end before it may.
    assert not runner.done()
    let_go.touch()
    outcome, _ = ended(runner)
    assert (outcome.status, outcome.message) == ("stopped", None)
    assert found["values"].height == 1


def test_a_program_that_is_stopped_may_still_write_its_result(patience: Callable[[float], None]) -> None:
    script = "trap 'sleep 0.7; echo 42; exit' INT; echo 1; while :; do sleep 0.02; done"
    patience(100)
    runner, _ = started(command(["sh", "-c", script], duration_s=None))
    runner.stop()
    outcome = runner.finish(0.1)
    assert outcome.status == "stopped"
    assert runner.drain()["values"]["value"].to_list() == [42.0]


def test_what_is_stopped_before_its_start_never_starts(tmp_path: Path) -> None:
    runner = CommandRunner(command(["touch", str(tmp_path / "started")], start_s=60.0), 7)
    runner.start(time.monotonic_ns())
    runner.stop()
    outcome, _ = ended(runner)
    assert outcome.status == "stopped"
    assert not (tmp_path / "started").exists()


def test_a_flow_starts_when_its_time_has_come() -> None:
    runner = CommandRunner(command(["date", "+%s.%N"], start_s=0.4, options={"parser": STAMPS}), 7)
    at_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    runner.start(at_ns)
    outcome, found = ended(runner)
    assert found["values"]["time_ns"][0] >= wall_ns + 400_000_000
    assert outcome.facts["started_late_s"] >= 0


STAMPS = {"format": "regex", "pattern": r"(?P<time>(?P<value>\d+)\.\d+)"}


def test_bytes_that_are_no_text_do_no_harm() -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40 + b'\\n42\\n\\xff\\xfe 43\\n')"
    outcome, found = run(command(python(program)))
    assert outcome.status == "complete"
    assert {42.0, 43.0} <= set(found["values"]["value"])


def test_a_line_without_an_end_takes_no_memory() -> None:
    program = "import sys\nfor _ in range(40): sys.stdout.write('x' * 1_000_000)\nprint('\\n7')"
    outcome, found = run(command(python(program), duration_s=1000.0))
    assert found["values"]["value"].to_list() == [7.0]
    assert outcome.facts["lines_cut"] == 1


def test_a_flood_without_a_reader_makes_the_program_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whydrop.measure.runners.process._MOST_ROWS", 1000)
    runner = CommandRunner(command(["yes", "17"], duration_s=None), 7)
    runner.start(time.monotonic_ns())
    wait_until(lambda: len(runner._parser.rows) > 1000)
    # In this time `yes` would print millions. It is more than wanted by what one look at the pipe brings.
    time.sleep(0.5)
    held = len(runner._parser.rows)
    assert held < 100_000
    runner.stop()
    outcome, found = ended(runner)
    assert outcome.status == "stopped"
    assert found["values"].height >= held


@pytest.mark.slow
def test_floods_on_standard_error_do_not_block_the_program() -> None:
    program = "import sys\nfor n in range(200_000): print('noise', n, file=sys.stderr)\nprint(9)\nsys.exit(4)"
    outcome, found = run(command(python(program), duration_s=1000.0))
    assert found["values"]["value"].to_list() == [9.0]
    assert (outcome.message or "").endswith("status 4: noise 199999")


def test_what_breaks_in_a_parser_becomes_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CommandRunner(command(["yes", "1"], duration_s=None), 7)
    monkeypatch.setattr(runner._parser, "line", lambda text, at: 1 / 0)
    runner.start(time.monotonic_ns())
    outcome, _ = ended(runner)
    assert outcome.status == "failed"
    assert "ZeroDivisionError" in (outcome.message or "")


def test_a_program_ends_when_whydrop_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import time\nfrom whydrop.measure.plan import PlannedFlow\n"
        "from whydrop.measure.runners.command import CommandRunner\n"
        f"options = {{'command': ['sh', '-c', 'echo $$ > {pid}; exec sleep 1000']}}\n"
        "CommandRunner(PlannedFlow('a', 'value', options=options), 1).start(time.monotonic_ns())\n"
        "time.sleep(1000)\n"
    )
    whydrop = subprocess.Popen(python(program))
    wait_until(lambda: pid.exists() and bool(pid.read_text().strip()))
    whydrop.send_signal(signal.SIGKILL)
    whydrop.wait()
    wait_until(lambda: not is_running(int(pid.read_text())))


def test_no_descriptor_and_no_thread_is_left_behind() -> None:
    run(command(["true"]))
    before, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(5):
        run(command(["echo", "1"]))
        run(command(["false"]))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    # Of other tests' threads, some may have ended meanwhile.
    assert threading.active_count() <= threads


def test_secrets_are_seen_neither_in_facts_nor_in_messages() -> None:
    outcome, _ = run(
        command(
            ["sh", "-c", "echo cannot log in with $WORD and 1234-5678 >&2; exit 1", "--password", "hunter2"],
            options={"environment": {"WORD": "swordfish"}, "secrets": ["1234-5678"]},
        )
    )
    shown = f"{outcome.message} {outcome.facts}"
    assert not any(secret in shown for secret in ("swordfish", "1234-5678", "hunter2"))
    assert outcome.message is not None
    assert "cannot log in with *** and ***" in outcome.message


def test_options_are_masked_by_their_names() -> None:
    options = {"api_key": "a", "environment": {"MQTT_PASSWORD": "b", "HOME": "/"}, "urls": ["http://u:p@h/"], "mss": 3}
    assert masked_options(options) == {
        "api_key": "***",
        "environment": {"MQTT_PASSWORD": "***", "HOME": "/"},
        "urls": ["http://***@h/"],
        "mss": 3,
    }
    assert masked_command(["x", "--auth=1", "--keyboard=us"]) == ["x", "--auth=***", "--keyboard=us"]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 30))
def test_lines_are_the_same_however_the_bytes_are_cut(pieces: list[bytes], longest: int) -> None:
    splitter = Splitter(longest)
    lines = [line for piece in pieces for line in splitter.feed(piece)] + splitter.rest()
    whole = Splitter(longest)
    assert lines == whole.feed(b"".join(pieces)) + whole.rest()
    assert splitter.cut == whole.cut
    assert all(len(line) <= longest for line in lines)


def test_the_settings_of_a_recording_hold_no_secret() -> None:
    planned = command(
        ["read", "--token=swordfish"], options={"secrets": ["hunter2"], "environment": {"PASSWORD": "x1y2"}}
    )
    plan = Plan("t", "", 1, 0, 1, (), (planned,), parameters={"mqtt_password": "abcd", "n": 1})
    shown = f"{planned.settings()} {plan.as_dict()}"
    assert not any(secret in shown for secret in ("swordfish", "hunter2", "x1y2", "abcd"))


def test_a_flow_that_was_never_started_says_so() -> None:
    assert CommandRunner(flow(options={"command": "true"}, runner="command"), 7).finish(0).status == "failed"
