"""Raw values with times that contradict the grid of their own file: the clock was set, or is another one.

Flent puts every series on its grid while the test runs; a raw time stamp is whatever the tool's clock said. Where the
two are far apart the grid holds: the stamps are put right by it where that can be done, else the grid's values stand
for the raw ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from whydrop.formats.files import nanoseconds
from whydrop.formats.flent.upgrade import FlentFile, Row

_NS = 1_000_000_000

# Tools begin and end some seconds beside the grid, and print some of their values late.
_NEAR_S = 15.0
# Less of the grid, or of the raw values, than this may be without the other.
_MOST_APART = 0.1
# Probes that were lost and those that were answered are stamped at either end of a round trip.
_BACK_S = 3.0


def put_right(file: FlentFile) -> None:
    """Let the grid decide where raw values are of another time; say so in the file's notes."""
    if file.start_ns is None:
        return
    restamped: list[str] = []
    replaced: list[str] = []
    for name, rows in file.raw.items():
        told = [x for x, value in zip(file.x_values, file.results.get(name, ()), strict=False) if value is not None]
        times = _since_start(rows, file.start_ns)
        if not told or not times or _agree(times, told):
            continue
        righted = _righted(times, told)
        if len(times) == len(rows) and _agree(righted, told):
            file.raw[name] = [
                {**row, "t": (file.start_ns + round(time * _NS)) / _NS} for row, time in zip(rows, righted, strict=True)
            ]
            restamped.append(name)
        else:
            file.raw[name] = _from_grid(file, name)
            replaced.append(name)
    if restamped:
        file.notes.append(
            f"{', '.join(restamped)}: raw timestamps contradict the time axis of the file (x_values) and were "
            "corrected to it"
        )
    if replaced:
        why = "raw timestamps contradict the time axis of the file: its averaged values are used, losses are not known"
        file.notes.append(f"{', '.join(replaced)}: {why}")


def _since_start(rows: Sequence[Row], start_ns: int) -> list[float]:
    times = (nanoseconds(row.get("t")) for row in rows)
    return [(time - start_ns) / _NS for time in times if time is not None]


def _agree(times: Sequence[float], told: Sequence[float]) -> bool:
    """True if raw values (s since the start, as they came) are of the times at which the grid has values."""
    if any(after < before - _BACK_S for before, after in pairwise(times)):
        return False
    outside = sum(not told[0] - _NEAR_S <= time <= told[-1] + _NEAR_S for time in times)
    ordered = sorted(times)
    alone = sum(not _is_near(x, ordered) for x in told)
    return outside <= _MOST_APART * len(times) and alone <= _MOST_APART * len(told)


def _is_near(x: float, ordered: Sequence[float]) -> bool:
    place = bisect_left(ordered, x - _NEAR_S)
    return place < len(ordered) and ordered[place] <= x + _NEAR_S


def _righted(times: Sequence[float], told: Sequence[float]) -> list[float]:
    """Times as a clock would have had them that begins with the grid and was never set."""
    steps = [after - before for before, after in pairwise(times)]
    usual = median(steps) if steps else 0.0
    shift = 0.0 if abs(times[0] - told[0]) <= _NEAR_S else told[0] - times[0]
    righted = [times[0] + shift]
    for time, step in zip(times[1:], steps, strict=True):
        if step < -_BACK_S or step > _NEAR_S:
            shift += usual - step
        righted.append(time + shift)
    return righted


def _from_grid(file: FlentFile, name: str) -> list[Row]:
    assert file.start_ns is not None
    return [
        {"t": (file.start_ns + round(x * _NS)) / _NS, "val": value}
        for x, value in zip(file.x_values, file.results[name], strict=True)
        if value is not None
    ]
