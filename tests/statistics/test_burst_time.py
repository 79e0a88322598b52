"""The time until a burst of packets has arrived as a whole."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

import recordings
from recordings import MS, START_NS, S
from whydrop.recording import tables
from whydrop.recording.metrics.definitions import Measured, measure
from whydrop.recording.recording import Recording


def measured(tmp_path: Path, bursts: list[tuple[int, list[int | None]]]) -> dict[str, Measured]:
    """The metrics of a load from 0 to 10 s; bursts: when each was sent, and how long its packets took, in ms."""
    flows = [{"flow": 0, "name": "Frames", "kind": "burst", "direction": "down", "start_ns": START_NS,
              "end_ns": START_NS + 10 * S}]  # fmt: skip
    rows = [
        {"flow": 0, "burst": burst, "sequence": sequence, "sent_ns": START_NS + sent_ms * MS,
         "received_ns": None if taken_ms is None else START_NS + (sent_ms + taken_ms) * MS}
        for burst, (sent_ms, taken) in enumerate(bursts)
        for sequence, taken_ms in enumerate(taken)
    ]  # fmt: skip
    made = {"flows": pl.DataFrame(flows), "bursts": pl.DataFrame(rows, infer_schema_length=None)}
    return measure(
        Recording(tmp_path, recordings.metadata(), {name: tables.conform(name, frame) for name, frame in made.items()})
    )


def test_a_burst_takes_until_its_last_packet_arrives(tmp_path: Path) -> None:
    sent = [(100 * number, [25, 26, 27 + number]) for number in range(5)]
    found = measured(tmp_path, [*sent, (-50, [900, 900, 900])])
    assert found["burst-time"].value == pytest.approx(29)
    assert found["burst-time-p95"].value == pytest.approx(30.8)
    assert found["burst-time"].basis == "5 bursts of 3 packets"


def test_a_burst_with_a_lost_packet_is_incomplete_and_has_no_time(tmp_path: Path) -> None:
    found = measured(tmp_path, [(0, [25, 26]), (100, [25, None]), (200, [40, 30]), (300, [None, None])])
    assert found["bursts-incomplete"].value == 50
    assert found["burst-time"].value == pytest.approx((26 + 40) / 2)


def test_where_no_burst_is_complete_the_time_is_not_known(tmp_path: Path) -> None:
    found = measured(tmp_path, [(0, [None, 26]), (100, [25, None])])
    assert found["bursts-incomplete"].value == 100
    assert math.isnan(found["burst-time"].value)
    assert found["burst-time"].basis == "not known: none of 2 bursts of 2 packets is complete"


@pytest.mark.parametrize("bursts", [[], [(0, [1]), (100, [1])], [(0, [1, 1]), (100, [1, 1, 1])]])
def test_single_packets_and_bursts_of_unlike_lengths_have_no_common_time(
    tmp_path: Path, bursts: list[tuple[int, list[int | None]]]
) -> None:
    assert not {"burst-time", "bursts-incomplete"} & measured(tmp_path, bursts).keys()
