"""The page of a fix holds evidence, verdict, fix and proof, and nothing of what comes from outside runs in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from whydrop.act.documents import figure, of_fix
from whydrop.act.fixing import Evidence, Fixed, NoRemedy, Remedy
from whydrop.act.proving import Effect, Proof
from whydrop.recording.statistics.differences import of_groups
from whydrop.show import html


def evidence() -> Evidence:
    verdict: dict[str, Any] = {
        "cause": "shallow-queue",
        "sentence": "A queue of 6 packets <script>alert(1)</script> dropped 50.",
        "evidence": ["50 packets were lost"],
        "against": [{"cause": "policer", "why": "packets waited"}],
    }
    return Evidence(None, {"verdicts": [verdict]}, {}, ("No capture was made",))


def proof() -> Proof:
    without, with_it = (3.0, 3.5, 3.2), (18.0, 18.2, 18.1)
    one = Effect("goodput-up", without, with_it, of_groups(np.array(without), np.array(with_it)))
    return Proof("goodput-up", (one,), ("without", "with") * 3, tuple(map(Path, "abcdef")))


def test_a_fix_that_was_tried_stands_with_what_was_expected_and_what_came() -> None:
    remedy = Remedy("packets leave at 19 Mbit/s", "18.6 Mbit/s of payload", "goodput-up", (), commands=("tc x",))
    page = html.page(of_fix("server.example", Fixed(evidence(), remedy, proof()), "It helps."))
    for words in (
        "50 packets were lost",
        "No capture was made",
        "<dt>policer</dt>",
        "packets waited",
        "Expected: 18.6",
        "tc x",
    ):
        assert words in page
    assert "18.1\N{NO-BREAK SPACE}Mbit/s" in page
    assert "<script>alert" not in page


def test_where_nothing_is_tried_the_page_says_why() -> None:
    found = Fixed(evidence(), NoRemedy("losses are random"), None)
    page = html.page(of_fix("server.example", found, "Nothing was changed."))
    assert "No fix is tried: losses are random." in page
    assert 'id="runs"' not in page


def test_the_figure_has_every_run_in_its_place() -> None:
    (panel,) = figure(proof()).panels
    rows = {layer.name: layer.data.rows() for layer in panel.layers}
    assert rows["without the fix"] == [(1.0, 3.0), (3.0, 3.5), (5.0, 3.2)]
    assert rows["with the fix"] == [(2.0, 18.0), (4.0, 18.2), (6.0, 18.1)]
