"""Many captures explained by a real Spark cluster."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from whydrop.explaining.many import explaining, finding
from whydrop.explaining.many import spark as on_spark
from whydrop.explaining.many.workers import CostLimits
from whydrop.store.store import Store

pytestmark = [pytest.mark.needs_spark, pytest.mark.slow]

PAIRS = Path(__file__).parents[2].parent / "shared" / "data" / "pairs"
TABLES = ("captures", "flows", "transfers", "verdicts")


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    """Real captures, one that is cut off and one that is none."""
    if not PAIRS.is_dir():
        pytest.skip(f"{PAIRS} is missing: it holds the captures that this test explains")
    paths = finding.captures([PAIRS]).paths[:10]
    whole = paths[0].read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none").write_text("no capture at all")
    return [*paths, tmp_path / "cut", tmp_path / "none"]


def tables(store: Store) -> dict[str, pl.DataFrame]:
    return {name: store.scan(name).collect().sort("capture", *_number(name)) for name in TABLES}


def _number(name: str) -> list[str]:
    return [] if name == "captures" else ["number"]


def test_a_cluster_finds_what_this_machine_finds(spark: Any, captures: list[Path], tmp_path: Path) -> None:
    here, there = Store.create(tmp_path / "here"), Store.create(tmp_path / "there")
    explaining.explain_into(here, captures)
    tally = explaining.explain_into(there, captures, explain=on_spark.explainer(spark, CostLimits()))
    assert len(tally.failures) == 1
    assert tally.truncated == 1
    mine, theirs = tables(here), tables(there)
    for name in TABLES:
        assert mine[name].height > 0
        assert theirs[name].equals(mine[name], null_equal=True), name


def test_an_executor_that_is_killed_costs_no_capture(spark: Any, captures: list[Path], tmp_path: Path) -> None:
    assert spark.range(10).count() == 10
    for attempt in range(5):
        store = Store.create(tmp_path / f"store-{attempt}")
        over, killed = threading.Event(), threading.Event()
        killer = threading.Thread(target=kill_at_work, args=(spark, over, killed))
        killer.start()
        try:
            tally = explaining.explain_into(store, captures, explain=on_spark.explainer(spark, CostLimits(), tasks=4))
        finally:
            over.set()
            killer.join()
        assert sum(tally.causes.values()) == len(captures) - 1
        assert store.scan("captures").select("capture").unique().collect().height == len(captures)
        if killed.is_set():
            return
    pytest.fail("the captures were explained before an executor could be killed, five times")


def kill_at_work(spark: Any, over: threading.Event, killed: threading.Event) -> None:
    """Kill one of this cluster's executors as soon as tasks are at work."""
    status = spark.sparkContext.statusTracker()
    while not over.wait(0.01):
        stages = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
        if any(stage is not None and stage.numActiveTasks for stage in stages):
            os.kill(executors(spark)[0], signal.SIGKILL)
            killed.set()
            return


def executors(spark: Any) -> list[int]:
    """Processes that run the tasks of this session, and of no other on this machine."""
    driver = f":{spark.sparkContext.getConf().get('spark.driver.port')}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(b"CoarseGrainedExecutorBackend" in word for word in words) and any(
            word.startswith(b"spark://") and word.endswith(driver) for word in words
        ):
            found.append(int(folder.name))
    return found


def test_a_capture_that_executors_do_not_see_is_named_with_the_host(spark: Any, tmp_path: Path) -> None:
    tally = explaining.explain_into(
        Store.create(tmp_path / "store"), [tmp_path / "missing"], explain=on_spark.explainer(spark, CostLimits())
    )
    [message] = tally.unreadable
    assert "every host of the cluster must see it" in message
