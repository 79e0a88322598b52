"""Tests of runs in trouble: the far end goes, the folder is removed, the disk is full; the words say what to do."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import whydrop
from patience import wait_until
from web.conftest import Server, client_of, started
from web.test_runs import ended, last_second_of, measured_for, run, state

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A folder on a disk of its own; skips where none can be mounted."""
    folder.mkdir(exist_ok=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_far_end_that_goes_is_named_and_what_was_measured_is_kept(own: Server):
    client = client_of(own)
    with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as far:
        job = run(client, f"127.0.0.1:{far.port}").raise_for_status().json()["id"]
        elapsed_s = measured_for(client, job, 2)["progress"]["elapsed_s"]
    found = ended(client, job)
    assert found["state"] == "failed"
    assert any("TCP upload: the responder ended" in one for one in found["progress"]["failures"])
    assert last_second_of(Path(found["progress"]["recording"])) > elapsed_s - 1


def test_a_folder_that_is_removed_costs_no_measurement(own: Server):
    client = client_of(own)
    with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as far:
        job = run(client, f"127.0.0.1:{far.port}", duration_s=4).raise_for_status().json()["id"]
        measured_for(client, job, 1)
        shutil.rmtree(own.folder / "uploads")
        found = listed_or_not(client, job)
    assert found["state"] == "complete"
    opened = whydrop.open(found["progress"]["folder"])
    assert opened.table("intervals")["start_ns"].min() - opened.metadata["started_ns"] < 1e9
    assert last_second_of(opened.path) > 3


def test_a_full_disk_is_reported_with_what_to_do_and_costs_no_measurement(tmp_path: Path):
    folder = tmp_path / "small"
    with small_disk(folder, "400k"), started(folder) as own:
        client = client_of(own)
        with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as far:
            job = run(client, f"127.0.0.1:{far.port}", duration_s=6).raise_for_status().json()["id"]
            measured_for(client, job, 1)
            with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
                while filler.write(b"x" * 4096):
                    pass
            found = listed_or_not(client, job)
    elsewhere = Path(found["progress"]["folder"])
    try:
        assert any("free some space" in one for one in found["progress"]["warnings"])
        assert f"The recording is in {elsewhere}" in found["problem"]
        assert "move it into one of them" in found["problem"]
        assert last_second_of(elsewhere) > 5
    finally:
        shutil.rmtree(elsewhere)


def listed_or_not(client: httpx.Client, own: str) -> dict[str, Any]:
    """The state of a run at its end, once its recording is listed, or the reason is known why it is not."""

    def is_over() -> bool:
        found = state(client, own)
        over = found["state"] in ("complete", "interrupted", "failed")
        return over and bool(found["problem"] or "entry" in found["progress"])

    wait_until(is_over, "the end of the run")
    return state(client, own)
