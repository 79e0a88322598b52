"""Recordings before and after a change, in pairs: what differs between the pairs is no longer in the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whydrop.recording.comparing.comparison import Comparison, Row, differing, judged
from whydrop.recording.comparing.grouping import CannotGroup, Group, Side, grouped
from whydrop.recording.metrics.definitions import Measured, measure
from whydrop.recording.statistics.differences import Values, holm, of_pairs
from whydrop.recording.statistics.resampling import SEED
from whydrop.text.phrases import listed
from whydrop.text.quantities import plural


def paired(before: Side, after: Side, labels: Sequence[str], keys: Sequence[str]) -> Comparison:
    """Compare recordings with the same values of keys; of several with the same, their mean.

    Args:
        before: the first side.
        after: the second side.
        labels: of the recordings, those before first.
        keys: of the metadata.

    Raises:
        CannotGroup: no recording has a key, or no value is on both sides.
    """
    groups = grouped((*before.recordings, *after.recordings), labels, keys)
    count = len(before.recordings)
    both = [one for one in groups if min(one.members) < count <= max(one.members)]
    if not both:
        named = listed([repr(one.name) for one in groups[:4]])
        raise CannotGroup(f"{' '.join(keys)}: no value is on both sides, so nothing can be paired; there are {named}")
    measured = [measure(one) for one in (*before.recordings, *after.recordings)]
    names = list(dict.fromkeys(key for one in measured for key in one))
    rows = [row for key in names if (row := _row(before, after, key, measured, both)) is not None]
    adjusted = holm([row.difference.p for row in rows])
    return Comparison(
        (before, after),
        tuple(differing((before, after))),
        tuple(_established(judged(row, p)) for row, p in zip(rows, adjusted, strict=True)),
        tuple(_notes(both, groups, keys)),
        SEED,
    )


def _row(
    before: Side, after: Side, key: str, measured: Sequence[dict[str, Measured]], both: Sequence[Group]
) -> Row | None:
    count = len(before.recordings)
    pairs: list[tuple[float, float]] = []
    for group in both:
        members = [place for place in group.members if key in measured[place]]
        sides = [
            [measured[place][key].value for place in members if (place < count) == first] for first in (True, False)
        ]
        known = [[value for value in side if math.isfinite(value)] for side in sides]
        if all(known):
            pairs.append((float(np.mean(known[0])), float(np.mean(known[1]))))
    if not pairs:
        return None
    found = np.array(pairs)
    metric = next(one[key].metric for one in measured if key in one)
    difference = of_pairs(found[:, 0], found[:, 1])
    why = "" if math.isfinite(difference.low) else "fewer than 3 pairs, or all differ by the same: repeat the runs"
    if len(pairs) < len(both):
        why = "; ".join([*([why] if why else []), f"{plural(len(both) - len(pairs), 'pair')} without a value"])
    values = float(found[:, 0].mean()), float(found[:, 1].mean())
    return Row(metric, before.label, after.label, values, difference, _dominance(found), "cliffs-delta", why)


def _established(row: Row) -> Row:
    """The row without the verdict that samples do not overlap: effects within pairs do not show that."""
    return replace(row, verdict="not resolved") if row.verdict == "apart" else row


def _dominance(pairs: Values) -> float:
    """Cliff's delta within pairs: the share of those that rose, less the share of those that fell."""
    return float(np.sign(pairs[:, 1] - pairs[:, 0]).mean()) if len(pairs) > 1 else math.nan


def _notes(both: Sequence[Group], groups: Sequence[Group], keys: Sequence[str]) -> list[str]:
    alone = [one.name for one in groups if one not in both]
    notes = [f"{plural(len(both), 'pair')} by {listed(list(keys))}; Cliff's δ is within pairs."]
    if alone:
        more = f" and {len(alone) - 6} more" if len(alone) > 6 else ""
        notes.append(f"Left out, as only one side has them: {', '.join(alone[:6])}{more}.")
    return notes
