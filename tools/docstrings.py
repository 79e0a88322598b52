"""Check that docstrings begin with a verb or a noun: none with "What" or "Whether", in Python and in Rust.

``make check`` runs it. It reads the sources; nothing is imported or compiled.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["src", "crates", "fuzz/src", "fuzz/fuzz_targets", "bench", "tests", "tools"]
_PYTHON = re.compile(r'^[ \t]*"""\s*(?:What|Whether)\b', re.MULTILINE)
# The first line of a doc comment: the line before it is none.
_RUST = re.compile(r"(?:\A|^(?![ \t]*//[/!]).*\n)[ \t]*//[/!]\s*(?:What|Whether)\b", re.MULTILINE)
_PATTERNS = {".py": _PYTHON, ".pyi": _PYTHON, ".rs": _RUST}


def main(root: Path = ROOT) -> int:
    """Print the place of each docstring that begins otherwise; return the exit status."""
    paths = sorted(path for name in FOLDERS for path in (root / name).rglob("*") if path.suffix in _PATTERNS)
    found = [f"{path}:{line}" for path in paths for line in complaints(path.read_text(), path.suffix)]
    for place in found:
        print(f'{place}: a docstring begins with a verb or a noun, not with "What" or "Whether"', file=sys.stderr)
    return 1 if found else 0


def complaints(text: str, suffix: str) -> Iterator[int]:
    """The numbers of the lines at which a file of this suffix has such words."""
    yield from (text.count("\n", 0, match.end()) + 1 for match in _PATTERNS[suffix].finditer(text))


if __name__ == "__main__":
    sys.exit(main())
