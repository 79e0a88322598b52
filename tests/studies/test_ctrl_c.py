"""No Ctrl-C is lost, wherever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from studies.test_study_cli import CHOICE, SmallFleet, whydrop
from whydrop.runtime import cancelling
from whydrop.studies.discards import queries


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Finalized:
    """Is interrupted where Python ignores what is raised."""

    def __del__(self) -> None:
        interrupt()
        # The handler runs at the next call of a Python function at the latest.
        interrupt_is_handled()


def interrupt_is_handled() -> None:
    for _ in range(1000):
        pass


@pytest.fixture(autouse=True)
def foreground() -> Iterator[None]:
    """As a shell starts it: in the background of a script Ctrl-C is ignored, and would be here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_python_ignores_is_raised_again(capfd: pytest.CaptureFixture[str]) -> None:
    def finalized() -> None:
        with cancelling.signals_raised():
            Finalized()
            threading.Event().wait(60)

    with pytest.raises(KeyboardInterrupt):
        finalized()
    assert "Exception ignored" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_raised_again_waits_for_the_hook_that_arranges_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread takes longer to start than the signal to come again."""
    start = threading.Thread.start

    def slow(thread: threading.Thread) -> None:
        start(thread)
        time.sleep(20 * cancelling._RAISED_AGAIN_AFTER_S)

    monkeypatch.setattr(threading.Thread, "start", slow)

    def finalized() -> None:
        with cancelling.signals_raised():
            Finalized()
            threading.Event().wait(5)

    with pytest.raises(KeyboardInterrupt):
        finalized()


def test_other_things_that_python_ignores_are_still_shown(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __del__(self) -> None:
            raise OSError("disk on fire")

    # pytest has a hook of its own.
    before, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        with cancelling.signals_raised():
            Broken()
    finally:
        sys.unraisablehook = before
    assert "disk on fire" in capfd.readouterr().err


@pytest.mark.slow
def test_a_library_that_makes_an_error_of_it_is_not_believed(
    small_fleet: SmallFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disguises(*_: object) -> pl.DataFrame:
        try:
            interrupt()
            interrupt_is_handled()
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None
        raise AssertionError("not interrupted")

    asked: list[int] = []
    monkeypatch.setitem(queries.QUERIES, "discard_ratio", disguises)
    monkeypatch.setitem(queries.QUERIES, "retransmission_ratio", lambda *_: asked.append(1))
    notes: list[str] = []

    def status(reason: BaseException) -> int:
        notes.extend(getattr(reason, "__notes__", ()))
        return 130 * isinstance(reason, KeyboardInterrupt)

    monkeypatch.setattr("whydrop.cli.ending.status", status)
    found = whydrop(small_fleet.store, *CHOICE, "--output", tmp_path, "--format", "csv")
    assert found.exit_code == 130
    assert notes == [f"the results so far are in {tmp_path}"]
    assert asked == []


def test_ctrl_c_in_the_midst_of_a_query_is_one_interrupt() -> None:
    """Polars, imported later than the handlers of the command line, raises one of its own before Python's."""
    program = """
import os, signal
from whydrop.runtime import cancelling
with cancelling.signals_raised():
    cancelling.import_polars()
    import polars as pl
    def interrupted(frame):
        os.kill(os.getpid(), signal.SIGINT)
        return frame
    with cancelling.deferred() as signals:
        height = pl.LazyFrame({"a": [1, 2]}).map_batches(interrupted).collect().height
    print(height, signals.received)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2 True\n"
