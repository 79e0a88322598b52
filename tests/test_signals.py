"""Ctrl-C, SIGTERM and SIGHUP: received as one, held where something is in hand, and told by the exit status."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from patience import wait_until
from whydrop.cli import terminating
from whydrop.runtime.signals import ENDING, held

OTHERS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _as_a_shell_starts_it() -> Iterator[None]:
    """Nothing is ignored, as it would be in the background of a script or under nohup."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in ENDING]


@pytest.mark.parametrize("number", ENDING)
def test_each_signal_is_heard_as_ctrl_c_and_has_an_exit_status_of_its_own(number: signal.Signals) -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt) as raised, terminating.as_ctrl_c() as received:
        signal.raise_signal(number)
    assert received.status == 128 + number
    assert getattr(raised.value, "status", 130) == 128 + number
    with pytest.raises(KeyboardInterrupt):
        received.raise_if_received()
    assert handlers() == before


def test_nothing_is_heard_where_nothing_came() -> None:
    with terminating.as_ctrl_c() as received:
        received.raise_if_received()
    assert received.number is None


@pytest.mark.parametrize("number", OTHERS)
def test_a_signal_that_is_ignored_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with terminating.as_ctrl_c() as received, held() as signals, signals.let_in():
        signal.raise_signal(number)
    assert (received.number, signals.came) == (None, False)


@pytest.mark.parametrize("number", OTHERS)
def test_what_python_ignores_is_raised_again_with_the_same_signal(number: signal.Signals) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def finalized() -> None:
        with terminating.as_ctrl_c():
            Finalized()
            threading.Event().wait(60)

    with pytest.raises(terminating.Terminated) as raised:
        finalized()
    assert raised.value.number == number


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_is_held_is_noted_and_not_raised(number: signal.Signals) -> None:
    done: list[str] = []
    with terminating.as_ctrl_c() as received:
        with held() as signals:
            signal.raise_signal(number)
            done.append("all")
        assert signals.came
    assert done == ["all"]
    assert received.status == 128 + number


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_raised_where_it_is_let_in_also_when_it_came_before(number: signal.Signals) -> None:
    with terminating.as_ctrl_c() as received, held() as signals:
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt) as raised, signals.let_in():
            pytest.fail("it was not raised")
    assert getattr(raised.value, "status", 130) == received.status == 128 + number


@pytest.mark.parametrize("number", OTHERS)
def test_a_service_manager_that_repeats_itself_does_not_interrupt_what_is_put_back(number: signal.Signals) -> None:
    done: list[str] = []
    with terminating.as_ctrl_c(), held() as signals:
        with contextlib.suppress(KeyboardInterrupt), signals.let_in():
            signal.raise_signal(number)
        for again in OTHERS:
            signal.raise_signal(again)
        done.append("put back")
    assert done == ["put back"]


@pytest.mark.parametrize("first", ENDING)
def test_a_person_who_presses_ctrl_c_again_is_obeyed_where_that_is_let_in(first: signal.Signals) -> None:
    done: list[str] = []
    with terminating.as_ctrl_c(), held() as outer, outer.let_in(), held() as signals:
        with signals.let_in(again=True):
            signal.raise_signal(first)
            done.append("begun")
        signal.raise_signal(signal.SIGINT)
        done.append("in hand")
        with pytest.raises(KeyboardInterrupt), signals.let_in(again=True):
            signal.raise_signal(signal.SIGINT)
    assert outer.came
    assert done == ["begun", "in hand"]


def test_without_the_command_line_nobodys_handlers_are_changed() -> None:
    def leave(*_: object) -> None:
        raise SystemExit(3)

    signal.signal(signal.SIGTERM, leave)
    before = handlers()
    with held() as signals:
        assert handlers() == before
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
    assert not signals.came
    with pytest.raises(KeyboardInterrupt), held():
        signal.raise_signal(signal.SIGINT)
    assert handlers() == before


def test_other_threads_hear_nothing_and_change_nothing() -> None:
    def work() -> None:
        with terminating.as_ctrl_c() as received, held() as signals, signals.let_in():
            found.append((received.number, signals.came, handlers()))

    found: list[tuple[object, bool, list[object]]] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(None, False, handlers())]


HANGS_UP = """
import fcntl, os, signal, sys, termios
from whydrop.cli import ending, terminating
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
try:
    with terminating.as_ctrl_c():
        os.read(int(sys.argv[1]), 1)
except KeyboardInterrupt as reason:
    print("the last words", flush=True)
    ending.status(reason)
"""


def test_a_terminal_that_goes_away_ends_the_program_with_the_status_of_its_signal() -> None:
    ours, theirs = pty.openpty()
    never, kept = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS_UP, str(never)],
        stdin=theirs, stdout=theirs, stderr=theirs, pass_fds=[never], start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    wait_until(lambda: hears_the_terminal(process.pid), "the program to hear signals")
    os.close(ours)
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    os.close(kept)
    os.close(never)


def hears_the_terminal(pid: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) & 1 << (signal.SIGHUP - 1))
