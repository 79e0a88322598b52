"""Text as tests write it: with ordinary spaces for those at which no line may break."""

from __future__ import annotations

from typing import Any

from whydrop.text.quantities import NO_BREAK


def plain(value: Any) -> Any:
    """Text, or all text in lists, tuples and mappings, with ordinary spaces."""
    if isinstance(value, str):
        return value.replace(NO_BREAK, " ")
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value
