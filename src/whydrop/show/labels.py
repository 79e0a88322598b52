"""Words that distinguish things: series by what their names do not share, recordings by what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

LONGEST = 48


def distinct(names: Sequence[str]) -> tuple[str, list[str]]:
    """Split names into what they share at their beginning and what is left of each; whole words only.

    What they share at their end is left out of both: the axis says it.

    >>> distinct(["TCP upload BE::tcp_cwnd", "TCP upload EF::tcp_cwnd"])
    ('TCP upload', ['BE', 'EF'])
    >>> distinct(["Ping (ms) ICMP"])
    ('', ['Ping (ms) ICMP'])
    """
    parts = [_words(name) for name in names]
    if len(set(names)) < 2:
        return "", list(names)
    shared = _shared(parts)
    parts = [words[shared:] for words in parts]
    behind = _shared([words[::-1] for words in parts])
    common = "".join(_words(names[0])[:shared]).strip(" :")
    return common, ["".join(words[: len(words) - behind]).strip(" :") for words in parts]


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in words as numbers.

    >>> sorted(["dfw10", "dfw9"], key=natural)
    ['dfw9', 'dfw10']
    """
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|\D+", text))


def of_series(names: Sequence[str], given: Sequence[str | None]) -> list[str]:
    """A label for each series: the one that was given, else the part of its name that differs from the others."""
    _, rest = distinct([name for name, label in zip(names, given, strict=True) if label is None])
    short = iter(rest)
    return [label.replace("{name}", name) if label else next(short) for name, label in zip(names, given, strict=True)]


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """How many words all begin with, at least one left to each."""
    count = 0
    while all(len(words) > count + 1 for words in parts) and len({words[count].strip(" :") for words in parts}) == 1:
        count += 1
    return count


def _words(name: str) -> list[str]:
    """Words with the spaces or colons behind them, so that joined they are the name again."""
    return re.findall(r"[^\s:]+(?:::?|\s+)*|(?:::?|\s+)+", name)


def shortened(text: str, longest: int = LONGEST) -> str:
    """``text`` without its middle where it is too long for a legend.

    >>> shortened("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[: longest - 1 - head]}…{text[-head:]}"


def of_recordings(recordings: Sequence[Recording]) -> list[str]:
    """A label for each: its title, else the few metadata in which they differ, else what differs in their names."""
    titles = [str(one.metadata.get("title") or "").strip() for one in recordings]
    if len(recordings) == 1:
        return [titles[0] or str(one_name(recordings[0]))]
    if all(titles) and len(set(titles)) == len(titles):
        return [rest or title for rest, title in zip(_differing_words(titles), titles, strict=True)]
    told = _by_metadata(recordings)
    if told is not None:
        return told
    names = [one_name(one) for one in recordings]
    return _unique([rest or name for rest, name in zip(_without_common_ends(names), names, strict=True)])


def _differing_words(titles: Sequence[str]) -> list[str]:
    """Titles without the words that all of them have at the same place.

    >>> _differing_words(["qdisc:codel rtt:10ms", "qdisc:pie rtt:10ms"])
    ['qdisc:codel', 'qdisc:pie']
    """
    parts = [title.split() for title in titles]
    if len({len(words) for words in parts}) > 1:
        ahead = _shared(parts)
        behind = _shared([words[ahead:][::-1] for words in parts])
        return [" ".join(words[ahead : len(words) - behind]) for words in parts]
    same = [len(set(column)) == 1 for column in zip(*parts, strict=True)]
    return [" ".join(word for word, shared in zip(words, same, strict=True) if not shared) for words in parts]


def one_name(recording: Recording) -> str:
    """A recording's name for people: that of its folder or file without what all of them end in."""
    return re.sub(r"(\.recording|\.flent(\.gz|\.bz2)?|\.flnt|\.json(\.gz)?)$", "", recording.path.name)


def _by_metadata(recordings: Sequence[Recording]) -> list[str] | None:
    """Values of one key, or of two, that differ in every recording; the title and the test's parameters first."""
    from whydrop.recording.comparing.metadata_difference import flattened

    flat = [flattened(one.metadata) for one in recordings]
    keys = [key for key in flat[0] if all(key in other for other in flat) and _telling(key)]
    differing = [key for key in keys if len({str(one[key]) for one in flat}) > 1]
    differing.sort(key=lambda key: (key != "title", not key.startswith(("test.parameters.", "batch.variables.")), key))
    for key in differing:
        values = [_said(key, one[key]) for one in flat]
        if len(set(values)) == len(values):
            return values
    for first in differing:
        for second in differing:
            values = [f"{_said(first, one[first])}, {_said(second, one[second])}" for one in flat]
            if first < second and len(set(values)) == len(values):
                return values
    return None


def _said(key: str, value: object) -> str:
    """A value as a label, which is never empty.

    >>> _said("test.parameters.congestion_control", "bbr"), _said("test.parameters.congestion_control", "")
    ('bbr', 'congestion_control not set')
    """
    said = "" if value is None else str(value).strip()
    return said or f"{key.rpartition('.')[2]} not set"


def _telling(key: str) -> bool:
    return key in ("title", "name", "note", "test.length_s") or key.startswith(
        ("test.parameters.", "test.hosts", "batch.variables.")
    )


def _without_common_ends(names: Sequence[str]) -> list[str]:
    """File names without what all of them begin and end with, up to separators."""
    pieces = [re.split(r"(?<=[-_. ])", name) for name in names]
    while all(len(piece) > 1 for piece in pieces) and len({piece[0] for piece in pieces}) == 1:
        pieces = [piece[1:] for piece in pieces]
    while all(len(piece) > 1 for piece in pieces) and len({piece[-1] for piece in pieces}) == 1:
        pieces = [piece[:-1] for piece in pieces]
    return ["".join(piece).strip("-_. ") for piece in pieces]


def _unique(labels: Sequence[str]) -> list[str]:
    counts, seen = Counter(labels), Counter[str]()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(f"{label} ({seen[label]})" if counts[label] > 1 else label)
    return found
