"""Lines of keys in TOML sources: of written ones, and of random ones."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.runtime.user_files.lines import lines, nearest_line

SOURCE = '''\
# a comment with = and [brackets]
title = "a # no comment" # a comment
"quoted key" = 'lite"ral'
text = """
several \\""" lines
"""
literal = \'\'\'
[no.table]
key = 1
\'\'\'
numbers = [ 1, # one
  2,
  [3,
   4],
]
[a.b]
c.d = 1
inline = { x = 1, y = { z = [5,
6] } }

[[flows]]
name = "one"
[flows.each]
marking = ["BE"]
[[flows]]
name = "two"
[[flows.inner]]
deep = 1
[[flows.inner]]
deep = 2
'''


def test_each_key_and_item_has_its_line() -> None:
    found = lines(SOURCE)
    wanted = {
        ("title",): 2,
        ("quoted key",): 3,
        ("text",): 4,
        ("literal",): 7,
        ("numbers",): 11,
        ("numbers", 1): 12,
        ("numbers", 2): 13,
        ("numbers", 2, 1): 14,
        ("a", "b"): 16,
        ("a", "b", "c", "d"): 17,
        ("a", "b", "inline", "y", "z"): 18,
        ("a", "b", "inline", "y", "z", 1): 19,
        ("flows", 0): 21,
        ("flows", 0, "each", "marking", 0): 24,
        ("flows", 1, "name"): 26,
        ("flows", 1, "inner", 1, "deep"): 30,
    }
    assert {path: found.get(path) for path in wanted} == wanted


def test_a_key_that_is_not_there_has_the_line_of_the_table_around_it() -> None:
    found = lines(SOURCE)
    assert nearest_line(found, ("flows", 0, "kind")) == 21
    assert nearest_line(found, ("nothing", "at", "all")) == 1


def paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    found = {path} if path else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found |= paths(item, (*path, key))
    return found


NAMES = st.text(alphabet="abcxyz-_ .\"'#[]=", min_size=1, max_size=6)
VALUES = st.recursive(
    st.one_of(st.integers(-99, 99), st.booleans(), st.text(alphabet="ab\"'#\\\n\t[]{}=, ", max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


TABLES = st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=3)


@pytest.mark.slow
@given(st.dictionaries(NAMES, TABLES, max_size=3), st.integers(0, 3))
def test_every_key_of_any_source_has_a_line_that_names_it(document: dict[str, Any], blank: int) -> None:
    from whydrop.measure.batch.toml_writing import document as write

    source = "\n" * blank + write(document)
    assert tomllib.loads(source) == document
    found = lines(source)
    assert paths(document) <= found.keys()
    text = source.splitlines()
    for path, line in found.items():
        key = path[-1]
        if isinstance(key, str) and key.isalnum():
            assert key in text[line - 1]
