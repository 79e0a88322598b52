"""Troubles of the ends themselves: what they lost is no loss of the path."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from whydrop.recording.troubles import AT_FAR_END, Fates, Trouble, in_words, of_metadata, withheld_in_words

MS = 1_000_000


def probes(fates: list[str], flow: int = 0) -> pl.DataFrame:
    """Probes 10 ms apart, the answered ones with a round trip of 2 ms."""
    return pl.DataFrame(
        {
            "flow": [flow] * len(fates),
            "sequence": list(range(len(fates))),
            "sent_ns": [number * 10 * MS for number in range(len(fates))],
            "rtt_ns": [2 * MS if fate == "ok" else None for fate in fates],
            "fate": fates,
        }
    )


def fates(table: pl.DataFrame, *troubles: Trouble, **facts: str) -> list[str]:
    return Fates(list(troubles), {0: "far"}, {0: facts}).told(table)["fate"].to_list()


def test_probes_lost_while_the_responders_buffer_was_full_are_not_the_paths() -> None:
    table = probes(["ok", "lost-up", "lost-up", "ok", "lost-up", "lost-down"])
    full = Trouble("far", "overflow", 5 * MS, 30 * MS, 100)
    assert fates(table, full) == ["ok", AT_FAR_END, AT_FAR_END, "ok", "lost-up", "lost-down"]


def test_no_more_probes_were_lost_there_than_the_kernel_counted() -> None:
    table = probes(["ok", "lost-up", "lost-up", "lost-up", "ok"])
    assert fates(table, Trouble("far", "overflow", 5 * MS, 40 * MS, 2)).count(AT_FAR_END) == 2


def test_a_buffer_of_another_responder_and_a_pause_explain_no_loss() -> None:
    table = probes(["ok", "lost-up", "ok"])
    for trouble in (Trouble("other", "overflow", 0, 40 * MS, 9), Trouble("far", "pause", 0, 40 * MS)):
        assert fates(table, trouble) == ["ok", "lost-up", "ok"]


def test_probes_that_limits_left_without_an_answer_were_not_lost_on_the_way_back() -> None:
    table = probes(["lost-down", "lost-down", "lost-up", "lost-down"])
    told = fates(table, probes_without_answer_by_limits="0-0,2-3")
    assert told == [AT_FAR_END, "lost-down", "lost-up", AT_FAR_END]


@pytest.mark.parametrize("words", ["", "-", "a-b", "3", "9" * 99, "1-²"])
def test_words_of_a_responder_that_are_no_ranges_change_nothing(words: str) -> None:
    table = probes(["lost-down", "ok"])
    assert fates(table, probes_without_answer_by_limits=words) == ["lost-down", "ok"]


@pytest.mark.parametrize(
    "host",
    [None, [], {"troubles": 3}, {"troubles": [3, {}, {"kind": "pause"}, {"kind": "war", "start_ns": 1, "end_ns": 2}]}],
)
def test_metadata_without_troubles_have_none(host: Any) -> None:
    assert of_metadata({"hosts": {"far": host}}) == []
    assert of_metadata({"hosts": host}) == []


def test_troubles_are_read_back_from_metadata() -> None:
    far, own = Trouble("far", "overflow", 1, 2, 3), Trouble(None, "pause", 4, 5)
    hosts = {"far": {"troubles": [far.as_json()]}, "local": {"troubles": [own.as_json()]}}
    assert of_metadata({"hosts": hosts}) == [far, own]


def test_each_end_is_reported_in_one_sentence() -> None:
    second = 1_000_000_000
    told = in_words(
        [Trouble("far", "pause", 0, second), Trouble("far", "overflow", 0, 1, 1), Trouble(None, "pause", 0, second)]
    )
    assert len(told) == 2
    assert "dropped 1 datagram," in told[0]
    assert told[1].startswith("this host stood still for 1.00\xa0s")
    assert withheld_in_words([("A", {"answers_withheld_by_responders_limits": "x"}), ("B", None)]) == []


def test_troubles_end_with_the_recording_and_those_of_another_time_are_none() -> None:
    def told(start_ns: int, end_ns: int, count: int = 1) -> list[Trouble]:
        one = {"kind": "overflow", "start_ns": start_ns, "end_ns": end_ns, "count": count}
        return of_metadata({"started_ns": 1000, "ended_ns": 2000, "hosts": {"far": {"troubles": [one]}}})

    assert told(0, 2**63 - 1) == [Trouble("far", "overflow", 1000, 2000, 1)]
    assert told(3000, 4000) == told(10, 20) == []
    assert told(1500, 1600, 2**32) == []
