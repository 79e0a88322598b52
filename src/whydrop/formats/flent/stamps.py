"""Raw values with timestamps that contradict the grid of their own file: the clock was set, or is another one.

Flent puts every series on its grid while the test runs; a raw timestamp comes from the tool's clock. Where the two are
far apart, the grid is used: timestamps are corrected to it where possible; otherwise the grid's values replace the raw
ones.
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


def correct_stamps(file: FlentFile) -> None:
    """Correct or replace raw values that contradict the grid, with a note in the file's notes."""
    if file.start_ns is None:
        return
    restamped: list[str] = []
    replaced: list[str] = []
    for name, rows in file.raw.items():
        on_grid = [x for x, value in zip(file.x_values, file.results.get(name, ()), strict=False) if value is not None]
        times = _since_start(rows, file.start_ns)
        if not on_grid or not times or _agree(times, on_grid):
            continue
        corrected = _corrected(times, on_grid)
        if len(times) == len(rows) and _agree(corrected, on_grid):
            file.raw[name] = [
                {**row, "t": (file.start_ns + round(time * _NS)) / _NS}
                for row, time in zip(rows, corrected, strict=True)
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


def _agree(times: Sequence[float], on_grid: Sequence[float]) -> bool:
    """True if raw values (s since the start, as they came) are of the times at which the grid has values."""
    if any(after < before - _BACK_S for before, after in pairwise(times)):
        return False
    outside = sum(not on_grid[0] - _NEAR_S <= time <= on_grid[-1] + _NEAR_S for time in times)
    ordered = sorted(times)
    alone = sum(not _is_near(x, ordered) for x in on_grid)
    return outside <= _MOST_APART * len(times) and alone <= _MOST_APART * len(on_grid)


def _is_near(x: float, ordered: Sequence[float]) -> bool:
    place = bisect_left(ordered, x - _NEAR_S)
    return place < len(ordered) and ordered[place] <= x + _NEAR_S


def _corrected(times: Sequence[float], on_grid: Sequence[float]) -> list[float]:
    """Times as a clock would have had them that begins with the grid and was never set."""
    steps = [after - before for before, after in pairwise(times)]
    usual = median(steps) if steps else 0.0
    shift = 0.0 if abs(times[0] - on_grid[0]) <= _NEAR_S else on_grid[0] - times[0]
    corrected = [times[0] + shift]
    for time, step in zip(times[1:], steps, strict=True):
        if step < -_BACK_S or step > _NEAR_S:
            shift += usual - step
        corrected.append(time + shift)
    return corrected


def _from_grid(file: FlentFile, name: str) -> list[Row]:
    assert file.start_ns is not None
    return [
        {"t": (file.start_ns + round(x * _NS)) / _NS, "val": value}
        for x, value in zip(file.x_values, file.results[name], strict=True)
        if value is not None
    ]
