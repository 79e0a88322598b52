"""tools/docstrings.py finds docstrings that begin with "What" or "Whether", and finds none here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import docstrings  # noqa: E402


def test_here_every_docstring_begins_with_a_noun_or_a_verb():
    assert docstrings.main() == 0


def test_it_names_the_file_and_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    one = tmp_path / "src" / "one.py"
    one.parent.mkdir()
    one.write_text('"""Numbers."""\n\nONE = 1\n"""What one is."""\n')
    assert docstrings.main(tmp_path) == 1
    assert f"{one}:4: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suffix", "text", "lines"),
    [
        (".py", '"""What is."""', [1]),
        (".py", '"""\nWhether it is.\n"""', [2]),
        (".py", 'class A:\n    def b(self):\n        """What it does."""', [3]),
        (".py", '"""Whatever it is."""\nx = "What"\n# What is.', []),
        (".rs", "//! What is.", [1]),
        (".rs", "    /// Whether it is.\n    is: bool,\n    /// True.\n    /// What follows.\n", [1]),
        (".rs", "struct A;\n\n/// What is.\n", [3]),
        (".rs", '// What is.\nlet x = "/// What";', []),
    ],
)
def test_a_docstring_is_found_by_its_first_words(suffix: str, text: str, lines: list[int]):
    assert list(docstrings.complaints(text, suffix)) == lines
