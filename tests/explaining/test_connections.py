"""The limit of a connection, its congestion signals, throughput by congestion window: of samples with known truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.published import published
from example_files import Run
from explaining.made_connections import BASE_NS, EVERY_NS, MSS, NAME, clocks, connection, samples
from plain_text import plain
from whydrop.explaining.recordings import document
from whydrop.explaining.recordings.measures import kink, series
from whydrop.formats import connections
from whydrop.recording.recording import Recording
from whydrop.store.store import Store

N = 800


def explained(rows: pl.DataFrame, control: str = "cubic", **facts: Any) -> dict[str, Any]:
    return document.of_recording(connection(rows, control, **facts)).document()


def flow(rows: pl.DataFrame, control: str = "cubic", **facts: Any) -> dict[str, Any]:
    (found,) = explained(rows, control, **facts)["recordings"][0]["flows"]
    return found


LIMITED: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "receive-window": ({"unacked_packets": 60, "send_window_bytes": 60 * MSS + 700}, {"window": 0.98}),
    "send-buffer": (
        {"unacked_packets": 40, "not_sent_bytes": 0, "send_buffer_bytes": 200_000, "send_memory_bytes": 180_000},
        {"buffer": 0.98},
    ),
    "application": ({"unacked_packets": 20, "not_sent_bytes": 0}, {"busy": 1.0}),
    "pacing": ({"unacked_packets": 50, "pacing_rate_bps": 0.5 * 100 * MSS * 8e9 / BASE_NS}, {}),
    "congestion-window": ({}, {}),
    "path-rate": ({"srtt_ns": 2 * BASE_NS}, {}),
}


@pytest.mark.parametrize("clocked", [True, False], ids=["clocks and samples", "samples alone"])
@pytest.mark.parametrize("limit", LIMITED)
def test_each_limit_is_named_by_clocks_and_by_samples_alone(limit: str, clocked: bool) -> None:
    columns, times = LIMITED[limit]
    limits = flow(samples(**columns, **(clocks(**times) if clocked else {})))["limits"]
    assert limits["by"] == ("kernel" if clocked else "samples")
    assert limits["shares"][limit] > 0.95
    assert sum(limits["shares"].values()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("limit", "cause", "detail"),
    [
        ("receive-window", "receiver-window", None),
        ("send-buffer", "sender", "send-buffer"),
        ("application", "sender", "application"),
        ("pacing", "sender", "pacing"),
    ],
)
def test_what_hosts_hold_back_is_the_verdict(limit: str, cause: str, detail: str | None) -> None:
    columns, _ = LIMITED[limit]
    verdict = explained(samples(**columns))["verdicts"][0]
    assert (verdict["cause"], verdict["detail"], verdict["flows"]) == (cause, detail, [NAME])
    assert "samples" in verdict["evidence"][-1]


@pytest.mark.parametrize("limit", ["congestion-window", "path-rate"])
def test_no_host_is_accused_of_what_the_window_or_the_path_limits(limit: str) -> None:
    columns, _ = LIMITED[limit]
    assert {one["cause"] for one in explained(samples(**columns))["verdicts"]} & {"sender", "receiver-window"} == set()


def test_slow_start_bursts_ahead_of_the_path_and_has_not_reached_its_rate() -> None:
    limits = flow(samples(srtt_ns=2 * BASE_NS, slow_start_threshold_packets=200))["limits"]
    assert limits["shares"]["congestion-window"] > 0.99


def test_bbr_s_own_pacing_is_the_path_s_rate_and_one_that_is_set_is_pacing() -> None:
    paced = {"unacked_packets": 50, "pacing_rate_bps": 10e6}
    assert flow(samples(**paced), "bbr")["limits"]["shares"] == {"path-rate": pytest.approx(1.0)}
    assert flow(samples(**paced, max_pacing_rate_bps=10e6), "bbr")["limits"]["shares"] == {"pacing": pytest.approx(1.0)}


def test_a_mixture_has_its_shares() -> None:
    idle = np.arange(N) % 100 < 30
    columns = {"unacked_packets": np.where(idle, 5, 100), "not_sent_bytes": np.where(idle, 0, 10_000)}
    shares = flow(samples(**columns))["limits"]["shares"]
    assert shares["application"] == pytest.approx(0.3, abs=0.02)
    assert shares["congestion-window"] == pytest.approx(0.7, abs=0.02)


def test_web100_s_clocks_that_stand_until_the_limit_changes_run_evenly() -> None:
    found = open_snaplog("20170430*53088.s2c_snaplog")
    assert found["limits"]["shares"]["receive-window"] > 0.99
    of_2009 = open_snaplog("20090601*60631.s2c_snaplog")["limits"]["shares"]
    assert sum(of_2009.values()) == pytest.approx(1.0, abs=0.01)
    assert max(of_2009, key=of_2009.__getitem__) == "path-rate"


def open_snaplog(pattern: str) -> dict[str, Any]:
    found = document.explain(published("web100", pattern)).document()
    return next(one for one in found["recordings"][0]["flows"] if one["limits"])


# Congestion signals.


def reduced(at: int, state: str = "open", **columns: Any) -> pl.DataFrame:
    after = np.arange(N) >= at
    window = np.where(after, 70, 100)
    during = np.arange(N) - at
    states = np.where((during >= 0) & (during < 4), state, "open")
    changed = {"congestion_window_packets": window, "unacked_packets": window}
    threshold = np.where(after, 70, 80)
    return samples(**changed, slow_start_threshold_packets=threshold, congestion_state=states, **columns)


AFTER = (np.arange(N) >= 300).astype(np.int64)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("fast-retransmit", reduced(300, "recovery", retransmitted_packets=AFTER)),
        ("timeout", reduced(300, "loss", retransmitted_packets=AFTER)),
        ("ecn", reduced(300, "reduced", delivered_ce_packets=AFTER)),
        ("local-stall", reduced(300, "reduced")),
        ("unexplained", reduced(300)),
    ],
)
def test_a_reduction_is_attributed_to_what_came_with_it(kind: str, rows: pl.DataFrame) -> None:
    signals = flow(rows)["congestion_signals"]
    assert signals["by"] == "samples"
    assert {name: count for name, count in signals.items() if name not in ("by", "timeouts_apart") and count} == {
        "count": 1,
        kind: 1,
    }


def test_the_end_of_slow_start_by_delay_is_no_signal() -> None:
    threshold = np.where(np.arange(N) >= 300, 100, 2000)
    assert flow(samples(slow_start_threshold_packets=threshold))["congestion_signals"]["count"] == 0


def test_a_window_that_grows_by_more_than_was_acknowledged_was_given_back() -> None:
    step = np.arange(N)
    window = np.where((step >= 300) & (step < 310), 70, 200)
    threshold = np.where(step >= 300, 70, 80)
    rows = samples(congestion_window_packets=window, unacked_packets=window, slow_start_threshold_packets=threshold)
    signals = flow(rows)["congestion_signals"]
    assert (signals["count"], signals["undone"]) == (1, 1)


def counted(kernel: str) -> dict[str, Any]:
    step = np.arange(N)
    fast, timeouts, stalls = (step >= 100) * 1, (step >= 200) * 1 + (step >= 300) * 1, (step >= 400) * 1
    marks = (step >= 500) * 1
    columns = {
        "fast_retransmits": fast, "timeouts": timeouts, "send_stalls": stalls, "ece_received": marks,
        "congestion_signals": fast + timeouts + stalls + marks + (step >= 600),
        "congestion_over_count": (step >= 130) * 1,
    }  # fmt: skip
    return flow(samples(**columns), kernel=kernel)["congestion_signals"]


def test_web100_s_signals_are_attributed_to_what_was_counted_with_them() -> None:
    told = counted("2.5.17 200710051837 net100")
    assert told == {
        "by": "counters", "count": 6, "fast-retransmit": 1, "timeout": 2, "ecn": 1, "local-stall": 1,
        "unexplained": 1, "undone": 1, "timeouts_apart": None,
    }  # fmt: skip


def test_a_kernel_that_counts_timeouts_apart_explains_no_signal_by_them() -> None:
    told = counted("2.5.27 201001301335 net100")
    assert (told["timeout"], told["unexplained"], told["timeouts_apart"]) == (0, 3, 2)


# Throughput by congestion window.


def through(product: float, seconds: int = 60, *, offered: float = 4e6, noise: float = 0.01) -> pl.DataFrame:
    """A sawtooth from 0.7 to 1.3 of the product in packets; what goes beyond waits in the queue."""
    count, random = seconds * 100, np.random.default_rng(7)
    phase = (np.arange(count) % 400) / 400
    window = np.round(product * (0.7 + 0.6 * phase)).astype(np.int64)
    used = np.minimum(window, offered // MSS)
    rtt = np.maximum(BASE_NS, BASE_NS * used / product)
    rate = used / rtt * np.exp(random.normal(0, noise, count))
    acked = np.concatenate([[0.0], np.cumsum(rate[:-1] * EVERY_NS * MSS)]).astype(np.int64)
    return samples(
        count,
        congestion_window_packets=window,
        unacked_packets=used.astype(np.int64),
        srtt_ns=rtt.astype(np.int64),
        send_window_bytes=int(offered),
        acked_bytes=acked,
    )


@pytest.mark.parametrize("product", [40.0, 100.0, 400.0])
def test_the_kink_is_the_bandwidth_delay_product(product: float) -> None:
    fit = flow(through(product))["window_fit"]
    assert fit["kink_bytes"]["value"] == pytest.approx(product * MSS, rel=0.05)
    assert fit["rtt_s"]["value"] == pytest.approx(BASE_NS / 1e9, rel=0.05)
    assert fit["plateau_bps"]["value"] == pytest.approx(product * MSS * 8e9 / BASE_NS, rel=0.05)
    assert fit["plateau_of"] == "path"
    assert fit["kink_bytes"]["low"] < fit["kink_bytes"]["value"] < fit["kink_bytes"]["high"]


def test_the_plateau_of_the_receive_window_is_distinguished_from_the_path_s() -> None:
    found = explained(through(400.0, offered=300 * MSS))
    fit = found["recordings"][0]["flows"][0]["window_fit"]
    assert fit["plateau_of"] == "receive-window"
    assert fit["kink_bytes"]["value"] == pytest.approx(300 * MSS, rel=0.05)
    assert "receive window of 434 kB" in plain(" ".join(found["verdicts"][0]["evidence"]))


@pytest.mark.parametrize(
    "rows", [samples(N), through(1000.0, 8).head(60), samples(congestion_window_packets=50 + np.arange(N) // 8)]
)
def test_windows_on_one_side_have_no_kink(rows: pl.DataFrame) -> None:
    assert flow(rows)["window_fit"] is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_fit_is_that_of_trying_every_kink(data: st.DataObject) -> None:
    numbers = st.floats(1.0, 100.0, allow_nan=False)
    window = np.array(data.draw(st.lists(numbers, min_size=4, max_size=12)))
    bps = np.array(data.draw(st.lists(numbers, min_size=len(window), max_size=len(window))))
    slope, at = kink.fit(window, bps, np.ones((1, len(window))))[0]

    def error(slope: float, at: float) -> float:
        return float(np.sum((bps - slope * np.minimum(window, at)) ** 2))

    tried = np.linspace(window.min(), window.max(), 400)
    least = min(
        error(float(np.minimum(window, k) @ bps / (np.minimum(window, k) @ np.minimum(window, k))), k) for k in tried
    )
    assert error(slope, at) <= least * (1 + 1e-9) + 1e-9


def test_a_counter_of_32_bits_that_wraps_gives_its_growth() -> None:
    values = np.array([2.0**32 - 100, 50.0, 60.0, 10.0])
    grown = series.Counted(np.arange(4), {"x": values}).grown("x")
    assert grown[:2].tolist() == [150.0, 10.0]
    assert np.isnan(grown[2])


# Many connections, and stores.


def test_a_store_s_connections_are_explained_one_by_one(tmp_path: Path, run_here: Run) -> None:
    store = Store.create(tmp_path / "telemetry")
    for limit in ("receive-window", "pacing"):
        made = connection(samples(**LIMITED[limit][0]))
        store.add("tcp", connections.rows_of(Recording(Path(limit), made.metadata, all_of(made))))
    told = run_here("explain", tmp_path / "telemetry", "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert sorted((one["cause"], one["detail"] or "") for one in found["verdicts"]) == [
        ("receiver-window", ""),
        ("sender", "pacing"),
    ]
    assert len(found["recordings"][0]["flows"]) == 2


def all_of(found: Recording) -> dict[str, pl.DataFrame]:
    return {name: found.table(name) for name in ("flows", "tcp_info", "intervals")}


def test_an_empty_store_has_nothing_to_explain(tmp_path: Path, run_here: Run) -> None:
    Store.create(tmp_path / "telemetry")
    told = run_here("explain", tmp_path / "telemetry")
    assert told.returncode == 1
    assert "holds no samples of TCP connections" in told.stderr


# A switch's port on the path.


def losing(at_s: list[float]) -> pl.DataFrame:
    """Sixty seconds, with a segment retransmitted at each of these."""
    seconds = np.arange(6000) * EVERY_NS / 1e9
    return samples(6000, retransmitted_packets=np.sum([seconds >= one for one in at_s], axis=0), srtt_ns=BASE_NS)


def polled(folder: Path, discards: dict[int, float], since_ns: int) -> Path:
    """Counters of s1.lab01/uplink every five seconds; ``discards`` by the number of the poll."""
    rows = [
        {
            "end_ns": since_ns + (number + 1) * 5 * 10**9,
            "span_ns": 5 * 10**9,
            "switch": "s1.lab01",
            "port": "uplink",
            "counter": counter,
            "value": value,
            "quality": "ok",
        }
        for number in range(12)
        for counter, value in (("discards.tx", discards.get(number, 0.0)), ("unicast.tx", 9000.0))
    ]
    Store.create(folder).add("counters", pl.DataFrame(rows))
    return folder


def with_port(tmp_path: Path, rows: pl.DataFrame, discards: dict[int, float], late_s: int = 0) -> dict[str, Any]:
    store = polled(tmp_path / "telemetry", discards, int(rows["time_ns"][0]) + late_s * 10**9)
    found = document.of_recording(connection(rows), switch=(str(store), "s1.lab01/uplink")).document()
    (verdict,) = found["verdicts"]
    return verdict


def test_a_port_that_discards_whenever_the_flow_loses_is_a_full_queue(tmp_path: Path) -> None:
    verdict = with_port(tmp_path, losing([7, 17, 32, 48]), {1: 3, 3: 1, 6: 2, 9: 4})
    assert verdict["cause"] == "shallow-queue"
    assert verdict["explained"] == 1.0
    assert "switch" in verdict["sources"]
    assert any("s1.lab01/uplink discarded 10 of 108 000 packets" in line for line in plain(verdict["evidence"]))


@pytest.mark.parametrize(
    ("discards", "told"),
    [({}, "discarded nothing while the flows ran"), ({2: 5, 5: 5, 8: 5, 11: 5}, "in 0 of the 4 polls in which")],
)
def test_a_port_that_discards_at_other_times_is_none(tmp_path: Path, discards: dict[int, float], told: str) -> None:
    verdict = with_port(tmp_path, losing([7, 17, 32, 48]), discards)
    assert verdict["cause"] == "unknown"
    assert any(told in line for line in verdict["evidence"])


def test_one_discard_in_the_time_of_one_loss_proves_nothing(tmp_path: Path) -> None:
    assert with_port(tmp_path, losing([7]), {1: 3})["cause"] == "unknown"


def test_counters_of_another_time_or_port_say_so(tmp_path: Path, run_here: Run) -> None:
    made = connection(losing([7]))
    folder = made.save(tmp_path / "made.recording")
    store = polled(tmp_path / "telemetry", {}, int(made.table("tcp_info")["time_ns"][0]) + 10**15)
    told = run_here("explain", folder, "--switch-port", store, "s1.lab01/uplink")
    assert (told.returncode, "do not cover the time" in told.stderr) == (1, True)
    told = run_here("explain", folder, "--switch-port", store, "s1.lab01/local")
    assert told.returncode == 1
    assert "no counters of a port 's1.lab01/local' (SWITCH/PORT); it has those of s1.lab01/uplink" in told.stderr
