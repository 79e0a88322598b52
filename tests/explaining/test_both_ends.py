"""Two recordings of the same connections, one at each end, make one account."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from explaining.made_connections import BASE_NS, EVERY_NS, MSS, NAME, connection, samples
from plain_text import plain
from whydrop.explaining import sources
from whydrop.explaining.recordings import ends
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording

N = 800
HERE, THERE = NAME.split(" > ")


def sender(**columns: Any) -> Recording:
    """100 packets each round trip of 40 ms; 60 were retransmitted."""
    acked = samples(N)["acked_bytes"].to_numpy()
    packets = acked // MSS
    counts = {"sent_data_packets": packets + 160, "sent_bytes": acked + 100 * MSS + 60 * MSS}
    again = {"retransmitted_packets": 60, "retransmitted_bytes": 60 * MSS}
    return connection(samples(N, **counts, **again, **columns))


def receiver(ahead_s: float = 0.0, name: str = NAME, lost: int = 50, delay_ns: int = BASE_NS // 2) -> Recording:
    """The same, half a round trip later unless given, by a clock that is ahead."""
    here, there = name.split(" > ")
    acked = samples(N)["acked_bytes"].to_numpy()
    early = (BASE_NS - delay_ns) // EVERY_NS
    received = np.concatenate([acked[early:], np.full(early, acked[-1])])
    rows = samples(N, received_bytes=received, received_data_packets=received // MSS + 110 - lost)
    rows = rows.with_columns(
        time_ns=pl.col("time_ns") + round(ahead_s * 1e9),
        out_of_order_packets=pl.lit(7),
        receive_queue_bytes=pl.lit(9000),
    )
    plain_one = connection(rows)
    facts = json.dumps({"cookie": 8})
    up = {"flow": 0, "name": f"{there} > {here}", "kind": "tcp", "direction": "up", "host": "192.0.2.1", "facts": facts}
    down = {**up, "flow": 1, "name": name, "direction": "down"}
    span = {"start_ns": rows["time_ns"][0], "end_ns": rows["time_ns"][-1], "runner": "kernel", "address": "192.0.2.1"}
    intervals = plain_one.table("intervals").with_columns(flow=pl.lit(1, pl.Int32))
    parts = {"flows": pl.DataFrame([{**up, **span}, {**down, **span}]), "tcp_info": rows, "intervals": intervals}
    return Recording(plain_one.path, plain_one.metadata, parts)


def test_the_counts_of_both_ends_show_what_was_lost_and_what_was_retransmitted_without_need() -> None:
    document = ends.explain(sender(unacked_packets=100), receiver()).document()
    (found,) = document["ends"]
    assert found["flow"] == NAME
    missing = found["sent_packets"] - found["received_packets"] - 100
    assert found["missing_packets"] == missing
    assert found["needless_retransmissions"] == max(0, 60 - missing)
    assert (found["out_of_order_packets"], found["waited_bytes"]) == (7, 9000)
    assert len(document["recordings"]) == 2
    evidence = " ".join(plain(line) for one in document["verdicts"] for line in one["evidence"])
    assert "60 packets were retransmitted" in evidence
    assert "7 packets came out of order" in evidence


@pytest.mark.parametrize("ahead_s", [0.0, 3.5, -120.0])
def test_the_clocks_are_as_far_apart_as_the_counts_of_bytes_allow(ahead_s: float) -> None:
    (found,) = ends.explain(receiver(ahead_s), sender()).document()["ends"]
    ahead = found["receiver_ahead_s"]
    assert ahead["low"] <= ahead_s <= ahead["high"]
    assert ahead["high"] - ahead["low"] < 0.15


def sampled_later(recording: Recording, later_ns: int) -> Recording:
    """The same connection at a receiver with samples between those of the sender."""
    packets = 100 * later_ns // BASE_NS
    counts = {"received_bytes": packets * MSS, "received_data_packets": packets, "time_ns": later_ns}
    rows = recording.table("tcp_info").with_columns(pl.col(name) + more for name, more in counts.items())
    tables = {name: recording.table(name) for name in ("flows", "intervals")} | {"tcp_info": rows}
    return Recording(recording.path, recording.metadata, tables)


def stamped_late(recording: Recording, late_ns: int) -> Recording:
    """The same, by a host so busy that each sample has its time this long after the kernel read it."""
    rows = recording.table("tcp_info")
    polls = pl.DataFrame({"start_ns": rows["time_ns"].unique().sort()})
    late = {"tcp_info": rows.with_columns(pl.col("time_ns") + late_ns), "polls": polls}
    tables = {name: recording.table(name) for name in ("flows", "intervals")} | late
    return Recording(recording.path, recording.metadata, tables)


@pytest.mark.parametrize(("sender_ns", "receiver_ns"), [(EVERY_NS - 1, 0), (0, EVERY_NS - 1), (EVERY_NS // 2,) * 2])
@pytest.mark.parametrize("delay_ns", [0, BASE_NS])
def test_samples_that_a_busy_host_stamped_late_widen_the_bounds_of_the_clocks(
    sender_ns: int, receiver_ns: int, delay_ns: int
) -> None:
    between = sampled_later(receiver(3.5, delay_ns=delay_ns), 2_000_000)
    late = (stamped_late(sender(), sender_ns), stamped_late(between, receiver_ns))
    (found,) = ends.explain(*late).document()["ends"]
    assert found["receiver_ahead_s"]["low"] <= 3.5 <= found["receiver_ahead_s"]["high"]


def test_a_receiver_that_was_recorded_for_less_time_counts_no_losses() -> None:
    shorter = receiver()
    rows = shorter.table("tcp_info").head(N // 2)
    parts = {"flows": shorter.table("flows"), "tcp_info": rows, "intervals": shorter.table("intervals")}
    (found,) = ends.explain(sender(), Recording(shorter.path, shorter.metadata, parts)).document()["ends"]
    assert found["missing_packets"] is None
    assert found["needless_retransmissions"] is None


def test_recordings_without_a_common_connection_are_refused_with_the_reason() -> None:
    other = receiver(name="192.0.2.9:1 > 198.51.100.7:443")
    with pytest.raises(RecordingError, match="no connection in common"):
        ends.explain(sender(), other)


def test_two_open_recordings_are_a_source() -> None:
    document = sources.analyse([sender(), receiver()]).document()
    assert [one["flow"] for one in document["ends"]] == [NAME]
