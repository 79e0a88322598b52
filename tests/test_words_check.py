"""The check for words to avoid reads prose, and neither code nor codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

import words as check  # noqa: E402 (a program, not a package)

PATTERN = check.pattern_of(check.words_to_avoid())


def found(text: str, suffix: str) -> list[tuple[int, str]]:
    return list(check.found_in(text, suffix, PATTERN))


def test_the_table_of_the_style_has_its_words_with_replacements() -> None:
    words = check.words_to_avoid()
    assert words["sent again"] == "retransmitted, retransmit"
    assert len(words) > 40


@pytest.mark.parametrize(
    ("text", "suffix", "words"),
    [
        ('"""The packets that were sent again."""\n', ".py", ["sent again"]),
        ("told = 1  # nobody reads this\n", ".py", ["nobody"]),
        ('key = row["told"]\n', ".py", []),
        ("/// The host that nobody\n/// asked.\nfn told() {}\n", ".rs", ["nobody"]),
        ("A one-way delay, `whydrop told`, https://example.org/way\n", ".md", []),
        ("Packets sent\nagain are counted.\n", ".md", ["sent again"]),
    ],
)
def test_words_are_found_in_strings_comments_and_documents_only(text: str, suffix: str, words: list[str]) -> None:
    assert [word for _, word in found(text, suffix)] == words


def test_a_word_is_found_at_its_line() -> None:
    assert found('"""One.\n\nTwo are told.\n"""\n', ".py") == [(3, "told")]
