"""A fleet as a store, with the truth beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from whydrop.store.store import Store

from . import truth
from .fleet import Fleet

PART = "fleet"
Progress = Callable[[str], None]


def write(fleet: Fleet, out: Path, progress: Progress = lambda _: None) -> Store:
    """Write the store into ``out``, and ``out/../<name>-truth`` beside it: ``truth.json``, ``days``, ``tests``.

    What is there of a fleet written before is overwritten part by part, so that a shorter one leaves days behind: use
    an empty folder.
    """
    store = Store.create(out)
    for number, (day, frame) in enumerate(fleet.telemetry()):
        store.write_part("counters", day, PART, frame)
        progress(f"{day}: {number + 1} of {fleet.plan.days} days of telemetry")
    truths = []
    for day, frame, true in fleet.tests() if fleet.plan.tests_per_day else ():
        store.write_part("ndt", day, PART, frame)
        truths.append(true)
        progress(f"{day}: tests")
    beside = truth_folder(out)
    beside.mkdir(parents=True, exist_ok=True)
    (beside / "truth.json").write_text(json.dumps(truth.of_fleet(fleet), indent=1) + "\n")
    fleet.true_days().write_parquet(beside / "days.parquet")
    if truths:
        pl.concat(truths).write_parquet(beside / "tests.parquet")
    return store


def truth_folder(out: Path) -> Path:
    """Not within the store, which holds nothing but tables."""
    return out.with_name(f"{out.name}-truth")
