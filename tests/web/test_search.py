"""Tests of the search language: it finds what it says, for any search, and says where a search is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from web.test_library import recording
from whydrop.web.library import dates
from whydrop.web.library.library import Library
from whydrop.web.library.query import Both, Either, Node, Not, SearchError, Term, parsed, terms


@dataclass(frozen=True)
class Made:
    """An entry as it was made."""

    path: str
    title: str
    day: int
    rtt: str | None
    tags: tuple[str, ...]


ENTRIES = [
    Made(f"{number:02}.recording", title, 1 + number % 28, rtt, tags)
    for number, (title, rtt, tags) in enumerate(
        (title, rtt, tags)
        for title in ("before", "after 100%", "a_b")
        for rtt in (None, "5ms", "50ms", "fast")
        for tags in ((), ("slow",), ("slow", "not slow"))
    )
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("searched")
    for one in ENTRIES:
        started = datetime(2026, 1, one.day, 12, tzinfo=UTC).timestamp()
        batch = {"variables": {"rtt": one.rtt}}
        recording(root, one.path, title=one.title, started_ns=int(started * 1e9), batch=batch)
    library = Library([root])
    library.refresh()
    for one in ENTRIES:
        library.mark(library.identify(root / one.path), one.tags, "")
    yield library
    library.close()


def found(library: Library, search: str) -> list[str]:
    return sorted(entry.path for entry in library.search(search, limit=1000).entries)


# Terms as they are written, each with what it means.
TERMS = {
    "before": lambda one: "before" in one.title,
    '"100%"': lambda one: "100%" in one.title,
    "title:a_": lambda one: "a_" in one.title,
    "title~AFTER": lambda one: "after" in one.title,
    "title=before": lambda one: one.title == "before",
    "rtt:": lambda one: one.rtt is not None,
    "rtt:50": lambda one: "50" in (one.rtt or ""),
    "rtt=5ms": lambda one: one.rtt == "5ms",
    "rtt>5": lambda one: one.rtt == "50ms",
    "rtt>=5": lambda one: one.rtt in ("5ms", "50ms"),
    "rtt<50": lambda one: one.rtt == "5ms",
    "batch.variables.rtt<=50": lambda one: one.rtt in ("5ms", "50ms"),
    "tag:slow": lambda one: bool(one.tags),
    'tag="not slow"': lambda one: "not slow" in one.tags,
    "tags:": lambda one: bool(one.tags),
    "time>2026-01-20": lambda one: one.day > 20,
    "time>=2026-01-20": lambda one: one.day >= 20,
    "time<2026-01-20": lambda one: one.day < 20,
    "started<=2026-01-20": lambda one: one.day <= 20,
    "time:2026-01-07": lambda one: one.day == 7,
    "time=2026": lambda one: True,
    "time>2026-01": lambda one: False,
    "kind:capture": lambda one: False,
    "kind=recording": lambda one: True,
    "no.such.key:": lambda one: False,
    "duration>0": lambda one: False,
}

Meant = tuple[str, frozenset[str]]
EVERY = frozenset(one.path for one in ENTRIES)


def _meant(term: str) -> Meant:
    return term, frozenset(one.path for one in ENTRIES if TERMS[term](one))


def _joined(parts: list[Meant], word: str) -> Meant:
    sets = [paths for _, paths in parts]
    paths = frozenset.union(*sets) if word == "or" else frozenset.intersection(*sets)
    between = {"or": " or ", "and": " and ", "": " "}[word]
    return f"({between.join(text for text, _ in parts)})", paths


SEARCHES = st.recursive(
    st.sampled_from(sorted(TERMS)).map(_meant),
    lambda inner: st.one_of(
        inner.map(lambda one: (f"-{one[0]}", EVERY - one[1])),
        st.builds(_joined, st.lists(inner, min_size=2, max_size=4), st.sampled_from(["or", "and", ""])),
    ),
    max_leaves=12,
)


@given(meant=SEARCHES)
def test_a_search_finds_what_it_says(library: Library, meant: Meant):
    text, paths = meant
    assert found(library, text) == sorted(paths)


@pytest.mark.parametrize(
    ("search", "same"),
    [
        ("before or title=a_b rtt:", "before or (title=a_b rtt:)"),
        ("-before rtt: or tag:slow", "((-before) rtt:) or tag:slow"),
        ("before OR rtt:", "before or rtt:"),
        ("(before)", "before"),
        ('before"100%"', "before 100%"),
        ("before and rtt:", "before rtt:"),
    ],
)
def test_or_binds_less_than_and(search: str, same: str):
    assert parsed(search) == parsed(same)


def test_quoted_operators_are_words():
    assert parsed('"or" "(" "-a"') == Both(tuple(Term("word", text) for text in ("or", "(", "-a")))
    assert parsed('key:"a b"') == Term(":", "a b", "key")


@pytest.mark.parametrize(
    ("search", "character", "expected"),
    [
        ("rtt>fast", 5, "a number without a unit, such as 50, behind '>'; found 'fast'"),
        ("rtt>50ms", 5, "a number without a unit"),
        ("a rtt>", 7, "found nothing"),
        ("time>soon", 6, "a date behind '>', such as 2026-01-31"),
        ("time>2026-02-30", 6, "a date"),
        ("time>", 6, "a date"),
        ("title=", 7, "title: finds any value, -title: none"),
        ('title:""', 7, "a value behind ':'"),
        ("(a or b", 8, '")" for the "(" at character 1'),
        ("a) b", 2, 'no "(" is open'),
        ("a or", 5, "a word, key:value or a parenthesis; found the end"),
        ("or a", 1, "found 'or'"),
        ("a or or b", 6, "found 'or'"),
        ("a and", 6, "found the end"),
        ("()", 2, "found ')'"),
        ("  -)", 4, 'no "(" is open'),
        ("cc:(cubic or bbr)", 4, "Write (cc:a or cc:b)"),
        ("a " * 101, 201, "at most 100 terms"),
        ("(" * 40 + "a", 32, "at most 30 parentheses"),
        ("-" * 40 + "a", 32, "at most 30 parentheses"),
    ],
)
def test_a_wrong_search_says_where_and_what_was_expected(search: str, character: int, expected: str):
    with pytest.raises(SearchError, match=re.escape(expected)) as raised:
        parsed(search)
    assert raised.value.at == character - 1
    assert f"character {character}" in str(raised.value)


@given(st.text(alphabet="ab:=<>~()-\" \t.0%_'!\\;é\x00\ud800", max_size=30) | st.text(max_size=30))
def test_any_text_is_searched_or_refused_in_words(library: Library, search: str):
    try:
        found_ones = library.search(search, limit=1000)
    except SearchError as reason:
        event(f"refused at the end: {reason.at == len(search)}")
        return
    # What it does not hold for, its opposite does. A quotation that is not closed ends with the search.
    closed = search.rstrip() + '"' * (search.count('"') % 2)
    opposite = library.search(f"-({closed})" if search.strip() else "-name:", limit=1000)
    assert found_ones.count + opposite.count == len(ENTRIES)


def test_a_key_that_no_entry_has_is_named(library: Library):
    assert library.search("rrt>5 or rtt>5 or duration:").unknown_keys == ("rrt",)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2026", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("2025-12", "2025-12-01T00:00", "2026-01-01T00:00"),
        ("2028-02-29", "2028-02-29T00:00", "2028-03-01T00:00"),
        ("2026-01-31t23:59", "2026-01-31T23:59", "2026-02-01T00:00"),
        ("2026-01-31 10:00:59z", "2026-01-31T10:00:59", "2026-01-31T10:01"),
        ("today", "2026-05-10T00:00", "2026-05-11T00:00"),
        ("yesterday", "2026-05-09T00:00", "2026-05-10T00:00"),
        ("-2d", "2026-05-08T12:00", "2026-05-08T12:00"),
        ("-36h", "2026-05-09T00:00", "2026-05-09T00:00"),
        ("-1w", "2026-05-03T12:00", "2026-05-03T12:00"),
    ],
)
def test_a_date_covers_what_it_names(text: str, begin: str, end: str):
    now_s, *expected = (datetime.fromisoformat(f"{one}+00:00").timestamp() for one in ("2026-05-10T12:00", begin, end))
    assert dates.span(text, now_s) == tuple(expected)


@pytest.mark.parametrize(
    "text", ["", "26", "2026-13", "2026-1", "2026-02-30", "0000", "9999", "99999", "-1y", "now", "٢٠٢٦"]
)
def test_other_text_is_no_date(text: str):
    assert dates.span(text) is None


@given(st.text(max_size=20))
def test_any_text_is_a_date_or_none(text: str):
    found = dates.span(text, 0.0)
    assert found is None or found[0] <= found[1]


def test_all_nodes_have_their_terms():
    node: Node = Both((Not(Term("word", "a")), Either((Term("word", "b"), Term("has", "", "c")))))
    assert [term.text or term.key for term in terms(node)] == ["a", "b", "c"]
