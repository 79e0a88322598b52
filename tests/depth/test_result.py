"""The result of a measurement of a queue's depth: what it says of bursts, as time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.measure.depth.result import Depth, Quantity, sentences


def result(
    kind: str = "queue", *, line_bit_s: float | None = 10e9, drain_bit_s: float = 9.953e9, room_bytes: float = 405_630,
    bucket_bytes: float | None = None, lost: int = 100,
) -> Depth:  # fmt: skip
    """By default the published case: 45 packets of 9 kB at a step down from 10 Gbit/s to 9.953."""
    room = Quantity(room_bytes, room_bytes * 0.98, room_bytes * 1.02)
    line = None if line_bit_s is None else Quantity(line_bit_s, None, None)
    drain = Quantity(drain_bit_s, drain_bit_s * 0.9997, drain_bit_s * 1.0003)
    bucket = room if kind == "policer" else None if bucket_bytes is None else Quantity(bucket_bytes, None, None)
    return Depth(kind, None, 0.99, drain, "packets", Quantity(45, 44, 46), None if kind == "policer" else room, bucket,
                 "ethernet", line, 9000, 5000, lost, 0)  # fmt: skip


def test_the_published_queue_takes_325_microseconds_of_packets_at_line_rate():
    found = result()
    assert found.burst_time_s is not None
    assert found.burst_time_s.value == pytest.approx(325e-6, rel=0.01)
    assert found.overflow_time_s is not None
    assert found.overflow_time_s.value == pytest.approx(405_630 * 8 / 47e6)
    assert (
        "Packets of a burst arrive at 10.000 Gbit/s and leave at 9.953 Gbit/s, 0.47 % more slowly. The queue holds "
        "325 µs of packets at line rate: a burst at line rate loses packets after 69.0 ms."
    ) in [line.replace("\xa0", " ") for line in sentences(found)]
    kept = found.document()
    assert kept["rate_step"]["value"] == pytest.approx(0.0047)
    assert kept["rate_step"]["low"] < 0.0047 < kept["rate_step"]["high"]
    assert kept["burst_time_s"]["low"] < kept["burst_time_s"]["value"] < kept["burst_time_s"]["high"]


def test_the_bucket_of_a_policer_takes_bursts_too():
    found = result("policer", line_bit_s=100e6, drain_bit_s=10e6, room_bytes=90_000)
    assert found.overflow_time_s is not None
    assert found.overflow_time_s.value == pytest.approx(8e-3)
    assert "pass at 10.0 Mbit/s, 90 % more slowly. The bucket holds 7.20 ms" in " ".join(sentences(found)).replace(
        "\xa0", " "
    )


@pytest.mark.parametrize(
    "found",
    [
        result(line_bit_s=None),
        result(line_bit_s=9.9e9),  # bursts that came more slowly than it drains
        result(bucket_bytes=5000),  # a shaper, with a queue that empties as its bucket does
        result(lost=0),
        result("none"),
        result("managed-queue"),  # it drops before it is full
    ],
)
def test_a_burst_that_loses_nothing_has_no_time_to_say(found: Depth):
    assert "loses packets after" not in " ".join(sentences(found))


@given(st.floats(1e3, 1e12), st.floats(1e3, 1e12), st.floats(0, 1e12))
def test_a_queue_that_drains_takes_longer_to_fill(line_bit_s: float, drain_bit_s: float, room_bytes: float):
    found = result(line_bit_s=line_bit_s, drain_bit_s=drain_bit_s, room_bytes=room_bytes)
    holds, overflow = found.burst_time_s, found.overflow_time_s
    assert holds is not None
    assert (overflow is None) == (line_bit_s <= drain_bit_s)
    if overflow is not None:
        assert overflow.value >= holds.value
        assert overflow.low is None or overflow.low <= overflow.value
        assert overflow.high is None or overflow.high >= overflow.value
    assert Depth.of_document(found.document()) == found
