"""Words and numbers at axes: decades as powers or with the unit's prefix, days as dates, 0 where zeros stand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from whydrop.show.figure import Axis, Ends
from whydrop.show.labels import LONGEST, shortened

Tick = tuple[float, str]

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# What may stand between two ticks.
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
)  # fmt: skip
_STEPS_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000, 24_000)
# The height of a number at an axis.
_LINE_PIXELS = 14
_DAY_S, _MONTH_S = 86_400, 30.44 * 86_400


def of(axis: Axis, ends: Ends, room: float, letters: int = LONGEST) -> list[Tick]:
    """Places and words along an axis of so many pixels; none: the drawing library chooses (linear axes).

    Args:
        axis: what it shows.
        ends: its ends as they are drawn, zeros below a logarithmic one included.
        room: its length.
        letters: as many of them have room at one place.
    """
    if axis.words:
        return sorted((place, shortened(words, letters)) for place, words in axis.words)
    if axis.scale == "time":
        dated = ends[1] - ends[0] > _DAY_S * room / 130
        found = times(ends, max(2, int(room / (78 if dated else 118))))
        # One tick alone would not show the length of time.
        return found if len(found) > 1 else _both_ends(ends, room)
    if axis.scale == "linear":
        return []
    if axis.zeros is None:
        return decades(ends, max(2, int(room / 34)))
    zero, low = axis.zeros
    # Zero has its number; that of the axis's end beside it only if both can be read.
    per_pixel = math.log(ends[1] / ends[0]) / max(1.0, room)
    found = decades((low, ends[1]), max(2, int(room / 34)))
    return [(zero, "0"), *(tick for tick in found if math.log(tick[0] / zero) >= _LINE_PIXELS * per_pixel)]


def label(axis: Axis) -> str:
    """An axis's title with its unit; where its numbers are times of one day alone, with the day.

    >>> label(Axis("Rate", "bit/s")), label(Axis(unit="s")), label(Axis("Day", "UTC", "time", (0.0, 3600.0)))
    ('Rate (bit/s)', 's', 'Day (UTC), 1970-01-01')
    """
    title = f"{axis.title} ({axis.unit})" if axis.title and axis.unit else axis.title or axis.unit
    if axis.scale != "time" or axis.ends is None or axis.ends[1] - axis.ends[0] > _DAY_S:
        return title
    return ", ".join(part for part in (title, f"{_instant(axis.ends[0]):%Y-%m-%d}") if part)


def _both_ends(ends: Ends, room: float) -> list[Tick]:
    long = ends[1] - ends[0] > 2 * _MONTH_S
    pattern = "%Y-%m-%d" if room >= 150 else "%Y-%m" if long else "%m-%d"
    return [(end, f"{_instant(end):{pattern}}") for end in ends]


def decades(ends: tuple[float, float], most: int) -> list[Tick]:
    """Powers of ten between two ends; where there is room, or no two of them, numbers between them too.

    >>> decades((1e-6, 1e-1), 10)
    [(1e-06, '10⁻⁶'), (1e-05, '10⁻⁵'), (0.0001, '10⁻⁴'), (0.001, '0.001'), (0.01, '0.01'), (0.1, '0.1')]
    >>> decades((1e4, 1e9), 3)
    [(10000.0, '10 k'), (1000000.0, '1 M'), (100000000.0, '100 M')]
    """
    first, last = math.ceil(math.log10(ends[0]) - 1e-9), math.floor(math.log10(ends[1]) + 1e-9)
    if last - first < 1 or 3 * (last - first + 1) <= most:
        factors = [1, 2, 5]
        candidates = [n * 10.0**power for power in range(first - 1, last + 2) for n in factors]
        return [(value, _decade(value)) for value in candidates if ends[0] <= value <= ends[1]]
    step = math.ceil((last - first + 1) / most)
    return [(10.0**power, _decade(10.0**power)) for power in range(first, last + 1, step)]


def _decade(value: float) -> str:
    if value < 0.9e-3 or value >= 1e15:
        power = math.floor(math.log10(value) + 1e-9)
        factor = value / 10.0**power
        head = "" if abs(factor - 1) < 1e-6 else f"{factor:.0f}·"
        return f"{head}10{str(power).translate(_SUPERSCRIPTS)}"
    if value < 1:
        return f"{value:g}"
    size, prefix = next((size, prefix) for size, prefix in _PREFIXES if value >= size * (1 - 1e-9))
    return f"{value / size:g} {prefix}".rstrip()


def times(ends: tuple[float, float], most: int) -> list[Tick]:
    """UTC times between two ends (seconds since the Unix epoch), at most so many (and a few) of them.

    >>> [words for _, words in times((1518307200.0, 1519516800.0), 4)]
    ['2018-02-15', '2018-02-22']
    """
    low, high = ends
    span = high - low
    for step in _STEPS_S:
        if span / step <= most:
            first = math.ceil(low / step)
            places = [number * step for number in range(first, math.floor(high / step) + 1) if number * step >= low]
            pattern = "%Y-%m-%d" if step >= _DAY_S else "%Y-%m-%d %H:%M" if span > _DAY_S else "%H:%M:%S"
            return [(float(place), f"{_instant(place):{pattern}}") for place in places]
    months = next((step for step in _STEPS_MONTHS if span / (step * _MONTH_S) <= most), _STEPS_MONTHS[-1])
    return [(place, words) for place, words in _months(low, high, months) if low <= place <= high]


def _months(low: float, high: float, step: int) -> list[Tick]:
    start, end = _instant(low), _instant(high)
    found = []
    for number in range(start.year * 12 // step * step, end.year * 12 + 12, step):
        moment = datetime(min(max(number // 12, 1), 9999), number % 12 + 1, 1, tzinfo=UTC)
        found.append((moment.timestamp(), f"{moment:%Y-%m}" if step < 12 else f"{moment:%Y}"))
    return found


def _instant(seconds: float) -> datetime:
    # Clocks that jump may be centuries off; a picture of them is still drawn.
    furthest = 2.5e11
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(seconds, -6e10), furthest))


def expression(ticks: Sequence[Tick], log: bool) -> str:
    """A Vega expression that gives each tick its words, by the nearest: numbers may differ in their last digit."""
    if not ticks:
        return "''"
    value = "log(datum.value)" if log else "datum.value"
    places = [math.log(place) if log else place for place, _ in ticks]
    made = json.dumps(ticks[-1][1], ensure_ascii=False)
    for number in range(len(ticks) - 2, -1, -1):
        middle = (places[number] + places[number + 1]) / 2
        made = f"{value} < {middle!r} ? {json.dumps(ticks[number][1], ensure_ascii=False)} : {made}"
    return made
