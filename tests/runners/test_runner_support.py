"""Refusals of runners, and the command lines that they make of what they accept."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_fixtures import flow

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.parsing.declared import Declaration, DeclaredParser
from whydrop.measure.runners.registry import SUPPORT, available, check_together, runner_for, spread_ports

S = 1_000_000_000
GOOD: dict[str, dict[str, Any]] = {
    "iperf3": {"kind": "tcp", "direction": "up"},
    "nuttcp": {"kind": "tcp", "direction": "down"},
    "netperf": {"kind": "tcp", "direction": "up"},
    "irtt": {"kind": "probe"},
    "stamp": {"kind": "probe"},
    "msak": {"kind": "tcp", "direction": "down", "duration_s": 5.0},
    "ping": {"kind": "icmp"},
    "fping": {"kind": "icmp"},
    "http": {"kind": "http"},
    "responsiveness": {"kind": "tcp", "direction": "down"},
    "command": {"kind": "value", "options": {"command": "true"}},
}


def good(name: str, /, **settings: Any) -> PlannedFlow:
    return flow(**{"runner": name, "host": "192.0.2.7", **GOOD[name], **settings})


def words(name: str, /, **settings: Any) -> list[str]:
    runner: Any = runner_for(good(name, **settings), 1)
    command: list[str] = runner.command()
    return command


@pytest.mark.parametrize("name", SUPPORT)
def test_every_runner_is_found_and_accepts_what_it_supports(name: str) -> None:
    assert SUPPORT[name].complaint(good(name)) is None
    assert runner_for(good(name), 1) is not None


def test_an_unknown_runner_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(LookupError, match=r"no runner 'iperf'; there are engine, command, fping, http, iperf3"):
        runner_for(flow(runner="iperf"), 1)


ODD = {
    "congestion_control": "bbr",
    "ecn": True,
    "rate_bps": 1e6,
    "pacing_rate_bps": 1e6,
    "send_buffer_bytes": 1,
    "receive_buffer_bytes": 1,
    "payload_bytes": 1000,
    "packet_payload_bytes": 100,
    "on_s": 1.0,
    "off_s": 1.0,
    "packets_per_burst": 3,
    "burst_every_s": 1.0,
    "timeout_s": 1.0,
    "dscp": 46,
    "port": 4000,
}


@pytest.mark.parametrize("name", SUPPORT)
def test_what_a_runner_cannot_honour_is_refused_and_never_left_out_silently(name: str) -> None:
    for field, value in ODD.items():
        complaint = SUPPORT[name].complaint(good(name, **{field: value}))
        if field in SUPPORT[name].honours:
            assert complaint is None
        else:
            assert complaint is not None
            assert f"cannot set {field}" in complaint


@pytest.mark.parametrize("name", [name for name in SUPPORT if SUPPORT[name].program is not None])
def test_what_a_runner_honours_changes_its_command_line(name: str) -> None:
    usual = words(name)
    for field in ODD.keys() & SUPPORT[name].honours:
        assert words(name, **{field: ODD[field]}) != usual, field


def test_every_field_of_a_plan_is_thought_of() -> None:
    known = frozenset({"name", "kind", "direction", "runner", "start_s", "optional", "options", "units"})
    honoured = {field for support in SUPPORT.values() for field in support.honours}
    engine_only = {"ecn", "on_s", "off_s", "packets_per_burst", "burst_every_s"}
    assert {field.name for field in dataclasses.fields(PlannedFlow)} == known | honoured | engine_only


def test_unknown_options_are_refused_with_those_that_there_are() -> None:
    complaint = SUPPORT["irtt"].complaint(good("irtt", options={"hmak": "x"}))
    assert complaint is not None
    assert complaint.endswith("has no option hmak: its options are hmac and timer")


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "$(x)", ""])
def test_a_host_that_is_none_reaches_no_program(host: str) -> None:
    assert SUPPORT["ping"].complaint(good("ping", host=host)) is not None


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"dscp": 64}, "0 to 63"),
        ({"port": 0}, "1 to 65535"),
        ({"ip_version": 5}, "4 or 6"),
        ({"duration_s": 0.0}, "must be positive"),
        ({"direction": "sideways"}, "both, down and up"),
        ({"kind": "icmp"}, "measures tcp and udp, not icmp"),
    ],
)
def test_values_out_of_range_are_refused_with_the_range(settings: dict[str, Any], part: str) -> None:
    assert part in (SUPPORT["iperf3"].complaint(good("iperf3", **settings)) or "")


def test_each_program_gets_markings_as_it_wants_them() -> None:
    # as whole byte or as its upper six bits
    assert "--dscp=0xb8" in words("irtt", dscp=46)
    assert words("ping", dscp=46)[-5:-3] == ["-Q", "184"]
    assert "184" in words("fping", dscp=46)
    assert "46" in words("iperf3", dscp=46)
    assert "-c46" in words("nuttcp", dscp=46)
    assert "0xb8,0xb8" in words("netperf", dscp=46)


def test_iperf3_is_never_asked_for_no_time_at_all() -> None:
    # it reads -t 0.6 as 0, which means for ever
    runner: Any = runner_for(good("iperf3", duration_s=0.6), 1)
    assert runner.command()[runner.command().index("-t") + 1] == "1"
    assert not runner.ends_itself()


def test_an_ipv6_address_stands_in_brackets_where_a_port_follows() -> None:
    assert words("irtt", host="2001:db8::7")[-1] == "[2001:db8::7]:2112"


def test_iperf3_passwords_are_not_in_the_command_line() -> None:
    settings = {"options": {"username": "me", "password": "pw", "public_key": "key.pem"}}
    runner: Any = runner_for(good("iperf3", **settings), 1)
    assert "pw" not in runner.command()
    assert runner.environment() == {"IPERF3_PASSWORD": "pw"}


def test_limits_of_each_program_are_checked() -> None:
    for name, settings, part in (
        ("iperf3", {"interval_s": 0.01}, "0.1 to 60 s"),
        ("iperf3", {"payload_bytes": 5}, "not both"),
        ("iperf3", {"options": {"parallel": 500}}, "1 to 128"),
        ("iperf3", {"send_buffer_bytes": 1, "receive_buffer_bytes": 2}, "one size"),
        ("ping", {"packet_payload_bytes": 70_000}, "65507"),
        ("fping", {"interval_s": 0.0001}, "one probe a millisecond"),
        ("irtt", {"options": {"timer": "sundial"}}, "no timer 'sundial'"),
    ):
        runner: Any = runner_for(good(name, **settings), 1)
        assert part in (runner.complaint() or ""), name


def test_available_runners_show_versions_or_where_to_get_them() -> None:
    found = {one.name: one for one in available()}
    assert found.keys() == SUPPORT.keys()
    assert found["http"].missing is None
    assert all(one.version or one.missing or one.support.program is None for one in found.values())


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "netperf is not installed (Debian: apt-get install netperf (non-free)" in (
        runner_for(good("netperf"), 1).check() or ""
    )


# several flows at once


def iperf3(name: str, **settings: Any) -> PlannedFlow:
    return good("iperf3", name=name, **settings)


def test_flows_at_once_get_a_port_each_and_flows_in_turn_share_one() -> None:
    flows = [iperf3("a"), iperf3("b"), iperf3("c", start_s=10.0), iperf3("d", host="192.0.2.8"), iperf3("e", port=5202)]
    assert [one.port for one in spread_ports(flows)] == [5201, 5203, 5201, 5201, 5202]


def test_two_flows_on_one_iperf3_server_are_refused_with_what_to_do() -> None:
    assert check_together([iperf3("a", port=5201), iperf3("b", port=5202)]) is None
    complaint = check_together([iperf3("a"), iperf3("b")])
    assert complaint is not None
    assert "'a' and 'b' both use the iperf3 server at 192.0.2.7 port 5201" in complaint
    assert "iperf3 -s -p PORT" in complaint


def test_flows_of_nuttcp_at_once_get_data_ports_of_their_own() -> None:
    spread = spread_ports([good("nuttcp", name="a"), good("nuttcp", name="b")])
    assert [one.options["data_port"] for one in spread] == [5001, 5002]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10), st.sampled_from(["a", "b"])), max_size=8))
def test_spread_ports_never_clash(times: list[tuple[int, int, str]]) -> None:
    flows = [
        iperf3(str(number), start_s=float(start), duration_s=float(length), host=host)
        for number, (start, length, host) in enumerate(times)
    ]
    assert check_together(spread_ports(flows)) is None


# declared parsers


def read_declared(table: dict[str, Any], text: str, **settings: Any) -> tuple[DeclaredParser, list[tuple[Any, ...]]]:
    parser = DeclaredParser(7, Declaration(**table), **settings)
    for line in text.splitlines():
        parser.line(line, 2_000 * S)
    parser.end(2_001 * S)
    rows = parser.rows.take()
    return parser, rows["values"].select("time_ns", "key", "value").rows() if "values" in rows else []


def test_a_regular_expression_names_value_time_key_and_further_series() -> None:
    table = {
        "format": "regex",
        "pattern": r"^(?P<time>[\d.]+) (?P<key>\w+) (?P<value>[\d.]+) W (?P<volts>[\d.]+) V",
    }
    _, rows = read_declared(table, "1999.5 lamp 12.5 W 230 V\nnoise")
    assert rows == [(1999_500_000_000, "lamp", 12.5), (1999_500_000_000, "lamp.volts", 230.0)]


def test_json_lines_are_read_by_path() -> None:
    table = {"format": "json-lines", "value": "a.0.power", "time": "t", "time_unit": "ms"}
    parser, rows = read_declared(table, '{"a": [{"power": 3}], "t": 1999000}\n{"a": []}\nbroken {')
    assert rows == [(1999 * S, "", 3.0)]
    assert parser.facts["lines_not_understood"] == 1


def test_one_json_document_is_read_at_the_end() -> None:
    table = {"format": "json", "each": "rows", "value": "w", "key": "name"}
    _, rows = read_declared(table, '{"rows": [\n{"w": 1, "name": "x"},\n{"w": 2, "name": "y"}]}')
    assert rows == [(2_001 * S, "x", 1.0), (2_001 * S, "y", 2.0)]


def test_columns_are_found_by_heading_or_by_number() -> None:
    _, rows = read_declared({"format": "csv", "value": "Power (W)", "separator": ";"}, "t;Power (W)\n1;2,5\n2;3")
    assert [row[2] for row in rows] == [2.5, 3.0]
    _, rows = read_declared({"format": "csv", "value": 2, "header": False}, "1,7\n2,8")
    assert [row[2] for row in rows] == [7.0, 8.0]


def test_a_table_without_the_column_says_which_it_has() -> None:
    parser, rows = read_declared({"format": "csv", "value": "watts"}, "time,power\n1,2")
    assert rows == []
    assert parser.failure == "its table has no column watts; it has time, power"


def test_pairs_are_read_by_key_and_scaled() -> None:
    _, rows = read_declared({"format": "key-value", "value": "rate", "scale": 1000}, "id=4 rate=2.5, x=1")
    assert [row[2] for row in rows] == [2500.0]


def test_of_a_run_only_the_last_value_counts() -> None:
    _, rows = read_declared({"format": "key-value", "value": "v", "per": "run"}, "v=1\nv=2\nv=3")
    assert [row[2] for row in rows] == [3.0]


def test_rates_become_intervals_and_round_trips_become_probes() -> None:
    table = {"format": "key-value", "value": "r", "units": "Mbit/s"}
    parser = DeclaredParser(7, Declaration(**table), kind="tcp", interval_ns=S)
    parser.line("r=8", 10 * S)
    assert parser.rows.take()["intervals"].select("start_ns", "payload_bytes").rows() == [(9 * S, 1_000_000)]
    parser = DeclaredParser(7, Declaration(format="key-value", value="r"), kind="icmp")
    parser.line("r=2.5", 10 * S)
    assert parser.rows.take()["probes"]["rtt_ns"].to_list() == [2_500_000]


def test_stamps_that_make_no_sense_give_way_to_the_arrival() -> None:
    table = {"format": "regex", "pattern": r"(?P<time>\d+) (?P<value>\d+)"}
    parser, rows = read_declared(table, "99999999999 5")
    assert rows == [(2_000 * S, "", 5.0)]
    assert parser.facts["stamps_not_used"] == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "parser.format"),
        ({"format": "xml"}, "parser.format"),
        ({"format": "regex"}, "a pattern belongs to format regex"),
        ({"format": "regex", "pattern": "("}, "parser.pattern: no regular expression"),
        ({"format": "regex", "pattern": "(.*)"}, "(?P<value>...)"),
        ({"format": "json"}, "needs the place of a value"),
        ({"format": "csv", "valu": 1}, "parser.valu: no such key; did you mean value?"),
        ({"format": "csv", "value": 1, "separator": "ab"}, "parser.separator"),
        ({"format": "csv", "value": 1, "each": "x"}, "each belongs to format json"),
        ("regex", "options.parser: 'regex': expected a table"),
    ],
)
def test_a_wrong_declaration_is_reported_by_its_key(table: object, message: str) -> None:
    complaint = runner_for(good("command", options={"command": "true", "parser": table}), 1).check()
    assert message in (complaint or "")


@given(
    st.sampled_from(
        [
            {"format": "regex", "pattern": r"(?P<time>\S+) (?P<value>\S+)"},
            {"format": "json-lines", "value": "a.b", "key": "k", "time": "t", "time_unit": "iso"},
            {"format": "json", "value": "a", "each": "b"},
            {"format": "csv", "value": 2, "header": False},
            {"format": "csv", "value": "x"},
            {"format": "key-value", "value": "x", "time": "t", "time_unit": "ns"},
        ]
    ),
    st.lists(st.text(max_size=60), max_size=20),
)
def test_no_declared_parser_fails_on_any_text(table: dict[str, Any], lines: list[str]) -> None:
    for kind in ("value", "tcp", "icmp"):
        parser = DeclaredParser(7, Declaration(**table), kind=kind)
        for line in lines:
            parser.line(line, S)
        parser.end(S)
        parser.rows.take()
