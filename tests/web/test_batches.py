"""Tests of batches of the page: what they would run, which files it takes, progress, stop, resume, and failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import whydrop
from patience import wait_until
from web.browsing import Page
from web.conftest import Server, client_of

ENDED = ("complete", "interrupted", "failed")


def batch_file(folder: Path, far: str, *, repetitions: int = 3, length_s: float = 0.3, more: str = "") -> Path:
    path = folder / "queues.toml"
    path.write_text(
        f"""
        [batch.one]
        test = "tcp_1up"
        hosts = "{far}"
        length_s = {length_s}
        delay_s = 0
        set.pacing_rate_bps = "5 Mbit/s"
        repetitions = {repetitions}
        title = "no. ${{repetition}}"
        {more}
        """
    )
    return path


def plan(client: httpx.Client, file: Path | str, **more: Any) -> httpx.Response:
    return client.post("/api/batches/plan", json={"file": str(file), **more})


def state(client: httpx.Client, own: str) -> dict[str, Any]:
    return dict(client.get(f"/api/batches/{own}").raise_for_status().json())


def ended(client: httpx.Client, own: str) -> dict[str, Any]:
    wait_until(lambda: state(client, own)["state"] in ENDED, "the end of the batch")
    return state(client, own)


def outcomes(client: httpx.Client, own: str, after: int = 0) -> list[dict[str, Any]]:
    answer = client.get(f"/api/batches/{own}/outcomes", params={"after": after})
    return list(answer.raise_for_status().json()["outcomes"])


@pytest.mark.slow
def test_a_batch_is_planned_run_and_its_recordings_are_in_the_library(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far)
    (own.folder / "other.toml").write_text("[project]\nname = 'no batch'\n")
    assert [one["path"] for one in client.get("/api/batch-files").json()["files"]] == [str(file)]
    planned = plan(client, file).raise_for_status().json()
    assert len(planned["runs"]) == 3
    assert planned["seed"] is not None
    assert planned["total_s"] == pytest.approx(sum(run["takes_s"] for run in planned["runs"]))
    job = client.post("/api/batches", json={"file": str(file)}).raise_for_status().json()["id"]
    found = ended(client, job)
    assert found["state"] == "complete", found
    results = outcomes(client, job)
    assert [one["key"] for one in results] == [run["key"] for run in planned["runs"]]
    assert outcomes(client, job, after=2) == results[2:]
    listed = client.get(f"/api/library/{results[0]['entry']}").raise_for_status().json()
    assert listed["title"] == results[0]["title"]


@pytest.mark.slow
def test_a_batch_stops_after_its_run_and_is_resumed(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far, length_s=1)
    job = client.post("/api/batches", json={"file": str(file)}).raise_for_status().json()["id"]
    wait_until(lambda: state(client, job)["progress"].get("number") == 1, "the first run")
    client.post(f"/api/batches/{job}/stop", json={}).raise_for_status()
    assert ended(client, job)["state"] == "interrupted"
    assert [one["status"] for one in outcomes(client, job)] == ["complete"]
    assert plan(client, file).json()["left"] == 2
    # To begin again must be asked for.
    assert client.post("/api/batches", json={"file": str(file)}).status_code == 409
    resumed = client.post("/api/batches", json={"file": str(file), "resume": True}).raise_for_status().json()["id"]
    assert ended(client, resumed)["state"] == "complete"
    assert len(outcomes(client, resumed)) == 2
    assert plan(client, file).json()["left"] == 0


@pytest.mark.slow
def test_a_batch_that_stops_now_keeps_what_its_run_measured(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far, length_s=600)
    job = client.post("/api/batches", json={"file": str(file)}).raise_for_status().json()["id"]
    wait_until(lambda: state(client, job)["progress"].get("elapsed_s", 0) > 1, "the measurement")
    client.post(f"/api/batches/{job}/stop", json={"now": True}).raise_for_status()
    assert ended(client, job)["state"] == "interrupted"
    (only,) = outcomes(client, job)
    assert only["status"] == "interrupted"
    assert whydrop.open(only["recording"]).table("intervals").height > 0


@pytest.mark.slow
def test_runs_that_fail_are_listed_and_the_others_run(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, "127.0.0.1:1", repetitions=2)
    job = client.post("/api/batches", json={"file": str(file)}).raise_for_status().json()["id"]
    found = ended(client, job)
    assert (found["state"], found["progress"]["failed"]) == ("failed", 2)
    assert all("127.0.0.1" in one["message"] for one in outcomes(client, job))


@pytest.mark.slow
def test_a_test_waits_for_the_batch_unless_it_is_asked_to_run_beside_it(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far, length_s=60)
    client.post("/api/batches", json={"file": str(file)}).raise_for_status()
    refused = client.post("/api/runs", json={"test": "ping", "to": [far]})
    assert refused.status_code == 409
    assert "the batch queues.toml is running" in refused.json()["error"]


@pytest.mark.slow
def test_files_that_do_more_than_measure_are_refused_and_nothing_runs(own: Server, far: str, tmp_path: Path):
    client = client_of(own)
    mark = tmp_path / "mark"
    pre = f"\n[command.setup]\nkind = 'pre'\nrun = 'touch {mark}'\n"
    secret = tmp_path / "secret"
    secret.write_text("x" * 20)
    refusals = {
        f"commands = ['setup']{pre}": "runs commands",
        "output = '../../../elsewhere'": "outside the folders",
        f"secret_file = '{secret}'": "names the file",
        "set.http_url_list = '/etc/hostname'": "names the file",
    }
    for more, words in refusals.items():
        file = batch_file(own.folder, far, more=more)
        assert words in plan(client, file).raise_for_status().json()["refused"]
        answer = client.post("/api/batches", json={"file": str(file)})
        assert answer.status_code == 403
        assert words in answer.json()["error"]
    assert client.get("/api/batches").json()["jobs"] == []
    assert not mark.exists()


@pytest.mark.slow
def test_a_test_file_is_taken_from_the_folders_only(own: Server, far: str, tmp_path: Path):
    client = client_of(own)
    for folder in (own.folder, tmp_path):
        (folder / "mine.toml").write_text('extends = ["tcp_nup"]\ntitle = "Mine"\nfamily = "tcp"\n')
    for name, refused in (("./mine.toml", False), ("../mine.toml", True)):
        file = batch_file(own.folder, far)
        file.write_text(file.read_text().replace('"tcp_1up"', f'"{name}"'))
        assert bool(plan(client, file).raise_for_status().json()["refused"]) is refused


@pytest.mark.slow
def test_a_file_outside_the_folders_is_no_batch_file(own: Server, far: str, tmp_path: Path):
    client = client_of(own)
    outside = batch_file(tmp_path, far)
    (own.folder / "link.toml").symlink_to(outside)
    for path in (outside, own.folder / "link.toml", own.folder / ".." / outside.name, "/etc/passwd", "\x00"):
        assert plan(client, path).status_code in (400, 404)
    assert client.get("/api/batch-files").json()["files"] == []


@pytest.mark.slow
def test_a_file_with_mistakes_says_them_with_their_lines(own: Server, far: str):
    client = client_of(own)
    answer = plan(client, batch_file(own.folder, far, more="colour = 'red'"))
    assert answer.status_code == 400
    assert "queues.toml:10" in answer.json()["error"]


@pytest.mark.slow
@pytest.mark.needs_browser
def test_a_batch_is_chosen_started_stopped_and_resumed_by_keyboard_alone(browser: Any, own: Server, far: str):
    batch_file(own.folder, far, repetitions=2, length_s=4)
    page = Page(browser, own, 390)
    page.page.goto(f"{own.root}/run?view=batches")
    page.page.wait_for_selector("h2:text('2 runs')")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.serious() == []
    page.page.keyboard.press("r")
    page.page.wait_for_selector("[role=status]:text('Run 1 of 2')")
    assert page.serious() == []
    page.page.keyboard.press("s")
    page.page.wait_for_selector("[role=status]:text('Stopped; 1 run not begun')")
    page.page.wait_for_selector("table a:text('no. ')")
    page.page.click("text=Resume or start again")
    page.page.wait_for_selector("text=has left 1 run to do")
    page.page.keyboard.press("r")
    page.page.wait_for_selector("[role=status]:text('All 2 runs are complete')")
    assert page.complaints == []
    page.context.close()


@pytest.mark.slow
@pytest.mark.needs_browser
def test_a_page_that_opens_late_draws_the_run_that_goes_on(browser: Any, own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far, repetitions=1, length_s=600)
    job = client.post("/api/batches", json={"file": str(file)}).raise_for_status().json()["id"]
    wait_until(lambda: state(client, job)["progress"].get("elapsed_s", 0) > 1, "the measurement")
    page = Page(browser, own, 390)
    page.page.goto(f"{own.root}/run?batch={job}")
    page.page.wait_for_selector("section[aria-label='Live plots'] h2:text('Run 1: ')")
    page.page.wait_for_selector("h2:text('Goodput up (Mbit/s)')")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.serious() == []
    page.page.keyboard.press("v")
    page.page.wait_for_selector(".latest td:text('Goodput up')")
    client.post(f"/api/batches/{job}/stop", json={"now": True}).raise_for_status()
    page.page.wait_for_selector("[role=status]:text('Stopped')")
    assert not page.page.locator("section[aria-label='Live plots']").is_visible()
    assert page.complaints == []
    page.context.close()


# Every heading of the live plots that a tab has shown, also those that are gone before one can look.
_KEEP_HEADINGS = """
    new MutationObserver(() => {
        const kept = JSON.parse(sessionStorage.headings ?? "[]");
        for (const heading of document.querySelectorAll("section[aria-label='Live plots'] h2"))
            if (!kept.includes(heading.textContent)) kept.push(heading.textContent);
        sessionStorage.headings = JSON.stringify(kept);
    }).observe(document, { subtree: true, childList: true, characterData: true });
"""


@pytest.mark.slow
@pytest.mark.needs_browser
def test_the_page_of_a_batch_draws_one_run_after_the_other(browser: Any, own: Server, far: str):
    batch_file(own.folder, far, repetitions=3, length_s=3)
    page = Page(browser, own, 390)
    page.page.add_init_script(_KEEP_HEADINGS)
    page.page.goto(f"{own.root}/run?view=batches")
    page.page.wait_for_selector("h2:text('3 runs')")
    page.page.keyboard.press("r")
    page.page.wait_for_selector("[role=status]:text('All 3 runs are complete')")
    headings = json.loads(page.page.evaluate("sessionStorage.headings"))
    runs = [heading.split(":")[0] for heading in headings if heading.startswith("Run ")]
    # A machine that is busy may open the page when the first run is over.
    assert len(runs) >= 2
    assert runs == ["Run 1", "Run 2", "Run 3"][-len(runs) :]
    assert "Goodput up (Mbit/s)" in headings
    assert not page.page.locator("section[aria-label='Live plots']").is_visible()
    assert page.complaints == []
    page.context.close()


@pytest.mark.slow
def test_points_of_a_batch_are_those_of_the_run_at_hand(own: Server, far: str):
    client = client_of(own)
    file = batch_file(own.folder, far, repetitions=2, length_s=2)
    job = client.post("/api/batches", json={"file": str(file), "shuffle": False}).raise_for_status().json()["id"]
    seen: list[dict[str, Any]] = []

    def has_points_of(number: int) -> bool:
        at_hand = state(client, job)["progress"].get("number")
        seen.append(client.get(f"/api/batches/{job}/live").raise_for_status().json())
        return at_hand == number and bool(seen[-1]["series"])

    def first_s() -> float:
        return float(min(points[0][0] for points in seen[-1]["series"].values()))

    wait_until(lambda: has_points_of(1), "points of the first run")
    first = first_s()
    wait_until(lambda: has_points_of(2), "points of the second run")
    assert first_s() > first + 1
    assert ended(client, job)["state"] == "complete"
