"""Coarse copies of large layers, from which wide windows are thinned: not every packet is looked at for each zoom."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.show.figure import Ends, Figure, Layer, Panel
from whydrop.show.thinning import thin

# Columns of the coarse copy over the whole axis. A window that shows less than a few of them for each of its own
# columns is made of the whole layer, of which it holds few rows.
_COLUMNS = 64_000
_FINER_BY = 2
# Smaller layers are thinned in milliseconds.
_LEAST_ROWS = 200_000
# Layers of figures that are looked at no longer go first.
_MOST = 64


class Levels:
    """The coarse copies of the layers of some figures, made when they are first needed."""

    def __init__(self) -> None:
        """None yet."""
        # By the identity of the rows, which are kept with it so that it stays theirs.
        self._made: dict[int, tuple[pl.DataFrame, Layer]] = {}
        self._ends: dict[int, tuple[pl.DataFrame, Ends]] = {}

    def coarse(self, figure: Figure, columns: int, window: Ends | None) -> Figure:
        """The figure with coarse layers, where these are fine enough.

        Args:
            figure: with all of its rows.
            columns: the resolution that is asked for.
            window: of time, in seconds.
        """
        return replace(figure, panels=tuple(self._panel(panel, columns, window) for panel in figure.panels))

    def _panel(self, panel: Panel, columns: int, window: Ends | None) -> Panel:
        if all(layer.data.height < _LEAST_ROWS for layer in panel.layers):
            return panel
        low, high = self._x_ends(panel)
        share = 1.0 if window is None or panel.zoom != "time" else (window[1] - window[0]) / (high - low)
        if panel.x.scale == "log" or share * _COLUMNS < columns * _FINER_BY:
            return panel
        return replace(panel, layers=tuple(self._layer(layer, panel) for layer in panel.layers))

    def _x_ends(self, panel: Panel) -> Ends:
        rows = max((layer.data for layer in panel.layers), key=lambda data: data.height)
        if id(rows) not in self._ends:
            while len(self._ends) >= _MOST:
                del self._ends[next(iter(self._ends))]
            self._ends[id(rows)] = (rows, panel.x_ends())
        return self._ends[id(rows)][1]

    def _layer(self, layer: Layer, panel: Panel) -> Layer:
        if layer.rare or layer.data.height < _LEAST_ROWS:
            return layer
        key = id(layer.data)
        if key not in self._made:
            while len(self._made) >= _MOST:
                del self._made[next(iter(self._made))]
            self._made[key] = (layer.data, thin(layer, panel, _COLUMNS, _COLUMNS // 4))
        return replace(layer, data=self._made[key][1].data)
