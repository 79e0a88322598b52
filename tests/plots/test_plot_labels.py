"""Labels: only what distinguishes things."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import recordings
from whydrop.show.labels import distinct, of_recordings, shortened

words = st.text("abc :-_()é", min_size=1, max_size=12)


@given(st.lists(words, min_size=1, max_size=6, unique=True))
def test_different_names_keep_different_labels(names: list[str]) -> None:
    stripped = {name.strip(" :") for name in names}
    _, rest = distinct(names)
    assert len(rest) == len(names)
    if len(stripped) == len(names) and all(stripped) and len({*map(" ".join, map(str.split, stripped))}) == len(names):
        assert len(set(rest)) == len({*rest}) <= len(names)


@given(st.text(max_size=200), st.integers(3, 60))
def test_a_shortened_text_is_never_longer_than_asked_for(text: str, longest: int) -> None:
    assert len(shortened(text, longest)) <= max(longest, 0) or len(text) <= longest


def test_titles_lose_the_words_that_all_of_them_have(tmp_path: Path) -> None:
    opened = [
        recordings.rrul(tmp_path / f"{n}.recording", title=f"qdisc:{qdisc} rtt:10ms rate:10Mbit")
        for n, qdisc in enumerate(("codel", "pie"))
    ]
    assert of_recordings(opened) == ["qdisc:codel", "qdisc:pie"]


def test_without_titles_the_parameters_that_differ_are_the_labels(tmp_path: Path) -> None:
    opened = []
    for qdisc in ("codel", "pie"):
        test = {**recordings.metadata()["test"], "parameters": {"qdisc": qdisc, "rate": "10mbit"}}
        opened.append(recordings.rrul(tmp_path / f"{qdisc}.recording", title="", test=test))
    assert of_recordings(opened) == ["codel", "pie"]


def test_recordings_that_differ_in_nothing_are_distinguished_by_their_names(tmp_path: Path) -> None:
    opened = [recordings.rrul(tmp_path / f"rrul-{name}-x.recording", title="") for name in ("before", "after")]
    assert of_recordings(opened) == ["before", "after"]
