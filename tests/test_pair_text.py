"""Two captures as text."""

from __future__ import annotations

from typing import Any

import pytest

from synthetic_pair import FLOW, FLOW_AT_2, SyntheticPair, paired_transfer
from test_text import text_of
from whydrop import Explanation
from whydrop.show import words


@pytest.fixture(scope="module")
def pair() -> Explanation:
    return Explanation(paired_transfer(packets=2000))


def changed(**pair: Any) -> Explanation:
    """Two captures of which the document says something else."""
    analysis = paired_transfer(packets=300)
    analysis._document["pair"] |= pair
    return Explanation(analysis)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_place_of_the_losses_comes_before_the_evidence(pair: Explanation):
    lines = text_of(pair).splitlines()
    assert lines[0] == pair.verdicts[0].sentence
    assert lines[1] == "Where: between capture 1 (near.pcap) and capture 2 (far.pcap)"
    assert "Evidence" in lines


def test_the_captures_come_after_the_verdict_and_before_the_tables(pair: Explanation):
    text = text_of(pair)
    headings = ["Evidence", "Why not something else", "Models replayed over the packets", "What to do"]
    headings += ["Two captures", "Transfers", "Flows", "Captures"]
    places = [text.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)


def test_losses_transit_clocks_and_changes_are_shown(pair: Explanation):
    text = flat(text_of(pair, 120))
    assert pair.pair is not None
    assert f"capture 1 to capture 2 {pair.pair.lost_1_to_2} 3 450 µs" in text
    assert "Capture 2's clock is 2.190 ms ahead of capture 1's and runs 220 ± 0.40 ppm slow" in text
    assert "one direction may take up to 450 µs longer than stated, and the other as much less" in text
    assert "capture 2 lacks 3 packets that passed it" in text
    assert "12 outside the time that both captures cover" in text
    assert "Time to live lower by 2" in text
    assert f"{FLOW} became {FLOW_AT_2}" in text


def test_models_that_lost_are_ruled_out_with_numbers(pair: Explanation):
    text = flat(text_of(pair, 120))
    assert "would have delayed some packets by 51.0 ms; none took more than 0.850 ms longer than the fastest" in text
    assert "Token bucket of 100 kB at 10.0 Mbit/s " in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_commands_to_paste(pair: Explanation, width: int):
    for line in text_of(pair, width).splitlines():
        assert len(line) <= width or line.strip().startswith("$ "), line


def test_a_narrow_terminal_still_shows_losses_and_the_median_transit(pair: Explanation):
    header = next(line for line in text_of(pair, 60).splitlines() if line.strip().startswith("Direction"))
    assert header.split() == ["Direction", "Lost", "Fastest", "Median", "Slowest"]


def test_flows_left_out_of_a_flood_are_counted(pair: Explanation):
    assert "Left out" not in text_of(pair)
    text = flat(text_of(changed(left_out={"flows": 7000, "matched": 6500, "unmatched": 800}), 120))
    assert "Left out 7 000 flows of few packets" in text
    assert "both captures hold 6 500 of their packets, one capture holds 800" in text


def test_captures_of_one_direction_have_no_absolute_transit_times():
    text = flat(text_of(changed(clock_offset_low_s=None, clock_offset_high_s=None, transit_2_to_1_s=None)))
    assert "Packets were matched in one direction only" in text


def test_clocks_an_hour_apart_are_compared_to_the_microsecond():
    text = flat(text_of(changed(clock_offset_s=-3600.002190, clock_offset_low_s=None, clock_offset_high_s=None)))
    assert "Capture 2's clock is 3 600.002190 s behind capture 1's" in text


def test_a_step_of_a_clock_is_shown():
    stretch = {"start": 0.0, "end": 1.0, "offset_s": 0.0, "drift_ppm": 0.0}
    assert "was stepped once" in flat(text_of(changed(clock_stretches=[stretch, stretch])))


def test_clocks_that_agree_are_reported_so():
    found = changed(clock_offset_s=0.0, clock_drift_ppm=0.01, clock_drift_error_ppm=0.049)
    assert "Capture 2's clock agrees with capture 1's and runs as fast (0 ± 0.049 ppm)" in flat(text_of(found, 120))


def test_clocks_that_could_not_be_compared_are_left_out():
    assert "Clocks" not in text_of(changed(clock_offset_s=None, clock_drift_ppm=None))


def test_the_family_of_a_queue_management_is_named():
    analysis = paired_transfer(packets=300)
    analysis._document["verdicts"][0] |= {"cause": "aqm", "family": "codel"}
    assert "of the CoDel family" in flat(text_of(Explanation(analysis)))


def test_of_many_renamed_flows_the_rest_is_counted():
    analysis = paired_transfer(packets=300)
    pair = analysis._document["pair"]
    pair["flows"] = [{**pair["flows"][0], "flow": f"10.0.0.1:{port} > 192.0.2.1:80"} for port in range(50)]
    pair["changes"]["translated_flows"] = 50
    assert "48 more flows got new addresses or ports" in flat(text_of(Explanation(analysis)))


def test_a_device_that_changes_sequence_numbers_is_named():
    analysis = paired_transfer(packets=300)
    changes = analysis._document["pair"]["changes"]
    changes |= {"renumbered_flows": 4, "sack_left_flows": 1}
    text = flat(text_of(Explanation(analysis)))
    assert "device between the captures changes the sequence numbers of 4 flows" in text
    assert "it leaves the selective acknowledgments (SACK) of 1 flow unchanged" in text


def three_captures() -> SyntheticPair:
    analysis = paired_transfer(packets=300)
    document = analysis._document
    document["hops"] = [{**document["pair"], "from": first, "to": first + 1} for first in range(2)]
    document["pair"]["to"] = 2
    document["captures"].append({**document["captures"][0], "path": "farther.pcap"})
    return analysis


def test_of_three_captures_each_stretch_has_its_rows_and_its_clocks():
    text = flat(text_of(Explanation(three_captures()), 120))
    assert "3 captures of one path" in text
    for way in ("capture 1 to capture 2", "capture 2 to capture 1", "capture 2 to capture 3", "capture 3 to capture 2"):
        assert way in text
    assert "Clocks 2 and 3" in text


def test_control_characters_of_a_file_name_do_not_reach_the_terminal():
    text = text_of(Explanation(paired_transfer(packets=300, path="a\x1b[2J[bold red]b")), terminal=True)
    assert "\x1b[2J" not in text
    assert "\\x1b[2J[bold red]b" in text


def test_a_place_names_the_files_of_the_captures_and_no_others(pair: Explanation):
    assert words.place("beyond capture 12", pair.captures) == "beyond capture 12"
    assert words.place("before capture 1", pair.captures) == "before capture 1 (near.pcap)"
