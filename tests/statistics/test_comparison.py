"""Comparing recordings with known differences."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recordings
from whydrop.recording.comparing import comparison
from whydrop.recording.comparing.comparison import Comparison, Row, Side, compare
from whydrop.recording.comparing.grouping import grouped
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.recording import Recording
from whydrop.recording.statistics import resampling
from whydrop.recording.statistics.differences import cohens_h
from whydrop.show.comparison import effect_words

Run = Callable[..., subprocess.CompletedProcess[str]]


def noisy(
    folder: Path, seed: int, *, goodput: float = 1.0, delay_ms: float = 0.0, lost: float = 0.0, length_s: int = 60,
    between_runs: float = 0.0, **changes: object,
) -> Recording:  # fmt: skip
    """Two downloads of 4 and 6 Mbit/s and one stream of probes at 20 ms, around 50 ms under load, with AR(1) noise."""
    random = np.random.default_rng(seed)
    goodput *= float(random.lognormal(0, between_runs))
    start, step = recordings.START_NS, 200 * recordings.MS
    load_ns = 2 * recordings.S
    rows = []
    for flow, mbps in enumerate((4.0, 6.0)):
        for number, value in enumerate(_wandering(length_s * 5, 0.6, random)):
            at = start + load_ns + number * step
            rows.append((flow, at, at + step, mbps * goodput * 1e6 * (1 + 0.1 * value)))
    intervals = pl.DataFrame(rows, ["flow", "start_ns", "end_ns", "goodput_bps"], orient="row")
    due = np.arange((length_s + 2) * 50)
    wander = _wandering(len(due), 0.95, random)
    loaded = due * 20 >= 2000
    rtt = np.where(loaded, 50 + delay_ms + 5 * wander, 20 + random.exponential(0.3, len(due)))
    gone = random.random(len(due)) < np.where(loaded, lost, 0.0)
    probes = pl.DataFrame(
        {
            "flow": 2,
            "sequence": due,
            "scheduled_ns": start + due * 20 * recordings.MS,
            "sent_ns": start + due * 20 * recordings.MS,
            "rtt_ns": [None if lost_one else round(value * 1e6) for lost_one, value in zip(gone, rtt, strict=True)],
            "fate": ["lost-up" if lost_one else "ok" for lost_one in gone],
        }
    )
    flows = pl.DataFrame(
        {
            "flow": [0, 1, 2],
            "name": ["TCP download 1", "TCP download 2", "Ping"],
            "kind": ["tcp", "tcp", "probe"],
            "direction": ["down", "down", "both"],
            "start_ns": [start + load_ns, start + load_ns, start],
            "end_ns": [start + load_ns + length_s * recordings.S] * 3,
            "status": "complete",
        }
    )
    test = {**recordings.metadata()["test"], "computed": [], "flows": [], "length_s": length_s, "delay_s": 2.0}
    frames = {"flows": flows, "intervals": intervals, "probes": probes}
    return recordings.write(folder, frames, **{"test": test, **changes})


def _wandering(n: int, rho: float, random: np.random.Generator) -> np.ndarray:
    values = random.standard_normal(n + 200)
    for number in range(1, len(values)):
        values[number] = rho * values[number - 1] + math.sqrt(1 - rho**2) * values[number]
    return values[200:]


def row(found: Comparison, key: str) -> Row:
    return next(one for one in found.rows if one.metric.key == key)


def sides(*of: Recording) -> list[Side]:
    return [Side(str(number), (recording,)) for number, recording in enumerate(of)]


def test_metrics_are_those_that_were_put_in(tmp_path: Path) -> None:
    found = measure(noisy(tmp_path / "a.recording", 1, delay_ms=10, lost=0.02))
    assert found["goodput-down"].value == pytest.approx(10, rel=0.02)
    assert found["rtt-median"].value == pytest.approx(60, abs=1.5)
    assert found["induced-latency"].value == pytest.approx(40, abs=1.5)
    assert found["loss-up"].value == pytest.approx(2, abs=1)
    assert found["fairness-down"].value == pytest.approx(100 / (2 * 52), abs=0.005)
    assert "goodput-up" not in found


@pytest.mark.slow
def test_a_recording_compared_with_itself_differs_in_nothing(tmp_path: Path) -> None:
    one = noisy(tmp_path / "a.recording", 1)
    found = compare(sides(one, one))
    assert {one.verdict for one in found.rows} <= {"too small to matter", "not resolved"}
    assert not found.metadata


@pytest.mark.slow
def test_large_differences_are_established_and_their_direction_is_named(tmp_path: Path) -> None:
    first = noisy(tmp_path / "a.recording", 1)
    second = noisy(tmp_path / "b.recording", 2, goodput=0.7, delay_ms=-20)
    found = compare(sides(first, second))
    goodput, delay = row(found, "goodput-down"), row(found, "rtt-median")
    assert (goodput.verdict, goodput.better) == ("established", False)
    assert goodput.difference.low < -3 < goodput.difference.high
    assert (delay.verdict, delay.better) == ("established", True)
    assert delay.difference.low < -20 < delay.difference.high
    assert delay.effect == pytest.approx(-1, abs=0.1)
    assert row(found, "loss").verdict != "established"
    assert "Fewer than 3" in " ".join(found.notes)


@pytest.mark.parametrize(("effect", "verdict", "better"), [(1.0, "apart", False), (0.9, "not resolved", None)])
def test_samples_that_do_not_overlap_are_called_apart_where_their_error_cannot_be_known(
    effect: float, verdict: str, better: bool | None, tmp_path: Path
) -> None:
    first, second = sides(*(noisy(tmp_path / f"{ms}.recording", 1, delay_ms=ms, length_s=5) for ms in (0, 600)))
    seen = row(compare([first, second]), "rtt-median")
    unknown = dataclasses.replace(seen.difference, low=math.nan, high=math.nan, p=math.nan)
    pair = dataclasses.replace(seen, difference=unknown, effect=effect, effect_kind="cliffs-delta")
    found = comparison.judged(pair, math.nan)
    assert (found.verdict, found.better) == (verdict, better)


@pytest.mark.slow
def test_the_same_seed_says_the_same(tmp_path: Path) -> None:
    pair = sides(noisy(tmp_path / "a.recording", 1), noisy(tmp_path / "b.recording", 2))
    assert compare(pair).rows == compare(pair).rows
    assert compare(pair, seed=5).seed == 5


@pytest.mark.slow
def test_no_loss_at_all_is_not_certainty(tmp_path: Path) -> None:
    found = row(compare(sides(*(noisy(tmp_path / f"{n}.recording", n) for n in (1, 2)))), "loss")
    assert found.difference.value == 0
    # 3000 probes: up to about 3 / 3000 could have gone unseen on each side.
    assert 0.05 < found.difference.high < 0.2


@pytest.mark.parametrize(
    ("lost_percent", "words"), [(4.6, "small"), (0.5, "small"), (0.05, "negligible"), (40, "large")]
)
def test_a_loss_that_was_not_there_before_is_not_called_negligible(
    lost_percent: float, words: str, tmp_path: Path
) -> None:
    first, second = sides(*(noisy(tmp_path / f"{n}.recording", n, length_s=5) for n in (1, 2)))
    seen = row(compare([first, second]), "loss")
    share = cohens_h(0.0, lost_percent / 100)
    difference = dataclasses.replace(seen.difference, value=lost_percent)
    found = dataclasses.replace(seen, effect=share, difference=difference)
    assert seen.effect_kind == "cohens-h"
    assert effect_words(found).split()[0] == words


@pytest.mark.slow
def test_three_runs_a_side_make_whole_runs_the_units(tmp_path: Path) -> None:
    groups = [
        Side(name, tuple(noisy(tmp_path / f"{name}{n}.recording", 10 * n + shift, goodput=rate) for n in range(3)))
        for shift, (name, rate) in enumerate((("slow", 0.8), ("fast", 1.0)))
    ]
    found = row(compare(groups), "goodput-down")
    assert found.effect_kind == "hedges-g"
    assert "whole runs" in found.difference.method
    values = [[measure(one)["goodput-down"].value for one in side.recordings] for side in groups]
    assert found.difference.value == pytest.approx(np.mean(values[1]) - np.mean(values[0]))
    assert found.verdict == "established"


@pytest.mark.slow
def test_six_runs_a_side_are_compared_by_ranks(tmp_path: Path) -> None:
    groups = [
        Side(name, tuple(noisy(tmp_path / f"{name}{n}.recording", 10 * n + shift, length_s=10) for n in range(6)))
        for shift, name in enumerate(("a", "b"))
    ]
    found = row(compare(groups), "goodput-down")
    assert found.effect_kind == "cliffs-delta"
    assert "Hodges" in found.difference.method


def test_the_same_batch_run_twice_is_two_groups(tmp_path: Path) -> None:
    opened = [
        recordings.rrul(tmp_path / f"{number}.recording", batch={"name": "queues", "uuid": uuid})
        for number, uuid in enumerate(("a", "a", "b"))
    ]
    groups = grouped(opened, ["x", "y", "z"], ["batch"])
    assert [(group.label, group.members) for group in groups] == [
        ("queues – rrul (1)", (0, 1)),
        ("queues – rrul (2)", (2,)),
    ]


def test_metadata_that_differ_are_named_without_the_noise(tmp_path: Path) -> None:
    test = {**recordings.metadata()["test"], "parameters": {"qdisc": "pie"}}
    hosts = {"local": {"kernel": {"release": "6.1"}, "uptime_s": 17, "load_average": [1, 2, 3]}}
    first = recordings.rrul(tmp_path / "a.recording", test=test, hosts=hosts, started_ns=recordings.START_NS + 1)
    test = {**test, "parameters": {"qdisc": "codel"}}
    hosts = {"local": {"kernel": {"release": "6.2"}, "uptime_s": 18, "load_average": [3, 2, 1]}}
    second = recordings.rrul(tmp_path / "b.recording", test=test, hosts=hosts)
    found = {one.key: one.values for one in compare(sides(first, second)).metadata}
    assert found == {"test.parameters.qdisc": ("pie", "codel"), "hosts.local.kernel.release": ("6.1", "6.2")}


def test_a_part_of_the_metadata_that_one_has_not_got_is_one_line(tmp_path: Path) -> None:
    interface = {"driver": "e1000e", "mtu": 1500, "speed": 1000}
    first = recordings.rrul(tmp_path / "a.recording", hosts={"local": {"interfaces": {"eth0": interface}}})
    second = recordings.rrul(tmp_path / "b.recording", hosts={"local": {"kernel": "x"}})
    found = {one.key: one.values for one in compare(sides(first, second)).metadata}
    assert found == {"hosts.local.interfaces": ("(3 keys)", None), "hosts.local.kernel": (None, "x")}


@pytest.mark.slow
def test_equal_runs_are_called_different_in_any_metric_as_rarely_as_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Holm keeps the chance of any false alarm in one comparison at 5 %. Of 20 comparisons at that rate, more than 4
    # have one with a chance of 0.003.
    monkeypatch.setattr(resampling, "RESAMPLES", 300)
    alarms = 0
    for number in range(20):
        seed, folder = 1000 + 2 * number, tmp_path / str(number)
        pair = [noisy(folder / f"{n}.recording", seed + n, lost=0.01, length_s=20) for n in (0, 1)]
        alarms += any(one.verdict == "established" for one in compare(sides(*pair)).rows)
    assert alarms <= 4


@pytest.mark.slow
def test_groups_of_equal_runs_that_vary_between_runs_raise_no_more_alarms_than_claimed(tmp_path: Path) -> None:
    alarms = 0
    for number in range(10):
        groups = [
            Side(
                str(side),
                tuple(
                    noisy(
                        tmp_path / f"{number}-{side}-{n}.recording",
                        5000 + 20 * number + 5 * side + n,
                        length_s=10,
                        between_runs=0.1,
                    )
                    for n in range(4)
                ),
            )
            for side in (0, 1)
        ]
        alarms += any(one.verdict == "established" for one in compare(groups).rows)
    assert alarms <= 3


@pytest.mark.slow
def test_compare_prints_the_answer_first(
    tmp_path: Path, run: Run, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [tmp_path / "a.recording", tmp_path / "b.recording"]
    noisy(pair[0], 1, title="before")
    noisy(pair[1], 2, title="after", delay_ms=-20)
    done = run("compare", *pair)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("after against before: ")
    assert "Round-trip time under load, median lower by" in done.stdout.replace("\n", " ")
    monkeypatch.setattr(resampling, "RESAMPLES", 300)
    document = json.loads(run_here("compare", *pair, "--json").stdout)
    assert {one["finding"] for one in document["metrics"]} <= {"established", "too small to matter", "not resolved"}
    table = run_here("compare", *pair, "--format", "csv").stdout
    assert table.startswith("metric,name,units,first,second,")


def test_compare_says_what_is_missing(tmp_path: Path, run_here: Run) -> None:
    noisy(tmp_path / "a.recording", 1, length_s=5)
    assert run_here("compare", tmp_path / "a.recording").returncode == 2
    done = run_here("compare", tmp_path / "a.recording", tmp_path / "a.recording", "--group-by", "title")
    assert done.returncode == 2
    assert "all 2 recordings have the same value" in done.stderr
    done = run_here("compare", tmp_path / "a.recording", tmp_path / "a.recording", "--group-by", "host_name")
    assert done.returncode == 2
    assert "no recording has the key 'host_name'; did you mean hosts.local.host_name?" in done.stderr
    done = run_here("compare", tmp_path / "a.recording", tmp_path / "none")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_stats_prints_every_series_under_load(tmp_path: Path, run_here: Run) -> None:
    recordings.rrul(tmp_path / "a.recording")
    done = run_here("stats", "a.recording", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    series = {one["series"]: one for one in document["series"]}
    assert series["TCP download EF"]["mean"] == pytest.approx(4)
    assert series["TCP download EF"]["count"] == 50
    metrics = {one["metric"]: one["value"] for one in document["metrics"]}
    assert metrics["goodput-down"] == pytest.approx(7)
    assert metrics["share-down:TCP download EF"] == pytest.approx(100 * 4 / 7)
    assert "Under load" in run_here("stats", "a.recording", cwd=tmp_path).stdout
    assert run_here("stats", "a.recording", "--series", "none", cwd=tmp_path).returncode == 1
