"""Any test of the catalogue can probe an access point beside its far ends."""

from __future__ import annotations

import pytest

from whydrop.measure.tests import SettingError, resolve


def probes(test: str, hosts: list[str], runner: str | None = None) -> list[tuple[str, str, str | None]]:
    plan = resolve(test, hosts, {"access_point": "127.0.0.9"}, runner)
    return [
        (flow.name, flow.kind, flow.host)
        for flow in plan.flows
        if "access point" in flow.name or "far end" in flow.name
    ]


def test_the_access_point_answers_echo_and_a_responder_probes():
    assert probes("rrul", ["127.0.0.1"]) == [
        ("Ping (ms) access point", "icmp", "127.0.0.9"),
        ("Ping (ms) far end", "probe", "127.0.0.1"),
    ]


def test_servers_of_other_programs_answer_echo():
    assert [kind for _, kind, _ in probes("tcp", ["127.0.0.1"], "iperf3")] == ["icmp", "icmp"]


def test_each_far_end_has_probes_of_its_own():
    hosts = ["127.0.0.1", "127.0.0.2:4000", "127.0.0.3", "127.0.0.4"]
    names = [name for name, _, _ in probes("rtt_fair", hosts)]
    assert names == ["Ping (ms) access point", *(f"Ping (ms) far end {host}" for host in hosts)]


def test_both_are_probed_at_the_same_times():
    plan = resolve("rrul", ["127.0.0.1"], {"access_point": "127.0.0.9", "length_s": 7})
    near, far = plan.flows[-2:]
    assert (near.start_s, near.duration_s, near.interval_s) == (far.start_s, far.duration_s, far.interval_s)
    assert near.duration_s == plan.total_s
    assert plan.segments == {
        "near": {"host": "127.0.0.9", "probe": near.name},
        "is_next_hop": False,
        "far": [{"host": "127.0.0.1", "probe": far.name}],
    }


def test_a_plan_without_an_access_point_has_no_segments():
    plan = resolve("rrul", ["127.0.0.1"])
    assert plan.segments is None
    assert "segments" not in plan.as_dict()


@pytest.mark.parametrize(
    ("test", "hosts", "access_point", "words"),
    [
        ("rrul", ["127.0.0.1"], "auto", "access_point: packets to 127.0.0.1 go by no router"),
        ("rrul", ["127.0.0.1:4000"], "127.0.0.1", "access_point: 127.0.0.1 is the far end itself"),
        ("rrul", ["no-such-host.invalid"], "auto", "access_point: no-such-host.invalid: cannot find the address"),
    ],
)
def test_an_access_point_that_is_none_is_refused(test: str, hosts: list[str], access_point: str, words: str):
    with pytest.raises(SettingError, match=words):
        resolve(test, hosts, {"access_point": access_point})
