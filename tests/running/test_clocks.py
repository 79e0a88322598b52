"""Delays of a whole recording by one clock, whatever was known while it was measured."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.responders import responder
from whydrop.measure.clocks import Clocks, Known
from whydrop.recording import tables
from whydrop.recording.recording import Recording

Run = Callable[..., subprocess.CompletedProcess[str]]

START_NS = 1_700_000_000_000_000_000
FLOWS = {0: (0, "both"), 1: (0, "down"), 2: (0, "up"), 3: (1, "both")}


@dataclass
class FarClock:
    """A clock that is ahead of ours and drifts."""

    ahead_ns: int
    drift_ppm: float

    def offset_ns(self, time_ns: int) -> int:
        return self.ahead_ns + int((time_ns - START_NS) * self.drift_ppm * 1e-6)

    def known(self, time_ns: int) -> Known:
        return Known(time_ns, self.offset_ns(time_ns), 1000, self.drift_ppm)


def believed_ns(known: Known, time_ns: int) -> int:
    """The offset at a time by one estimate, as the engine computes it."""
    return known.offset_ns + int((time_ns - known.time_ns) * (known.drift_ppm or 0.0) * 1e-6)


offsets = st.integers(-(10**14), 10**14)
drifts = st.floats(-100, 100)
estimates = st.builds(
    Known,
    time_ns=st.integers(START_NS, START_NS + 60 * 10**9),
    offset_ns=offsets,
    uncertainty_ns=st.integers(0, 10**6),
    drift_ppm=st.none() | drifts,
)
lots = st.lists(st.tuples(estimates, st.integers(0, 5)), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=60)
@given(lots=lots, ahead_ns=offsets, drift_ppm=drifts)
def test_delays_of_probes_are_the_true_ones_whatever_was_believed_when_they_were_written(
    lots: list[tuple[Known, int]], ahead_ns: int, drift_ppm: float
) -> None:
    far, clocks, frames, sequence = FarClock(ahead_ns, drift_ppm), Clocks(FLOWS), [], 0
    for known, count in lots:
        rows = []
        for _ in range(count):
            sent_ns = START_NS + sequence * 20_000_000
            wrong_ns = far.offset_ns(sent_ns) - believed_ns(known, sent_ns)
            up_ns, down_ns = 5_000_000 + wrong_ns, 7_000_000 - wrong_ns
            rows.append({"flow": 0, "sequence": sequence, "sent_ns": sent_ns, "up_ns": up_ns, "down_ns": down_ns})
            sequence += 1
        frames.append(tables.conform("probes", pl.DataFrame(rows)) if rows else tables.empty("probes"))
        clocks.note({0: known}, {"probes": count})
    whole = pl.concat(frames)
    final = {0: [far.known(START_NS), far.known(START_NS + 60 * 10**9)]}
    found = clocks.corrected("probes", whole, final)
    assert found.drop("up_ns", "down_ns").equals(whole.drop("up_ns", "down_ns"))
    assert all(abs(delay_ns - 5_000_000) <= 3 for delay_ns in found["up_ns"])
    assert all(abs(delay_ns - 7_000_000) <= 3 for delay_ns in found["down_ns"])


def test_every_column_that_holds_the_far_clock_is_moved_and_no_other() -> None:
    clocks, at_ns = Clocks(FLOWS), START_NS + 10**9
    counts = {"intervals": 2, "tcp_info": 2, "bursts": 3, "probes": 2}
    clocks.note({0: Known(START_NS, 1000, 0, None)}, counts)
    final = {0: [Known(START_NS, 1400, 0, 0.0)], 1: [Known(START_NS, 99, 0, 0.0)]}

    def corrected(table: str, rows: list[dict[str, int | None]]) -> list[dict[str, int | None]]:
        frame = clocks.corrected(table, tables.conform(table, pl.DataFrame(rows)), final)
        return frame.select(rows[0].keys()).to_dicts()

    both = [{"flow": flow, "start_ns": at_ns, "end_ns": at_ns + 5, "delay_ns": 50_000} for flow in (1, 2)]
    assert corrected("intervals", both) == [
        {"flow": 1, "start_ns": at_ns, "end_ns": at_ns + 5, "delay_ns": 50_400},
        {"flow": 2, "start_ns": at_ns - 400, "end_ns": at_ns - 395, "delay_ns": 49_600},
    ]
    sampled = [{"flow": flow, "time_ns": at_ns} for flow in (1, 2)]
    assert [row["time_ns"] for row in corrected("tcp_info", sampled)] == [at_ns - 400, at_ns]
    packets = [
        {"flow": 1, "sent_ns": at_ns, "received_ns": at_ns + 9},
        {"flow": 1, "sent_ns": at_ns, "received_ns": None},
        {"flow": 2, "sent_ns": at_ns, "received_ns": at_ns + 9},
    ]
    assert [(row["sent_ns"], row["received_ns"]) for row in corrected("bursts", packets)] == [
        (at_ns - 400, at_ns + 9),
        (at_ns - 400, None),
        (at_ns, at_ns - 391),
    ]
    # A delay that was not known is not known now; flow 3 goes to another host, which has no clock to correct by.
    probes = [{"flow": 0, "sent_ns": at_ns, "up_ns": None}, {"flow": 3, "sent_ns": at_ns, "up_ns": 70_000}]
    assert [row["up_ns"] for row in corrected("probes", probes)] == [None, 70_000 - 99]


def test_the_table_of_clocks_says_what_is_known_at_the_end_and_that_of_other_programs_is_left() -> None:
    clocks = Clocks(FLOWS)
    rows = []
    for second in range(3):
        at_ns = START_NS + second * 10**9
        clocks.note({0: Known(at_ns, 5, 900, None)}, {"clocks": 2})
        rows += [
            {"host": "far", "time_ns": at_ns, "offset_ns": 5, "uncertainty_ns": 900, "drift_ppm": None},
            {"host": "far", "time_ns": at_ns, "offset_ns": 77, "uncertainty_ns": 9, "drift_ppm": None},
        ]
    final = {0: [Known(START_NS, 100, 300, 1.0), Known(START_NS + 2 * 10**9, 2100, 500, 1.0)]}
    found = clocks.corrected("clocks", tables.conform("clocks", pl.DataFrame(rows)), final)
    assert found["offset_ns"].to_list() == [100, 77, 1100, 77, 2100, 77]
    assert found["uncertainty_ns"].to_list() == [300, 9, 400, 9, 500, 9]
    assert found["drift_ppm"].to_list() == [1.0, None, 1.0, None, 1.0, None]


def test_rows_of_a_table_that_lost_some_are_left_as_they_were_written() -> None:
    clocks = Clocks(FLOWS)
    clocks.note({0: Known(START_NS, 0, 0, None)}, {"probes": 3})
    rows = tables.conform("probes", pl.DataFrame({"flow": [0, 0], "sent_ns": [START_NS] * 2, "up_ns": [1, 2]}))
    assert clocks.corrected("probes", rows, {0: [Known(START_NS, 1000, 0, None)]}).equals(rows)


@pytest.mark.slow
def test_a_finished_recording_has_one_clock(run: Run, tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(
        'title = "Probes and a stream"\n[[flows]]\nname = "Probe"\nkind = "probe"\nstart_s = 0\nduration_s = 2\n'
        '[[flows]]\nname = "Stream"\nkind = "udp"\ndirection = "up"\nrate_bps = "1 Mbit/s"\n'
        "start_s = 0\nduration_s = 2\n"
    )
    with responder("--open") as far:
        done = run("run", tmp_path / "both.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("*.recording")
    recording = Recording.open(folder)
    clocks = recording.table("clocks").sort("time_ns")
    # Between all of its rows the clock runs straight: they are of one fit, whenever they were first written.
    times_s = (clocks["time_ns"] - clocks["time_ns"][0]).to_numpy() / 1e9
    straight = np.interp(times_s, times_s[[0, -1]], clocks["offset_ns"].to_numpy()[[0, -1]])
    assert clocks.height >= 2
    assert np.abs(clocks["offset_ns"].to_numpy() - straight).max() <= 2
    assert clocks["drift_ppm"].n_unique() == 1
    probes = recording.table("probes").drop_nulls("up_ns")
    assert probes.height > 0
    apart_ns = probes["up_ns"] + probes["down_ns"] - probes["rtt_ns"]
    assert (apart_ns.abs() <= 1).all()
