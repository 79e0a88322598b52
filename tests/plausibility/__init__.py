"""A check for what cannot be, of the document and of the text for people, whatever was captured.

Parts above their wholes, intervals without their own value, bounds below what was seen, times longer than the capture.
Every document that a test makes in this process is checked (``plausibility.plugin``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plausibility import captures, numbers, pairs, said, verdicts

Document = Mapping[str, Any]


def absurdities(document: Document, text: str = "") -> list[str]:
    """Each thing in a document, and in the text made of it, that cannot be, with its place."""
    return list(_found(document, text))


def _found(document: Document, text: str) -> Iterator[str]:
    yield from numbers.found(document)
    yield from captures.found(document)
    yield from verdicts.found(document)
    yield from pairs.found(document)
    yield from said.found(document, text)
