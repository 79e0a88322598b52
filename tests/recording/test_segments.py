"""Probes of an access point and of a far end say where delay and loss arise, or that it is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from recordings import MS, START_NS, S
from whydrop.recording.metrics.segments import Segments, segments
from whydrop.recording.recording import Recording
from whydrop.recording.writer import RecordingWriter
from whydrop.show.segments import sentences

Values = NDArray[np.float64]

NEAR, FAR, LOAD = "Ping (ms) access point", "Ping (ms) far end", "TCP upload"
IDLE_S, LENGTH_S, EVERY_MS = 2, 10, 50
COUNT = (LENGTH_S + 2 * IDLE_S) * 1000 // EVERY_MS
RANDOM = np.random.default_rng(7)


def queue(most_ms: float) -> Values:
    """A queue that fills and is emptied a few times, while there is load."""
    at_s = np.arange(COUNT) * EVERY_MS / 1000
    saw = most_ms * (0.5 + 0.5 * ((at_s * 0.7) % 1))
    return np.where((at_s > IDLE_S) & (at_s < IDLE_S + LENGTH_S), saw, 0.0)


def noise(most_ms: float = 1.0) -> Values:
    return RANDOM.uniform(0, most_ms, COUNT)


def lossy(share: float) -> NDArray[np.bool_]:
    return RANDOM.random(COUNT) < share


NOTHING = lossy(0)


def recorded(
    folder: Path,
    near_ms: Values,
    far_ms: Values,
    *,
    near_lost: NDArray[np.bool_] = NOTHING,
    far_lost: NDArray[np.bool_] = NOTHING,
    plan: Any = None,
    load_s: tuple[int, int] = (IDLE_S, LENGTH_S),
    late_ms: float = 1e9,
) -> Recording:
    """A recording of a test that probed both every 50 ms."""
    probed = {"near": {"host": "192.0.2.1", "probe": NEAR}, "far": [{"host": "server.example", "probe": FAR}]}
    test = {
        "test": "tcp",
        "hosts": ["server.example"],
        "flows": [],
        "step_s": 0.2,
        "segments": probed | {"is_next_hop": True},
    }
    writer = RecordingWriter(
        folder / "a.recording",
        {
            "name": "tcp",
            "started_ns": START_NS,
            "test": test | ({} if plan is None else {"segments": plan}),
            "hosts": {},
        },
    )
    names = [(LOAD, "tcp", *load_s), (NEAR, "icmp", 0, 14), (FAR, "probe", 0, 14)]
    rows = [
        {"flow": number, "name": name, "kind": kind, "direction": "up" if kind == "tcp" else "both",
         "start_ns": START_NS + start * S, "end_ns": START_NS + (start + length) * S}
        for number, (name, kind, start, length) in enumerate(names)
    ]  # fmt: skip
    writer.append("flows", pl.DataFrame(rows))
    for flow, values, lost in ((1, near_ms, near_lost), (2, far_ms, far_lost)):
        sent = START_NS + np.arange(COUNT) * EVERY_MS * MS
        rtt = (values * MS).astype(np.int64)
        frame = pl.DataFrame({"flow": flow, "sequence": np.arange(COUNT), "scheduled_ns": sent, "sent_ns": sent,
                              "rtt_ns": rtt, "received_ns": sent + rtt, "lost": lost})  # fmt: skip
        gone = pl.when("lost").then(None)
        frame = frame.with_columns(
            gone.otherwise("rtt_ns").alias("rtt_ns"),
            gone.otherwise("received_ns").alias("received_ns"),
            fate=pl.when("lost")
            .then(pl.lit("lost"))
            .when(pl.col("rtt_ns") > late_ms * MS)
            .then(pl.lit("late"))
            .otherwise(pl.lit("ok")),
        ).drop("lost")
        writer.append("probes", frame)
    writer.finish("complete")
    return Recording.open(folder / "a.recording")


def found(*given: Any, **more: Any) -> Segments:
    (one,) = segments(recorded(*given, **more))
    return one


def test_a_queue_before_the_access_point_delays_both(tmp_path: Path) -> None:
    air = queue(80)
    one = found(tmp_path, 3 + air + noise(), 40 + air + noise())
    assert (one.delay, one.loss) == ("near", "none")
    assert one.near is not None
    assert one.near.added_ms.low < 60 < one.near.added_ms.high + 1


def test_a_queue_beyond_it_delays_the_far_end_alone(tmp_path: Path) -> None:
    one = found(tmp_path, 3 + noise(), 40 + queue(80) + noise())
    assert one.delay == "beyond"


def test_segments_add_up_to_the_whole(tmp_path: Path) -> None:
    air, line = queue(30), np.roll(queue(90), 7)
    one = found(tmp_path, 3 + air + noise(), 40 + air + line + noise())
    assert one.near is not None
    assert one.beyond is not None
    assert one.whole is not None
    for key in ("idle_ms", "loaded_ms"):
        assert getattr(one.near, key) + getattr(one.beyond, key) == pytest.approx(getattr(one.whole, key))
    assert one.near.added_ms.value + one.beyond.added_ms.value == pytest.approx(one.whole.added_ms.value)


def test_queues_on_both_sides_are_both_named(tmp_path: Path) -> None:
    air = queue(50)
    line = 40 * RANDOM.random(COUNT) * (queue(1) > 0) + 20 * (queue(1) > 0)
    assert found(tmp_path, 3 + air + noise(), 40 + air + line).delay == "both"


def test_no_queue_is_no_delay_on_either_side(tmp_path: Path) -> None:
    assert found(tmp_path, 3 + noise(), 40 + noise()).delay == "none"


def test_an_access_point_that_answers_late_is_blamed_for_nothing(tmp_path: Path) -> None:
    busy = (queue(1) > 0) * RANDOM.uniform(20, 60, COUNT)
    assert found(tmp_path / "idle", 3 + busy, 40 + noise()).delay == "none"
    assert found(tmp_path / "less", 3 + busy, 40 + queue(20) + noise()).delay == "unknown"
    one = found(tmp_path / "more", 3 + busy, 40 + queue(200) + noise())
    assert one.delay == "unknown"
    assert "at other times" in one.delay_reason


@pytest.mark.parametrize(("place", "near", "far"), [("near", 0.1, 0.0), ("beyond", 0.0, 0.1)])
def test_loss_is_told_by_whose_probes_it_hits(tmp_path: Path, place: str, near: float, far: float) -> None:
    shared = lossy(near)
    one = found(tmp_path, 3 + noise(), 40 + noise(), near_lost=shared, far_lost=shared | lossy(far))
    assert one.loss == place


def test_an_access_point_that_limits_its_answers_loses_nothing(tmp_path: Path) -> None:
    one = found(tmp_path, 3 + noise(), 40 + noise(), near_lost=lossy(0.3))
    assert one.loss == "none"
    one = found(tmp_path / "second", 3 + noise(), 40 + noise(), near_lost=lossy(0.4), far_lost=lossy(0.1))
    assert one.loss == "unknown"
    assert "drops pings to itself" in one.loss_reason


def test_losses_that_only_come_and_go_with_the_load_have_no_common_place(tmp_path: Path) -> None:
    loaded = (np.arange(COUNT) // 40) % 2 == 0
    one = found(tmp_path, 3 + noise(), 40 + noise(), near_lost=loaded & lossy(0.2), far_lost=loaded & lossy(0.6))
    assert one.loss == "unknown"


def test_a_place_of_losses_that_rests_on_the_answers_of_the_access_point_has_a_condition(tmp_path: Path) -> None:
    one = found(tmp_path, 3 + noise(), 40 + noise(), near_lost=lossy(0.2), far_lost=lossy(0.2))
    assert (one.loss, one.loss_reason) in (
        ("near", "unless 192.0.2.1 drops pings to itself"),
        ("unknown", one.loss_reason),
    )
    shared = lossy(0.2)
    assert found(tmp_path / "b", 3 + noise(), 40 + noise(), near_lost=shared, far_lost=shared).loss_reason == ""


def test_late_answers_that_come_and_go_with_the_load_are_no_delay_of_the_path(tmp_path: Path) -> None:
    on = (np.arange(COUNT) // 30) % 2 * (queue(1) > 0)
    one = found(tmp_path, 3 + 80 * on + noise(), 40 + 180 * on + noise())
    assert one.delay == "unknown"


def test_answers_that_come_late_are_part_of_the_delay(tmp_path: Path) -> None:
    line = queue(4000)
    recording = recorded(tmp_path, 3 + noise(), 40 + line + noise(), late_ms=2000)
    assert recording.table("probes").filter(pl.col("fate") == "late").height > 100
    (one,) = segments(recording)
    assert one.delay == "beyond"
    assert one.beyond is not None
    assert one.beyond.added_ms.value == pytest.approx(line[line > 0].mean(), rel=0.02)


def test_without_idle_time_the_delay_that_the_load_adds_is_unknown(tmp_path: Path) -> None:
    writer = tmp_path / "c"
    recording = recorded(writer, 3 + noise(30), 40 + noise(30), load_s=(0, 14))
    (one,) = segments(recording)
    assert one.delay == "unknown"
    assert "no idle time" in one.delay_reason


def test_a_round_trip_that_is_shorter_under_load_is_said_to_be(tmp_path: Path) -> None:
    saving = np.where(queue(1) > 0, 0.0, 60.0)
    recording = recorded(tmp_path, 3 + saving + noise(), 40 + saving + 1.5 * queue(80) + noise())
    (one,) = segments(recording)
    assert one.delay == "beyond"
    (line,) = sentences([one])
    assert "ms less between this host and 192.0.2.1" in line


def test_an_access_point_that_answers_nothing_leaves_it_unknown(tmp_path: Path) -> None:
    one = found(tmp_path, 3 + noise(), 40 + queue(80), near_lost=lossy(1))
    assert (one.delay, one.loss, one.near) == ("unknown", "unknown", None)
    assert one.delay_reason == "192.0.2.1 answered no echo request"


@pytest.mark.parametrize(
    "plan", [[], {}, {"near": 1, "far": []}, {"near": {"host": "a"}, "far": [{}]}, {"far": 3}, "x"]
)
def test_a_plan_that_is_none_says_nothing(tmp_path: Path, plan: Any) -> None:
    assert segments(recorded(tmp_path, 3 + noise(), 40 + noise(), plan=plan)) == []


def test_the_access_point_is_part_of_no_mean_of_the_path(tmp_path: Path) -> None:
    import whydrop
    from whydrop.recording.metrics.definitions import measure
    from whydrop.recording.metrics.grades import qualities

    recording = recorded(tmp_path, 3 + noise(), 40 + noise(), near_lost=lossy(0.3))
    measured = measure(recording)
    assert measured["rtt-median"].value == pytest.approx(40.5, abs=0.2)
    assert measured["loss"].value == 0
    assert [one.name for one in qualities(recording)] == [FAR]
    (about,) = whydrop.explain(recording).recordings
    assert [one["stream"] for one in about["probes"]] == [FAR]


def test_an_explanation_names_the_segment_of_a_delay(tmp_path: Path) -> None:
    import whydrop

    air = queue(80)
    explained = whydrop.explain(recorded(tmp_path, 3 + air + noise(), 40 + air + noise()))
    lines = [line for verdict in explained.verdicts for line in verdict.evidence]
    assert any("the delay arises between this host and it" in line for line in lines), "\n".join(lines)
    (about,) = explained.recordings
    assert about["segments"][0]["delay"] == "near"
