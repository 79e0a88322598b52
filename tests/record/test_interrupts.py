"""Ctrl-C and SIGTERM that come while something is being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from whydrop.record import interrupts


@pytest.fixture(autouse=True)
def _terminable() -> Iterator[None]:
    """SIGTERM raises what tests can catch; both are handled in the end as before."""

    def end(*_: object) -> None:
        raise SystemExit("terminated")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def put_off(*happens: Callable[[], object]) -> None:
    """Let something happen while signals are put off."""
    with interrupts.put_off():
        for one in happens:
            one()


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def fail() -> None:
    raise OSError("no space")


@pytest.mark.parametrize(("number", "effect"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_has_its_effect_when_all_is_written(number: signal.Signals, effect: type[BaseException]) -> None:
    written: list[str] = []
    with pytest.raises(effect):
        put_off(lambda: signal.raise_signal(number), lambda: written.append("all"))
    assert written == ["all"]


def test_a_second_signal_interrupts_what_is_being_written() -> None:
    written: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        put_off(interrupt, lambda: signal.raise_signal(signal.SIGTERM), lambda: written.append("all"))
    assert written == []


def test_a_failure_is_told_rather_than_the_signal_that_came_before_it() -> None:
    with pytest.raises(OSError, match="no space"):
        put_off(interrupt, fail)


def test_signals_are_handled_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts.put_off():
        assert signal.getsignal(signal.SIGINT) != before[0]
    interrupts.heard_once()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.put_off():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_other_threads_write_as_ever() -> None:
    done = []

    def write() -> None:
        with interrupts.put_off():
            interrupts.heard_once()
            done.append(True)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert done == [True]


def test_ctrl_c_in_the_midst_of_a_query_is_one_interrupt() -> None:
    """Polars would raise one of its own before Python's."""
    import polars as pl

    interrupts.heard_once()
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(True))

    def interrupted(frame: pl.DataFrame) -> pl.DataFrame:
        interrupt()
        return frame

    interrupts.heard_once()
    assert pl.LazyFrame({"a": [1, 2]}).map_batches(interrupted).collect().height == 2
    assert seen == [True]
