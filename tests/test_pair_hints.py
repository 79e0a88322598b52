"""Hints of the user on the path between two captures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import whydrop
from example_files import EXAMPLES, POLICED, Run
from plain_text import plain
from whydrop.show import pair_words

NEAR, FAR = POLICED, EXAMPLES / "policed-download-far.pcap.zst"


def test_the_order_of_captures_is_known_from_the_packets(run_here: Run):
    assert json.loads(run_here("match", NEAR, FAR, "--json").stdout)["order"] == "known"


def test_a_side_of_the_clients_that_the_packets_contradict_is_said_before_everything_else(run_here: Run):
    found = run_here("explain", NEAR, FAR, "--client-side", FAR)
    assert found.returncode == 0
    assert "contradict --client-side" in " ".join(found.stdout.split()[:40])


def test_the_right_side_of_the_clients_changes_nothing(run_here: Run):
    plain, hinted = (run_here("match", NEAR, FAR, *more, "--json").stdout for more in ((), ("--client-side", NEAR)))
    assert plain == hinted


def test_packets_that_are_too_long_are_counted(run_here: Run):
    found = json.loads(run_here("match", NEAR, FAR, "--match-up-to", "200", "--json").stdout)
    assert found["unmatched"]["too-long"] > 1000
    assert found["matched"] > 1000


@pytest.mark.parametrize("longest", ["200", "1500"])
def test_an_answer_without_many_packets_is_refused(run_here: Run, longest: str):
    found = run_here("explain", NEAR, FAR, "--match-up-to", longest)
    assert found.returncode == 2
    assert f"packets are longer than {longest} bytes and were not matched" in " ".join(found.stderr.split())


def test_an_answer_without_some_packets_says_so():
    pair = whydrop.explain(NEAR, FAR).pair
    assert pair is not None
    few = replace(pair, unmatched={**pair.unmatched, "too-long": 3})
    assert plain(pair_words.too_long((few,))).startswith("This covers a part: 3 packets longer than --match-up-to")
    assert pair_words.too_long((pair,)) == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", NEAR, "--same-sequence-numbers"), "for two captures of one path"),
        (("explain", NEAR, FAR, "--client-side", "other.pcap"), "nearer to the clients is 'other.pcap'"),
        (("match", NEAR, FAR, "--client-side", "other.pcap"), "nearer to the clients is 'other.pcap'"),
        (("match", NEAR, FAR, "--match-up-to", "3"), "expected 20 or more"),
    ],
)
def test_a_hint_that_does_not_fit_is_refused(run_here: Run, arguments: tuple[str | Path, ...], words: str):
    found = run_here(*arguments)
    assert found.returncode == 2
    assert words in " ".join(found.stderr.split())


def test_more_than_two_captures_have_no_side_of_the_clients(tmp_path: Path):
    third = tmp_path / "third.pcap.zst"
    third.write_bytes(FAR.read_bytes())
    with pytest.raises(whydrop.Error, match="can be named for two captures; 3 were given"):
        whydrop.explain(NEAR, FAR, third, hints=whydrop.PairHints(client_side=NEAR))


def test_python_takes_the_same_hints():
    found = whydrop.match(NEAR, FAR, hints=whydrop.PairHints(client_side=NEAR, longest_bytes=200))
    assert found.pair.unmatched["too-long"] > 1000
    assert found.pair.order == "known"
