"""Queries of the study, on stores small enough to be computed by hand."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from small_stores import BIN, DAY, SECOND, Row, download, sample, series, write
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.engines import Backend, open_backend
from whydrop.store.store import Store
from whydrop.studies.discards import queries, results
from whydrop.studies.discards.parameters import Change, Days, Exposure, Parameters
from whydrop.studies.discards.spread import client_spread

MLAB = Path(__file__).parents[2].parent / "shared" / "data" / "mlab"

Computed = Callable[..., dict[str, pl.DataFrame]]

WEEK = Days(first=date(2018, 2, 11), last=date(2018, 2, 17))


def parameters(definitions: str = "corrected", **more: Any) -> Parameters:
    given = {"definitions": definitions, "days": WEEK, "metros": ("dfw",), "change": None} | more
    return Parameters.model_validate(given)


@pytest.fixture
def computed(tmp_path: Path) -> Iterator[Computed]:
    """One table of the study over a store of these rows, as dicts."""
    opened: list[Backend] = []

    def compute(
        table: str, definitions: str = "corrected", *, counters: list[Row] = (), ndt: list[Row] = (), **more: Any
    ) -> list[Row]:
        backend = open_backend(write(tmp_path / f"store-{len(opened)}", counters, ndt))
        opened.append(backend)
        frame = queries.compute(backend, parameters(definitions, **more), only=[table])[table]
        assert frame.schema == results.TABLES[table]
        return frame.to_dicts()

    yield compute
    for backend in opened:
        backend.close()


# Figure 1


def test_a_days_rate_is_the_median_of_its_samples_rates(computed):
    [row] = computed("utilisation", counters=series("octets.tx", [1e6, 9e6, 2e6]))
    assert row == {
        "metro": "dfw", "site": "dfw01", "day": "2018-02-11", "rate_bps": 1.6e6, "samples": 3,
        "coverage": pytest.approx(30 / 86_400),
    }  # fmt: skip


def test_a_sample_after_a_gap_is_spread_over_its_span(computed):
    [row] = computed("utilisation", counters=[sample(value=3e6, end=3 * BIN, span_ns=3 * BIN)])
    assert row["rate_bps"] == 8e5
    assert row["coverage"] == pytest.approx(30 / 86_400)


def test_resets_and_samples_without_a_span_have_no_rate(computed):
    rows = [sample(value=1e6), sample(end=2 * BIN, value=None), sample(end=3 * BIN, value=5e6, span_ns=None)]
    [row] = computed("utilisation", counters=rows)
    assert (row["rate_bps"], row["samples"]) == (8e5, 1)


def test_the_published_quantile_is_49_of_101_of_one_machine(computed):
    values = [float(10 * number) for number in range(102)]
    rows = series("octets.tx", values) + series("octets.tx", [1e9] * 200, machine="mlab2")
    [row] = computed("utilisation", "published", counters=rows)
    # 49/101 of 102 values is the 50th
    assert row["rate_bps"] == 490 * 0.8
    assert row["samples"] == 102


def test_the_machine_that_saw_most_is_taken(computed):
    rows = series("octets.tx", [1e6] * 3) + series("octets.tx", [2e6] * 4, machine="mlab2")
    [row] = computed("utilisation", counters=rows)
    assert (row["rate_bps"], row["samples"]) == (1.6e6, 4)


def test_of_machines_that_saw_as_much_the_first_by_name_is_taken(computed):
    rows = series("octets.tx", [2e6] * 3, machine="mlab2") + series("octets.tx", [1e6] * 3)
    [row] = computed("utilisation", counters=rows)
    assert row["rate_bps"] == 8e5


def test_of_two_switches_all_samples_count(computed):
    rows = series("octets.tx", [1e6, 2e6, 3e6]) + series("octets.tx", [9e6, 10e6], switch="s2.dfw01")
    # A second machine saw less of the first switch, and is not mixed with those that saw most.
    rows += series("octets.tx", [0.0, 0.0], machine="mlab2")
    [row] = computed("utilisation", counters=rows)
    assert (row["rate_bps"], row["samples"]) == (8 * 3e5, 5)
    assert row["coverage"] == pytest.approx(25 / 86_400)


def test_other_ports_metros_and_days_are_left_out(computed):
    rows = [
        sample(value=1e6), sample(value=2e6, port="local"), sample(value=3e6, metro="lga", site="lga01"),
        sample(value=4e6, end=-BIN), sample(value=4e6, end=7 * DAY),
    ]  # fmt: skip
    assert [row["rate_bps"] for row in computed("utilisation", counters=rows)] == [8e5]


# Figure 2


def test_a_days_speed_is_the_median_of_its_clients_best(computed):
    tests = [
        download(0, 10.0, "192.0.2.1"), download(DAY // 2, 20.0, "192.0.2.1"),
        download(1 * SECOND, 40.0, "192.0.2.2"), download(2 * SECOND, 16.0, "192.0.2.3"),
    ]  # fmt: skip
    [row] = computed("download_speed", ndt=tests)
    assert row["speed_bps"] == 5e6  # of 8, 2 and 5 Mb/s
    assert (row["clients"], row["tests"]) == (3, 4)


@pytest.mark.parametrize(
    "left_out",
    [
        {"direction": "upload"},
        {"acked_bytes": 999_999},
        {"congestion_limited_ns": 9 * SECOND - 1},
        {"congestion_limited_ns": 60 * SECOND},
        {"remote_address": "45.56.98.222"},
        {"remote_address": "2600:3c03::f03c:91ff:fe33:819"},
    ],
)
def test_tests_that_are_no_downloads_of_the_study_are_left_out(computed, left_out):
    assert computed("download_speed", ndt=[download(**left_out)]) == []


def test_tests_at_the_bounds_are_counted(computed):
    bounds = [
        {"acked_bytes": 1_000_000},
        {"congestion_limited_ns": 9 * SECOND},
        {"congestion_limited_ns": 60 * SECOND - 1},
    ]
    rows = [download(number * SECOND, **bound) for number, bound in enumerate(bounds)]
    assert [row["tests"] for row in computed("download_speed", ndt=rows)] == [3]


def test_the_published_study_takes_tests_of_up_to_ten_minutes(computed):
    tests = [download(0, 599.0), download(SECOND, 600.0)]
    assert [row["tests"] for row in computed("download_speed", "published", ndt=tests)] == [1]


def test_tests_without_web100s_times_are_taken_by_their_duration_if_corrected(computed):
    ndt7 = download(congestion_limited_ns=None, duration_ns=20 * SECOND)
    assert [row["speed_bps"] for row in computed("download_speed", ndt=[ndt7])] == [4e6]
    assert computed("download_speed", "published", ndt=[ndt7]) == []


# Figure 3


def test_discards_are_related_to_all_packets(computed):
    rows = series("discards.tx", [0.0, 3.0]) + series("unicast.tx", [1000.0, 1000.0])
    rows += series("multicast.tx", [100.0, 100.0]) + series("broadcast.tx", [200.0, 100.0])
    [row] = computed("discard_ratio", counters=rows)
    assert row == {
        "metro": "dfw", "site": "dfw01", "day": "2018-02-11", "ratio": 3 / 2500, "discards": 3.0, "packets": 2500.0,
        "samples": 2,
    }  # fmt: skip


def test_windows_without_a_counterpart_are_left_out(computed):
    rows = series("discards.tx", [5.0, 1.0, None, 2.0]) + series("unicast.tx", [100.0, 1000.0, 1000.0], start=BIN)
    rows += series("multicast.tx", [7.0, 7.0])
    [row] = computed("discard_ratio", counters=rows)
    # The second and the fourth window; multicast of the second counts, that of the first does not.
    assert (row["discards"], row["packets"], row["samples"]) == (3.0, 100.0 + 1000.0 + 7.0, 2)


def test_a_day_without_packets_has_no_ratio_and_is_there(computed):
    rows = series("discards.tx", [0.0]) + series("unicast.tx", [0.0])
    [row] = computed("discard_ratio", counters=rows)
    assert (row["ratio"], row["packets"]) == (None, 0.0)
    assert computed("discard_ratio", "published", counters=rows) == []


def test_large_ratios_and_zeros_are_kept_if_corrected_only_large_ones_lost_if_published(computed):
    def day(number: int, discards: float) -> list[Row]:
        start = number * DAY
        return series("discards.tx", [discards], start) + series("unicast.tx", [100.0], start)

    rows = day(0, 0.0) + day(1, 0.5) + day(2, 1.0) + day(3, 200.0)
    assert [row["ratio"] for row in computed("discard_ratio", counters=rows)] == [0.0, 0.005, 0.01, 2.0]
    published = computed("discard_ratio", "published", counters=rows)
    assert [row["ratio"] for row in published] == [0.0, 0.005]


Ends = st.sets(st.integers(1, 6))
# Many cases in one store, a site each: asking is what takes time.
Cases = {
    "max_examples": 4,
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@pytest.mark.slow
@settings(**Cases)
@given(st.lists(st.tuples(Ends, Ends, Ends, st.sets(st.integers(1, 6), max_size=3)), min_size=20, max_size=60))
def test_sums_are_over_common_windows_however_series_lack_samples(computed, cases):
    rows, wanted = [], {}
    for number, (discards, unicast, multicast, of_mlab2) in enumerate(cases):
        site = f"dfw{number:02d}"
        values = {"discards.tx": discards, "unicast.tx": unicast, "multicast.tx": multicast}
        rows += [sample(name, end * BIN, 2.0**end, site=site) for name, ends in values.items() for end in ends]
        both = [(name, end) for name in ("discards.tx", "unicast.tx") for end in of_mlab2]
        rows += [sample(name, end * BIN, 1.0, site=site, machine="mlab2") for name, end in both]
        common = discards & unicast
        if len(common) >= max(1, len(of_mlab2)):
            packets = sum(2.0**end for end in common) + sum(2.0**end for end in common & multicast)
            wanted[site] = (sum(2.0**end for end in common), packets, len(common))
        elif of_mlab2:
            wanted[site] = (len(of_mlab2),) * 3
    found = computed("discard_ratio", counters=rows)
    assert {row["site"]: (row["discards"], row["packets"], row["samples"]) for row in found} == wanted


# Figure 4


def test_retransmissions_are_related_to_all_segments_of_a_sites_day(computed):
    tests = [
        download(0, sent_segments=1000, retransmitted_segments=10),
        download(SECOND, client="192.0.2.2", machine="mlab2", sent_segments=3000, retransmitted_segments=0),
        download(2 * SECOND, sent_segments=None, retransmitted_segments=None),
    ]
    [row] = computed("retransmission_ratio", ndt=tests)
    assert row == {
        "metro": "dfw", "site": "dfw01", "machine": None, "day": "2018-02-11", "ratio": 0.0025, "retransmitted": 10,
        "segments": 4000, "clients": 2, "tests": 2,
    }  # fmt: skip


def test_the_published_ratio_is_that_of_the_typical_clients_worst_test_of_each_machine(computed):
    tests = [
        download(0, sent_segments=1000, retransmitted_segments=10),
        download(SECOND, sent_segments=1000, retransmitted_segments=500),
        download(2 * SECOND, client="192.0.2.2", machine="mlab2", sent_segments=1000, retransmitted_segments=1),
    ]
    rows = computed("retransmission_ratio", "published", ndt=tests)
    assert [(row["machine"], row["ratio"]) for row in rows] == [("mlab1", 0.5), ("mlab2", 0.001)]


# Figure 6

CHANGE = Change(
    before=Days(first=date(2018, 2, 11), last=date(2018, 2, 11)),
    after=Days(first=date(2018, 2, 13), last=date(2018, 2, 13)),
    more_tests_than=1,
)


def test_clients_that_came_often_both_before_and_after_are_compared(computed):
    tests = [download(number * 60 * SECOND, seconds) for number, seconds in enumerate((10.0, 20.0))]
    tests += [download(2 * DAY + number * 60 * SECOND, seconds) for number, seconds in enumerate((40.0, 10.0, 16.0))]
    tests += [download(number * 60 * SECOND, client="192.0.2.2") for number in range(9)]
    tests += [download(2 * DAY, client="192.0.2.2")]
    after, before = computed("client_speeds", ndt=tests, change=CHANGE)
    assert before == {
        "metro": "dfw", "site": "dfw01", "machine": None, "client": "192.0.2.1", "period": "before", "tests": 2,
        "mean_bps": 6e6, "max_bps": 8e6, "sd_bps": pytest.approx(statistics.stdev([8e6, 4e6])),
        "min_bps": 4e6, "cv": pytest.approx(statistics.stdev([8e6, 4e6]) / 6e6),
    }  # fmt: skip
    assert (after["period"], after["tests"], after["max_bps"]) == ("after", 3, 8e6)


def test_a_client_with_one_test_has_no_deviation_and_none_has_a_variation_of_no_mean(computed):
    tests = [download(0), download(2 * DAY, acked_bytes=0), download(2 * DAY + 60 * SECOND, acked_bytes=0)]
    once = CHANGE.model_copy(update={"more_tests_than": 0})
    rows = computed("client_speeds", ndt=tests, change=once, tests={"least_acked_bytes": 0})
    found = [(row["period"], row["tests"], row["sd_bps"], row["cv"], row["min_bps"]) for row in rows]
    assert found == [("after", 2, 0.0, None, 0.0), ("before", 1, None, None, 8e6)]


def test_the_spread_of_a_site_has_the_medians_of_its_clients_and_no_deviation_of_single_tests():
    rows = [
        {"metro": "dfw", "site": "dfw01", "client": str(number), "period": period, "tests": 1 if sd is None else 9,
         "mean_bps": mean, "max_bps": 2 * mean, "min_bps": mean / 2, "sd_bps": sd,
         "cv": None if sd is None else sd / mean}
        for period, scale in (("before", 1.0), ("after", 2.0))
        for number, (mean, sd) in enumerate([(scale * 1e6, 2e5), (4e6, None), (6e6, 6e5)])
    ]  # fmt: skip
    found = client_spread(pl.DataFrame(rows, schema=results.CLIENT_SPEEDS))
    assert found.schema == results.CLIENT_SPREAD
    assert found.select("period", "clients", "tests", "mean_bps", "sd_bps").rows() == [
        ("before", 3, 9.0, 4e6, 4e5), ("after", 3, 9.0, 4e6, 4e5),
    ]  # fmt: skip
    assert found["cv"].to_list() == pytest.approx([0.15, 0.1])


def test_published_clients_are_counted_over_the_metro_and_shown_by_machine(computed):
    tests = [
        download(0), download(60 * SECOND, machine="mlab2"), download(120 * SECOND, site="dfw02"),
        download(180 * SECOND, site="dfw02"), download(2 * DAY), download(2 * DAY + 60 * SECOND),
    ]  # fmt: skip
    rows = computed("client_speeds", "published", ndt=tests, change=CHANGE)
    # At mlab1 and mlab2 of dfw01 there is one test before, which has no standard deviation.
    assert [(row["site"], row["machine"], row["period"], row["tests"]) for row in rows] == [
        ("dfw01", "mlab1", "after", 2),
        ("dfw02", "mlab1", "before", 2),
    ]


def test_without_a_change_there_are_no_clients_to_compare(computed):
    assert computed("client_speeds", ndt=[download()]) == []


# Figure 7


@pytest.mark.slow
def test_a_test_that_a_sample_with_discards_overlaps_is_touched(computed):
    rows = series("discards.tx", [0.0, 0.0, 4.0, 0.0, 0.0])
    tests = [download(15 * SECOND), download(20 * SECOND, client="a"), download(30 * SECOND, client="b")]
    found = computed("contacts", counters=rows, ndt=tests)
    assert [
        (row["class"], row["discards"], row["covered"]) for row in sorted(found, key=lambda row: row["start_ns"])
    ] == [
        ("non-zero", 4.0, 1.0),
        ("non-zero", 4.0, 1.0),
        ("zero", 0.0, 1.0),  # it begins as the sample ends
    ]


@pytest.mark.slow
def test_a_test_that_samples_do_not_cover_is_unknown(computed):
    tests = [download(5 * SECOND), download(20 * SECOND, client="a"), download(DAY, client="b")]
    found = computed("contacts", counters=series("discards.tx", [0.0]), ndt=tests)
    assert [
        (row["class"], row["discards"], row["covered"]) for row in sorted(found, key=lambda row: row["start_ns"])
    ] == [
        ("unknown", 0.0, 0.5),
        ("unknown", None, 0.0),
        ("unknown", None, 0.0),
    ]


def test_machines_of_a_site_complete_each_others_view(computed):
    rows = [
        sample("discards.tx", BIN, 0.0),
        sample("discards.tx", 2 * BIN + 3 * SECOND, 0.0, span_ns=BIN, machine="mlab2"),
    ]
    rows += [sample("discards.tx", BIN + 3 * SECOND, 0.0, machine="mlab2"), sample("discards.tx", 3 * BIN, 0.0)]
    tests = [download(0, 30.0, machine="mlab4")]
    assert [(row["class"], row["covered"]) for row in computed("contacts", counters=rows, ndt=tests)] == [("zero", 1.0)]


@pytest.mark.slow
def test_discards_that_several_machines_saw_are_counted_once(computed):
    rows = series("discards.tx", [3.0, 4.0]) + series("discards.tx", [3.0], machine="mlab2")
    assert [row["discards"] for row in computed("contacts", counters=rows, ndt=[download(0, 20.0)])] == [7.0]


@pytest.mark.slow
def test_a_switch_of_the_site_that_is_not_known_about_leaves_tests_unknown(computed):
    rows = series("discards.tx", [0.0, 0.0]) + series("discards.tx", [0.0], start=100 * BIN, switch="s2.dfw01")
    found = computed("contacts", counters=rows, ndt=[download()])
    assert [(row["class"], row["covered"]) for row in found] == [("unknown", 0.0)]


@pytest.mark.slow
def test_windows_over_midnight_touch_tests_of_both_days(computed):
    rows = [
        sample("discards.tx", DAY + 5 * SECOND, 1.0),
        sample("discards.tx", DAY + 3 * BIN, 0.0, span_ns=25 * SECOND),
    ]
    tests = [download(DAY - 12 * SECOND), download(DAY + SECOND, client="a")]
    found = computed("contacts", counters=rows, ndt=tests)
    assert {(row["day"], row["class"]) for row in found} == {("2018-02-11", "non-zero"), ("2018-02-12", "non-zero")}


def test_a_long_sample_without_discards_covers_tests_too(computed):
    rows = [sample("discards.tx", 3 * 3600 * SECOND, 0.0, span_ns=3 * 3600 * SECOND)]
    found = computed("contacts", counters=rows, ndt=[download(600 * SECOND), download(7200 * SECOND, client="a")])
    assert [row["class"] for row in found] == ["zero", "zero"]


def test_a_sample_of_more_than_half_a_day_says_nothing_of_a_test(computed):
    rows = [sample("discards.tx", 13 * 3600 * SECOND, 9.0, span_ns=13 * 3600 * SECOND)]
    assert [row["class"] for row in computed("contacts", counters=rows, ndt=[download(600 * SECOND)])] == ["unknown"]


@pytest.mark.slow
def test_tests_are_distinguished_that_share_all_but_a_port(computed):
    rows = series("discards.tx", [1.0])
    found = computed("contacts", counters=rows, ndt=[download(test_id=None), download(test_id=None, remote_port=2)])
    assert [(row["class"], row["discards"]) for row in found] == [("non-zero", 1.0)] * 2


def test_published_contacts_are_those_of_two_bins_from_the_tests_own(computed):
    rows = series("discards.tx", [0.0, 0.0, 0.0, 2.0, 0.0, 0.0])  # in [30 s, 40 s)
    starts = {"before": 19, "bin before": 20, "own": 35, "after": 40}
    tests = [download(second * SECOND, client=name) for name, second in starts.items()]
    tests += [download(35 * SECOND, client="elsewhere", machine="mlab2"), download(3600 * SECOND, client="untold")]
    found = computed("contacts", "published", counters=rows, ndt=tests)
    assert {row["client"]: (row["class"], row["discards"]) for row in found} == {
        "before": ("zero", 0.0),
        "bin before": ("non-zero", 2.0),
        "own": ("non-zero", 2.0),
        "after": ("zero", 0.0),
        "untold": ("zero", 0.0),
    }


def test_where_starts_were_recorded_the_published_join_is_a_bin_late(computed):
    rows = series("discards.tx", [0.0, 0.0, 0.0, 2.0, 0.0, 0.0])
    tests = [download(second * SECOND, client=str(second)) for second in (5, 15, 25, 35)]
    found = computed("contacts", "published", counters=rows, ndt=tests, contact=Exposure(recorded="starts"))
    assert {row["client"] for row in found if row["class"] == "non-zero"} == {"15", "25"}


@pytest.mark.parametrize("late", [23, 950, -40])
def test_published_contacts_of_polls_beside_the_tick_are_those_of_the_tick(computed, late):
    off = late * SECOND // 1000
    rows = [row | {"end_ns": row["end_ns"] + off} for row in series("discards.tx", [0.0, 0.0, 0.0, 2.0, 0.0, 0.0])]
    tests = [download(second * SECOND, client=str(second)) for second in (19, 20, 35, 40)]
    found = computed("contacts", "published", counters=rows, ndt=tests)
    assert {row["client"] for row in found if row["class"] == "non-zero"} == {"20", "35"}


def test_polls_beside_the_tick_cover_tests_without_seams(computed):
    ends = [number * BIN + jitter for number, jitter in enumerate([23, 41, 7, 18, 950, 12], 1)]
    spans = [ends[0] + BIN, *(late - early for early, late in pairwise(ends))]
    rows = [
        sample("discards.tx", end, value, span_ns=span)
        for end, span, value in zip(ends, spans, [0.0, 0.0, 0.0, 0.0, 3.0, 0.0], strict=True)
    ]
    found = computed("contacts", counters=rows, ndt=[download(5 * SECOND), download(35 * SECOND, client="exposed")])
    assert {row["client"]: (row["class"], row["covered"]) for row in found} == {
        "192.0.2.1": ("zero", 1.0),
        "exposed": ("non-zero", 1.0),
    }


def test_counters_of_a_late_poll_have_their_windows_in_common(computed):
    kinds = {"discards.tx": 1.0, "unicast.tx": 100.0, "broadcast.tx": 50.0}
    rows = [
        sample(kind, number * BIN + jitter, value)
        for kind, value in kinds.items()
        for number, jitter in enumerate([23_000_000, 950_000_000, 7], 1)
    ]
    [row] = computed("discard_ratio", counters=rows)
    assert (row["discards"], row["packets"], row["samples"]) == (3.0, 450.0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("definitions", ["corrected", "published"])
def test_tests_are_counted_by_day_and_class(computed, definitions):
    rows = series("discards.tx", [1.0, 0.0, 0.0])
    tests = [download(0), download(12 * SECOND, 9.0, client="a"), download(DAY, client="b")]
    store: dict[str, Any] = {"counters": rows, "ndt": tests}
    missing = "unknown" if definitions == "corrected" else "zero"
    assert [(row["day"], row["class"], row["tests"]) for row in computed("contact_days", definitions, **store)] == [
        ("2018-02-11", "non-zero", 1),
        ("2018-02-11", "zero", 1),
        ("2018-02-12", missing, 1),
    ]


# When a sample ends and how long it is, s; and what it counts.
Windows = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 25), st.sampled_from([0.0, 0.0, 1.0])), max_size=8)


@pytest.mark.slow
@settings(**Cases)
@given(st.lists(st.tuples(Windows, st.integers(0, 50), st.integers(9, 30)), min_size=20, max_size=60))
def test_contacts_are_those_of_a_test_second_by_second(computed, cases):
    rows, tests, wanted = {}, [], {}
    for number, (windows, start, seconds) in enumerate(cases):
        site = f"dfw{number:02d}"
        tests.append(download(start * SECOND, float(seconds), site=site))
        during = set(range(start, start + seconds))
        covered: set[int] = set()
        exposed = False
        for index, (end, span, value) in enumerate(windows):
            place = {"site": site, "switch": f"s1.{site}", "machine": f"mlab{index % 2 + 1}"}
            if (*place.values(), end) in rows:
                continue  # a store has one row of a key
            rows[*place.values(), end] = sample("discards.tx", end * SECOND, value, span_ns=span * SECOND, **place)
            common = during.intersection(range(end - span, end))
            covered |= common
            exposed |= bool(common) and value > 0
        wanted[site] = ("non-zero" if exposed else "zero" if covered == during else "unknown", len(covered) / seconds)
    found = computed("contacts", counters=list(rows.values()), ndt=tests)
    assert {row["site"]: (row["class"], row["covered"]) for row in found} == wanted


# The tables together


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Backend]:
    """A store of a few days."""
    counters = [
        row
        for day in range(4)
        for name, value in (("octets.tx", 1e6), ("discards.tx", 1.0), ("unicast.tx", 1e4))
        for row in series(name, [value + day] * 4, start=day * DAY - 2 * BIN)
    ]
    tests = [download(day * DAY - 5 * SECOND, client=f"192.0.2.{day}") for day in range(4)]
    with open_backend(write(tmp_path / "week", counters, tests)) as backend:
        yield backend


@pytest.mark.slow
@pytest.mark.parametrize("definitions", ["corrected", "published"])
def test_days_computed_one_by_one_give_the_same_tables(week, monkeypatch, definitions):
    at_once = queries.compute(week, parameters(definitions))
    monkeypatch.setattr(queries, "_ROWS_OF_A_BLOCK", 1)
    steps: list[tuple[str, int, int]] = []
    by_day = queries.compute(week, parameters(definitions), progress=lambda *step: steps.append(step))
    assert ("utilisation", 4, 4) in steps
    for name, frame in at_once.items():
        assert frame.equals(by_day[name]), name


def test_folders_that_are_no_days_are_passed_over(tmp_path):
    folder = write(tmp_path / "store", series("octets.tx", [1e6]))
    for name in ("day=2018-02-30", "day=2018-02-1x", "day=", "backup"):
        shutil.copytree(folder / "counters/day=2018-02-11", folder / "counters" / name)
    with open_backend(folder) as backend:
        assert queries.compute(backend, parameters(), only=["utilisation"])["utilisation"]["samples"].to_list() == [1]


@pytest.mark.slow
def test_contacts_counted_by_the_engine_are_those_counted_here(week):
    together = queries.compute(week, parameters(), only=["contacts", "contact_days"])
    assert together["contact_days"].equals(queries.compute(week, parameters(), only=["contact_days"])["contact_days"])
    assert together["contact_days"]["tests"].sum() == together["contacts"].height > 0


def test_only_the_tables_that_are_asked_for_are_computed(week):
    assert list(queries.compute(week, parameters(), only=["discard_ratio"])) == ["discard_ratio"]


def test_a_table_that_queries_do_not_give_is_refused(week):
    with pytest.raises(ValueError, match="comparisons: not computed by a query; expected some of utilisation"):
        queries.compute(week, parameters(), only=["comparisons"])


def test_a_store_without_rows_gives_tables_without_rows(tmp_path):
    with open_backend(write(tmp_path / "empty")) as backend:
        found = queries.compute(backend, parameters(change=CHANGE))
    assert {name: (frame.height, frame.schema) for name, frame in found.items()} == {
        name: (0, results.TABLES[name]) for name in queries.QUERIES
    }


def test_the_check_values_of_the_specification_come_out(tmp_path):
    archive = MLAB / "disco" / "discov1-switch.json.gz"
    if not archive.exists():
        pytest.skip(f"{archive} is missing: it is the file that the specification's values are of")
    ingest(Store.create(tmp_path / "store"), [archive])
    day = Days(first=date(2016, 5, 12), last=date(2016, 5, 12))
    found = {}
    with open_backend(str(tmp_path / "store")) as backend:
        for definitions in ("published", "corrected"):
            asked = parameters(definitions, metros=(), days=day, published_machine="mlab3")
            [row] = queries.compute(backend, asked, only=["utilisation"])["utilisation"].to_dicts()
            found[definitions] = round(row["rate_bps"] / 1e6, 3)
    assert found == {"published": 0.714, "corrected": 0.955}
