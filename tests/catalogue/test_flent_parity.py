"""Every test of Flent 2.3.0 is here under its name, with its flows at its times.

``flent-2.3.0.json`` holds what each test of Flent runs, as Flent itself says when it loads the test with a length of
60 s, a delay of 5 s, hosts h1, h2, ... and 3 upload, 2 download and 2 bidirectional streams.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whydrop.measure.plan import Plan, PlannedFlow
from whydrop.measure.tests import load, resolve

FLENT: dict[str, Any] = json.loads((Path(__file__).parent / "flent-2.3.0.json").read_text())

# No test, for the reason that docs/flent-parity.md gives.
LEFT_OUT = {"sctp_vs_tcp", "dashtest"}

# Differences of single tests, each explained in docs/flent-parity.md: (test, Flent's series) to ours.
RENAMED = {
    ("dslreports_8dn", "Ping (ms) TCP BE1"): "Ping (ms) UDP BE1",
    ("dslreports_8dn", "Ping (ms) TCP BE2"): "Ping (ms) UDP BE2",
    ("dslreports_8dn", "Ping (ms) TCP BE3"): "Ping (ms) UDP BE3",
    ("iterated_bidirectional", "TCP download"): "TCP download::1",
    ("iterated_bidirectional", "TCP upload"): "TCP upload::1",
}
# HTTP is fetched over the whole test, so that there are idle fetches before and behind the load.
OTHER_TIMES = {("http-1up", "HTTP latency"), ("http-1down", "HTTP latency"), ("http-rrul", "HTTP latency")}
# Flent leaves cubic, as the "default" of these duels, to the kernel's setting; ours asks for it by name.
NAMED_CONTROL = {"cubic_ledbat", "cubic_westwood"}
# Counters of the host, which every recording has, rather than a flow.
COUNTERS = {("qdisc-stats", "qdisc-stats")}

PARAMETERS = {
    "tcp_nup": {"upload_streams": 3},
    "tcp_ndown": {"download_streams": 2},
    "rrul_be_nflows": {"upload_streams": 3, "download_streams": 2},
    "rrul_var": {"bidir_streams": 2},
    "command-output": {"command": "date"},
    "mqtt_read": {"mqtt_topic": "t"},
    "power_usage": {"mqtt_topic": "t"},
    "iterated_bidirectional": {"length_s": 60},
}


def plan(name: str) -> Plan:
    wanted = FLENT[name]["hosts"] if load(name).hosts.maximum != 0 else 0
    hosts = [f"h{number + 1}" for number in range(wanted)]
    return resolve(name, hosts, PARAMETERS.get(name, {}))


def flows(name: str) -> dict[str, PlannedFlow]:
    return {flow.name: flow for flow in plan(name).flows}


def expected(name: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for series, flow in FLENT[name]["flows"].items():
        if "count" in flow:
            base = series.removesuffix("*")
            found.extend((f"{base}{number + 1}", flow) for number in range(flow["count"]))
        elif (name, series) not in COUNTERS:
            found.append((RENAMED.get((name, series), series), flow))
    return found


@pytest.mark.parametrize("name", sorted(FLENT.keys() - LEFT_OUT))
def test_each_flow_of_flents_test_is_in_ours_with_its_kind_time_and_marking(name: str) -> None:
    ours = flows(name)
    for series, theirs in expected(name):
        assert series in ours, f"{series} is missing among {sorted(ours)}"
        flow = ours[series]
        assert (flow.kind, flow.direction) == (theirs["kind"], theirs["direction"]), series
        assert flow.dscp == theirs["dscp"], series
        if flow.host is not None:
            assert flow.host == theirs["host"], series
        if (name, series) not in OTHER_TIMES:
            assert (flow.start_s, flow.duration_s) == (theirs["start_s"], theirs["duration_s"]), series
        if name not in NAMED_CONTROL:
            assert flow.congestion_control == theirs.get("congestion_control"), series
        if "ip_version" in theirs:
            assert flow.ip_version == theirs["ip_version"], series


@pytest.mark.parametrize("name", sorted(FLENT.keys() - LEFT_OUT))
def test_each_series_that_flent_computes_is_computed_too(name: str) -> None:
    ours = {series.name for series in plan(name).computed}
    assert set(FLENT[name]["computed"]) <= ours


@pytest.mark.parametrize("name", sorted(FLENT.keys() - LEFT_OUT))
def test_each_test_takes_as_long_as_flents(name: str) -> None:
    theirs = FLENT[name]["total_s"]
    if theirs is not None:
        assert plan(name).total_s == theirs


def test_nothing_is_left_out_silently() -> None:
    from whydrop.measure.tests import names

    assert FLENT.keys() - set(names()) == LEFT_OUT


def test_the_document_has_a_row_for_each_test() -> None:
    rows = (Path(__file__).parents[2] / "docs" / "flent-parity.md").read_text()
    assert {name for name in FLENT if f"`{name}`" not in rows} == set()
