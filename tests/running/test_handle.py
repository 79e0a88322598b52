"""Runs as handles: several at once, stopped from other threads, in any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import whydrop
from running.responders import HANGS_S, Responder, free_port, responder, wait_until
from whydrop.measure.engine import EngineError
from whydrop.measure.handle import Run
from whydrop.runtime.cancelling import CancelledError


@pytest.fixture(scope="module")
def far() -> Iterator[Responder]:
    with responder() as found:
        yield found


def started(far: Responder, output: Path, test: str = "tcp_download", length_s: float = 2) -> Run:
    return whydrop.start(test, to=far.place, duration_s=length_s, parameters={"delay_s": 0}, output=output)


@pytest.mark.slow
def test_of_two_runs_in_one_process_one_is_stopped_from_another_thread_and_both_recordings_are_whole(
    far: Responder, tmp_path: Path
) -> None:
    stopped, whole = started(far, tmp_path / "a", length_s=HANGS_S), started(far, tmp_path / "b", "tcp_upload")
    wait_until(lambda: any((tmp_path / "a").glob("*.recording/journal/intervals*")))
    thread = threading.Thread(target=stopped.stop)
    thread.start()
    thread.join()
    found = stopped.recording(), whole.recording()
    assert [one.status for one in found] == ["interrupted", "complete"]
    for one in found:
        assert one.table("intervals").height > 0
        assert not (one.path / "journal").exists()
        assert one.notes == [] or one.status == "interrupted"


@pytest.mark.slow
def test_a_run_reports_its_events_and_its_rows_are_those_of_the_recording(far: Responder, tmp_path: Path) -> None:
    run = started(far, tmp_path)
    events = list(run.events())
    states = list(dict.fromkeys(event.state for event in events))
    assert states == ["connecting", "describing this host", "measuring", "finishing", "ended"]
    rows = sum(event.rows["intervals"].height for event in events if "intervals" in event.rows)
    assert 0 < rows <= run.recording().table("intervals").height
    assert list(run.events()) == []
    assert repr(run) == "<whydrop.Run tcp_download: complete>"


@pytest.mark.slow
def test_a_run_that_cannot_begin_says_so_to_whoever_waits(tmp_path: Path) -> None:
    run = whydrop.start("tcp_download", to=f"127.0.0.1:{free_port()}", duration_s=1, output=tmp_path)
    with pytest.raises(EngineError, match=r"127\.0\.0\.1"):
        run.wait()
    assert [event.state for event in run.events()][-1] == "ended"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_that_is_stopped_before_it_measures_leaves_nothing(far: Responder, tmp_path: Path) -> None:
    run = started(far, tmp_path)
    run.stop()
    with pytest.raises(CancelledError, match="before anything was measured"):
        run.wait()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_waiting_may_end_before_the_run(far: Responder, tmp_path: Path) -> None:
    run = started(far, tmp_path, length_s=HANGS_S)
    with pytest.raises(TimeoutError, match="still running"):
        run.wait(0.01)
    run.stop()
    wait_until(lambda: not run.running)


def test_a_test_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="rrul"):
        whydrop.start("rrull", to="192.0.2.1")
