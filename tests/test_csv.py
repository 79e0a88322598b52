"""Tests of CSV: what strangers named neither runs in a spreadsheet nor commands a terminal."""

from __future__ import annotations

import csv as reader
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.text import csv


def rows(frame: pl.DataFrame) -> list[list[str]]:
    return list(reader.reader(io.StringIO(csv.text(frame))))


@pytest.mark.parametrize("formula", ["=1+1", "+1+1", "-2+3", "@SUM(A1)", " =1", "\t=1", "\n=1", '=HYPERLINK("x")'])
def test_a_text_that_begins_as_a_formula_gets_an_apostrophe(formula: str):
    ((name,), (cell,)) = rows(pl.DataFrame({formula: [formula]}))
    assert name == cell
    assert cell.startswith("'")
    assert cell.endswith(formula[-2:])


@pytest.mark.parametrize("number", ["-1.5", "+3", "-inf", "1e-3"])
def test_a_text_that_is_a_number_stays_as_it_is(number: str):
    assert rows(pl.DataFrame({"value": [number]}))[1] == [number]


def test_numbers_and_missing_values_stay_as_they_are():
    frame = pl.DataFrame({"count": [-1, None], "rate": [-0.5, 2.0], "name": ["a b", None]})
    assert csv.text(frame) == frame.write_csv()


def test_texts_of_categories_are_made_safe_too():
    frame = pl.DataFrame({"name": pl.Series(["=1", "b"], dtype=pl.Categorical)})
    assert rows(frame) == [["name"], ["'=1"], ["b"]]


def test_names_that_look_alike_once_they_are_safe_stay_two_columns():
    assert rows(pl.DataFrame({"'=1": [1], "=1": [2]})) == [["'=1", "'=1'"], ["1", "2"]]


def test_a_frame_without_columns_is_an_empty_text():
    assert csv.text(pl.DataFrame()) == ""


@given(st.lists(st.text(), min_size=1))
def test_no_cell_commands_a_terminal_or_begins_as_a_formula(cells: list[str]):
    text = csv.text(pl.DataFrame({"name": cells}))
    assert all(character == "\n" or (character >= " " and not "\x7f" <= character <= "\x9f") for character in text)
    for (cell,) in reader.reader(io.StringIO(text)):
        assert cell.lstrip()[:1] not in ("=", "@")
