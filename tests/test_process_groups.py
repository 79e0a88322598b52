"""Groups of processes: signalled while their numbers are their own, and processes that may not be ended are named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patience import is_running, wait_until
from whydrop.runtime import process_groups


def started(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_who_has_ended_and_was_not_waited_for_has_a_group_without_anybody_alive() -> None:
    process = started("true")
    assert process_groups.wait_for_end(process.pid)
    assert process_groups.has_ended(process.pid)
    assert process_groups.living(process.pid) == []
    assert process.wait() == 0


def test_a_group_whose_leader_was_reaped_is_not_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: signalled.append(group))
    # The number stays in use: by a child that lives on.
    process = started("sh", "-c", "sleep 1000 & echo $!")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process_groups.wait_for_end(process.pid)
    assert process_groups.living(process.pid) == [child]
    process.wait()
    try:
        assert process_groups.living(process.pid) == []
        assert process_groups.kill(process.pid) == process_groups.end(process.pid, 1000) == []
    finally:
        os.kill(child, signal.SIGKILL)
    assert signalled == []


def test_it_is_waited_for_no_longer_than_asked() -> None:
    process = started("sleep", "1000")
    assert not process_groups.wait_for_end(process.pid, 0.0)
    assert process_groups.end(process.pid, 1000) == []
    assert process.wait() == -signal.SIGTERM


def test_a_signal_that_another_thread_gets_ends_the_wait() -> None:
    class ToldError(Exception):
        pass

    def tell(*_: object) -> None:
        raise ToldError

    def signal_itself() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    process = started("sleep", "1000")
    before = signal.signal(signal.SIGUSR1, tell)
    others = [threading.Timer(0.1, signal_itself), threading.Timer(30, process.kill)]
    for other in others:
        other.start()
    try:
        with pytest.raises(ToldError):
            process_groups.wait_for_end(process.pid)
    finally:
        signal.signal(signal.SIGUSR1, before)
        others[1].cancel()
        process.kill()
        process.wait()


def test_what_is_left_of_a_group_is_shown_with_its_user_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    process = started("sh", "-c", "read x", "--password=swordfish")
    # Popen returns as soon as the program is to be another, which is a moment before its words are.
    wait_until(lambda: b"swordfish" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    monkeypatch.setattr(process_groups, "_DEAD_WITHIN_S", 0.0)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    name = process_groups._name(os.getuid())
    [left] = process_groups.kill(process.pid)
    process.kill()
    process.wait()
    assert str(left) == (
        f"process {process.pid} (sh -c read x --password=***) is left running: it belongs to {name}, "
        f"and whydrop may not end it; end it by: sudo kill {process.pid}"
    )


def test_a_user_without_a_name_has_a_number() -> None:
    assert process_groups._name(3_999_999_999) == "user 3999999999"


_STARTS_AND_WAITS = """
import subprocess, sys, time
from whydrop.runtime import guarding
for script in sys.argv[1:]:
    process = guarding.start(["sh", "-c", script], stdout=subprocess.PIPE)
    print(process.stdout.readline().decode().strip(), flush=True)
    if script.endswith("exit"):
        process.wait()
        guarding.forget(process.pid)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_programs_end_with_who_started_them_however_it_dies_and_what_was_forgotten_runs_on(number: int) -> None:
    scripts = [
        "sleep 1000 & echo $!; wait",  # a child of what was started
        "trap '' TERM; echo $$; while true; do sleep 1; done",  # ends when it is killed, not when it is asked to
        "sleep 1000 >/dev/null & echo $!; exit",
    ]
    process = subprocess.Popen([sys.executable, "-c", _STARTS_AND_WAITS, *scripts], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child, stubborn, forgotten = (int(process.stdout.readline()) for _ in scripts)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.wait()
    try:
        wait_until(lambda: not is_running(child) and not is_running(stubborn), "the end of what was started")
        assert is_running(forgotten)
    finally:
        os.kill(forgotten, signal.SIGKILL)
