"""From tests to plans: parameters, hosts, other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.measure.tests import SettingError, resolve


def test_parameters_are_read_as_their_types_from_text_and_by_their_aliases() -> None:
    plan = resolve("tcp_nup", ["h"], {"flows": "2", "length": "1 min", "markings": "EF, CS1", "probe-interval": "5ms"})
    flows = [flow for flow in plan.flows if flow.kind == "tcp"]
    assert [(flow.name, flow.dscp, flow.duration_s) for flow in flows] == [
        ("TCP upload::1", 46, 60.0),
        ("TCP upload::2", 8, 60.0),
    ]
    assert {flow.interval_s for flow in plan.flows if flow.kind == "probe"} == {0.005}
    assert plan.parameters["upload_streams"] == 2


def test_every_mistake_in_settings_is_reported_at_once() -> None:
    with pytest.raises(SettingError) as refused:
        resolve("tcp_nup", [], {"upload_streams": "many", "lenght_s": 3, "delay_s": -1, "streams": 2})
    assert len(refused.value.mistakes) == 5
    assert any("did you mean length" in mistake for mistake in refused.value.mistakes)


@pytest.mark.parametrize(("test", "hosts", "words"), [("rrul", 0, "1 host"), ("rrul", 2, "1 host"),
                                                      ("rtt_fair", 3, "4 hosts"), ("rtt_fair_var", 0, "1 or more"),
                                                      ("udp_flood", 3, "1 host")])  # fmt: skip
def test_too_few_or_too_many_hosts_are_refused(test: str, hosts: int, words: str) -> None:
    with pytest.raises(SettingError, match=f"needs {words}"):
        resolve(test, [f"h{number}" for number in range(hosts)])


def test_a_required_parameter_must_be_set() -> None:
    with pytest.raises(SettingError, match="command: must be set"):
        resolve("command-output", [])


def test_abstract_tests_cannot_be_run() -> None:
    with pytest.raises(SettingError, match="only to be extended"):
        resolve("common", ["h"])


def test_settings_for_all_tcp_flows_reach_those_that_say_nothing_themselves() -> None:
    plan = resolve("tcp_bidirectional", ["h"], {"congestion_control": "cubic,reno", "ecn": "yes", "cc_algo": ""})
    found = {flow.direction: flow for flow in plan.flows if flow.kind == "tcp"}
    assert (found["up"].congestion_control, found["down"].congestion_control) == ("cubic", "reno")
    assert found["up"].ecn is True
    duel = resolve("cubic_bbr", ["h"], {"congestion_control": "reno"})
    assert {flow.congestion_control for flow in duel.flows if flow.kind == "tcp"} == {"cubic", "bbr"}


def test_directions_can_be_exchanged_and_names_stay_true() -> None:
    plan = resolve("tcp_2up", ["h"], {"swap_directions": True})
    flows = [flow for flow in plan.flows if flow.kind == "tcp"]
    assert [(flow.name, flow.direction) for flow in flows] == [
        ("TCP download::1", "down"),
        ("TCP download::2", "down"),
    ]
    assert {series.name for series in plan.computed} >= {"TCP download sum", "TCP download fairness"}


def test_computed_series_name_each_flow_so_that_a_missing_one_is_noticed() -> None:
    plan = resolve("rtt_fair_var", ["a", "fe80::1[x]"])
    sums = {series.name: series for series in plan.computed}
    assert sums["TCP upload sum"].of == ("TCP upload BE a", "TCP upload BE fe80::1[[]x]")


def test_stream_delays_shorten_flows_so_that_all_end_together() -> None:
    plan = resolve("tcp_nup", ["h"], {"streams": 2, "stream_delays": "0,10"})
    flows = [flow for flow in plan.flows if flow.kind == "tcp"]
    assert [(flow.start_s, flow.duration_s) for flow in flows] == [(5, 60), (15, 50)]


def test_a_volume_takes_the_place_of_a_time() -> None:
    [flow] = [
        flow for flow in resolve("tcp_nup", ["h"], {"streams": 1, "payload_bytes": "10 MB"}).flows if flow.kind == "tcp"
    ]
    assert (flow.duration_s, flow.payload_bytes) == (None, 10**7)


def test_mixins_add_pings_voice_and_pages_to_any_test() -> None:
    plan = resolve(
        "tcp_download",
        ["h"],
        {"ping_hosts": "p,q", "ping_markings": "EF", "voip_host": "v", "include_http": "yes", "http_urls": "http://w/"},
    )
    found = {flow.name: flow for flow in plan.flows}
    assert found["Ping (ms) ICMP p (extra)"].dscp == 46
    assert found["Ping (ms) ICMP q (extra)"].host == "q"
    assert (found["VoIP"].host, found["VoIP"].interval_s, found["VoIP"].packet_payload_bytes) == ("v", 0.02, 172)
    assert found["HTTP latency"].runner == "http"
    assert found["HTTP latency"].options["urls"] == ["http://w/"]
    assert "VoIP::induced_delay" in {series.name for series in plan.computed}


def test_iperf3_takes_the_tcp_flows_and_pings_the_probes_where_the_far_end_is_not_ours() -> None:
    plan = resolve("rrul", ["h"], with_runner="iperf3")
    assert {flow.runner for flow in plan.flows if flow.kind == "tcp"} == {"iperf3"}
    assert {flow.name for flow in plan.flows if flow.kind == "icmp"} == {
        "Ping (ms) ICMP EF",
        "Ping (ms) ICMP BK",
        "Ping (ms) ICMP BE",
        "Ping (ms) ICMP",
    }
    assert not any(flow.kind == "probe" for flow in plan.flows)
    assert any("measured by ICMP echo" in note for note in plan.notes)
    assert any("start 8" in note for note in plan.notes)
    averaged = next(series for series in plan.computed if series.name == "Ping (ms) avg")
    assert "Ping (ms) ICMP EF" in averaged.of


def test_several_programs_can_share_a_test() -> None:
    plan = resolve("voip-1up", ["h"], with_runner="iperf3,irtt")
    assert {flow.name: flow.runner for flow in plan.flows} == {"VoIP": "irtt", "TCP upload": "iperf3"}


@pytest.mark.parametrize(
    ("test", "runner", "words"),
    [
        ("rrul", "iperf4", "expected one or several of iperf3"),
        ("burst-trains", "iperf3", "of kind burst"),
        ("tcp_upload", "irtt", "of kind tcp"),
        ("cubic_bbr", "nuttcp", "cannot set congestion_control"),
    ],
)
def test_what_no_named_program_can_measure_is_refused(test: str, runner: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        resolve(test, ["h"], with_runner=runner)


def test_a_later_file_changes_flows_by_pattern_and_takes_others_out(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'title = "mine"\nextends = "rrul"\nwithout = ["*EF", "*CS5"]\n'
        '[[change]]\nmatch = "TCP upload*"\ncongestion_control = "bbr"\n'
        '[[change]]\nmatch = "TCP*"\nwhen = "${mark.label == \'BK\'}"\ndscp = "LE"\n'
    )
    found = {flow.name: flow for flow in resolve(str(mine), ["h"]).flows}
    assert not any("EF" in name or "CS5" in name for name in found)
    assert found["TCP upload BE"].congestion_control == "bbr"
    assert found["TCP download BE"].congestion_control is None
    assert (found["TCP upload BK"].dscp, found["TCP download BK"].dscp, found["TCP upload BE"].dscp) == (1, 1, 0)
