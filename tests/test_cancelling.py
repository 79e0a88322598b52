"""Ctrl-C, SIGTERM and SIGHUP: raised as one exception, deferred where work must not be torn, each with its status."""

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
from whydrop.runtime import cancelling
from whydrop.runtime.cancelling import ENDING, deferred

OTHERS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _as_a_shell_starts_it() -> Iterator[None]:
    """No signal is ignored, as SIGINT is in the background of a script and SIGHUP under nohup."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in ENDING]


@pytest.mark.parametrize("number", ENDING)
def test_each_signal_raises_what_ctrl_c_raises_and_has_an_exit_status_of_its_own(number: signal.Signals) -> None:
    before = handlers()
    with pytest.raises(KeyboardInterrupt) as raised, cancelling.signals_raised():
        signal.raise_signal(number)
    assert cancelling.exit_status() == 128 + number
    assert getattr(raised.value, "status", 130) == 128 + number
    with pytest.raises(KeyboardInterrupt):
        cancelling.raise_if_received()
    assert handlers() == before


def test_without_a_signal_none_is_raised() -> None:
    with cancelling.signals_raised():
        cancelling.raise_if_received()


@pytest.mark.parametrize("number", OTHERS)
def test_a_signal_that_is_ignored_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with cancelling.signals_raised(), deferred() as signals, signals.allowed():
        signal.raise_signal(number)
        cancelling.raise_if_received()
    assert not signals.received


def test_ctrl_c_ends_a_program_that_a_script_started_in_the_background() -> None:
    """Shells make such programs ignore SIGINT; scripts end them by `kill -INT` all the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt), cancelling.signals_raised():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_block_that_a_signal_ends_is_left_and_the_work_goes_on_behind_it() -> None:
    with cancelling.signals_raised(), deferred() as signals:
        with signals.ending_block(), signals.allowed():
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("it was not raised")
        assert signals.received
    assert cancelling.exit_status() == 128 + signal.SIGTERM


def test_a_note_says_what_is_kept() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, cancelling.signals_raised(), cancelling.noted("the rows so far"):
        signal.raise_signal(signal.SIGINT)
    assert raised.value.__notes__ == ["the rows so far"]


@pytest.mark.parametrize("number", OTHERS)
def test_what_python_ignores_is_raised_again_with_the_same_signal(number: signal.Signals) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def finalized() -> None:
        with cancelling.signals_raised():
            Finalized()
            threading.Event().wait(60)

    with pytest.raises(cancelling.Terminated) as raised:
        finalized()
    assert raised.value.status == 128 + number


@pytest.mark.parametrize("number", ENDING)
def test_a_deferred_signal_is_noted_and_not_raised(number: signal.Signals) -> None:
    done: list[str] = []
    with cancelling.signals_raised():
        with deferred() as signals:
            signal.raise_signal(number)
            done.append("all")
        assert signals.received
    assert done == ["all"]
    assert cancelling.exit_status() == 128 + number


@pytest.mark.parametrize("number", ENDING)
def test_a_deferred_signal_is_raised_where_it_is_allowed_even_if_received_before(
    number: signal.Signals,
) -> None:
    with cancelling.signals_raised(), deferred() as signals:
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt) as raised, signals.allowed():
            pytest.fail("it was not raised")
    assert getattr(raised.value, "status", 130) == cancelling.exit_status() == 128 + number


@pytest.mark.parametrize("number", OTHERS)
def test_a_service_manager_that_repeats_a_signal_does_not_interrupt_the_clean_up(number: signal.Signals) -> None:
    done: list[str] = []
    with cancelling.signals_raised(), deferred() as signals:
        with contextlib.suppress(KeyboardInterrupt), signals.allowed():
            signal.raise_signal(number)
        for again in OTHERS:
            signal.raise_signal(again)
        done.append("cleaned up")
    assert done == ["cleaned up"]


@pytest.mark.parametrize("first", ENDING)
def test_a_second_ctrl_c_is_raised_where_repeated_signals_are_allowed(first: signal.Signals) -> None:
    done: list[str] = []
    with cancelling.signals_raised(), deferred() as outer, outer.allowed(), deferred() as signals:
        with signals.allowed(repeated=True):
            signal.raise_signal(first)
            done.append("begun")
        signal.raise_signal(signal.SIGINT)
        done.append("in hand")
        with pytest.raises(KeyboardInterrupt), signals.allowed(repeated=True):
            signal.raise_signal(signal.SIGINT)
    assert outer.received
    assert done == ["begun", "in hand"]


def test_without_the_command_line_no_handlers_are_changed() -> None:
    def leave(*_: object) -> None:
        raise SystemExit(3)

    signal.signal(signal.SIGTERM, leave)
    before = handlers()
    with deferred() as signals:
        assert handlers() == before
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
    assert not signals.received
    with pytest.raises(KeyboardInterrupt), deferred():
        signal.raise_signal(signal.SIGINT)
    assert handlers() == before


def test_other_threads_receive_and_change_nothing() -> None:
    def work() -> None:
        with cancelling.signals_raised(), deferred() as signals, signals.allowed():
            found.append((signals.received, handlers()))

    found: list[tuple[bool, list[object]]] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, handlers())]


HANGS_UP = """
import fcntl, os, signal, sys, termios
from whydrop.cli import ending
from whydrop.runtime import cancelling
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
try:
    with cancelling.signals_raised():
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
    wait_until(lambda: handles_hang_up(process.pid), "the program to handle signals")
    os.close(ours)
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    os.close(kept)
    os.close(never)


def handles_hang_up(pid: int) -> bool:
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) & 1 << (signal.SIGHUP - 1))
