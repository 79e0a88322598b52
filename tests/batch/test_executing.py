"""Running batches: commands, failures, interruption and resumption, with a stand-in for the tests themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import recordings
import whydrop
from patience import is_running, wait_until
from whydrop.formats.flent.exporting import as_document
from whydrop.measure.batch import commands
from whydrop.measure.batch.batch_file import read
from whydrop.measure.batch.executing import Outcome, Summary, execute
from whydrop.measure.batch.expanding import Run, Wanted, expand_runs
from whydrop.measure.batch.one_run import described
from whydrop.measure.batch.state import Entry, State, StateError
from whydrop.recording import document
from whydrop.recording.recording import Recording
from whydrop.runtime import cancelling, process_groups
from whydrop.text.quantities import duration

Behaviour = Callable[[Run], str]

HANGS_S = 300
"""Longer than anything takes here, on any machine."""


class Fake:
    """Stands in for a test: notes its runs, and behaves as configured."""

    def __init__(self, behave: Behaviour = lambda _: "complete") -> None:
        self.behave = behave
        self.ran: list[str] = []

    def __call__(self, run: Run, output: Path, state: State, tick: Callable[[float, float], None]) -> Outcome:
        self.ran.append(run.key)
        tick(0.5, 1.0)
        status = self.behave(run)
        return Outcome(status, output / f"{run.batch}.recording", "it broke" if status == "failed" else None)


def begin(tmp_path: Path, text: str) -> tuple[list[Run], State]:
    path = tmp_path / "b.toml"
    path.write_text(text)
    runs = expand_runs(read([path]), Wanted())
    wanted = {"batches": [], "overrides": {}, "repetitions": None}
    return runs, State("uuid", "T", None, [run.key for run in runs], wanted)


def go(tmp_path: Path, runs: list[Run], state: State, fake: Fake, **more: bool) -> Summary:
    return execute(
        runs, state, state_path=tmp_path / "b.batch-state.json", output=tmp_path, run_test=fake,
        sleep=lambda _: None, **more,
    )  # fmt: skip


THREE = '[batch.b]\ntest = "ping"\nhosts = "h"\nrepetitions = 3\n'


def test_all_runs_are_run_in_order_and_kept_in_the_state(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, THREE)
    fake = Fake()
    summary = go(tmp_path, runs, state, fake)
    assert fake.ran == ["b//01", "b//02", "b//03"]
    assert summary.count("complete") == 3
    kept = State.read(tmp_path / "b.batch-state.json")
    assert kept == state
    assert kept.unfinished() == []


def test_a_run_that_fails_does_not_keep_the_others_from_running_unless_asked(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, THREE)
    fake = Fake(lambda run: "failed" if run.repetition == 2 else "complete")
    summary = go(tmp_path, runs, state, fake)
    assert (summary.count("complete"), summary.count("failed"), summary.left) == (2, 1, 0)
    runs, state = begin(tmp_path, THREE)
    summary = go(tmp_path, runs, state, Fake(lambda _: "failed"), stop_on_failure=True)
    assert (summary.count("failed"), summary.left) == (1, 2)


def test_a_finished_run_is_never_repeated_and_an_interrupted_one_is(tmp_path: Path) -> None:
    def interrupted(run: Run) -> str:
        if run.repetition == 2:
            raise KeyboardInterrupt
        return "complete"

    runs, state = begin(tmp_path, THREE)
    first = Fake(interrupted)
    summary = go(tmp_path, runs, state, first)
    assert summary.interrupted
    assert summary.left == 1
    kept = State.read(tmp_path / "b.batch-state.json")
    assert [entry.status for entry in kept.runs.values()] == ["complete", "interrupted"]
    second = Fake()
    summary = go(tmp_path, runs, kept, second)
    assert second.ran == ["b//02", "b//03"]
    assert (summary.skipped, summary.count("complete")) == (1, 2)


def test_what_a_crash_left_of_the_state_is_gone_after_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "b.batch-state.json.part").write_text("half")
    runs, state = begin(tmp_path, THREE)
    go(tmp_path, runs, state, Fake())
    assert [path.name for path in tmp_path.glob("*state*")] == ["b.batch-state.json"]


def test_a_run_that_was_killed_with_the_whole_program_is_run_again(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, THREE)
    state.runs["b//01"] = Entry("running", "then")
    fake = Fake()
    go(tmp_path, runs, state, fake)
    assert fake.ran == ["b//01", "b//02", "b//03"]


COMMANDS = """
[batch.b]
test = "ping"
hosts = "h"
output = "out"
commands = ["first", "watch", "last"]
[command.first]
kind = "pre"
run = "echo before; exit ${status}"
essential = "${essential}"
variables = { status = 0, essential = "no" }
[command.watch]
kind = "monitor"
run = "echo watching; exec sleep 1000"
kill = true
[command.last]
kind = "post"
run = ["sh", "-c", "echo after"]
"""


def outputs(tmp_path: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in tmp_path.glob("out/*.commands/*")}


def test_commands_run_before_beside_and_behind_the_test_and_their_output_is_kept(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, COMMANDS)
    seen: list[set[str]] = []

    def look(_: Run) -> str:
        wait_until(lambda: outputs(tmp_path).get("monitor-watch.txt") == "watching\n")
        seen.append(set(outputs(tmp_path)))
        return "complete"

    summary = go(tmp_path, runs, state, Fake(look))
    assert [outcome.status for _, outcome in summary.outcomes] == ["complete"]
    assert seen == [{"pre-first.txt", "monitor-watch.txt"}]
    assert outputs(tmp_path) == {
        "pre-first.txt": "before\n",
        "monitor-watch.txt": "watching\n",
        "post-last.txt": "after\n",
    }


@pytest.mark.parametrize(("essential", "status", "ran"), [("yes", "failed", 0), ("no", "complete", 1)])
def test_only_an_essential_command_that_fails_keeps_the_test_from_running(
    tmp_path: Path, essential: str, status: str, ran: int
) -> None:
    text = COMMANDS.replace("status = 0", "status = 3").replace('essential = "no"', f'essential = "{essential}"')
    runs, state = begin(tmp_path, text)
    fake = Fake()
    summary = go(tmp_path, runs, state, fake)
    [(_, outcome)] = summary.outcomes
    assert (outcome.status, len(fake.ran)) == (status, ran)
    told = outcome.message or " ".join(outcome.warnings)
    assert "command 'first' ended with status 3: before" in told
    assert outputs(tmp_path)["post-last.txt"] == "after\n"


def test_what_commands_print_before_and_after_the_test_is_kept_in_the_recording(tmp_path: Path) -> None:
    text = '[batch.b]\ntest = "ping"\nhosts = "h"\ncommands = ["before", "after", "long"]\n'
    text += '[command.before]\nkind = "pre"\nrun = "echo plain"\nmetadata = "text"\n'
    text += """[command.after]\nkind = "post"\nrun = 'echo "[{\\"drops\\": 3}]"'\nmetadata = "queue"\n"""
    text += '[command.long]\nkind = "post"\nrun = "yes | head -c 1000001"\nmetadata = "long"\n'
    runs, state = begin(tmp_path, text)

    def measure(run: Run) -> str:
        document.write(tmp_path / "b.recording", document.complete({"batch": {"run": run.key}}))
        return "complete"

    (tmp_path / "b.recording").mkdir()
    [(_, outcome)] = go(tmp_path, runs, state, Fake(measure)).outcomes
    kept = document.read(tmp_path / "b.recording")["batch"]
    assert kept == {"run": "b//01", "outputs": {"text": "plain\n", "queue": [{"drops": 3}]}}
    assert outcome.status == "complete"
    assert "more than 1 MB: not kept as metadata 'long'" in outcome.warnings[0]


def test_a_run_that_this_host_cannot_make_is_skipped_with_its_reason_and_tried_again_later(tmp_path: Path) -> None:
    text = '[batch.b]\ntest = "ping"\nhosts = "h"\ncommands = ["first"]\n'
    text += '[command.first]\nkind = "pre"\nessential = true\nrun = "echo no module sch_pie; exit $(cat status)"\n'
    (tmp_path / "status").write_text("77")
    runs, state = begin(tmp_path, text)
    summary = go(tmp_path, runs, state, Fake())
    [(_, outcome)] = summary.outcomes
    assert (outcome.status, summary.count("failed")) == ("skipped", 0)
    assert "no module sch_pie" in str(outcome.message)
    kept = State.read(tmp_path / "b.batch-state.json")
    (tmp_path / "status").write_text("0")
    assert go(tmp_path, runs, kept, Fake()).count("complete") == 1


def test_hosts_that_share_a_batch_run_each_run_once(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(THREE)
    shares = [whydrop.batch_plan(path, share=(number, 2), output=tmp_path / f"{number}") for number in (1, 2)]
    whole = whydrop.batch_plan(path, output=tmp_path)
    assert [[run.key for run in one.runs] for one in shares] == [
        [run.key for run in whole.runs[first::2]] for first in (0, 1)
    ]
    shares[1].state.write(shares[1].path)
    again = whydrop.batch_plan(path, output=tmp_path / "2", resume=True)
    assert [run.key for run in again.runs] == [run.key for run in shares[1].runs]


def test_ctrl_c_ends_monitors_and_runs_post_commands(tmp_path: Path) -> None:
    def interrupt(_: Run) -> str:
        wait_until(lambda: has_text(tmp_path / "pid"))
        raise KeyboardInterrupt

    runs, state = begin(tmp_path, COMMANDS.replace("exec sleep 1000", "echo $$$$ > pid; exec sleep 1000"))
    summary = go(tmp_path, runs, state, Fake(interrupt))
    assert summary.interrupted
    assert outputs(tmp_path)["post-last.txt"] == "after\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def watched(tmp_path: Path) -> str:
    """The commands, with a monitor that writes down its number."""
    return COMMANDS.replace("exec sleep 1000", "echo $$$$ > pid; exec sleep 1000")


def monitor_is_gone(tmp_path: Path) -> bool:
    return not is_running(int((tmp_path / "pid").read_text()))


def test_an_unforeseen_error_ends_monitors_and_runs_post_commands(tmp_path: Path) -> None:
    def breaks(run: Run) -> str:
        if run.repetition == 1:
            wait_until(lambda: has_text(tmp_path / "pid"))
            raise RuntimeError("a table has no columns")
        return "complete"

    runs, state = begin(tmp_path, watched(tmp_path).replace('hosts = "h"', 'hosts = "h"\nrepetitions = 2'))
    summary = go(tmp_path, runs, state, Fake(breaks))
    assert [outcome.status for _, outcome in summary.outcomes] == ["failed", "complete"]
    assert "RuntimeError('a table has no columns')" in (summary.outcomes[0][1].message or "")
    assert outputs(tmp_path)["post-last.txt"] == "after\n"
    assert monitor_is_gone(tmp_path)


def test_what_ends_the_program_ends_monitors_and_runs_post_commands_first(tmp_path: Path) -> None:
    def leave(_: Run) -> str:
        wait_until(lambda: has_text(tmp_path / "pid"))
        raise SystemExit(3)

    runs, state = begin(tmp_path, watched(tmp_path))
    with pytest.raises(SystemExit):
        go(tmp_path, runs, state, Fake(leave))
    assert outputs(tmp_path)["post-last.txt"] == "after\n"
    assert monitor_is_gone(tmp_path)
    assert [one.status for one in State.read(tmp_path / "b.batch-state.json").runs.values()] == ["failed"]


def test_a_post_command_that_breaks_does_not_keep_the_others_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: commands.Started) -> commands.Done:
        raise RuntimeError("no more memory")

    monkeypatch.setattr(commands.Started, "end", breaks)
    runs, state = begin(tmp_path, COMMANDS.replace("exec sleep 1000", "true"))
    [(_, outcome)] = go(tmp_path, runs, state, Fake()).outcomes
    assert outcome.warnings == ["command 'watch': RuntimeError('no more memory')"]
    assert outputs(tmp_path)["post-last.txt"] == "after\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_post_commands_run_lets_them_run_and_begins_no_other_run(
    tmp_path: Path, number: signal.Signals
) -> None:
    ending = COMMANDS.replace('["sh", "-c", "echo after"]', f'"kill -{number} $PPID; sleep 0.05; echo after"')
    runs, state = begin(tmp_path, ending.replace('hosts = "h"', 'hosts = "h"\nrepetitions = 2'))
    with cancelling.signals_raised():
        summary = go(tmp_path, runs, state, Fake())
    assert cancelling.exit_status() == 128 + number
    assert outputs(tmp_path)["post-last.txt"] == "after\n"
    assert ([outcome.status for _, outcome in summary.outcomes], summary.interrupted) == (["complete"], True)


def test_a_second_ctrl_c_gives_up_the_post_commands_and_ends_the_monitors(tmp_path: Path) -> None:
    def interrupt(_: Run) -> str:
        wait_until(lambda: has_text(tmp_path / "pid"))
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not interrupted")

    ending = 'kind = "post"\nrun = "seq 200 | while read n; do kill -INT $PPID; sleep 0.05; done"'
    text = watched(tmp_path).replace('kind = "post"\nrun = ["sh", "-c", "echo after"]', ending)
    runs, state = begin(tmp_path, text)
    with cancelling.signals_raised():
        summary = go(tmp_path, runs, state, Fake(interrupt))
    assert summary.interrupted
    assert monitor_is_gone(tmp_path)


def test_a_command_that_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    waiting = COMMANDS.replace('run = "echo before; exit ${status}"', 'run = "sleep 1000 & echo $! > pid; wait"')
    # As long as a busy machine needs to begin.
    for timeout_s in (0.3, 3, 30):
        essential = f"essential = true\ntimeout_s = {timeout_s}"
        runs, state = begin(tmp_path, waiting.replace('essential = "${essential}"', essential))
        summary = go(tmp_path, runs, state, Fake())
        if has_text(tmp_path / "pid"):
            break
    [(_, outcome)] = summary.outcomes
    assert outcome.message is not None
    assert f"took longer than its timeout_s of {duration(timeout_s)}" in outcome.message
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


def has_text(path: Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


def test_what_a_monitor_started_may_write_down_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_MERCY_S", 300.0)
    # Like `cd captures && tcpdump ...`: the shell dies of the signal at once, its child needs a moment.
    child = "trap 'echo all > kept; exit' TERM; echo > ready; while :; do sleep 0.01; done"
    text = COMMANDS.replace('run = "echo watching; exec sleep 1000"', f'run = """sh -c "{child}" & wait"""')

    def when_ready(_: Run) -> str:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        return "complete"

    runs, state = begin(tmp_path, text)
    go(tmp_path, runs, state, Fake(when_ready))
    assert (tmp_path / "kept").read_text() == "all\n"


def test_post_commands_put_things_back_also_where_the_folder_of_results_is_gone(tmp_path: Path) -> None:
    def swallow(_: Run) -> str:
        shutil.rmtree(tmp_path / "out")
        # A file in its place: nothing can be written there any more.
        (tmp_path / "out").write_text("")
        return "complete"

    runs, state = begin(tmp_path, COMMANDS.replace('["sh", "-c", "echo after"]', '"echo after > put-back"'))
    [(_, outcome)] = go(tmp_path, runs, state, Fake(swallow)).outcomes
    assert outcome.status == "complete"
    assert (tmp_path / "put-back").read_text() == "after\n"


@pytest.fixture
def killed_too_late(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups that were signalled after their leaders had been reaped: their numbers may be others' by then."""
    found: list[int] = []
    kill = os.killpg

    def watched(group: int, number: int) -> None:
        try:
            os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            found.append(group)
        kill(group, number)

    monkeypatch.setattr(os, "killpg", watched)
    return found


@pytest.mark.parametrize("watch", ["exit 0", "sleep 1000 & exit 0", "exec sleep 1000"])
def test_a_group_is_killed_only_while_its_number_is_its_own(
    tmp_path: Path, killed_too_late: list[int], watch: str
) -> None:
    waiting = COMMANDS.replace('run = "echo watching; exec sleep 1000"', f'run = "echo watching; {watch}"')
    runs, state = begin(tmp_path, waiting)

    def when_watched(_: Run) -> str:
        wait_until(lambda: outputs(tmp_path).get("monitor-watch.txt") == "watching\n")
        return "complete"

    assert go(tmp_path, runs, state, Fake(when_watched)).count("complete") == 1
    assert killed_too_late == []


def test_a_command_that_may_not_be_killed_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(group: int, number: int) -> None:
        raise PermissionError

    # As what sudo has started.
    monkeypatch.setattr(os, "killpg", refused)
    monkeypatch.setattr(commands, "_MERCY_S", 0.1)
    monkeypatch.setattr(process_groups, "_DEAD_WITHIN_S", 0.1)
    runs, state = begin(tmp_path, COMMANDS.replace("exec sleep 1000", "echo $$$$ > pid; exec sleep 1000"))

    def when_watched(_: Run) -> str:
        wait_until(lambda: has_text(tmp_path / "pid"))
        return "complete"

    [(_, outcome)] = go(tmp_path, runs, state, Fake(when_watched)).outcomes
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    [warning] = outcome.warnings
    assert "command 'watch' could not be ended: watching" in warning
    assert f"process {pid} (sleep 1000) is left running" in warning
    assert f"end it by: kill {pid}" in warning
    assert outputs(tmp_path)["post-last.txt"] == "after\n"


def test_a_command_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, COMMANDS.replace('["sh", "-c", "echo after"]', '["no-such-program"]'))
    [(_, outcome)] = go(tmp_path, runs, state, Fake()).outcomes
    assert "could not be started" in " ".join(outcome.warnings)


def test_any_command_can_stand_in_a_tests_place(tmp_path: Path) -> None:
    runs, state = begin(
        tmp_path, '[batch.b]\nrun = "echo ${n}; exit ${n}"\nmatrix.n = [0, 1]\noutput = "out"\nrun_length_s = 2\n'
    )
    summary = go(tmp_path, runs, state, Fake())
    assert [outcome.status for _, outcome in summary.outcomes] == ["complete", "failed"]
    assert {text for name, text in outputs(tmp_path).items() if name == "run-run.txt"} <= {"0\n", "1\n"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"whydrop_batch": 1}', '{"whydrop_batch": 1, "runs": {"a": {}}}'])
def test_a_damaged_state_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.batch-state.json"
    path.write_text(text)
    with pytest.raises(StateError) as refused:
        State.read(path)
    assert str(path) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


# --- the program ---

PROGRAM = """
[batch.b]
run = "echo ${n}; sleep ${s}"
matrix.n = [1, 2, 3]
variables.s = 0
commands = "tidy"
[command.tidy]
kind = "post"
run = "echo tidied ${n} >> tidied"
"""


@pytest.mark.slow
def test_the_program_runs_plans_and_resumes(tmp_path: Path, run) -> None:
    (tmp_path / "b.toml").write_text(PROGRAM)
    done = run("batch", "plan", tmp_path / "b.toml", "--no-shuffle")
    assert done.returncode == 0, done.stderr
    assert "3 runs, 0 s in all." in done.stdout
    assert not (tmp_path / "tidied").exists()
    done = run("batch", "run", tmp_path / "b.toml", "--output", tmp_path, "--seed", 1)
    assert done.returncode == 0, done.stderr
    assert "Runs: 3 complete" in done.stdout
    assert "seed 1" in done.stdout
    again = run("batch", "run", tmp_path / "b.toml", "--output", tmp_path, "--resume")
    assert again.returncode == 0
    assert "3 complete before" in again.stdout
    state = json.loads((tmp_path / "b.batch-state.json").read_text())
    assert state["seed"] == 1
    assert {entry["status"] for entry in state["runs"].values()} == {"complete"}


def test_the_plan_shows_the_order_of_the_run(tmp_path: Path, run_here) -> None:
    (tmp_path / "b.toml").write_text(PROGRAM)
    plan = json.loads(run_here("batch", "plan", tmp_path / "b.toml", "--json").stdout)
    run_here("batch", "run", tmp_path / "b.toml", "--output", tmp_path)
    state = json.loads((tmp_path / "b.batch-state.json").read_text())
    assert [one["key"] for one in plan["runs"]] == state["order"]
    assert plan["seed"] == state["seed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_batch_that_is_terminated_puts_things_back_and_ends_with_the_status_of_the_signal(
    tmp_path: Path, number: signal.Signals, run_here
) -> None:
    # A shell or a service manager repeats itself.
    ends = f"kill -{number} $PPID; kill -{number} $PPID; exec sleep 1000"
    watch = '\n[command.watch]\nkind = "monitor"\nrun = "echo $$$$ > pid; exec sleep 1000"\n'
    text = PROGRAM.replace("echo ${n}; sleep ${s}", ends).replace('commands = "tidy"', 'commands = ["tidy", "watch"]')
    (tmp_path / "b.toml").write_text(
        text.replace('run = "echo tidied', f'run = "kill -{number} $PPID; echo tidied') + watch
    )
    done = run_here("batch", "run", tmp_path / "b.toml", "--output", tmp_path)
    assert done.returncode == 128 + number
    assert "1 interrupted, 2 not begun" in done.stdout
    assert (tmp_path / "tidied").read_text().count("tidied") == 1
    assert not has_text(tmp_path / "pid") or monitor_is_gone(tmp_path)


@pytest.mark.slow
def test_ctrl_c_stops_the_program_cleanly_and_resume_goes_on(tmp_path: Path, run) -> None:
    (tmp_path / "b.toml").write_text(PROGRAM.replace("sleep ${s}", "echo $$$$ > begun; exec sleep 1000"))
    command = [sys.executable, "-m", "whydrop", "batch", "run", tmp_path / "b.toml", "--output", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_text(tmp_path / "begun"))
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130
    wait_until(lambda: not is_running(int((tmp_path / "begun").read_text())))
    assert "1 interrupted, 2 not begun" in output
    assert "--resume continues" in errors
    assert (tmp_path / "tidied").read_text().count("tidied") == 1
    refused = run("batch", "run", tmp_path / "b.toml", "--output", tmp_path)
    assert refused.returncode == 1
    assert "continue with --resume, or start again with --restart" in refused.stderr
    (tmp_path / "b.toml").write_text(PROGRAM)
    resumed = run("batch", "run", tmp_path / "b.toml", "--output", tmp_path, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "has changed since the batch began" in resumed.stderr
    assert "Runs: 3 complete" in resumed.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ('[batch.b]\ntest = "rrrul"\nhosts = "h"\n', [], "did you mean rrul"),
        ('[batch.b]\ntest = "rrul"\n', [], "needs 1 host, but none is given"),
        ('[batch.b]\ntest = "nup"\nhosts = "h"\nset.flows = "x"\n', [], "expected a whole number"),
        ('[batch.b]\ntest = "nup"\nhosts = "h:port"\n', [], "expected a host, or HOST:PORT"),
        ('[batch.b]\nabstract = true\ntest = "nup"\n', [], "the file has none, or all are abstract or disabled"),
        (PROGRAM, ["--resume", "--restart"], "not both"),
        (PROGRAM, ["--resume", "--seed", "3"], "leave out the other options"),
        (PROGRAM, ["--set", "x"], "expected KEY=VALUE"),
        (PROGRAM, ["--batch", "c"], "no batch is called 'c'"),
    ],
)
def test_what_cannot_be_run_is_refused_with_2_before_anything_runs(
    tmp_path: Path, text, arguments, words, run_here
) -> None:
    (tmp_path / "b.toml").write_text(text)
    done = run_here("batch", "run", tmp_path / "b.toml", "--output", tmp_path, *arguments)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.toml"]


def test_the_plan_is_data_on_request_and_holds_the_whole_time(tmp_path: Path, run_here) -> None:
    (tmp_path / "b.toml").write_text(
        '[batch.b]\ntest = "tcp_2up"\nhosts = "h"\nlength_s = 10\npause_s = 7\nrepetitions = 2\n'
    )
    done = run_here("batch", "plan", tmp_path / "b.toml", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["total_s"] == 2 * (20 + 3) + 7
    assert [one["test"] for one in plan["runs"]] == ["tcp_2up", "tcp_2up"]


def test_conversion_writes_the_file_and_its_notes(tmp_path: Path, run_here) -> None:
    old = Path(__file__).parent / "flent" / "loops.batch"
    done = run_here("batch", "convert", old, "--output", tmp_path / "new.toml")
    assert done.returncode == 0, done.stderr
    assert "whydrop: note: " in done.stderr
    planned = run_here("batch", "plan", tmp_path / "new.toml", "--batch", "enabled_again")
    assert planned.returncode == 0, planned.stderr
    assert "2 runs" in planned.stdout
    missing = run_here("batch", "convert", tmp_path / "gone.batch")
    assert missing.returncode == 1
    assert len(missing.stderr.splitlines()) == 1


def test_a_recording_of_a_batch_names_its_batch_to_flent(tmp_path: Path) -> None:
    runs, state = begin(tmp_path, THREE + 'variables.batch_title = "queues"\n')
    state.time = "2026-11-22T120000"
    recordings.rrul(tmp_path / "a.recording", batch=described(runs[0], state))
    told = as_document(Recording.open(tmp_path / "a.recording"))["metadata"]
    assert (told["BATCH_NAME"], told["BATCH_TITLE"], told["BATCH_UUID"]) == ("b", "queues", "uuid")
    began = datetime.fromisoformat(told["BATCH_TIME"]).astimezone()
    assert began.strftime("%Y-%m-%dT%H%M%S") == state.time
