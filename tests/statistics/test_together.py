"""Flows without values: a sum in which one is missing is never a smaller sum without a word."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from whydrop.recording.comparing.comparison import Side, compare
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.statistics import resampling
from whydrop.show import comparison as comparing

Run = Callable[..., subprocess.CompletedProcess[str]]

# Flow 2 is the first download, of 3 Mbit/s; flow 3 the second, of 4 Mbit/s.
FIRST, SECOND = recordings.DOWNLOADS


def with_another(
    tables: dict[str, pl.DataFrame], flow: int, name: str, kind: str, bps: float
) -> dict[str, pl.DataFrame]:
    """One more flow as the second download is, of another rate, behind all others in the order of the test."""

    def changed(table: str, **changes: Any) -> pl.DataFrame:
        own = tables[table].filter(pl.col("flow") == 3).with_columns(flow=pl.lit(flow, pl.Int64), **changes)
        return pl.concat([tables[table], own], how="vertical_relaxed")

    flows, intervals = (
        changed("flows", name=pl.lit(name), kind=pl.lit(kind)),
        changed("intervals", goodput_bps=pl.lit(bps)),
    )
    return {**tables, "flows": flows, "intervals": intervals}


def silenced(tables: dict[str, pl.DataFrame], *flows: int, after_s: float = 0.0) -> dict[str, pl.DataFrame]:
    """Flows without intervals from so many seconds after the start on."""
    gone = pl.col("flow").is_in(flows) & (pl.col("end_ns") > recordings.START_NS + round(after_s * recordings.S))
    return {**tables, "intervals": tables["intervals"].filter(~gone)}


def planned(**of_first: Any) -> dict[str, Any]:
    """The plan with further words on the first download, and without sums in it."""
    test = recordings.metadata()["test"]
    flows = [flow | (of_first if flow["name"] == FIRST else {}) for flow in test["flows"]]
    return {**test, "flows": flows, "computed": []}


def test_fairness_is_of_the_tcp_flows_alone_whichever_flow_is_silent(tmp_path: Path) -> None:
    tables = with_another(recordings.tables(), 8, "TCP download CS1", "tcp", 4e6)
    tables = silenced(with_another(tables, 9, "UDP flood", "udp", 1e8), 2)
    found = measure(recordings.write(tmp_path / "f.recording", tables, test=planned(optional=True)))
    assert found["fairness-down"].value == pytest.approx(1.0)
    assert found["fairness-down"].basis == f"without {FIRST}, which yielded no data"


def test_a_sum_without_a_flow_that_yielded_nothing_is_not_known_and_names_it(tmp_path: Path) -> None:
    recording = recordings.write(tmp_path / "s.recording", silenced(recordings.tables(), 2), test=planned())
    found = measure(recording)
    for key in ("goodput-down", "fairness-down"):
        assert math.isnan(found[key].value)
        assert f"{FIRST} yielded no data" in found[key].basis
    assert "the others 4.00 Mbit/s" in found["goodput-down"].basis
    assert found["goodput-up"].value == pytest.approx(3)
    assert found["goodput-up"].basis == ""


def test_a_flow_of_zero_bytes_counts_as_zero(tmp_path: Path) -> None:
    tables = recordings.tables()
    first = pl.col("flow") == 2
    tables["intervals"] = tables["intervals"].with_columns(
        pl.when(first).then(0).otherwise(pl.col(column)).alias(column) for column in ("payload_bytes", "goodput_bps")
    )
    recording = recordings.write(tmp_path / "z.recording", tables, test=planned())
    found = measure(recording)
    assert (found["goodput-down"].value, found["goodput-down"].basis) == (pytest.approx(4), "")
    assert found["fairness-down"].value == pytest.approx(0.5)
    assert Summary(recording).goodput()["down"] == pytest.approx(4)


def test_an_optional_flow_that_yielded_nothing_is_left_out_and_said(tmp_path: Path) -> None:
    tables = silenced(recordings.tables(), 2)
    recording = recordings.write(tmp_path / "o.recording", tables, test=planned(optional=True))
    found = measure(recording)["goodput-down"]
    assert (found.value, found.basis) == (pytest.approx(4), f"without {FIRST}, which yielded no data")
    assert Summary(recording).goodput()["down"] == pytest.approx(4)
    assert Summary(recording).without_goodput() == {"down": [FIRST]}


def test_a_flow_that_was_not_planned_to_run_carried_nothing(tmp_path: Path) -> None:
    # The first download for the first half of the load only: 3 Mbit/s half of the time.
    tables = silenced(recordings.tables(), 2, after_s=7.0)
    found = measure(recordings.write(tmp_path / "h.recording", tables, test=planned(duration_s=5.0)))["goodput-down"]
    assert found.basis == ""
    assert found.value == pytest.approx(4 + 3 / 2, abs=0.05)


def test_a_flow_that_falls_silent_while_it_should_run_is_named_and_that_time_left_out(tmp_path: Path) -> None:
    tables = silenced(recordings.tables(), 2, after_s=7.0)
    found = measure(recordings.write(tmp_path / "g.recording", tables, test=planned()))["goodput-down"]
    assert found.value == pytest.approx(7)
    assert "in which all flows have values" in found.basis
    assert f"{FIRST} lacks most (" in found.basis


def test_where_never_all_flows_have_values_the_sum_says_that_it_is_of_those_that_have(tmp_path: Path) -> None:
    early, late = pl.col("flow") == 2, pl.col("flow") == 3
    half = recordings.START_NS + 7 * recordings.S
    tables = recordings.tables()
    tables["intervals"] = tables["intervals"].filter(
        ~(early & (pl.col("end_ns") > half)) & ~(late & (pl.col("start_ns") < half + recordings.S))
    )
    test = {**planned(), "flows": []}
    found = measure(recordings.write(tmp_path / "n.recording", tables, test=test))["goodput-down"]
    assert 3 < found.value < 4
    assert found.basis.startswith(
        "at each step, the sum of the flows that have a value, since at no step all have one; "
    )


def test_a_summary_says_which_flow_a_sum_lacks(tmp_path: Path, run_here: Run) -> None:
    recordings.write(tmp_path / "s.recording", silenced(recordings.tables(), 2), test=planned())
    document = json.loads(run_here("show", "s.recording", "--json", cwd=tmp_path).stdout)
    assert document["goodput_mbit_per_s"] == {"up": pytest.approx(3), "down": None}
    assert document["fairness"]["down"] is None
    assert document["without_goodput"] == {"down": [FIRST]}
    text = run_here("show", "s.recording", cwd=tmp_path).stdout
    assert f"Sum of all downloads: unknown; {FIRST} yielded no data; the others 4.00 Mbit/s" in text
    assert f"the senders of {FIRST} and {SECOND} reported none" in " ".join(text.split())


def test_stats_say_which_flow_a_sum_and_its_shares_lack(tmp_path: Path, run_here: Run) -> None:
    recordings.write(tmp_path / "s.recording", silenced(recordings.tables(), 2), test=planned())
    document = json.loads(run_here("stats", "s.recording", "--json", cwd=tmp_path).stdout)
    rows = {row["metric"]: row for row in document["metrics"]}
    for key in ("goodput-down", "fairness-down", f"share-down:{SECOND}"):
        assert rows[key]["value"] is None
        assert f"{FIRST} yielded no data" in rows[key]["note"]
    text = " ".join(run_here("stats", "s.recording", cwd=tmp_path).stdout.split())
    assert f"Goodput, sum of downloads: not known; {FIRST} yielded no data; the others 4.00 Mbit/s." in text


@pytest.mark.parametrize("lacking", [0, 1])
def test_nothing_is_claimed_of_a_sum_that_one_side_does_not_know(
    lacking: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "RESAMPLES", 20)
    # Without probes, of which there is nothing to say here.
    tables = {name: recordings.tables()[name] for name in ("flows", "intervals")}
    of = [
        recordings.write(tmp_path / str(side), silenced(tables, 2) if side == lacking else tables, test=planned())
        for side in (0, 1)
    ]
    found = compare([Side("a", (of[0],)), Side("b", (of[1],))])
    row = next(row for row in comparing.rows_of(found) if row["metric"] == "goodput-down")
    assert (row["finding"], row["difference"]) == ("not resolved", None)
    assert (row["first_value"], row["second_value"]) == (
        (None, pytest.approx(7)) if lacking == 0 else (pytest.approx(7), None)
    )
    assert f"{FIRST} yielded no data" in row["note"]
    assert f"{FIRST} yielded no data" in str(comparing.as_json(found))


@pytest.mark.slow
def test_a_recording_whose_sum_is_not_known_is_left_out_of_its_side_and_counted(tmp_path: Path) -> None:
    whole = [
        recordings.write(tmp_path / f"{n}.recording", recordings.tables(1 + n / 100), test=planned()) for n in range(6)
    ]
    part = recordings.write(tmp_path / "p.recording", silenced(recordings.tables(), 2), test=planned())
    sides = [Side("a", (*whole[:3], part)), Side("b", tuple(whole[3:]))]
    row = next(one for one in compare(sides).rows if one.metric.key == "goodput-down")
    assert row.values == pytest.approx((7.07, 7.28))
    assert "(1 of 7 recordings left out)" in row.why
