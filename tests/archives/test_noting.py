"""Notes of many files, brought together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whydrop.formats.archives.noting import Note, counted, together

KINDS = ("Empty files", "Two metrics have one name, octets.tx: distinguished (they were (2) 3: 4)", ".meta: files")


def test_counts_of_one_kind_add_up_and_examples_that_differ_are_those_of_the_first() -> None:
    notes = [
        Note("a.tgz", counted("Captures", 2, "`whydrop explain` reads them")),
        Note("a.tgz", counted("Unknown", 1, "one (of: 7 (many))")),
        Note("b.tgz", counted("Captures", 3, "`whydrop explain` reads them")),
        Note("b.tgz", counted("Unknown", 1, "other")),
        Note("c.json", "It is odd."),
        Note("d.tgz", counted("Empty files", 9)),
    ]
    assert together(notes) == [
        "Empty files: 9, in d.tgz",
        "Captures: 5, in 2 files (`whydrop explain` reads them)",
        "Unknown: 2, in 2 files (first: a.tgz: one (of: 7 (many)))",
        "c.json: It is odd.",
    ]
    assert together([]) == []


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 10**6), st.text())))
def test_nothing_is_lost_of_what_was_counted_whatever_the_examples_are(noted: list[tuple[str, int, str]]) -> None:
    told = together(Note(f"{number}.tgz", counted(*one)) for number, one in enumerate(noted))
    assert len(told) == len({kind for kind, _, _ in noted})
    for kind in {kind for kind, _, _ in noted}:
        (line,) = (line for line in told if line.startswith(f"{kind}: "))
        total = sum(count for of, count, _ in noted if of == kind)
        assert line.removeprefix(f"{kind}: ").startswith(f"{total}, in ")
