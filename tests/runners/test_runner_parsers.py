"""Parsers of other people's programs, on what these really print (see fixtures/README.md)."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_fixtures import FIXTURES, tables, text

from whydrop.measure.runners.parsing.base import Parser, Timeline, epoch_ns, number, read, whole
from whydrop.measure.runners.parsing.echoes import FpingParser, PingParser
from whydrop.measure.runners.parsing.iperf3 import Iperf3Json, Iperf3Text
from whydrop.measure.runners.parsing.irtt import IrttParser, duration_ns
from whydrop.measure.runners.parsing.netperf import NetperfParser
from whydrop.measure.runners.parsing.nuttcp import NuttcpParser

MS = 1_000_000
S = 1_000_000_000


def ping(interval_ms: int = 100) -> PingParser:
    return PingParser(7, interval_ns=interval_ms * MS, timeout_ns=5 * S)


def fping(interval_ms: int = 20) -> FpingParser:
    return FpingParser(7, interval_ns=interval_ms * MS, timeout_ns=300 * MS, payload_bytes=56)


def irtt() -> IrttParser:
    return IrttParser(7, host="far", interval_ns=20 * MS, timeout_ns=5 * S)


def parsers() -> list[Parser]:
    return [
        Iperf3Text(7),
        Iperf3Text(7, streams=2, sends=None),
        Iperf3Text(7, sends=False, udp=True),
        Iperf3Json(7),
        NuttcpParser(7),
        NetperfParser(7, round_trips=False),
        NetperfParser(7, round_trips=True),
        ping(),
        fping(),
        irtt(),
    ]


# iperf3


def test_iperf3_lines_give_rates_retransmissions_and_windows() -> None:
    parser = Iperf3Text(7)
    found = tables(parser, "iperf3-3.12-tcp-up.txt", arrived_ns=10 * S)
    intervals, sockets = found["intervals"], found["tcp_info"]
    assert intervals.height == sockets.height == 5
    assert intervals["goodput_bps"].is_between(4e7, 6e7).all()
    assert (intervals["end_ns"][:-1] == intervals["start_ns"][1:]).all()
    # 1.12 MB (or so) of windows in segments of 32768 bytes
    assert sockets["congestion_window_packets"].is_between(1, 200).all()
    assert parser.facts["sender_congestion_control"] == "bbr"
    assert parser.facts["measured_at"] == "sender"
    assert parser.facts["received_bytes"] > 0


def test_iperf3_amounts_follow_from_its_rates_which_have_more_digits() -> None:
    parser = Iperf3Text(7)
    intervals = tables(parser, "iperf3-3.12-tcp-up.txt")["intervals"]
    assert intervals["payload_bytes"].sum() == pytest.approx(parser.facts["sent_bps"] / 8, rel=1e-3)


def test_iperf3_downloads_are_counted_at_the_receiver_and_show_no_window() -> None:
    parser = Iperf3Text(7, sends=False)
    found = tables(parser, "iperf3-3.12-tcp-down.txt")
    assert found.keys() == {"intervals"}
    assert "measured_at" not in parser.facts
    assert parser.facts["retransmits"] == 0


def test_of_parallel_connections_the_sum_counts() -> None:
    found = tables(Iperf3Text(7, streams=2), "iperf3-3.12-tcp-up-parallel.txt")
    assert found["intervals"]["goodput_bps"].to_list() == [100_651_000, 100_663_000]
    # a window of several connections is none
    assert found["tcp_info"]["congestion_window_packets"].null_count() == 2


def test_both_directions_of_iperf3_make_one_total_and_a_value_each() -> None:
    parser = Iperf3Text(7, streams=2, sends=None)
    found = tables(parser, "iperf3-3.12-tcp-both-parallel.txt")
    assert found["intervals"].height == 2
    values = found["values"]
    assert sorted(set(values["key"])) == ["down_bps", "up_bps"]
    for row, rate_bps in enumerate(found["intervals"]["goodput_bps"]):
        assert values["value"][2 * row] + values["value"][2 * row + 1] == rate_bps
    assert parser.facts["up_received_bytes"] == pytest.approx(parser.facts["down_received_bytes"], rel=0.1)


def test_iperf3_datagrams_are_counted_with_losses_and_jitter_where_they_arrive() -> None:
    intervals = tables(Iperf3Text(7, sends=False, udp=True), "iperf3-3.12-udp-down.txt")["intervals"]
    assert intervals["packets"].to_list() == [53, 52]
    assert intervals["lost"].to_list() == [0, 0]
    assert intervals["jitter_ns"].to_list() == [6000, 4000]


def test_iperf3_datagrams_that_were_sent_are_not_called_received() -> None:
    parser = Iperf3Text(7, udp=True)
    found = tables(parser, "iperf3-3.12-udp-up.txt")
    assert found.keys() == {"intervals"}
    assert found["intervals"]["packets"].null_count() == 2
    assert (parser.facts["lost_packets"], parser.facts["packets"]) == (0, 105)


def test_an_interrupted_iperf3_keeps_its_intervals_and_does_not_claim_that_nothing_arrived() -> None:
    for parser, name in (
        (Iperf3Text(7), "iperf3-3.12-interrupted.txt"),
        (Iperf3Json(7), "iperf3-3.12-interrupted.json"),
    ):
        assert tables(parser, name)["intervals"].height >= 4
        assert "received_bytes" not in parser.facts
        assert "interrupt" in (parser.failure or "interrupt")


def test_iperf3_says_what_is_wrong_in_lines_and_in_json() -> None:
    parser = Iperf3Text(7)
    assert tables(parser, "iperf3-3.12-busy.txt") == {}
    assert parser.failure == "the server is busy running a test. try again later"
    parser_of_json = Iperf3Json(7)
    assert tables(parser_of_json, "iperf3-3.12-refused.json") == {}
    assert parser_of_json.failure == "unable to connect to server: Connection refused"


def test_iperf3_json_has_exact_bytes_and_round_trips() -> None:
    parser = Iperf3Json(7)
    found = tables(parser, "iperf3-3.12-tcp-up.json")
    document = json.loads(text("iperf3-3.12-tcp-up.json"))
    sums = [one["sum"] for one in document["intervals"]]
    assert found["intervals"]["payload_bytes"].to_list() == [one["bytes"] for one in sums]
    streams = [one["streams"][0] for one in document["intervals"]]
    assert found["tcp_info"]["srtt_ns"].to_list() == [1000 * one["rtt"] for one in streams]
    # read long after: the stamp in the document, to the second
    assert found["intervals"]["start_ns"][0] == document["start"]["timestamp"]["timesecs"] * S


def test_the_datagrams_that_an_iperf3_server_counted_are_reported_with_the_time_of_sending() -> None:
    parser = Iperf3Json(7)
    tables(parser, "iperf3-3.12-udp-up-server-output.json")
    counted = parser.facts["server_intervals"]
    assert [packets for _, _, packets in counted[:3]] == [586 - 255, 681 - 350, 679 - 349]
    assert counted[0][:2] == [0.0, 1.0]
    assert parser.facts["sending_s"] == pytest.approx(3.826131)
    # A server that runs with -J gives the same as JSON.
    sums = [{"sum": {"start": 0, "end": 1.0, "packets": 586, "lost_packets": 255}}]
    in_json = read(Iperf3Json(7), json.dumps({"server_output_json": {"intervals": sums}}))
    assert in_json.facts["server_intervals"] == [[0.0, 1.0, 331]]


def test_a_document_that_has_just_arrived_shows_the_time_better_than_its_stamp() -> None:
    seconds = json.loads(text("iperf3-3.12-tcp-up.json"))["start"]["timestamp"]["timesecs"]
    intervals = tables(Iperf3Json(7), "iperf3-3.12-tcp-up.json", arrived_ns=seconds * S + 1_700 * MS)["intervals"]
    assert intervals["end_ns"][-1] == seconds * S + 1_700 * MS


def test_both_directions_in_iperf3_json_are_added() -> None:
    found = tables(Iperf3Json(7, sends=None), "iperf3-3.12-tcp-both.json")
    document = json.loads(text("iperf3-3.12-tcp-both.json"))
    expected = [one["sum"]["bytes"] + one["sum_bidir_reverse"]["bytes"] for one in document["intervals"]]
    assert found["intervals"]["payload_bytes"].to_list() == expected


def test_iperf3_json_of_datagrams_reports_losses() -> None:
    intervals = tables(Iperf3Json(7, sends=False), "iperf3-3.12-udp-down.json")["intervals"]
    assert intervals["lost"].to_list() == [0, 0]
    assert intervals["jitter_ns"].null_count() == 0


def test_streamed_json_makes_a_row_as_each_event_comes() -> None:
    parser = Iperf3Json(7)
    lines = text("documented-iperf3-3.17-json-stream-tcp-up.txt").splitlines()
    parser.line(lines[0], 100 * S)
    assert parser.rows.take() == {}
    parser.line(lines[1], 100 * S + 500_077_000)
    found = parser.rows.take()
    assert found["intervals"]["start_ns"].to_list() == [100 * S]
    assert found["tcp_info"].select("srtt_ns", "congestion_window_packets", "retransmitted_packets").rows() == [
        (10_250_000, 100, 2)
    ]
    for line in lines[2:]:
        parser.line(line, 102 * S)
    assert parser.rows.take()["tcp_info"]["retransmitted_packets"].to_list() == [3]
    assert parser.facts["receiver_congestion_control"] == "cubic"


def test_an_error_in_streamed_json_is_the_failure() -> None:
    parser = Iperf3Json(7)
    assert tables(parser, "documented-iperf3-3.17-json-stream-error.txt") == {}
    assert parser.failure == "the server is busy running a test. try again later"


def test_json_that_was_cut_off_is_a_failure_and_no_exception() -> None:
    parser = Iperf3Json(7)
    read(parser, text("iperf3-3.12-tcp-up.json")[:2000])
    assert parser.failure is not None
    assert "no JSON" in parser.failure


# nuttcp and netperf


def test_nuttcp_counts_up_to_its_end_which_it_prints_no_interval_of() -> None:
    for name in ("tcp-up", "tcp-down", "udp-up"):
        parser = NuttcpParser(7)
        intervals = tables(parser, f"nuttcp-6.1.2-{name}.txt")["intervals"]
        assert intervals["payload_bytes"].sum() == pytest.approx(parser.facts["received_bytes"], rel=1e-3)
        # all lines at once is not how they come: the times that they are given differ a little from what was said
        seconds = (intervals["end_ns"][-1] - intervals["start_ns"][0]) / 1e9
        assert seconds == pytest.approx(parser.facts["received_bytes"] * 8 / parser.facts["received_bps"], rel=0.1)


def test_nuttcp_reports_datagrams_and_drops() -> None:
    parser = NuttcpParser(7)
    intervals = tables(parser, "nuttcp-6.1.2-udp-up.txt")["intervals"]
    assert intervals["packets"].sum() == parser.facts["packets"] == 893
    assert intervals["lost"].sum() == 0


def test_nuttcp_downwards_reports_one_interval_of_datagrams() -> None:
    assert tables(NuttcpParser(7), "nuttcp-6.1.2-udp-down.txt")["intervals"].height == 1


def test_nuttcp_that_finds_no_server_says_so() -> None:
    parser = NuttcpParser(7)
    for line in text("nuttcp-6.1.2-refused.txt").splitlines():
        parser.error_line(line, 0)
    assert parser.failure == "connect failed: Connection refused"


def test_netperf_streams_become_intervals_at_its_own_times() -> None:
    parser = NetperfParser(7, round_trips=False)
    found = tables(parser, "documented-netperf-2.7-tcp-stream.txt", arrived_ns=1402068106 * S)
    assert found["intervals"].select("start_ns", "end_ns", "goodput_bps").rows() == [
        (1402068105 * S, 1402068105 * S + 201 * MS, 9.36e6),
        (1402068105 * S + 201 * MS, 1402068105 * S + 401 * MS, 9.41e6),
    ]
    assert parser.facts["near_retransmits"] == 3
    assert parser.facts["near_congestion_control"] == "cubic"


def test_a_second_without_transactions_has_no_round_trip() -> None:
    values = tables(NetperfParser(7, round_trips=True), "documented-netperf-2.7-udp-rr.txt", arrived_ns=1402068106 * S)
    assert values["values"]["value"].to_list() == [12.5, None]


def test_netperf_sentences_are_read_too() -> None:
    found = tables(NetperfParser(7, round_trips=False), "documented-netperf-2.7-sentences.txt")
    assert found["intervals"]["goodput_bps"].to_list() == [941.32e6, 938e6]


def test_netperf_that_finds_no_server_says_so() -> None:
    parser = NetperfParser(7, round_trips=False)
    assert tables(parser, "documented-netperf-2.7-refused.txt") == {}
    assert parser.failure is not None
    assert "establish" in parser.failure


# irtt


def test_irtt_reports_losses_by_direction() -> None:
    parser = irtt()
    read(parser, text("irtt-0.9.0-lossy.txt"))
    assert len(parser.rows) > 0
    parser = irtt()
    for line in text("irtt-0.9.0-lossy.txt").splitlines():
        parser.line(line, 0)
    parser.document(text("irtt-0.9.0-lossy.json"))
    parser.end(0)
    found = parser.rows.take()
    probes = found["probes"]
    assert probes.height == 15
    assert dict(probes["fate"].value_counts().rows()) == {"ok": 11, "lost-up": 2, "lost-down": 2}
    assert probes.filter(duplicates=1)["sequence"].to_list() == [10]
    # its timer error, which irtt itself says was 0.66 ms at most
    assert ((probes["sent_ns"] - probes["scheduled_ns"]).abs() < 670_000).all()
    assert (probes["scheduled_ns"].diff().drop_nulls() == 20 * MS).all()
    assert probes["payload_bytes"].unique().to_list() == [60]


def test_one_way_delays_of_irtt_are_corrected_by_the_offset_of_the_clocks() -> None:
    document = json.loads(text("irtt-0.9.0-lossy.json"))
    ahead_ns = 5 * S
    for trip in document["round_trips"]:
        for stamp in trip["timestamps"].get("server", {}).values():
            if stamp.get("wall"):
                stamp["wall"] += ahead_ns
    parser = irtt()
    parser.document(json.dumps(document))
    found = parser.rows.take()
    clock = found["clocks"].row(0, named=True)
    assert abs(clock["offset_ns"] - ahead_ns) <= clock["uncertainty_ns"] + 1
    answered = found["probes"].filter(fate="ok")
    # there and back make the round trip, to the wall clock's grain
    assert ((answered["up_ns"] + answered["down_ns"] - answered["rtt_ns"]).abs() <= 2000).all()
    assert (answered["up_ns"] > 0).all()


def test_without_its_json_irtt_s_lines_count() -> None:
    parser = irtt()
    found = tables(parser, "irtt-0.9.0-lossy.txt", arrived_ns=100 * S)["probes"]
    assert found.height == 15
    assert found.filter(fate="lost")["sequence"].to_list() == [3, 4, 7, 8]
    assert "without its JSON" in parser.facts["read_from"]


@pytest.mark.parametrize(
    "document", ["", "{", "[]", "null", '{"round_trips": 3}', '{"round_trips": [3, {}, {"seqno": "x"}]}', "[" * 5000]
)
def test_no_json_of_irtt_can_do_more_than_fail(document: str) -> None:
    parser = irtt()
    parser.document(document)
    parser.end(0)
    assert parser.failure is not None or parser.facts["round_trips_not_understood"] == 3
    assert parser.rows.take() == {}


def test_durations_of_go_are_read_whole_or_not_at_all() -> None:
    assert [duration_ns(one) for one in ("1h2m3.5s", "0s", "1.5", "", "5parsecs")] == [
        3_723_500_000_000,
        0,
        None,
        None,
        None,
    ]


# ping


def test_ping_reports_round_trips_at_its_own_times() -> None:
    parser = ping()
    probes = tables(parser, "ping-iputils-20221126.txt", arrived_ns=1795318505 * S)["probes"]
    assert probes["sequence"].to_list() == [1, 2, 3, 4, 5]
    assert probes["rtt_ns"].to_list() == [9000, 16000, 19000, 14000, 19000]
    assert probes["received_ns"][0] == 1795318503_823862000
    assert (probes["received_ns"] - probes["sent_ns"] == probes["rtt_ns"]).all()
    assert probes["payload_bytes"].unique().to_list() == [56]
    assert parser.facts["probes_sent"] == 5


def test_a_second_answer_is_a_duplicate() -> None:
    probes = tables(ping(300), "ping-iputils-20221126-duplicates.txt")["probes"]
    assert probes["duplicates"].to_list() == [1, 1, 0]
    assert probes["fate"].unique().to_list() == ["ok"]


def test_a_probe_that_an_error_answers_was_lost_on_its_way_there() -> None:
    parser = ping(300)
    probes = tables(parser, "ping-iputils-20221126-unreachable.txt")["probes"]
    assert probes["fate"].to_list() == ["lost-up"] * 3
    assert parser.facts["icmp_errors"] == {"Destination Host Unreachable (from 10.77.0.1)": 3}


def test_the_last_probe_is_lost_too_though_ping_says_nothing_of_it() -> None:
    # "no answer yet" comes with the next probe, and the fourth has none
    probes = tables(ping(200), "ping-iputils-20221126-silent.txt")["probes"]
    assert probes.select("sequence", "fate").rows() == [(1, "lost"), (2, "lost"), (3, "lost"), (4, "lost")]


def test_an_answer_after_no_answer_yet_is_an_answer() -> None:
    parser = ping(200)
    parser.line("[100.200000] no answer yet for icmp_seq=1", 100_200 * MS)
    parser.line("[100.300000] 64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=300 ms", 100_300 * MS)
    parser.end(0)
    assert parser.rows.take()["probes"].select("sent_ns", "rtt_ns", "fate").rows() == [(100_000 * MS, 300 * MS, "ok")]


def test_an_answer_beyond_the_timeout_is_late() -> None:
    parser = ping(200)
    parser.line("64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=5001 ms", 10 * S)
    parser.end(0)
    assert parser.rows.take()["probes"]["fate"].to_list() == ["late"]


def test_probes_are_given_up_while_the_test_still_runs() -> None:
    parser = ping(200)
    parser.line("no answer yet for icmp_seq=1", 1 * S)
    parser.settle(10 * S)
    assert len(parser.rows) == 0
    parser.settle(11 * S)
    assert parser.rows.take()["probes"]["fate"].to_list() == ["lost"]
    parser.line("64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=12000 ms", 12 * S)
    parser.end(12 * S)
    assert parser.facts["answers_after_their_probe_was_given_up"] == 1


def test_pings_of_busybox_macos_and_in_german_are_understood() -> None:
    busybox = tables(ping(1000), "ping-busybox-1.35.txt")["probes"]
    assert busybox.select("sequence", "rtt_ns").rows() == [(0, 21_000), (1, 44_000), (2, 48_000)]
    parser = ping(1000)
    macos = tables(parser, "documented-ping-macos.txt")["probes"]
    assert macos["fate"].to_list() == ["ok", "lost", "ok", "lost", "ok"]
    assert macos["duplicates"].to_list() == [0, 0, 1, 0, 0]
    assert parser.facts["icmp_errors"] == {"Destination Host Unreachable (from 192.0.2.1)": 1}
    parser = ping(1000)
    german = tables(parser, "documented-ping-iputils-german.txt")["probes"]
    # the third line is cut off before its time
    assert german["rtt_ns"].to_list() == [45_000, 1_500_000]
    assert parser.facts["lines_not_understood"] == 1


@pytest.mark.slow
def test_sequence_numbers_go_on_where_sixteen_bits_end() -> None:
    parser = ping(1)
    for sequence in range(1, 70_001):
        parser.line(f"64 bytes from 192.0.2.7: icmp_seq={sequence % 65536} ttl=64 time=0.5 ms", sequence * MS)
        parser.settle(sequence * MS)
    parser.end(70_002 * MS)
    probes = parser.rows.take()["probes"]
    assert probes["sequence"].to_list() == list(range(1, 70_001))
    assert probes["duplicates"].sum() == 0


def test_answers_out_of_order_are_reordered() -> None:
    parser = ping(10)
    for sequence in (1, 3, 2):
        parser.line(f"64 bytes from 192.0.2.7: icmp_seq={sequence} ttl=64 time=0.5 ms", S)
    parser.end(S)
    assert parser.rows.take()["probes"]["reordered"].to_list() == [False, True, False]


def test_a_number_from_nowhere_does_not_make_a_million_probes() -> None:
    parser = PingParser(7, interval_ns=MS, timeout_ns=S)
    parser.line("64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=0.5 ms", S)
    parser.line("999999999 packets transmitted, 1 received, 99% packet loss", S)
    parser.end(S)
    assert parser.rows.take()["probes"].height == 1


def test_a_host_that_is_not_known_is_the_failure() -> None:
    parser = ping()
    for line in text("ping-iputils-20221126-unknown-host.txt").splitlines():
        parser.error_line(line, 0)
    assert parser.failure == "nosuch.invalid: Name or service not known"


# fping


def test_fping_reports_round_trips_and_the_summary() -> None:
    parser = fping()
    probes = tables(parser, "fping-5.1.txt", errors="fping-5.1-errors.txt", arrived_ns=1795318512 * S)["probes"]
    assert probes["sequence"].to_list() == [0, 1, 2, 3]
    assert probes["rtt_ns"].to_list() == [18_000, 48_000, 41_000, 44_000]
    assert probes["received_ns"][1] == 1795318512_013150000
    assert (parser.facts["probes_sent"], parser.facts["answers_received"]) == (4, 4)
    assert parser.failure is None


def test_what_fping_got_no_answer_to_is_lost() -> None:
    probes = tables(fping(100), "fping-5.1-silent.txt", errors="fping-5.1-silent-errors.txt", arrived_ns=1795318512 * S)
    assert probes["probes"]["fate"].to_list() == ["lost"] * 3
    # sent the time-out before it was over
    assert probes["probes"]["sent_ns"][0] == 1795318512_356380000 - 300 * MS


def test_errors_that_fping_got_show_that_probes_were_lost_upstream() -> None:
    parser = fping()
    probes = tables(parser, "fping-5.1-unreachable.txt", errors="fping-5.1-unreachable-errors.txt")["probes"]
    assert probes["fate"].to_list() == ["lost-up"] * 3
    assert parser.facts["icmp_errors"] == {"Port Unreachable (from 192.0.2.1)": 3}


def test_fping_of_version_4_and_its_duplicates_are_understood() -> None:
    probes = tables(fping(1000), "documented-fping-4.txt", arrived_ns=1402068107 * S)["probes"]
    assert probes["rtt_ns"].to_list() == [130_000, 15_200_000, None]
    assert probes["fate"].to_list() == ["ok", "ok", "lost"]
    assert probes["duplicates"].to_list() == [0, 1, 0]


# all


@given(st.lists(st.text(), max_size=20))
def test_no_parser_fails_on_any_text(lines: list[str]) -> None:
    for parser in parsers():
        for line in lines:
            parser.line(line, S)
            parser.error_line(line, S)
            parser.settle(2 * S)
        parser.end(3 * S)
        parser.rows.take()


OUTPUTS = sorted(path.name for path in FIXTURES.glob("*.txt"))


@given(st.sampled_from(OUTPUTS), st.data())
def test_no_parser_fails_on_damaged_output(name: str, data: st.DataObject) -> None:
    damaged = text(name)
    for _ in range(3):
        at = data.draw(st.integers(0, len(damaged)))
        cut = data.draw(st.integers(0, 12))
        damaged = damaged[:at] + data.draw(st.text("0123456789.,:[]{}=-/eE \"'x", max_size=6)) + damaged[at + cut :]
    for parser in parsers():
        read(parser, damaged).rows.take()


@given(st.floats() | st.integers() | st.text() | st.none() | st.booleans())
def test_numbers_are_finite_and_integers_fit_a_column(value: object) -> None:
    found = number(value)
    assert found is None or abs(found) < float("inf")
    exact = whole(value)
    assert exact is None or -(1 << 63) < exact < 1 << 63


@given(st.integers(0, 9_000_000_000), st.integers(0, 999_999_999))
def test_seconds_with_a_fraction_are_exact_to_the_nanosecond(seconds: int, fraction: int) -> None:
    assert epoch_ns(f"{seconds}.{fraction:09d}") == seconds * S + fraction


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_intervals_meet_whatever_the_delays_of_their_lines(delays_ms: list[int]) -> None:
    timeline = Timeline()
    placed = [
        timeline.place(0.2 * step, 0.2 * (step + 1), arrived_ns=(1000 + 200 * (step + 1) + delay) * MS)
        for step, delay in enumerate(delays_ms)
    ]
    for (_, end_ns), (start_ns, next_end_ns) in pairwise(placed):
        assert start_ns == end_ns
        assert next_end_ns > start_ns
