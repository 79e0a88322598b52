"""Recordings that belong together, by what their metadata say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from whydrop.errors import Mistake
from whydrop.recording.comparing.metadata_difference import flattened, value_of

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

# A number at the end of a title or a file's name that only counts the runs: "fq_codel 3", "pfifo-02", "run 7".
_SERIAL = re.compile(r"[\s_.:-]*\b(run|rep|repetition)?[\s_:-]*\d+$", re.IGNORECASE)

# Keys that are no paths in the metadata.
_OWN_KEYS = ("name", "title", "batch")


class CannotGroup(Mistake):
    """The recordings cannot be grouped as was asked; the message says why."""


@dataclass(frozen=True)
class Side:
    """Recordings that are taken as one side of a comparison."""

    label: str
    recordings: tuple[Recording, ...]


@dataclass(frozen=True)
class Group:
    """Positions of recordings that belong together.

    ``second`` is the value of a second key where two keys make rows and columns; else it is part of the label.
    """

    label: str
    members: tuple[int, ...]
    second: str = ""

    @property
    def name(self) -> str:
        """Both values together."""
        return f"{self.label}, {self.second}" if self.second else self.label


def grouped(
    recordings: Sequence[Recording], labels: Sequence[str], keys: Sequence[str], *, two: bool = False
) -> list[Group]:
    """Recordings with the same values of the keys together, in the order of their first.

    Keys are dotted paths in the metadata, ``name`` (of the file, without the number of the run), ``title`` likewise,
    or ``batch``. Without any, it is the label without the number of the run. With ``two``, values of two keys are kept
    apart; without keys, they are the parts of the label before and behind its last hyphen.

    Raises:
        CannotGroup: no recording has one of the keys; or two values are wanted, and a label has no hyphen.
    """
    for key in keys:
        _require(key, recordings)
    batches = _batches(recordings) if "batch" in keys else []
    found: dict[tuple[str, str], list[int]] = {}
    for number, (recording, label) in enumerate(zip(recordings, labels, strict=True)):
        if two and len(keys) != 2:
            values = _halves(recording, label)
        else:
            parts = [batches[number] if key == "batch" else _value(recording, label, key) for key in keys]
            values = (parts[0], parts[1]) if two else (", ".join(parts) or without_serial(label), "")
        found.setdefault(values, []).append(number)
    return [Group(first, tuple(members), second) for (first, second), members in found.items()]


def _require(key: str, recordings: Sequence[Recording]) -> None:
    """A key that no recording has would make one group of all of them, which looks like an answer."""
    if key in _OWN_KEYS:
        return
    known = dict.fromkeys(found for recording in recordings for found in flattened(recording.metadata))
    if key in known:
        return
    # By their last words: whole keys share so much of their beginnings that any two look alike.
    by_last: dict[str, str] = {}
    for one in known:
        by_last.setdefault(one.rpartition(".")[2], one)
    near = get_close_matches(key.rpartition(".")[2], by_last, n=1, cutoff=0.75)
    hint = f"did you mean {by_last[near[0]]}?" if near else "`whydrop metadata RECORDING` shows their keys"
    raise CannotGroup(f"no recording has the key {key!r}; {hint}")


def without_serial(label: str) -> str:
    """A label without the number of the run at its end.

    >>> without_serial("fq_codel 100Mbit-02"), without_serial("pfifo run 3"), without_serial("7")
    ('fq_codel 100Mbit', 'pfifo', '7')
    """
    return _SERIAL.sub("", label) or label


def _halves(recording: Recording, label: str) -> tuple[str, str]:
    first, hyphen, second = without_serial(label).rpartition("-")
    if not hyphen:
        raise CannotGroup(
            f"{recording.path}: to combine by both, give --group-by twice, or titles of two parts with a hyphen "
            f"between them, unlike {second!r}"
        )
    return first, second


def _value(recording: Recording, label: str, key: str) -> str:
    if key == "name":
        return without_serial(recording.path.name.partition(".")[0])
    if key == "title":
        return without_serial(str(recording.metadata.get("title") or label))
    value = value_of(recording.metadata, key)
    return f"no {key}" if value is None else value


def _batches(recordings: Sequence[Recording]) -> list[str]:
    """A name for each recording's batch and test; a batch that ran twice is two, numbered in order."""
    named, identity = [], []
    for recording in recordings:
        batch = recording.metadata.get("batch") or {}
        name = str(batch.get("title") or batch.get("name") or "no batch")
        test = (recording.metadata.get("test") or {}).get("test") or ""
        named.append(f"{name} – {test}" if test else name)
        identity.append(str(batch.get("uuid") or batch.get("id") or ""))
    runs: dict[str, list[str]] = {}
    for name, one in zip(named, identity, strict=True):
        known = runs.setdefault(name, [])
        if one not in known:
            known.append(one)
    return [
        f"{name} ({runs[name].index(one) + 1})" if len(runs[name]) > 1 else name
        for name, one in zip(named, identity, strict=True)
    ]


def sides(recordings: Sequence[Recording], labels: Sequence[str], keys: Sequence[str]) -> list[Side]:
    """The sides of a comparison: each recording by itself, or those with the same values of the keys together.

    Raises:
        CannotGroup: there are fewer than two, or no recording has one of the keys.
    """
    if len(recordings) < 2:
        raise CannotGroup("two recordings or more are needed; each is compared with the first")
    if not keys:
        return [Side(label, (one,)) for one, label in zip(recordings, labels, strict=True)]
    groups = grouped(recordings, labels, keys)
    if len(groups) < 2:
        raise CannotGroup(
            f"{' '.join(keys)}: all {len(recordings)} recordings have the same value, {groups[0].name!r}; "
            "`whydrop metadata` shows their keys"
        )
    return [Side(group.name, tuple(recordings[number] for number in group.members)) for group in groups]
