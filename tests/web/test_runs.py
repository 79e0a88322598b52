"""Tests of runs: what they say when they cannot start, are killed, or lose their server, and that nothing is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import whydrop
from patience import is_running, wait_until
from web.conftest import Server, client_of

pytestmark = pytest.mark.slow


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    one = client_of(server)
    yield one
    for job in one.get("/api/runs").json()["jobs"]:
        one.post(f"/api/runs/{job['id']}/stop")
        ended(one, job["id"])


def run(client: httpx.Client, far: str, duration_s: float = 60, **more: Any) -> httpx.Response:
    asked = {
        "test": "tcp_1up", "to": [far], "duration_s": duration_s,
        "parameters": {"delay_s": 0, "pacing_rate_bps": 5e6}, **more,
    }  # fmt: skip
    return client.post("/api/runs", json=asked)


def state(client: httpx.Client, own: str) -> dict[str, Any]:
    return dict(client.get(f"/api/runs/{own}").raise_for_status().json())


def ended(client: httpx.Client, own: str) -> dict[str, Any]:
    """The state of a run once it has ended, and its recording is listed."""

    def is_over(job: dict[str, Any]) -> bool:
        over = job["state"] in ("complete", "interrupted", "failed")
        return over and ("entry" in job["progress"] or "recording" not in job["progress"])

    wait_until(lambda: is_over(state(client, own)), "the end of the run")
    return state(client, own)


def measured_for(client: httpx.Client, own: str, seconds: float) -> dict[str, Any]:
    """The state of a run that has measured for so long."""

    def has_measured() -> bool:
        found = state(client, own)
        assert not found["problem"], found
        return (found["progress"].get("elapsed_s") or 0) > seconds

    wait_until(has_measured, "the measurement")
    return state(client, own)


def last_second_of(recording: Path) -> float:
    """How long the rows of a recording go on, by its own clock."""
    opened = whydrop.open(str(recording))
    ends = opened.table("intervals")["end_ns"]
    return float((ends.max() - opened.metadata["started_ns"]) / 1e9)


def processes_of(server: Server) -> list[int]:
    """The processes that the server has started."""
    tasks = Path(f"/proc/{server.process.pid}/task")
    return [int(one) for task in tasks.iterdir() for one in (task / "children").read_text().split()]


def writes(pid: int, recording: Path) -> bool:
    """True if a process has a file of a recording open."""
    return any(one.readlink().is_relative_to(recording) for one in Path(f"/proc/{pid}/fd").iterdir())


def test_a_run_that_stops_early_keeps_what_it_measured(client: httpx.Client, server: Server, far: str):
    own = run(client, far).raise_for_status().json()["id"]
    measured_for(client, own, 2)
    client.post(f"/api/runs/{own}/stop").raise_for_status()
    found = ended(client, own)
    assert found["state"] == "interrupted"
    assert not found["problem"]
    assert last_second_of(Path(found["progress"]["recording"])) > 1.5
    assert client.get(f"/api/library/{found['progress']['entry']}").json()["kind"] == "recording"


def test_a_page_that_opens_late_gets_every_point_once(client: httpx.Client, far: str):
    own = run(client, far).raise_for_status().json()["id"]
    measured_for(client, own, 2)
    live = client.get(f"/api/runs/{own}/live").raise_for_status().json()
    times = [time_s for time_s, _ in live["series"]["up/TCP upload"]]
    assert times == sorted(set(times))
    # The events behind it begin with the next number, and bring no point that is there already.
    with client.stream("GET", "/api/events", params={"topic": f"jobs/{own}"}) as stream:
        for line in stream.iter_lines():
            data = json.loads(line.removeprefix("data: "))["data"] if line.startswith("data: {") else {}
            if data.get("series", {}).get("up/TCP upload") and data["progress"]["number"] > live["number"]:
                assert min(time_s for time_s, _ in data["series"]["up/TCP upload"]) > times[-1]
                break


def test_a_run_whose_process_is_killed_says_so_and_keeps_what_it_measured(own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    progress = measured_for(client, job, 3)["progress"]
    before, recording = progress["elapsed_s"], Path(progress["recording"])
    (pid,) = [pid for pid in processes_of(own) if writes(pid, recording)]
    os.kill(pid, signal.SIGKILL)
    found = ended(client, job)
    assert found["state"] == "failed"
    assert "was killed" in found["problem"]
    assert "What was measured until then is in the recording" in found["problem"]
    assert last_second_of(Path(found["progress"]["recording"])) > before - 1
    # The points of its charts went with it: the answer says why there are none.
    answer = client.get(f"/api/runs/{job}/live")
    assert answer.status_code == 422
    assert "killed" in answer.json()["error"]


def test_a_server_that_is_killed_leaves_a_recording_that_is_whole_to_the_last_second(own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    progress = measured_for(client, job, 3)["progress"]
    recording = Path(progress["recording"])
    own.process.kill()
    own.process.wait()
    wait_until(lambda: whydrop.open(str(recording)).status != "running", "the end of the recording")
    opened = whydrop.open(str(recording))
    assert opened.status == "interrupted"
    assert last_second_of(recording) > progress["elapsed_s"] - 1


def test_a_server_that_ends_lets_its_run_end_with_a_whole_recording(own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    progress = measured_for(client, job, 2)["progress"]
    own.process.terminate()
    own.process.wait()
    opened = whydrop.open(progress["recording"])
    assert opened.status == "interrupted"
    assert last_second_of(Path(progress["recording"])) > progress["elapsed_s"] - 1


def test_a_server_and_its_processes_that_are_killed_leave_all_but_the_last_second(own: Server, far: str):
    client = client_of(own)
    job = run(client, far).raise_for_status().json()["id"]
    progress = measured_for(client, job, 3)["progress"]
    for pid in [own.process.pid, *processes_of(own)]:
        os.kill(pid, signal.SIGKILL)
    own.process.wait()
    assert last_second_of(Path(progress["recording"])) > progress["elapsed_s"] - 1


def test_a_test_that_cannot_start_says_why_and_nothing_was_measured(client: httpx.Client):
    own = run(client, "127.0.0.1:1").raise_for_status().json()["id"]
    found = ended(client, own)
    assert found["state"] == "failed"
    assert "127.0.0.1" in found["problem"]
    assert "has what was measured" not in found["problem"]
    assert "recording" not in found["progress"]


def test_a_wrong_secret_is_told_and_never_shown(client: httpx.Client):
    with whydrop.responder(secret="the right one, which is long", addresses=["127.0.0.1"], port=0) as responder:
        own = (
            run(client, f"127.0.0.1:{responder.port}", secret="the wrong one, which is long")
            .raise_for_status()
            .json()["id"]
        )
        found = ended(client, own)
    assert found["state"] == "failed"
    assert "secret" in found["problem"]
    assert "the wrong one, which is long" not in json.dumps(client.get("/api/runs").json())


def test_a_second_run_is_refused_unless_it_is_asked_to_run_beside_the_first(client: httpx.Client, far: str):
    first = run(client, far).raise_for_status().json()["id"]
    refused = run(client, far)
    assert refused.status_code == 409
    assert "disturb each other" in refused.json()["error"]
    beside = run(client, far, beside=True).raise_for_status().json()["id"]
    assert {job["id"] for job in client.get("/api/runs").json()["jobs"]} >= {first, beside}


def test_many_runs_one_after_another_leave_the_server_answering(client: httpx.Client, server: Server):
    before = sum(map(is_running, processes_of(server)))
    for _ in range(6):
        ended(client, run(client, "127.0.0.1:1").raise_for_status().json()["id"])
    assert client.get("/health").status_code == 200
    assert sum(map(is_running, processes_of(server))) - before <= 3


def test_tags_are_those_of_the_recording_in_the_library(client: httpx.Client, far: str):
    own = run(client, far, duration_s=0.5, tags=["wi-fi", "before"]).raise_for_status().json()["id"]
    entry = ended(client, own)["progress"]["entry"]
    assert client.get(f"/api/library/{entry}").json()["tags"] == ["before", "wi-fi"]


def test_a_fault_of_a_run_names_its_fields_and_starts_nothing(client: httpx.Client, far: str):
    before = len(client.get("/api/runs").json()["jobs"])
    answer = run(client, far, parameters={"delay_s": "soon"})
    assert answer.status_code == 400
    assert answer.json()["fields"].keys() == {"delay_s"}
    assert client.post("/api/runs", json={"test": "../x"}).json()["fields"].keys() == {"test"}
    assert len(client.get("/api/runs").json()["jobs"]) == before


def test_a_check_sends_nothing(client: httpx.Client):
    checked = client.post("/api/runs/check", json={"test": "rrul", "to": ["192.0.2.1"]}).raise_for_status().json()
    assert checked["total_s"] == 70
    assert client.get("/api/runs").json()["jobs"] == [
        job for job in client.get("/api/runs").json()["jobs"] if job["about"]["to"] != ["192.0.2.1"]
    ]
