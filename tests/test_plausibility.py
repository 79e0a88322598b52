"""The check for what cannot be finds it, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

import golden
from plausibility import absurdities, numbers

Document = dict[str, Any]


def document(example: str = "policed-download") -> Document:
    return json.loads((golden.FOLDER / f"{example}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", golden.EXAMPLES, ids=golden.name_of)
def test_a_golden_document_can_be(example: tuple[Any, ...]) -> None:
    assert absurdities(document(golden.name_of(example))) == []


def _flow(**values: Any) -> Callable[[Document], None]:
    return lambda made: max(made["flows"], key=lambda flow: flow["lost"]).update(values)


def _verdict(**values: Any) -> Callable[[Document], None]:
    return lambda made: made["verdicts"][0].update(values)


def _advised(line: str) -> Callable[[Document], None]:
    return lambda made: made["verdicts"][0]["advice"].append(line)


def _evident(line: str) -> Callable[[Document], None]:
    return lambda made: made["verdicts"][0]["evidence"].append(line)


def _fact(**values: Any) -> Callable[[Document], None]:
    return lambda made: made["verdicts"][0]["facts"].append({"code": "any", "values": values})


def _transfer(**values: Any) -> Callable[[Document], None]:
    return lambda made: made["transfers"][0].update(values)


def _numbered(*packets: int) -> Callable[[Document], None]:
    return lambda made: made["verdicts"][0]["facts"][0].update(packets=list(packets))


def _parameter(low: float | None, value: float, high: float | None) -> Callable[[Document], None]:
    quantity = {"low": low, "value": value, "high": high}
    return lambda made: made["verdicts"][0]["parameters"].update(rate_bps=quantity)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_verdict(confidence=1.2), "a share of 1.2"),
        (_verdict(confidence=float("nan")), "is no number"),
        (_verdict(explained=-0.1), "is negative"),
        (_verdict(lost=10**6), "and 96 of its flows"),
        (_verdict(cause="none"), "nothing dropped packets"),
        (_verdict(limited_share=0.6, flows=["1:1 > 2:2", "1:1 > 2:2"]), "limit 1.2000 of the time"),
        (_flow(spurious=10**6), "of 96 (retransmitted)"),
        (_flow(retransmitted_by_kind={"fast": 1}), "96 retransmitted, 1 by what started them"),
        (_flow(rtt_median_s=4.4e8), "and the capture lasted"),
        (_flow(end=1e10), "outside of the capture"),
        (_transfer(goodput_bps=1e12), "1e+12 bit/s"),
        (_transfer(lost=4, cause="none"), "nothing dropped packets, and 4 were lost"),
        (_parameter(2.0, 1.0, 3.0), "is not within 2.0 to 3.0"),
        (_parameter(None, 4.0, 3.0), "is not within None to 3.0"),
        (_fact(copies=24, data_packets=10), "copies is 24, of 10"),
        (_fact(low_s=2.0, high_s=1.0), "low_s is 2.0, and high_s 1.0"),
        (_fact(waited_s=4.4e8), "and the capture lasted"),
        (_fact(round_trips=0), "0 round trips"),
        (_numbered(0), "packet 0 of a capture"),
        (_evident("31 of 3 packets were lost"), "a part above its whole"),
        (_evident("0 of 3 lost packets"), "no loss has no share"),
        (_evident("1 times less likely"), "as likely as not"),
        (_evident("the prediction score is only 100 %"), "a perfect score"),
        (_evident("Nothing was lost"), "packets of its flows were lost"),
        (_evident("lets about 0 bytes out per round trip"), "nothing goes out"),
        (_evident("a share of 120 %"), "a share above the whole"),
        (_evident("1 packets were lost"), "one of many"),
        (_evident("7 packet were lost"), "many of one"),
        (_evident("the round trip is long, up to 4611686018 s"), "longer than packets live"),
        (_evident("13 packets had to be retransmitted and only 8 needlessly"), "had to be"),
        (_evident("15 losses in 1 group are too few to call the loss random"), "many losses are not few"),
        (_verdict(sentence="It had nothing to send for most of the time.", limited_share=0.33), "33% of it"),
        (_evident("up to NaN s"), "a number that is none"),
        (_advised("it hardly exceeds 111 kbit/s"), "it got"),
    ],
)
def test_what_cannot_be_is_found(change: Callable[[Document], None], said: str) -> None:
    made = copy.deepcopy(document())
    change(made)
    found = absurdities(made)
    assert any(said in one for one in found), found


@pytest.mark.parametrize(
    "line",
    [
        "652 of 16 393 packets", "12 of 12 kB", "1.59 % of 3", "3 lost of 1\u00a0200", "0.0032 %", "1 packet of 2",
        "100 % of 96 losses", "BSD loopback (null)", "for 1 s of 2 s", "2 of the 3 lost ones",
    ],
)  # fmt: skip
def test_what_can_be_is_not(line: str) -> None:
    assert absurdities(document(), line) == []


def test_what_vanished_outside_of_two_captures_was_not_lost_between_them() -> None:
    line = "9 packets vanished beyond capture 2; between the captures nothing was lost"
    made = document("policed-download-pair")
    made["verdicts"][0]["evidence"].append(line)
    assert any("packets of its flows were lost" in one for one in absurdities(made))
    for flow in made["pair"]["flows"]:
        flow["lost"] = 0
    assert not any("packets of its flows were lost" in one for one in absurdities(made))


def test_only_what_receivers_of_rtp_report_as_lost_may_be_negative() -> None:
    assert list(numbers.found({"rtp": [{"lost": 0, "reported": {"lost": -6}}]})) == []
    assert list(numbers.found({"rtp": [{"lost": -6}]})) == ["document.rtp[0].lost: -6 is negative"]
