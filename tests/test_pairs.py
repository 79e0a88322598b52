"""Tests of comparisons in pairs: what differs between pairs is no longer in the difference."""

from __future__ import annotations

import pytest

import recordings
from whydrop.recording.comparing.comparison import Row, compare
from whydrop.recording.comparing.grouping import CannotGroup, Side
from whydrop.recording.comparing.pairs import paired
from whydrop.recording.recording import Recording

SCALES = (1.0, 2.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Side, Side]:
    """Paths that differ much; on each the second side is faster by 9 to 12 %."""
    folder = tmp_path_factory.mktemp("pairs")

    def made(side: str, number: int, scale: float) -> Recording:
        variables = {"path": f"path {number}"}
        return recordings.rrul(folder / f"{side}{number}.recording", scale=scale, batch={"variables": variables})

    before = tuple(made("a", number, scale) for number, scale in enumerate(SCALES))
    after = tuple(made("b", number, scale * (1.09 + number / 100)) for number, scale in enumerate(SCALES))
    return Side("A", before), Side("B", after)


def goodput(rows: tuple[Row, ...]) -> Row:
    return next(row for row in rows if "downloads" in row.metric.name)


def test_pairs_have_narrower_intervals_than_groups_that_vary(sides: tuple[Side, Side]) -> None:
    labels = [f"{number}" for number in range(8)]
    pairs, groups = paired(*sides, labels, ["batch.variables.path"]), compare(sides)
    one, other = goodput(pairs.rows).difference, goodput(groups.rows).difference
    assert one.value == pytest.approx(other.value)
    assert one.high - one.low < (other.high - other.low) / 4
    assert goodput(pairs.rows).effect == 1.0
    assert "4 pairs by batch.variables.path" in pairs.notes[0]


def test_recordings_without_a_partner_are_left_out_and_named(sides: tuple[Side, Side]) -> None:
    before, after = sides
    found = paired(
        before, Side("B", after.recordings[:3]), [f"{number}" for number in range(7)], ["batch.variables.path"]
    )
    assert found.notes[1] == "Left out, as only one side has them: path 3."


def test_two_pairs_are_too_few_for_an_interval_and_no_verdict_is_made_of_them(sides: tuple[Side, Side]) -> None:
    two = [Side(side.label, side.recordings[:2]) for side in sides]
    found = paired(two[0], two[1], list("abcd"), ["batch.variables.path"])
    assert {row.verdict for row in found.rows} <= {"not resolved", "too small to matter"}
    assert "fewer than 3 pairs" in goodput(found.rows).why


def test_sides_that_share_no_value_cannot_be_paired(sides: tuple[Side, Side]) -> None:
    before, after = sides
    apart = Side("A", before.recordings[:1]), Side("B", after.recordings[1:2])
    with pytest.raises(CannotGroup, match="no value is on both sides"):
        paired(*apart, ["a", "b"], ["batch.variables.path"])
