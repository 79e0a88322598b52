"""Many captures explained into a store, on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import whydrop
from whydrop.explaining.many import explaining, finding, worker
from whydrop.explaining.many.rows import of_document, of_file
from whydrop.explaining.many.workers import CostLimits, Outcome, explained
from whydrop.store.store import Store

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., subprocess.CompletedProcess[str]]
TABLES = ("captures", "flows", "transfers", "verdicts")


def copies(folder: Path, count: int) -> list[Path]:
    """Captures with the same packets that are different files: a skippable frame of zstd makes the difference."""
    folder.mkdir(exist_ok=True)
    content = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    paths = [folder / f"{number}.pcap.zst" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(content + b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + number.to_bytes(4, "little"))
    return paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All examples, one of them twice, one in a folder below, and files that are no captures."""
    made = tmp_path / "captures"
    (made / "below").mkdir(parents=True)
    for path in EXAMPLES.glob("*.pcap*"):
        shutil.copy(path, made)
    shutil.copy(EXAMPLES / "policed-download.pcap.zst", made / "below" / "again")
    (made / "notes.txt").write_text("no capture")
    (made / "empty").touch()
    return made


def rows(store: Path, table: str) -> pl.DataFrame:
    return Store.open(store).scan(table).collect()


def test_captures_that_are_damaged_from_their_first_byte_on_are_named_not_left_out(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    whole = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    named = {
        "empty.pcap": b"", "page.pcapng": b"<html>", "part.cap7": b"\0" * 100, "cut.pcap.zst": whole[:100],
        "flip.PCAP.gz": b"\x1f\x8b\xff",
    }  # fmt: skip
    for name, content in {**named, "empty": b"", "a.pcap.txt": b"notes"}.items():
        (folder / name).write_bytes(content)
    ended = run("store", "explain", tmp_path / "store", folder, "--json")
    said = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert {Path(one["path"]).name for one in said["failed"]} == set(named)
    assert all(one["message"] for one in said["failed"])
    assert said["other_files"] == 2


def test_rows_in_the_store_say_what_explaining_each_capture_says(run: Run, folder: Path, tmp_path: Path) -> None:
    ended = run("store", "explain", tmp_path / "store", folder, "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    examples = sorted(folder.glob("*.pcap*"))
    assert (said["explained"], said["known"], said["other_files"]) == (len(examples), 1, 2)
    captures = rows(tmp_path / "store", "captures")
    assert captures.height == len(examples)
    for path in examples:
        document = whydrop.explain(path).document
        of_path = captures.filter(pl.col("file_bytes") == path.stat().st_size).to_dicts()
        row = next(one for one in of_path if Path(one["path"]).read_bytes() == path.read_bytes())
        of_it = {name: rows(tmp_path / "store", name).filter(capture=row["capture"]) for name in TABLES}
        assert row["packets"] == document["captures"][0]["packets"]
        assert row["cause"] == document["verdicts"][0]["cause"]
        assert of_it["flows"].sort("number")["flow"].to_list() == [flow["flow"] for flow in document["flows"]]
        assert of_it["flows"].sort("number")["lost"].to_list() == [flow["lost"] for flow in document["flows"]]
        goodput = [transfer["goodput_bps"] for transfer in document["transfers"]]
        assert of_it["transfers"].sort("number")["goodput_bps"].to_list() == goodput
        verdicts = of_it["verdicts"].sort("number").to_dicts()
        assert [one["sentence"] for one in verdicts] == [one["sentence"] for one in document["verdicts"]]
        for one, verdict in zip(verdicts, document["verdicts"], strict=True):
            assert json.loads(one["evidence"]) == verdict["evidence"]
            others = json.loads(one["other_parameters"])
            for name, value in verdict["parameters"].items():
                if name in others:
                    assert others[name] == value
                else:
                    assert (one[name], one[name + "_low"], one[name + "_high"]) == tuple(value.values())


def test_what_was_explained_before_is_left_out(tmp_path: Path) -> None:
    one, other = copies(tmp_path / "captures", 2)
    store = Store.create(tmp_path / "store")
    explaining.explain_into(store, [one, other], workers=1)
    before = {name: rows(tmp_path / "store", name) for name in TABLES}
    tally = explaining.explain_into(store, [one, other.rename(tmp_path / "moved")], workers=1)
    assert (tally.known, sum(tally.causes.values())) == (2, 0)
    for name in TABLES:
        assert rows(tmp_path / "store", name).equals(before[name])


def test_damaged_captures_are_rows_and_end_nothing(run: Run, tmp_path: Path) -> None:
    copies(tmp_path / "captures", 3)
    whole = (EXAMPLES / "policed-download.pcap.zst").read_bytes()
    (tmp_path / "captures" / "cut.pcap.zst").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "captures" / "only-a-header.pcap").write_bytes(b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00")
    words = (tmp_path / "captures", tmp_path / "captures" / "0.pcap.zst", "--workers", "1")
    ended = run("store", "explain", tmp_path / "store", *words)
    assert ended.returncode == 1
    assert "only-a-header.pcap" in ended.stderr
    status = rows(tmp_path / "store", "captures")["status"].value_counts()
    assert dict(status.iter_rows()) == {"analysed": 3, "truncated": 1, "failed": 1}
    failed = rows(tmp_path / "store", "captures").filter(status="failed").row(0, named=True)
    assert "byte" in failed["message"]


def test_a_capture_that_is_not_there_is_said_in_one_line(run: Run, tmp_path: Path) -> None:
    ended = run("store", "explain", tmp_path / "store", tmp_path / "missing.pcap")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"whydrop: {tmp_path}/missing.pcap: No such file or directory\n"


def test_a_list_names_captures(tmp_path: Path) -> None:
    paths = copies(tmp_path / "captures", 3)
    (tmp_path / "list").write_text(f"{paths[0]}\n\n{paths[2]}\n")
    assert finding.captures([f"@{tmp_path / 'list'}"]).paths == [paths[0], paths[2]]


def test_a_worker_that_is_killed_costs_another_try(tmp_path: Path) -> None:
    paths = copies(tmp_path / "captures", 12)
    outcomes, killed = [], 0
    with closing(explained(paths, set(), workers=2)) as going:
        for outcome in going:
            outcomes.append(outcome)
            if len(outcomes) == 2:
                for child in active_children():
                    os.kill(child.pid or 0, signal.SIGKILL)
                    killed += 1
    assert killed == 2
    assert sorted(outcome.path for outcome in outcomes) == sorted(paths)
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert sum(outcome.retries for outcome in outcomes) >= 1
    assert not active_children()


@pytest.mark.made_up
def test_a_capture_of_the_year_300000_has_no_time(tmp_path: Path) -> None:
    plain = EXAMPLES / "policed-download.pcap.zst"
    document = whydrop.explain(plain).document
    document["captures"][0] |= {"first": 9.3e9, "last": 9.4e12}
    frames = of_document(of_file(plain, plain.stat(), "0" * 64), document)
    assert frames["captures"].select("time_ns", "last_ns").row(0) == (None, None)
    assert frames["captures"]["packets"][0] > 0
    assert set(frames["verdicts"]["time_ns"]) == {None}


def test_small_connections_that_are_summed_up_count_in_the_row_of_the_capture() -> None:
    plain = EXAMPLES / "policed-download.pcap.zst"
    document = whydrop.explain(plain).document
    listed = of_document(of_file(plain, plain.stat(), "0" * 64), document)["captures"].row(0, named=True)
    document["captures"][0]["small_connections"] = {"flows": 5000, "lost": 3}
    both = of_document(of_file(plain, plain.stat(), "0" * 64), document)["captures"].row(0, named=True)
    assert (both["flows"], both["lost"]) == (listed["flows"] + 5000, listed["lost"] + 3)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "fifo.pcap"
    os.mkfifo(pipe)  # no process writes: opening it blocks for ever
    [capture] = copies(tmp_path / "captures", 1)
    with closing(explained([pipe, capture], set(), workers=1)) as going:
        outcomes = {outcome.path: outcome for outcome in going}
    assert outcomes[capture].status == "done"
    assert (outcomes[pipe].status, outcomes[pipe].message) == (
        "unreadable",
        f"{pipe}: no regular file; captures in a store are known by their content",
    )


def test_a_capture_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    [path] = copies(tmp_path / "captures", 1)
    with closing(explained([path], set(), workers=1, limits=CostLimits(time_s=0.0))) as going:
        [outcome] = list(going)
    assert outcome.status == "failed"
    assert outcome.message == "given up after 0 s (a longer limit: --time-limit)"
    assert outcome.frames["captures"]["message"].to_list() == [outcome.message]


def test_a_name_that_is_no_text_is_explained_like_others(tmp_path: Path) -> None:
    made, other = copies(tmp_path / "captures", 2)
    odd = made.rename(os.fsdecode(os.fsencode(tmp_path / "captures") + b"/\xff\n.pcap.zst"))
    broken = Path(os.fsdecode(os.fsencode(tmp_path / "captures") + b"/\xfe.pcap"))
    broken.write_bytes(b"\xd4\xc3\xb2\xa1junk")
    paths = [odd, other, broken]
    tally = explaining.explain_into(Store.create(tmp_path / "store"), paths, workers=1)
    assert (sum(tally.causes.values()), len(tally.failures)) == (2, 1)
    assert rows(tmp_path / "store", "captures").filter(pl.col("path").str.ends_with("\\udcff\n.pcap.zst")).height == 1
    assert explaining.explain_into(Store.create(tmp_path / "store"), paths, workers=1).known == 3


def test_a_worker_out_of_its_memory_limit_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With this set the dying process looked for what called it, for which it has no memory either, and hung.
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    [path] = copies(tmp_path / "captures", 1)
    with closing(explained([path], set(), workers=1, limits=CostLimits(memory_bytes=4 << 20))) as going:
        [outcome] = list(going)
    assert outcome.status == "failed"
    assert "memory" in (outcome.message or "")


@pytest.mark.parametrize("reason", [MemoryError(), RuntimeError("failed to spawn thread: Os { code: 11 }")])
def test_an_analysis_that_has_no_memory_for_a_thread_is_no_defect(reason: Exception) -> None:
    assert "memory limit" in worker._why_broken_off(reason)
    assert "defect" not in worker._why_broken_off(reason)
    assert "defect" in worker._why_broken_off(ValueError("7 is no 8"))


# Says that so many captures are done, and does not go on.
PROGRAM = """
import sys, time
from pathlib import Path
from whydrop.cli import ending
from whydrop.store.store import Store
from whydrop.explaining.many import explaining
def done(tally):
    if tally.done == int(sys.argv[4]):
        print(tally.done, flush=True)
        time.sleep(600)
if __name__ == "__main__":
    explaining.BATCH_CAPTURES = int(sys.argv[3])
    explaining.BATCH_S = 3600
    paths = sorted(Path(sys.argv[2]).iterdir())
    try:
        explaining.explain_into(Store.create(sys.argv[1]), paths, progress=done)
    except KeyboardInterrupt as reason:
        ending.status(reason)
"""


def ended_at(captures: int, how: signal.Signals, batch: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Explain what is in ``folder / "captures"``, until so many captures are done and a signal comes."""
    script = folder / "script.py"
    script.write_text(PROGRAM)
    words = [sys.executable, script, folder / "store", folder / "captures", str(batch), str(captures)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert int(process.stdout.readline()) == captures
    process.send_signal(how)
    said, messages = process.communicate(timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, said, messages)


def test_a_damaged_part_of_the_store_is_named_and_costs_no_more_than_its_rows(run: Run, tmp_path: Path) -> None:
    paths = copies(tmp_path / "captures", 2)
    store = Store.create(tmp_path / "store")
    for path in paths:
        explaining.explain_into(store, [path], workers=1)
    (damaged, _) = (tmp_path / "store/captures").rglob("*.parquet")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + b"\xff" * 400 + content[404:])
    ended = run("store", "explain", tmp_path / "store", *paths, "--json")
    said = json.loads(ended.stdout)
    assert (said["explained"], said["known"]) == (1, 1)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert damaged.name in ended.stderr
    assert "explain the captures" in ended.stderr


def test_a_run_that_is_killed_is_taken_up_where_it_was(tmp_path: Path) -> None:
    paths = copies(tmp_path / "captures", 12)
    assert ended_at(7, signal.SIGKILL, 3, tmp_path).returncode == -signal.SIGKILL
    assert rows(tmp_path / "store", "captures").height == 6
    tally = explaining.explain_into(Store.open(tmp_path / "store"), paths)
    assert (tally.known, sum(tally.causes.values())) == (6, 6)
    for name in TABLES:
        assert rows(tmp_path / "store", name).select("capture").unique().height == 12


def test_ctrl_c_keeps_what_was_explained(tmp_path: Path) -> None:
    copies(tmp_path / "captures", 12)
    ended = ended_at(7, signal.SIGINT, 1000, tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "whydrop: stopped\n")
    assert rows(tmp_path / "store", "captures").height == 7


def test_what_cannot_be_read_of_a_folder_is_named_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = copies(tmp_path / "captures", 1)
    (path.parent / "gone.pcap").symlink_to("nowhere")
    (path.parent / "loop.pcap").symlink_to("loop.pcap")
    closed = path.parent / "closed"
    closed.mkdir()
    original = os.scandir

    def scandir(folder: str) -> Any:
        if Path(folder) == closed:  # as the system says of folders of others
            raise PermissionError(13, "Permission denied", str(folder))
        return original(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    found = finding.captures([path.parent])
    assert found.paths == [path]
    assert found.unreadable == [
        f"{path.parent}/gone.pcap: No such file or directory",
        f"{path.parent}/loop.pcap: Too many levels of symbolic links",
        f"{closed}: Permission denied",
    ]


def test_captures_are_known_by_what_they_begin_with(folder: Path) -> None:
    found = finding.captures([folder])
    assert len(found.paths) == len(list(EXAMPLES.glob("*.pcap*"))) + 1
    assert found.other_files == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "x.pcap", "--workers", "2"], "--workers is now spelled `whydrop store explain STORE CAPTURE...`"),
        (["store", "explain", "s", "x.pcap", "--report", "r.html"], "--report"),
        (["store", "explain", "s", "x.pcap", "--workers", "0"], "'--workers'"),
        (["store", "explain", "s", "x.pcap", "--time-limit", "soon"], "'--time-limit'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, words: list[str], said: str) -> None:
    ended = run(*words)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_copy_is_counted_once_though_two_executors_explain_it(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.pcap.zst", "other.pcap.zst")]
    for path in paths:
        shutil.copy(EXAMPLES / "policed-download.pcap.zst", path)

    def apart(these: Iterable[Path], known: set[str]) -> Iterator[Outcome]:
        """As a cluster does: neither hears of the other."""
        for path in these:
            yield from explained([path], set(known), workers=1)

    tally = explaining.explain_into(Store.create(tmp_path / "store"), paths, explain=apart)
    assert (tally.done, tally.known, dict(tally.causes)) == (2, 1, {"policer": 1})
    assert rows(tmp_path / "store", "captures").height == 1
