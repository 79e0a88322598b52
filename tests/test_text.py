"""An explanation as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from synthetic import Synthetic, policed_transfer, simulate
from whydrop import Explanation
from whydrop.show import explanation
from whydrop.show.terminal import print_document
from whydrop.show.words import cause_meaning

SMALL = {
    "connections": 5000,
    "flows": 5000,
    "packets": 9000,
    "payload_bytes": 5000,
    "lost": 3,
    "retransmitted": 3,
    "spurious": 0,
    "reordered": 0,
    "attempts": 4000,
    "answered": 0,
    "start": 1_700_000_000.0,
    "end": 1_700_000_001.0,
    "initiators": {"hosts": 4900, "is_estimate": True, "busiest": None, "busiest_connections": None},
    "responders": {"hosts": 1, "is_estimate": False, "busiest": "192.0.2.1", "busiest_connections": 5000},
}


def text_of(found: Explanation, width: int = 100, *, terminal: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=terminal, highlight=False, emoji=False, _environ={}
    )
    print_document(explanation.document(found), console)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def test_the_verdict_comes_first_then_evidence_parameters_runners_up_and_advice(synthetic: Explanation):
    text = text_of(synthetic)
    assert text.startswith(synthetic.verdicts[0].sentence)
    headings = ["Evidence", "Parameters", "Why not something else", "What to do", "Transfers", "Flows", "Captures"]
    places = [text.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [60, 80, 110])
def test_no_line_is_wider_than_the_terminal_but_commands_to_paste(synthetic: Explanation, width: int):
    for line in text_of(synthetic, width).splitlines():
        assert len(line) <= width or line.strip().startswith("$ "), line


def test_a_command_to_paste_stays_on_one_line(synthetic: Explanation):
    assert "$ tc qdisc replace dev eth0 root fq maxrate 9500kbit\n" in text_of(synthetic, 40)


def test_numbers_of_a_column_end_at_the_same_place(synthetic: Explanation):
    lines = text_of(synthetic).splitlines()
    header = next(line for line in lines if "Transfer of flow" in line)
    row = lines[lines.index(header) + 1]
    for title, cell in (("Payload", "8.69 MB"), ("Lost", str(synthetic.flows[0].lost))):
        assert header.index(title) + len(title) == row.index(f" {cell} ") + 1 + len(cell), title


def test_control_characters_and_markup_from_outside_are_shown_and_not_obeyed():
    found = Explanation(policed_transfer(packets=100, path="a\x1b[2J[bold red]b", flow="[2001:db8::1]:1 > [::2]:2"))
    text = text_of(found, terminal=True)
    assert "\x1b[2J" not in text
    assert "\\x1b[2J[bold red]b" in text
    assert "[2001:db8::1]:1 > [::2]:2" in text


def test_a_capture_without_tcp_data_says_that_there_is_no_verdict(synthetic: Explanation):
    document = {**synthetic.document, "flows": [], "transfers": [], "verdicts": []}
    assert text_of(Explanation(Synthetic(simulate(1), document))).startswith("No verdict")


def test_of_many_flows_the_important_ones_are_shown_and_the_rest_is_counted(synthetic: Explanation):
    one = synthetic.document["flows"][0]
    flows = [{**one, "flow": f"h:{number} > c:1", "lost": number} for number in range(1000)]
    text = text_of(Explanation(Synthetic(simulate(1), {**synthetic.document, "flows": flows})))
    assert "h:999 > c:1" in text
    assert "h:5 > c:1" not in text
    assert "and 988 more" in text


def test_of_many_verdicts_the_first_are_shown_and_the_rest_is_counted(synthetic: Explanation):
    one = synthetic.document["verdicts"][0]
    verdicts = [{**one, "sentence": f"Verdict {number}."} for number in range(1000)]
    text = text_of(Explanation(Synthetic(simulate(1), {**synthetic.document, "verdicts": verdicts})))
    assert "Verdict 12." in text
    assert "Verdict 13." not in text
    assert "and 987 more" in text


def test_small_connections_are_counted_in_a_line_below_the_flows(synthetic: Explanation):
    [capture] = synthetic.document["captures"]
    found = Explanation(
        Synthetic(simulate(1), {**synthetic.document, "captures": [{**capture, "small_connections": SMALL}]})
    )
    assert found.captures[0].small_connections is not None
    assert found.captures[0].small_connections.responders.busiest == "192.0.2.1"
    line = "Not listed: 5 000 flows of small connections, with 9 000 packets, 5.00 kB of payload and 3 lost packets."
    assert line in " ".join(text_of(found).replace("\xa0", " ").split())


def changed(synthetic: Explanation, **parts: list) -> Explanation:
    return Explanation(Synthetic(simulate(1), {**synthetic.document, **parts}))


def test_a_verdict_of_no_cause_is_not_listed_after_one_with_a_cause(synthetic: Explanation):
    [one] = synthetic.document["verdicts"]
    harmless = {**one, "cause": "none", "sentence": "Nothing waited."}
    assert "Nothing waited." not in text_of(changed(synthetic, verdicts=[one, harmless]))


def test_of_no_cause_no_certainty_is_claimed(synthetic: Explanation):
    [one] = synthetic.document["verdicts"]
    unknown = {**one, "cause": "unknown", "confidence": 1.0}
    assert "confidence" not in text_of(changed(synthetic, verdicts=[unknown])).split("Evidence")[0]


@pytest.mark.parametrize(("confidence", "doubtful"), [(0.49, True), (0.51, False)])
def test_what_is_rather_wrong_than_right_is_stated_as_a_possibility(
    synthetic: Explanation, confidence: float, doubtful: bool
):
    [one] = synthetic.document["verdicts"]
    text = text_of(changed(synthetic, verdicts=[{**one, "confidence": confidence}]))
    assert text.startswith("Perhaps: " if doubtful else one["sentence"])


def test_of_several_flows_a_verdict_says_which_are_its_own(synthetic: Explanation):
    [flow] = synthetic.document["flows"]
    assert f"Flow: {flow['flow']}" not in text_of(synthetic)
    assert f"Flow: {flow['flow']}" in text_of(changed(synthetic, flows=[flow, flow]))


def test_the_meaning_of_a_cause_and_a_piece_of_advice_are_given_once(synthetic: Explanation):
    [one] = synthetic.document["verdicts"]
    again = {**one, "sentence": "A second policer.", "advice": [*one["advice"], "Ask for more.", "$ ask"]}
    found = changed(synthetic, verdicts=[one, again])
    text = " ".join(text_of(found).split())
    meaning = cause_meaning(one["cause"])
    assert (text.count(meaning), text.count("Ask for more."), text.count("$ ask")) == (1, 1, 1)
    for command in (line for line in one["advice"] if line.startswith("$ ")):
        assert text.count(" ".join(command.split())) == 1
