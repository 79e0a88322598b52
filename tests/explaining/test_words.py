"""Words for the codes and numbers that the analysis finds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whydrop
from plain_text import plain
from whydrop import _core
from whydrop.explaining import completing, wording
from whydrop.text.phrases import fill

ROOT = Path(__file__).parents[2]
CRATES = ("verdict", "explain", "pair", "path")
# For machines: what advice is worked out from.
WITHOUT_WORDS = {"path"}


def found(cause: str, facts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A verdict as the analysis hands it over."""
    nothing = {"lost": 96, "explained": 1.0, "parameters": {}, "models": [], "against": [], "throughput_lost": None}
    return {"cause": cause, "facts": facts, "at": None, **nothing, **more}


def fact(code: str, **values: Any) -> dict[str, Any]:
    return {"code": code, "values": values}


def parameters(**values: float) -> dict[str, Any]:
    return {name: {"value": value, "low": None, "high": None} for name, value in values.items()}


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (
            found(
                "policer", [fact("dropped-by-policer", flows=1)], parameters=parameters(rate_bps=2e7, burst_bytes=51200)
            ),
            "A policer at 20.0 Mbit/s with a 51.2 kB bucket dropped all 96 lost packets.",
        ),
        (
            found(
                "shallow-queue",
                [fact("dropped-by-shallow-queue", flows=3)],
                parameters=parameters(drain_rate_bps=6e7, limit_packets=12.0),
                explained=0.5,
                lost=2001,
            ),
            "A shallow queue of about 12 packets, draining at 60.0 Mbit/s, overflowed and dropped 1\u00a0001 of "
            "2\u00a0001 lost packets of 3 flows.",
        ),
        (
            found(
                "random-loss",
                [fact("dropped-at-random", flows=1)],
                parameters=parameters(loss_probability=0.001),
                lost=1,
            ),
            "Random loss of 0.10 % explains the one lost packet; the losses follow neither load nor time.",
        ),
        (
            found("aqm", [fact("marked-by-aqm", marked=0, echoes=2)], lost=0),
            "Active queue management marked packets instead of dropping them: 2 echoes of congestion "
            "marks came back to the sender.",
        ),
        (
            found("reordering", [fact("reordered", reordered=5, spurious=1)], lost=0),
            "Nothing was lost. The path reorders packets: 5 packets arrived late and caused 1 needless retransmission.",
        ),
        (
            found("capture-loss", [fact("missed-by-captures", missed_1=0, missed_2=7)]),
            "Capture 2 missed 7 packets: the capture lost them, not the path.",
        ),
        (
            found("reordering", [fact("reordered", reordered=5, spurious=0, lost_besides=1)], lost=0),
            "The path reorders packets: 5 packets arrived late; this does not explain 1 loss.",
        ),
        (
            found("receiver-window", [fact("limited-by-window", window_share=0.8, lost_besides=2)], lost=0),
            "The receive window limited the sender for 80 % of the time; this does not explain 2 losses.",
        ),
        (
            found("capture-loss", [fact("missed-by-capture", missed=7, acknowledged=0)]),
            "The capture lacks 7 packets, as gaps in the sequence numbers show; it does not show whether they arrived.",
        ),
        (
            found("sender", [fact("limited-by-sender", window_known=False)], lost=0),
            "The sender, not the path, limited the flow: nothing was lost, no queue grew.",
        ),
        (
            found("sender", [fact("limited-by-sender", limiter="application", limiter_share=0.334)], lost=0),
            "The sender, not the path, limited the flow: its application had nothing to send for 33 % of the time.",
        ),
        (
            found("outage", [fact("lost-in-silence", silence_s=17.9)], lost=0),
            "Nothing was acknowledged for 17.9 s, then packets passed again; no packet was lost.",
        ),
        (
            found("mtu", [fact("too-large-unreported", mtu_bytes=1400, flows=1)], lost=1),
            "Packets of more than 1 400 B do not pass, and no router reports it to their sender: the one lost packet "
            "was too large.",
        ),
        (found("outage", []), "96 lost packets: no cause explains the loss clearly better than the others."),
    ],
)
def test_a_verdict_is_one_sentence(verdict: dict[str, Any], sentence: str):
    assert plain(completing.verdict(verdict)["sentence"]) == plain(sentence)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (fact("window-open", window_share=0.0), "the receive window was never full"),
        (
            fact("nothing-lost-in-flight", busy_s=2.0, round_trips=1, window_share=0.0, lost_besides=1),
            "in the 2.00 s in which data was in flight (1 round trip), 1 packet did not arrive; the receive window was "
            "never full",
        ),
        (
            fact("fits-some-bucket", lost=3, runs=1),
            "3 losses in 1 run of consecutive packets: too few to prove a policer, because some token bucket fits them "
            "by chance",
        ),
        (fact("window-open", window_share=0.2), "the receive window was full for 20 % of the time"),
        (fact("retransmitted", retransmitted=1, spurious=0), "1 packet was retransmitted, and not needlessly"),
        (fact("retransmitted", retransmitted=9, spurious=2), "of 9 retransmitted packets, only 2 had arrived before"),
        (
            fact("chance-less-likely", gain_nats=230.26),
            "this pattern of losses is more than a million times less likely under random loss",
        ),
        (
            fact("model-replayed", dropped=5, hits=5, lost=6, mistaken=0, variants=20),
            "a simulation of it with the packets that entered drops 5 packets: 5 of the 6 lost ones, and 0 that "
            "arrived; of 20 variants, this one agrees best with the losses",
        ),
        (
            fact("lost-between", lost=3, entered=1200),
            "3 of 1\u00a0200 packets that entered were lost between capture 1 and capture 2",
        ),
        (
            fact("vanished-outside", lost=1, lost_between=0),
            "1 packet vanished between capture 1 and capture 2; between the captures nothing was lost",
        ),
    ],
)
def test_a_fact_is_one_phrase(one: dict[str, Any], words: str):
    assert plain(wording.phrase(one, "between capture 1 and capture 2")) == plain(words)


def test_a_replay_says_of_how_many_variants_it_is_the_best():
    values = {"dropped": 5, "hits": 5, "lost": 6, "mistaken": 0}
    assert "agrees best" not in str(wording.phrase(fact("model-replayed", variants=1, **values)))
    assert "of 20 variants" in str(wording.phrase(fact("model-replayed", variants=20, **values)))


def test_a_number_that_is_not_known_is_said_to_be():
    assert fill("a rate of {rate_bps}, {lost|packet}", {"rate_bps": None}) == "a rate of unknown, unknown"


@pytest.mark.parametrize(
    ("snaplen", "kept", "shorter"), [(262144, 128, True), (None, 128, True), (128, 128, False), (96, 96, False)]
)
def test_a_shorter_snapshot_is_advised_only_where_it_is_one(snaplen: int | None, kept: int, shorter: bool):
    words = completing.verdict(found("capture-loss", [fact("missed-by-captures", missed_1=0, missed_2=7)]), snaplen)
    sentence, command = words["advice"]
    assert ("shorter snapshot" in sentence) is shorter
    assert f" -s {kept} " in command


@pytest.mark.parametrize(
    ("flow", "payload"), [("10.0.0.1:1 > 10.0.0.2:2", 1372), ("[2001:db8::1]:1 > [2001:db8::2]:2", 1352)]
)
def test_the_largest_ping_that_passes_leaves_room_for_its_headers(flow: str, payload: int):
    mtu = found("mtu", [fact("too-large-unreported", mtu_bytes=1400, flows=1)], flows=[flow])
    assert f"$ ping -M do -c 3 -s {payload} HOST" in completing.verdict(mtu)["advice"]


def advised(low: float, high: float, goodput_bps: float = 0.0, **headline: Any) -> str:
    """The advice where this share of packets was lost by chance."""
    path = fact("path", base_rtt_s=0.0575, mss_bytes=1460.0, goodput_bps=goodput_bps)
    share = {"value": (low + high) / 2, "low": low, "high": high}
    lossy = found(
        "random-loss",
        [fact("dropped-at-random", flows=1, **headline), path],
        parameters={"loss_probability": share},
    )
    return str(plain(" ".join(completing.verdict(lossy)["advice"])))


def test_what_a_loss_based_sender_gets_is_an_interval_of_what_the_loss_may_be():
    # Reno with timeouts at the upper end of the share, and without at its lower one
    assert "gets 22.7 to 29.7 Mbit/s" in advised(0.00008, 0.00012)
    assert "gets 1.10 to 2.78 Mbit/s" in advised(0.008, 0.03)


def test_no_rate_is_stated_that_a_sender_exceeds_or_that_few_losses_leave_open():
    for said in (advised(0.008, 0.03, goodput_bps=5e6), advised(0.001, 0.2)):
        assert "gets" not in said


def test_losses_before_a_full_link_cost_nothing():
    said = advised(0.008, 0.03, link_rate_bps=1e6, link_is_full=True)
    assert "The link of 1.00 Mbit/s is full" in said
    assert "bbr" not in said
    lossy = found(
        "random-loss",
        [fact("dropped-at-random", flows=1, link_rate_bps=1e6, link_is_full=True)],
        parameters=parameters(loss_probability=0.01),
        lost=3,
    )
    assert plain(completing.verdict(lossy)["sentence"]) == (
        "Random loss of 1 % explains all 3 lost packets; a full link of 1.00 Mbit/s set the goodput, not the loss."
    )


@pytest.mark.made_up
def test_words_that_are_there_stay_as_they_are():
    example = json.loads((ROOT / "tests" / "golden" / "policed-download-pair.json").read_text(encoding="utf-8"))
    assert completing.document(example) == example


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(JSON)
def test_a_document_as_text_is_what_it_was(value: object):
    assert json.loads(_core.dumps(value)) == value
    assert json.loads(_core.dumps(value, pretty=True)) == value


def test_what_json_cannot_hold_is_an_error_and_infinity_is_null():
    assert _core.dumps({"a": (float("inf"), float("nan"))}) == '{"a":[null,null]}'
    for value in ({1: 2}, {"a": object()}, {"a": 2**64}):
        with pytest.raises(TypeError):
            _core.dumps(value)


@given(JSON)
def test_a_document_in_a_file_is_its_text(value: object):
    for pretty in (False, True):
        file = io.BytesIO()
        _core.dump(value, file, pretty=pretty)
        assert file.getvalue().decode() == _core.dumps(value, pretty=pretty)


def test_a_long_document_is_written_in_pieces_and_what_the_file_raises_stops_it():
    pieces: list[bytes] = []

    class File:
        def write(self, piece: bytes) -> None:
            if len(pieces) == 3:
                raise BrokenPipeError
            pieces.append(piece)

    with pytest.raises(BrokenPipeError):
        _core.dump(list(range(1_000_000)), File())
    assert len(pieces) == 3
    assert all(len(piece) <= 1 << 16 for piece in pieces)
    with pytest.raises(TypeError):
        _core.dump([object()], io.BytesIO())


def test_a_name_in_a_document_is_in_memory_once():
    # As objects of each dictionary's own they would be most of what the document of a flood takes.
    facts = whydrop.explain(ROOT / "examples/policed-download.pcap.zst").document["verdicts"][0]["facts"]
    assert len(facts) > 1
    names = [[id(name) for name in fact] for fact in facts]
    assert all(one == names[0] for one in names)


@pytest.mark.made_up
def test_the_text_reports_a_flood_in_one_line():
    ends = {
        "initiators": {"hosts": 4_983_211, "is_estimate": True, "busiest": None, "busiest_connections": None},
        "responders": {"hosts": 1, "is_estimate": False, "busiest": "192.0.2.10", "busiest_connections": 3616},
    }
    small = {"connections": 3616, "packets_below": 32, "packets": 7232, "payload_bytes": 3616, "lost": 0}
    small |= {"attempts": 3616, "answered": 0, **ends}
    capture = {"notes": ["cut off"], "connections_without_data": 1, "small_connections": small}
    found = completing.document({"captures": [capture], "verdicts": []})
    assert plain(found["captures"][0]["notes"]) == [
        "cut off",
        "1 TCP connection without data: not listed",
        "3 616 TCP connections of fewer than 32 packets each: counted, not listed. From about "
        "4 980 000 hosts to 1 host (192.0.2.10): 7 232 packets with 3.62 kB of data, 0 lost; 3 616 "
        "began with a SYN, 0 had packets in both directions",
    ]


def test_a_place_is_named_by_its_captures_or_its_name():
    assert wording.place({"kind": "beyond", "points": [3]}) == "beyond capture 3"
    assert wording.place({"kind": "receiver"}) == "at the receiver"
    assert wording.place(None) is None


# What producers in Python make of the reducer.


def finding(cause: str, nats: float, source: str = "recording", **more: Any) -> dict[str, Any]:
    return {"subject": {"flows": ["a > b"]}, "cause": cause, "nats": nats, "source": source, **more}


def test_findings_of_two_sources_add_up_to_one_verdict_in_words():
    facts = [fact("window-closed", times=2)]
    findings = [
        finding("receiver-window", 1.0, facts=facts),
        finding("receiver-window", 2.0, "capture", facts=[fact("limited-by-window", window_share=0.7)]),
        finding("policer", 0.0, veto=fact("packets-waited", waited_s=0.02)),
    ]
    (verdict,) = json.loads(_core.reduce(json.dumps(findings)))
    assert verdict["confidence"] == pytest.approx(0.9525741268)
    assert verdict["sources"] == ["capture", "recording"]
    assert verdict["against"][0]["veto"]["code"] == "packets-waited"
    words = completing.verdict({**verdict, "parameters": verdict["quantities"], "at": verdict["place"], "against": []})
    assert plain(words["sentence"]).startswith("The receive window limited the sender for 70 % of the time")
    assert words["evidence"] == ["the receiver closed its window completely twice"]


@pytest.mark.parametrize(
    "hostile",
    [
        "not json",
        "[{}]",
        json.dumps([finding("policer", float("nan"))]),
        json.dumps([finding("policer", 1e300)]),
        json.dumps([finding("solar-flare", 1.0)]),
    ],
)
def test_findings_that_cannot_be_are_refused(hostile: str):
    with pytest.raises(ValueError, match=r"\w"):
        _core.reduce(hostile)


# Codes, and no prose, in the crates.


def rust_strings(path: Path) -> Iterator[tuple[str, str]]:
    """Each string literal outside tests and comments, with the code before it."""
    code = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
    for literal in re.finditer(r"//[^\n]*|'(?:\\.|[^\\'\n])'|(\"(?:[^\"\\]|\\.)*\")", code):
        if literal[1]:
            yield literal[1], code[: literal.start()]


def sources() -> list[Path]:
    paths = [path for crate in CRATES for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))]
    return [path for path in paths if not re.search(r"test", "/".join(path.relative_to(ROOT).parts))]


# Errors are no verdicts: their messages, the file that words why captures have nothing in common, what a panic says,
# and the files that read what a user wrote (a path in text form).
ERRORS = re.compile(r"(?:expect|assert\w*!|panic!|unreachable!|Error::\w+)\(\s*(?:format!\(\s*)?$")
SEVERAL_WORDS = re.compile(r"[A-Za-z']{2,},? [A-Za-z']{2,},? [A-Za-z']{2,}")


def is_an_error(path: Path, before: str) -> bool:
    implementing = re.findall(r"^impl[^\n]*", before, re.MULTILINE)[-1:]
    within_error = any(re.search(r"for \w*Error\b", line) for line in implementing)
    return (
        within_error
        or path.name in ("error.rs", "nothing.rs")
        or path.parent.name == "spec"
        or ERRORS.search(before) is not None
    )


def test_no_sentence_for_readers_stands_in_the_crates_that_judge():
    prose = [
        f"{path.relative_to(ROOT)}: {literal}"
        for path in sources()
        for literal, before in rust_strings(path)
        if SEVERAL_WORDS.search(literal) and not is_an_error(path, before)
    ]
    assert prose == []


def test_every_code_of_a_fact_has_its_words_and_every_word_its_code():
    literals = {literal.strip('"') for path in sources() for literal, _ in rust_strings(path)}
    made = {
        literal.strip('"')
        for path in sources()
        for literal, before in rust_strings(path)
        if re.search(r"fact!\(\s*$", before)
    }
    worded = wording.CODES
    assert made - WITHOUT_WORDS - worded == set()
    assert worded - literals == set()


def test_a_phrase_names_the_first_packets_that_show_it() -> None:
    refused = {**fact("syns-refused", syns=2), "packets": [3, 4, 9, 10, 17]}
    assert wording.phrase(refused) == "2 SYNs answered by a reset (packets 3, 4, 9, 10, ...)"
    assert wording.phrase({**refused, "packets": [3]}) == "2 SYNs answered by a reset (packet 3)"
