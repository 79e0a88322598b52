"""Series less those of a baseline, or divided by them, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whydrop.show.figure import NothingToDraw
from whydrop.show.plots.choosing import Item, Source, Values, chosen
from whydrop.show.plots.schema import Kind, PanelSpec

if TYPE_CHECKING:
    from whydrop.show.plots.options import PlotOptions

# Kinds that draw each series as it is.
KINDS = ("time-series", "cdf", "histogram", "box", "bar")


def check(name: str, kind: Kind, options: PlotOptions) -> None:
    """Refuse what has no meaning with a baseline or with recordings that only widen the axes.

    Raises:
        NothingToDraw: the message says what does not go together.
    """
    if options.ratio and options.baseline is None:
        raise NothingToDraw("a ratio needs a baseline: choose the recording to divide by")
    asked = "a baseline" if options.baseline is not None else "a recording for the axes" if options.scale else ""
    if not asked:
        return
    if kind not in KINDS:
        raise NothingToDraw(f"{name} is of the kind {kind}; {asked} is for the kinds {', '.join(KINDS)}")
    if options.combine is not None or (options.group_by and not options.panel_by and not options.figure_by):
        raise NothingToDraw(f"{asked} does not go with combined recordings")
    if options.baseline is not None and options.log and not options.ratio:
        raise NothingToDraw("a difference may be negative, where a logarithmic axis has no place: draw the ratio")


def selected(spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Item]:
    """The series that a panel draws, less those of the baseline where there is one."""
    items = [item for one in spec.series for source in sources for item in chosen(source, one, options)]
    if options.baseline is None:
        return items
    found: list[Item] = []
    base = Source.of(options.baseline, "")
    for one in spec.series:
        known = {item.name: item for item in chosen(base, one, options)}
        own = [item for item in items if item.spec is one and item.source.recording.path != options.baseline.path]
        found += [_against(item, known[item.name], options.ratio) for item in own if item.name in known]
    return [item for item in found if len(item.values)]


def _against(item: Item, base: Item, ratio: bool) -> Item:
    """Each sample less the mean of the baseline's samples in the same step; without such a sample there is none."""
    step_s = max(item.step_s, base.step_s)
    known = ~np.isnan(item.values)
    times_s, values = item.times_s[known], item.values[known]
    expected = _means(base, step_s, times_s)
    there = np.isfinite(expected) & (expected != 0 if ratio else True)
    made = values[there] / expected[there] if ratio else values[there] - expected[there]
    missing = item.left_out.missing + int((~there).sum())
    left_out = replace(item.left_out, missing=missing, because="have no value of the baseline at their time")
    return replace(
        item, units="" if ratio else item.units, kind="computed", times_s=times_s[there], values=made,
        left_out=left_out,
    )  # fmt: skip


def _means(base: Item, step_s: float, times_s: Values) -> Values:
    """The mean of the baseline in the step of each time; NaN where it has none."""
    known = ~np.isnan(base.values)
    steps, places = np.unique(np.floor(base.times_s[known] / step_s + 1e-9), return_inverse=True)
    if not len(steps):
        return np.full(len(times_s), np.nan)
    means = np.bincount(places, base.values[known]) / np.bincount(places)
    wanted = np.floor(times_s / step_s + 1e-9)
    at = np.minimum(np.searchsorted(steps, wanted), len(steps) - 1)
    return np.where(steps[at] == wanted, means[at], np.nan)
