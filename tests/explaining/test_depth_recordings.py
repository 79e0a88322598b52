"""A recording of ``whydrop depth`` says what the measurement itself said, whatever became of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import whydrop
from example_files import Run
from plain_text import plain
from whydrop.measure.depth.result import Depth, Quantity, sentences, standing
from whydrop.recording import tables
from whydrop.recording.writer import RecordingWriter

QUEUE = Depth(
    "queue", None, 0.99, Quantity(20e6, 19.9e6, 20.1e6), "bytes", Quantity(13.0, 12.0, 14.0),
    Quantity(20_034.0, 19_450.0, 20_617.0), None, "ethernet", Quantity(100e6, None, None), 1500, 670, 342, 0,
)  # fmt: skip
POLICER = Depth(
    "policer", "policer", 0.97, Quantity(10e6, 9.9e6, 10.1e6), None, None, None,
    Quantity(51_200.0, 50_000.0, 52_400.0), "ip", Quantity(100e6, None, None), 1500, 900, 300, 0,
)  # fmt: skip


def written(folder: Path, found: Depth | None, status: str = "complete", rounds: int = 2, **more: Any) -> Path:
    """A recording as the measurement leaves it; the last round of one that was broken off was not whole."""
    ends = ["complete"] * (rounds - 1) + ["complete" if status == "complete" else "stopped"]
    rows = [
        {"flow": number, "name": f"round {number + 1}", "kind": "burst", "direction": "up", "runner": "engine",
         "host": "server.example", "status": end}
        for number, end in enumerate(ends)
    ]  # fmt: skip
    writer = RecordingWriter(folder / "depth.recording", {"name": "depth", "title": "", "started_ns": 10**18})
    writer.append("flows", pl.DataFrame(rows, schema_overrides={"flow": tables.FLOWS["flow"]}))
    writer.update({"depth": None if found is None else found.document(), **more})
    return writer.finish(status)


@pytest.mark.parametrize(("found", "cause"), [(QUEUE, "shallow-queue"), (POLICER, "policer")])
def test_the_verdict_is_the_answer_of_the_measurement_in_its_own_words(
    tmp_path: Path, found: Depth, cause: str
) -> None:
    document = whydrop.explain(written(tmp_path, found)).document
    verdict = document["verdicts"][0]
    assert (verdict["cause"], verdict["sentence"]) == (cause, sentences(found)[0])
    assert verdict["evidence"][: len(sentences(found)) - 1] == sentences(found)[1:]
    rate = verdict["parameters"]["rate_bps" if cause == "policer" else "drain_rate_bps"]
    assert rate == {"value": found.rate_bit_s.value, "low": found.rate_bit_s.low, "high": found.rate_bit_s.high}  # type: ignore[union-attr]
    assert document["recordings"][0]["depth"] == {**found.document(), "whole_rounds": 2}


@pytest.mark.parametrize("lie", [float("nan"), float("inf"), -1.0, 1e300, 10**25, "20", True, [20]])
def test_a_result_whose_numbers_are_none_is_refused_in_one_line(lie: Any) -> None:
    for name, told in [
        ("rate_bit_s", {"value": lie, "low": None, "high": None}),
        ("limit_bytes", {"value": 20e3, "low": lie, "high": 21e3}),
        ("confidence", lie),
        ("lost", lie),
    ]:
        with pytest.raises(ValueError, match="not the result of a measurement"):
            Depth.of_document({**QUEUE.document(), name: told})


def test_a_queue_of_the_sending_host_is_said_to_be_its_own_also_by_its_recording(tmp_path: Path) -> None:
    own = dataclasses.replace(QUEUE, at_sender=True)
    verdict = whydrop.explain(written(tmp_path, own)).document["verdicts"][0]
    assert verdict["evidence"][0] == "It is in the sending host: most lost packets never left its interface."
    before = {name: value for name, value in QUEUE.document().items() if name != "at_sender"}
    assert Depth.of_document(before) == QUEUE


def test_a_measurement_that_was_broken_off_says_so_first_and_keeps_what_it_had(tmp_path: Path) -> None:
    path = written(tmp_path, QUEUE, "failed", failures=["server.example: the responder went away"])
    verdict = whydrop.explain(path).document["verdicts"][0]
    assert verdict["sentence"].startswith("Failed: this result is from the one round before")
    assert sentences(QUEUE)[0] in verdict["sentence"]
    assert "server.example: the responder went away" in verdict["evidence"]


def test_one_that_ended_in_its_first_round_knows_nothing_and_says_so(tmp_path: Path) -> None:
    verdict = whydrop.explain(written(tmp_path, None, "interrupted", 1)).document["verdicts"][0]
    assert (verdict["cause"], verdict["sentence"]) == ("unknown", standing("interrupted", 0))


def test_show_prints_the_same_lines_and_json_the_same_document(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, QUEUE, "interrupted")
    shown = " ".join(run("show", path).stdout.split())
    for line in [standing("interrupted", 1), *sentences(QUEUE)]:
        assert plain(line) in plain(shown)
    assert json.loads(run("show", path, "--json").stdout)["depth"] == QUEUE.document()


def test_a_recording_whose_result_is_damaged_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, QUEUE, depth={"kind": "queue"})
    done = run("explain", path)
    assert done.returncode == 1
    assert "not the result of a measurement of a queue's depth" in done.stderr


def test_a_queue_without_a_rate_says_so_and_no_sentence_lacks_its_number() -> None:
    unrated = Depth(**{**QUEUE.__dict__, "rate_bit_s": None})
    first = sentences(unrated)[0]
    assert "drains at" not in first
    assert "Its rate is not known" in first
