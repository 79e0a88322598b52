"""The exporter, asked by HTTP and understood by Prometheus' own parser."""

from __future__ import annotations

import http.client
import select
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from whydrop.monitoring import scraping
from whydrop.monitoring.scraping import ExporterError
from whydrop.monitoring.switches.exporter import Exporter
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.readings import Counter, Port, Reading

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
OCTETS, DISCARDS = Counter("octets.tx", "1", 64), Counter("discards.tx", "2", 32)
UPLINK = Port("uplink", 1, "mlab2", 10**10)

Labels = tuple[tuple[str, str], ...]


def reading(tick: int, octets: int, discards: int = 0, **changes: object) -> Reading:
    due = START + tick * 10 * SECOND
    one = Reading(
        "s1.dfw07", "dfw07", "dfw", due, due + 3_000_000, due + 43_000_000, "ok",
        uptime_ns=(1000 + 10 * tick) * SECOND, steady_ns=tick * 10 * SECOND,
        values={(UPLINK, OCTETS): octets, (UPLINK, DISCARDS): discards},
    )  # fmt: skip
    return replace(one, **changes)


@pytest.fixture(autouse=True)
def _quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's servers look whether they shall end every half a second."""
    monkeypatch.setattr(socketserver.BaseServer.serve_forever, "__defaults__", (0.01,))


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with Exporter("127.0.0.1", 0) as one:
        yield one


def observed(exporter: Exporter, *readings: Reading) -> None:
    counting = Counting(10 * SECOND)
    for one in readings:
        exporter.take(one, counting.samples(one))


def scraped(exporter: Exporter) -> dict[str, dict[Labels, float]]:
    """Scrape as Prometheus would: by name of the sample, by labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


def of_counter(counter: str) -> Labels:
    labels = {"switch": "s1.dfw07", "site": "dfw07", "port": "uplink", "machine": "mlab2", "counter": counter}
    return tuple(sorted(labels.items()))


SWITCH: Labels = (("site", "dfw07"), ("switch", "s1.dfw07"))


def test_an_exporter_that_has_seen_nothing_answers(exporter: Exporter) -> None:
    assert scraped(exporter) == {"whydrop_samples_not_shown_total": {(): 0}}


def test_totals_are_growth_since_the_collector_began(exporter: Exporter) -> None:
    observed(exporter, reading(0, 10**15), reading(1, 10**15 + 700, 3), reading(2, 10**15 + 1000, 3))
    assert scraped(exporter)["whydrop_switch_counter_total"] == {
        of_counter("octets.tx"): 1000, of_counter("discards.tx"): 3,
    }  # fmt: skip


def test_totals_go_on_across_wraps_and_resets(exporter: Exporter) -> None:
    observed(
        exporter,
        reading(0, 500, 2**32 - 2),
        reading(1, 600, 4),
        reading(2, 90, 0, uptime_ns=2 * SECOND),
        reading(3, 190, 1, uptime_ns=12 * SECOND),
    )
    found = scraped(exporter)
    assert found["whydrop_switch_counter_total"] == {of_counter("octets.tx"): 200, of_counter("discards.tx"): 7}
    assert found["whydrop_counter_resets_total"] == {SWITCH: 2}


def test_polls_are_counted_by_what_became_of_them(exporter: Exporter) -> None:
    failed = {"values": {}, "start_ns": None, "end_ns": None}
    observed(
        exporter,
        reading(0, 1),
        reading(1, 1, status="timeout", **failed),
        reading(2, 1, status="late", **failed),
        reading(3, 1, status="of an unknown kind", **failed),
    )
    found = scraped(exporter)
    polls = {dict(labels)["status"]: value for labels, value in found["whydrop_polls_total"].items()}
    assert polls == {"ok": 1, "timeout": 1, "refused": 0, "late": 1, "error": 1}
    assert found["whydrop_missed_polls_total"] == {SWITCH: 3}


def test_duration_jitter_and_age_of_polls_are_reported(exporter: Exporter) -> None:
    observed(exporter, *(reading(tick, tick) for tick in range(4)))
    found = scraped(exporter)
    # each began 3 ms behind its tick and took 40 ms
    assert found["whydrop_poll_duration_seconds_sum"][SWITCH] == pytest.approx(0.16)
    assert found["whydrop_poll_jitter_seconds_sum"][SWITCH] == pytest.approx(0.012)
    buckets = {dict(labels)["le"]: value for labels, value in found["whydrop_poll_jitter_seconds_bucket"].items()}
    assert (buckets["0.002"], buckets["0.005"], buckets["+Inf"]) == (0, 4, 4)
    assert found["whydrop_poll_jitter_seconds_count"][SWITCH] == 4
    assert 0 <= found["whydrop_poll_age_seconds"][SWITCH] < 60


def test_a_switch_that_never_answered_has_no_age(exporter: Exporter) -> None:
    observed(exporter, reading(0, 1, status="timeout", values={}))
    assert "whydrop_poll_age_seconds" not in scraped(exporter)


def test_labels_that_need_escapes_arrive(exporter: Exporter) -> None:
    name = 'xe-0/0/1 "a"\\b\nc é'
    counting = Counting(10 * SECOND)
    for tick in range(2):
        one = replace(reading(tick, 0), values={(replace(UPLINK, name=name), OCTETS): tick})
        exporter.take(one, counting.samples(one))
    ((labels, value),) = scraped(exporter)["whydrop_switch_counter_total"].items()
    assert (dict(labels)["port"], value) == (name, 1)


def test_there_are_never_more_series_than_the_bound() -> None:
    with Exporter("127.0.0.1", 0, most_series=5) as exporter:
        counting = Counting(10 * SECOND)
        for tick in range(3):
            values = {(replace(UPLINK, name=f"p{number}"), OCTETS): tick for number in range(8)}
            one = replace(reading(tick, 0), values=values)
            exporter.take(one, counting.samples(one))
        found = scraped(exporter)
    assert len(found["whydrop_switch_counter_total"]) == 5
    assert set(found["whydrop_switch_counter_total"].values()) == {2}
    assert found["whydrop_samples_not_shown_total"][()] == 9


def test_an_address_that_is_taken_is_an_error_that_says_what_to_do(exporter: Exporter) -> None:
    with pytest.raises(ExporterError, match=rf"127\.0\.0\.1 port {exporter.port}: .* Choose another address or port"):
        Exporter("127.0.0.1", exporter.port)


@pytest.mark.parametrize("address", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_of_this_machine_is_an_error(address: str) -> None:
    with pytest.raises(ExporterError, match=f"cannot listen at {address} port 0"):
        Exporter(address, 0)


def test_an_exporter_that_was_closed_listens_no_more() -> None:
    exporter = Exporter("127.0.0.1", 0)
    exporter.close()
    with pytest.raises(urllib.error.URLError):
        scraped(exporter)


def test_it_can_be_scraped_while_it_observes(exporter: Exporter) -> None:
    with ThreadPoolExecutor(4) as pool:
        scrapes = [pool.submit(scraped, exporter) for _ in range(20)]
        observed(exporter, *(reading(tick, 10 * tick) for tick in range(200)))
        seen = [one.result().get("whydrop_switch_counter_total", {}) for one in scrapes]
    assert all(set(of) <= {of_counter("octets.tx"), of_counter("discards.tx")} for of in seen)
    assert scraped(exporter)["whydrop_switch_counter_total"][of_counter("octets.tx")] == 1990


def test_who_asks_nothing_is_hung_up_on(exporter: Exporter) -> None:
    exporter._server.patience_s = 0.05
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=60) as idle:
        assert idle.recv(1) == b""
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=60) as slow:
        slow.sendall(b"GET /metrics HT")
        assert slow.recv(1) == b""


def test_many_who_ask_nothing_take_few_threads_and_no_answers_from_who_asks_later(exporter: Exporter) -> None:
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", exporter.port), timeout=60) for _ in range(3 * scraping.AT_ONCE)]
    # Clients beyond the limit are disconnected at once.
    ended, _, _ = select.select(idle, [], [], 60)
    assert ended
    assert threading.active_count() <= before + scraping.AT_ONCE
    for one in idle:
        one.close()
    deadline = time.monotonic() + 60
    while True:
        try:
            assert "whydrop_samples_not_shown_total" in scraped(exporter)
            return
        except (urllib.error.URLError, ConnectionError, http.client.HTTPException):
            assert time.monotonic() < deadline


def test_a_client_that_does_not_take_the_answer_does_not_prevent_the_end(
    exporter: Exporter, capfd: pytest.CaptureFixture[str]
) -> None:
    values = {(replace(UPLINK, name=f"port {number}" * 9), OCTETS): 1 for number in range(3000)}
    observed(exporter, *(replace(reading(tick, 0), values=values) for tick in range(2)))
    with socket.create_connection(("127.0.0.1", exporter.port), timeout=60) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(1) == b"H"
        exporter.close()
    assert capfd.readouterr().err == ""


def test_it_listens_by_version_6_too() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no address of version 6")
    with Exporter("::1", 0) as exporter, socket.create_connection(("::1", exporter.port), timeout=60) as one:
        one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert one.recv(12) == b"HTTP/1.0 200"


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(totals=st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_totals_never_fall_whatever_the_switch_answers(exporter: Exporter, totals: list[int]) -> None:
    counting, before = Counting(10 * SECOND), 0.0
    for tick, total in enumerate(totals):
        one = reading(tick, total)
        exporter.take(one, counting.samples(one))
        now = scraped(exporter)["whydrop_switch_counter_total"][of_counter("octets.tx")]
        assert now >= before
        before = now
