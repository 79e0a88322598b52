"""Lines while a test runs: one for each interval, of the rows that were measured in it."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from whydrop.cli.run_progress import IntervalLines


def rows(*values: int) -> Mapping[str, pl.DataFrame]:
    return {"intervals": pl.DataFrame({"payload_bytes": list(values)})}


def test_each_interval_has_a_line_of_its_own_rows(capsys: pytest.CaptureFixture[str]) -> None:
    lines = IntervalLines(lambda frames: f"{frames['intervals']['payload_bytes'].sum()} bytes", 1.0)
    for elapsed_s, values in ((0.5, (1, 2)), (1.0, (3,)), (1.5, (10,)), (2.1, (20,)), (2.6, (99,))):
        lines.tick(elapsed_s, 10.0, rows(*values))
    assert capsys.readouterr().out == "   0.0 to 1.0 s  6 bytes\n   1.0 to 2.1 s  30 bytes\n"


def test_an_interval_without_rows_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = IntervalLines(lambda _: "", 1.0)
    lines.tick(1.0, 10.0, {})
    assert capsys.readouterr().out == ""
