"""Plots of recordings, and of the rows of stores."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whydrop.api.recordings import opened
from whydrop.errors import MissingExtraError

if TYPE_CHECKING:
    import altair

    from whydrop.api.recordings import Source
    from whydrop.show.figure import Figure
    from whydrop.show.plots import Combiner


class Plot:
    """A plot, to show in a notebook or to write into a file.

    Attributes:
        name: for file names.
        title: what it shows, in a few words.
        notes: what it leaves out, and what else a reader must know.
    """

    def __init__(self, figure: Figure) -> None:
        self._figure = figure
        self.name, self.title, self.notes = figure.key, figure.title, figure.footnotes()

    def chart(self) -> altair.VConcatChart:
        """The plot as a chart of Altair."""
        from whydrop.show.vega.charts import chart

        return chart(self._figure)

    def write(
        self,
        path: str | PathLike[str],
        format: str | None = None,
        *,
        legend: bool = True,
        size: tuple[int, int] | None = None,
    ) -> Path:
        """Write a picture, a page, or the numbers of the plot; return the path.

        Args:
            path: the file; it is replaced when the new one is whole.
            format: ``png``, ``svg``, ``pdf``, ``html``, ``csv`` or ``json``; by default the suffix of ``path``.
            legend: whether there are legends.
            size: of the whole picture, in pixels. A PNG has twice as many, a page fits its window.

        Raises:
            ValueError: there is no such format.
        """
        from whydrop.runtime import durable

        target = Path(path)
        content = self.content(format or target.suffix.removeprefix(".").lower(), legend=legend, size=size)
        durable.write_bytes(target, content)
        return target

    def content(self, format: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> bytes:
        """The contents of the file that :meth:`write` writes."""
        from whydrop.show.writing import rendered

        return rendered(self._figure, format, legend=legend, size=size)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        try:
            return self.chart()._repr_mimebundle_(include, exclude)
        except MissingExtraError as missing:
            return {"text/plain": f"{self!r}\n{missing}"}

    def __repr__(self) -> str:
        return f"<whydrop.Plot {self.name}: {self.title}>"


def plot(
    *recordings: Source,
    name: str | None = None,
    filters: Sequence[str] = (),
    zoom: tuple[float, float] | tuple[()] | None = None,
    limits: Sequence[tuple[float, float] | tuple[float, float, str]] = (),
    window: tuple[float, float] | None = None,
    from_zero: bool | None = None,
    log: bool = False,
    cut: bool | None = None,
    smooth: int | None = None,
    smooth_across_load: bool = False,
    absolute_time: bool = False,
    paired: bool = False,
    combine: Combiner | None = None,
    reduce: str | None = None,
    group_by: Sequence[str] = (),
    panel_by: Sequence[str] = (),
    figure_by: Sequence[str] = (),
    scale: Sequence[Source] = (),
    baseline: Source | None = None,
    ratio: bool = False,
    title: str | None = None,
    note: str | None = None,
) -> list[Plot]:
    """Draw recordings: one, or many overlaid, side by side, or combined.

    Args:
        recordings: open, or by their paths.
        name: of a plot of the catalogue (:func:`plot_names` lists those that fit), or the path of a file of your own;
            by default the plot of the test.
        filters: only series with names that match, as in a shell; with ``!`` before a pattern, all but those.
        zoom: percentiles at the ends of the axis of values, such as ``(5, 95)``; ``()``: everything is shown.
        limits: ends of axes of values in their units, such as ``[(0, 100, "ms")]``; the unit may be left out where a
            plot has one only.
        window: ends of the axis of time, in seconds since the start.
        from_zero: begin axes of values at zero where the values allow it, or not; by default as the plot says.
        log: make the axis of values logarithmic.
        cut: leave out the idle time before and after the load, or not; by default as the plot says.
        smooth: steps of a moving average.
        smooth_across_load: let moving averages run across the start and the end of the load.
        absolute_time: time of day instead of seconds after the start.
        paired: recordings side by side with the same axes, instead of in one.
        combine: how several recordings become one.
        reduce: what makes one number of a series: ``mean``, ``median``, ``pct99``, ``mos``, ...
        group_by: keys of the metadata, or ``title``, ``name``, ``batch``.
        panel_by: one panel for each value of these keys; also ``series`` and ``recording``.
        figure_by: one plot for each value of these keys.
        scale: recordings that the axes also fit, and that are not drawn.
        baseline: a recording of which the series are taken from those of the same name, step by step.
        ratio: divide by the series of the baseline instead.
        title: instead of the plot's own; an empty one leaves it out.
        note: a text below the picture.

    Returns:
        One plot; several with ``figure_by``, or from a file with several.

    Raises:
        whydrop.Error: a recording cannot be read, there is no such plot, or there is nothing to draw.

    >>> import whydrop
    >>> (chart,) = whydrop.plot("before.recording", "after.recording", name="ping_cdf")  # doctest: +SKIP
    >>> chart.write("ping.svg")  # doctest: +SKIP
    """
    from whydrop.show.plots import building
    from whydrop.show.plots.options import Limits, PlotOptions

    options = PlotOptions(
        filters=filters, zoom=zoom, limits=[Limits(*ends) for ends in limits], window=window, from_zero=from_zero,
        log=log, cut=cut, smooth=smooth, smooth_across_load=smooth_across_load, absolute_time=absolute_time,
        paired=paired, combine=combine, reduce=reduce, group_by=group_by, panel_by=panel_by, figure_by=figure_by,
        scale=opened(scale), baseline=None if baseline is None else opened([baseline])[0], ratio=ratio,
    )  # fmt: skip
    figures = building.figures(name, opened(recordings), options)
    return [Plot(figure.titled(title).noted(note)) for figure in figures]


def plot_names(*recordings: Source) -> list[str]:
    """The names of the plots of the catalogue that these recordings have data for.

    Raises:
        whydrop.Error: a recording cannot be read.
    """
    from whydrop.show.plots import building

    return list(building.available(opened(recordings)))


def plot_table(
    store: str | PathLike[str],
    table: str,
    *,
    y: str = "value",
    x: str = "",
    kind: Literal["points", "line", "cdf", "histogram"] = "points",
    filters: Sequence[str] = (),
    log: bool = False,
    group_by: Sequence[str] = (),
    panel_by: Sequence[str] = (),
    figure_by: Sequence[str] = (),
    title: str | None = None,
) -> list[Plot]:
    """Draw the rows of a table of a store.

    Args:
        store: its folder, or a prefix of an object store.
        table: ``counters``, ``polls``, ``ndt``, ``tcp``, ``verdicts``, ...
        y: a column with numbers.
        x: a column with numbers; by default the time of the table.
        kind: points, a line through the rows of a group, or the distribution of ``y`` in each group.
        filters: conditions such as ``site=dfw*`` or ``value>0``; all must hold.
        log: make the axis of the values of ``y`` logarithmic.
        group_by: columns that choose colours.
        panel_by: one panel for each value of these columns.
        figure_by: one plot for each value of these columns.
        title: instead of the plot's own; an empty one leaves it out.

    Raises:
        whydrop.Error: the store cannot be read, it has no such table or column, or there is nothing to draw.
    """
    from whydrop.show.facets import of_store
    from whydrop.store.engines import open_backend

    options = of_store.Options(
        table=table, y=y, x=x, figure_by=figure_by, panel_by=panel_by, group_by=group_by, filters=filters, kind=kind,
        log=log,
    )  # fmt: skip
    with open_backend(fspath(store)) as backend:
        return [Plot(figure.titled(title)) for figure in of_store.facets(backend, options)]
