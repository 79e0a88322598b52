"""Check that nothing people read uses a word from the last table of docs/style.md.

It reads documents whole, and of sources the strings, docstrings and comments; nothing is imported or compiled.
``tools/words.py PATH...`` reads those files and folders only; ``--count`` prints the number of places per folder.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STYLE = ROOT / "docs" / "style.md"
FOLDERS = [
    "src",
    "crates",
    "fuzz/src",
    "fuzz/fuzz_targets",
    "bench",
    "tests",
    "tools",
    "docs",
    "examples",
    "packaging",
    "README.md",
]
FOLDERS += ["CHANGELOG.md", "CONTRIBUTING.md"]
_SUFFIXES = {".py", ".rs", ".md", ".toml", ".js", ".ts"}
# Data with words of other people's, files that others made, this check's own list and its tests.
_SKIPPED = re.compile(r"(^|/)(golden|uplot|node_modules|__pycache__|data)/|docs/style\.md$|tests/test_words_check\.py$")
# Rust: comments, and string literals (raw ones too). JavaScript: the same shapes.
_RUST = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.DOTALL)
_CODE_IN_MARKDOWN = re.compile(r"`[^`\n]*`|https?://\S+")
_CODE = re.compile(r"""[rbf]*(["'])[\w-]*\1""")
_HASH_COMMENT = re.compile(r"#[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'")


def words_to_avoid(style: Path = STYLE) -> dict[str, str]:
    """Each word or phrase of the table of docs/style.md, with its replacement."""
    table = style.read_text(encoding="utf-8").rpartition("| not | but |")[2]
    rows = (
        line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ") and "---" not in line
    )
    return {word.strip(): instead for words, instead in rows for word in words.split(",")}


def pattern_of(words: dict[str, str]) -> re.Pattern[str]:
    """One expression for all words; a part of a hyphenated word or of an identifier is none."""
    longest_first = sorted(words, key=len, reverse=True)
    alternatives = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    return re.compile(rf"(?<![\w./-])(?:{alternatives})(?![\w-])", re.IGNORECASE)


def prose_of(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """The parts of a file that people read, each with the number of its first line.

    Raises:
        tokenize.TokenError, SyntaxError: A Python file that does not parse.
    """
    if suffix == ".md":
        yield 1, _CODE_IN_MARKDOWN.sub("``", text)
    elif suffix == ".py":
        readable = {tokenize.STRING, tokenize.COMMENT}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in readable:
                yield token.start[0], token.string
    else:
        parts = _HASH_COMMENT if suffix == ".toml" else _RUST
        yield from ((text.count("\n", 0, found.start()) + 1, found.group()) for found in parts.finditer(text))


def found_in(text: str, suffix: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Each word to avoid in a file of this suffix: the number of its line, and the word as written."""
    # The comment markers of a paragraph are no words between two of a phrase; a string of one word is a code or a key.
    for first_line, part in prose_of(text, suffix):
        if _CODE.fullmatch(part):
            continue
        plain = re.sub(r"(\n\s*)(///?!?|//!|#)", lambda found: found[1] + " " * len(found[2]), part)
        for match in pattern.finditer(plain):
            yield first_line + plain.count("\n", 0, match.start()), " ".join(match.group().split())


def files_of(places: list[Path]) -> list[Path]:
    """All files to read below these files and folders, in order."""
    paths = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(path for path in paths if path.suffix in _SUFFIXES and not _SKIPPED.search(path.as_posix()))


def main(arguments: list[str] | None = None) -> int:
    """Print each place with such a word, and its replacement; return the exit status."""
    parser = argparse.ArgumentParser(description="Find the words that docs/style.md advises against.")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders to read (the whole repository)")
    parser.add_argument("--count", action="store_true", help="print the number of places in each folder")
    options = parser.parse_args(arguments)
    words = words_to_avoid()
    pattern = pattern_of(words)
    counts: Counter[str] = Counter()
    for path in files_of([path.resolve() for path in options.paths] or [ROOT / name for name in FOLDERS]):
        for line, word in found_in(path.read_text(encoding="utf-8"), path.suffix, pattern):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            counts["/".join(shown.parts[:3])] += 1
            if not options.count:
                print(f'{shown}:{line}: "{word}": write {words.get(word.lower(), "otherwise")}', file=sys.stderr)
    if options.count:
        for folder, count in sorted(counts.items()):
            print(f"{count:6} {folder}")
    if counts:
        print(f"{counts.total()} words to replace: docs/style.md says by what", file=sys.stderr)
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
