"""The first sample of a file of DISCO covers the time since the last one of the file before, where that is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from whydrop.formats.archives import disco
from whydrop.store import spans
from whydrop.store.store import Store

START = 1_639_449_000
HOST = "mlab2-dfw07.mlab-oti.measurement-lab.org"
# What each counter grows by in ten seconds.
PACES = {"switch.octets.uplink.tx": 700, "switch.octets.uplink.rx": 0, "switch.discards.uplink.tx": 0}


def file_of(polls: range, host: str = HOST, paces: dict[str, int] | None = None) -> pl.DataFrame:
    """Rows of a file with some polls, each ten seconds behind the one before; growth is since the poll before."""
    lines = []
    for metric, pace in (paces or PACES).items():
        samples: list[dict[str, Any]] = [
            {"timestamp": START + 10 * poll, "collectstart": 0, "collectend": 0,
             "value": pace * polls.step, "counter": 10**9 + pace * poll}
            for poll in polls
        ]  # fmt: skip
        whose = {"experiment": "s1-dfw07.measurement-lab.org", "hostname": host, "metric": metric}
        lines.append(json.dumps({**whose, "sample": samples}))
    (piece,) = disco.pieces_of("\n".join(lines).encode(), "", "a-switch.jsonl")
    return piece.frame


def spans_of(frame: pl.DataFrame) -> dict[int, set[float | None]]:
    """By poll, the spans in seconds of its samples."""
    found: dict[int, set[float | None]] = {}
    for end_ns, span_ns in frame.select("end_ns", "span_ns").iter_rows():
        poll = (end_ns // 10**9 - START) // 10
        found.setdefault(poll, set()).add(None if span_ns is None else span_ns / 1e9)
    return found


def added(tmp_path: Path, *frames: pl.DataFrame) -> pl.DataFrame:
    store = Store.create(tmp_path)
    store.add_all("counters", frames)
    return store.scan("counters").collect()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_only_the_first_sample_of_all_has_no_span(tmp_path: Path, order: tuple[int, ...]) -> None:
    files = [file_of(range(1 + 30 * number, 31 + 30 * number)) for number in range(3)]
    found = spans_of(added(tmp_path, *(files[place] for place in order)))
    assert found.pop(1) == {None}
    assert list(found.values()) == [{10.0}] * 89


def test_across_midnight_too(tmp_path: Path) -> None:
    polls = (86_400 - START % 86_400) // 10
    rows = added(tmp_path, file_of(range(polls - 30, polls)), file_of(range(polls, polls + 30)))
    assert rows["day"].n_unique() == 2
    assert spans_of(rows)[polls] == {10.0}


def test_polls_that_were_missed_in_between_are_a_gap(tmp_path: Path) -> None:
    later = file_of(range(34, 60)).with_columns(
        value=pl.when(pl.col("end_ns") == pl.col("end_ns").min()).then(4 * pl.col("value")).otherwise("value")
    )
    rows = added(tmp_path, file_of(range(1, 31)), later)
    assert spans_of(rows)[34] == {40.0}
    at = (START + 340) * 10**9
    assert set(rows.filter(pl.col("end_ns") == at)["quality"]) == {"gap"}
    assert set(rows.filter(pl.col("end_ns") != at)["quality"]) == {"ok"}


NO_PROOF = {
    "a file between the two is missing": (file_of(range(1, 31)), file_of(range(61, 91))),
    "another machine polled": (file_of(range(1, 31), HOST.replace("mlab2", "mlab3")), file_of(range(31, 61))),
    "nothing grew": (
        file_of(range(1, 31), paces={"switch.octets.uplink.rx": 0}),
        file_of(range(61, 91), paces={"switch.octets.uplink.rx": 0}),
    ),
    "one counter of the poll contradicts": (
        file_of(range(1, 31)),
        file_of(range(31, 61)).with_columns(
            total=pl.when(pl.col("counter") == "octets.rx").then(pl.col("total") + 1).otherwise("total")
        ),
    ),
}


@pytest.mark.parametrize("frames", NO_PROOF.values(), ids=NO_PROOF)
def test_a_span_that_nothing_proves_stays_open(tmp_path: Path, frames: tuple[pl.DataFrame, ...]) -> None:
    rows = added(tmp_path, *frames)
    second = frames[1]["end_ns"].min()
    assert rows.filter((pl.col("end_ns") == second) & (pl.col("machine") == "mlab2"))["span_ns"].to_list() == (
        [None] * frames[1]["counter"].n_unique()
    )


def test_a_counter_of_32_bits_that_wrapped_is_known_by_what_it_was(tmp_path: Path) -> None:
    before, after = file_of(range(1, 31)), file_of(range(31, 61))
    is_discards = pl.col("counter") == "discards.tx"
    before = before.with_columns(total=pl.when(is_discards).then(2**32 - 5).otherwise("total"))
    after = after.with_columns(
        total=pl.when(is_discards).then(7).otherwise("total"),
        value=pl.when(is_discards & (pl.col("end_ns") == pl.col("end_ns").min())).then(12.0).otherwise("value"),
    )
    assert spans_of(added(tmp_path, before, after))[31] == {10.0}


def test_rows_stay_in_their_order_and_other_tables_as_they_are() -> None:
    rows = pl.concat([file_of(range(31, 61)), file_of(range(1, 31))])
    found = spans.filled("counters", rows)
    assert found.drop("span_ns").equals(rows.drop("span_ns"))
    assert spans.filled("polls", rows) is rows
    whole = rows.filter(pl.col("span_ns").is_not_null())
    assert spans.filled("counters", whole) is whole


def test_the_same_files_again_change_nothing(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    files = [file_of(range(1, 31)), file_of(range(31, 61))]
    store.add_all("counters", files)
    first = store.scan("counters").collect()
    for again in (files, files[1:], files[:1]):
        assert [(one.rows, one.conflicts) for one in store.add_all("counters", again)] == [(0, 0)] * len(again)
    assert store.scan("counters").collect().equals(first)
