"""Names that somebody chose to break what shows them, or what opens them."""

from __future__ import annotations

import random

PARTS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "</td></table><iframe src=//evil.example>", "\u202egpj", "\u2066\u2069", "\x1b[31m", "\r\n",
    "\x00", "..", "/", "\\", "'", '"', "`", "$(id)", ";", "|", "%2f", "%00", "ä", "日本", "💩",
    "\ufeff", "a" * 300, " ", ".", "-rf", "CON", "javascript:alert(1)", "{{7*7}}", "${7}", "&lt;",
    "]]>", "\u200b", "~", "*", "?", ":", "\x85", "\u2028", "e\u0301" * 20, "__proto__",
    "constructor",
]  # fmt: skip


def hostile_names(count: int) -> list[str]:
    """Names with markup, controls, directions, quotes, other paths and great length; the same at each call."""
    drawn = random.Random(1)
    return ["".join(drawn.choices(PARTS, k=drawn.randint(1, 5))) for _ in range(count)]
