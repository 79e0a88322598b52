"""The plots there are: those of the package, and those in a user's file."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from whydrop.errors import Error
from whydrop.show.plots.schema import PanelSpec, PlotSpec

Tables = dict[str, dict[str, Any]]


class PlotError(Error, ValueError):
    """A plot cannot be had: no such name, or its file is wrong. The message is for who wrote or asked for it."""


@cache
def catalogue() -> dict[str, PlotSpec]:
    """Every plot of the package by name, in the order in which they are listed."""
    tables: Tables = {}
    where: dict[str, str] = {}
    folder = resources.files("whydrop.show.plots") / "catalogue"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".toml"):
            continue
        found = _parsed(file.read_text(encoding="utf-8"), file.name)
        for name in found:
            if name in where:
                raise PlotError(f"{file.name}: [{name}] is already in {where[name]}")
            where[name] = file.name
        tables |= found
    plots = {name: _validated(name, tables, where) for name in tables}
    return dict(sorted(plots.items(), key=lambda item: item[1].order))


def read_file(path: Path) -> dict[str, PlotSpec]:
    """The plots of a user's file; they may inherit from those of the package and from each other.

    Raises:
        PlotError: the file is wrong; the message names it and the key.
        OSError: it cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as reason:
        raise PlotError(f"{path}: not UTF-8 at byte {reason.start}; a plot's file is TOML") from None
    own = _parsed(text, str(path))
    if not own:
        raise PlotError(f"{path}: no plots in it; expected a table for each, such as [my_plot]")
    known = {name: plot.model_dump(exclude_unset=True) for name, plot in catalogue().items()}
    where = dict.fromkeys(known, "the catalogue") | dict.fromkeys(own, str(path))
    return {name: _validated(name, {**known, **own}, where) for name in own}


def find(name: str) -> PlotSpec:
    """A plot of the package by name.

    Raises:
        PlotError: there is none; the message names the nearest.
    """
    plots = catalogue()
    if name in plots:
        return plots[name]
    raise PlotError(f"no plot {name!r}{_nearest(name, plots)}; `whydrop plot list` shows those of this recording")


def panels(plot: PlotSpec) -> tuple[PanelSpec, ...]:
    """The panels of a plot with what the plot says for all of them."""
    own = [
        panel if panel.zoom is not None or plot.zoom is None else panel.model_copy(update={"zoom": plot.zoom})
        for panel in plot.panels
    ]
    stacked = [panel for name in plot.panels_of for panel in panels(find(name))]
    return (*own, *stacked)


def _parsed(text: str, where: str) -> Tables:
    """The tables of a catalogue.

    Raises:
        PlotError: the text is not TOML, or holds something else.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as reason:
        raise PlotError(f"{where}: not TOML: {reason}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise PlotError(f"{where}: {name}: expected a table, such as [{name}], got {table!r:.60}")
    return tables


def _validated(name: str, tables: Tables, where: dict[str, str]) -> PlotSpec:
    inherited = _inherited(name, tables, where, ())
    for stacked in inherited.get("panels_of", ()):
        if stacked not in tables:
            raise PlotError(f"{where[name]}: {name}.panels_of: no plot {stacked!r}{_nearest(stacked, tables)}")
    try:
        return PlotSpec.model_validate(inherited)
    except ValidationError as reason:
        raise PlotError("; ".join(_problem(where[name], name, error) for error in reason.errors())) from None


def _inherited(name: str, tables: Tables, where: dict[str, str], heirs: tuple[str, ...]) -> dict[str, Any]:
    """The table of a plot over those of its parents."""
    own = tables[name]
    parent = own.get("parent")
    if parent is None:
        return own
    if parent in (*heirs, name):
        raise PlotError(f"{where[name]}: {name}.parent: {' < '.join((*heirs, name, str(parent)))} is a circle")
    if not isinstance(parent, str) or parent not in tables:
        raise PlotError(f"{where[name]}: {name}.parent: no plot {parent!r}{_nearest(str(parent), tables)}")
    above = _inherited(parent, tables, where, (*heirs, name))
    merged = {**above, **own}
    # A form of its own makes what the parent stacked no longer fit.
    if "panels" in own and "panels_of" not in own:
        merged.pop("panels_of", None)
    if "order" not in own:
        merged.pop("order", None)
    return merged


def _problem(where: str, name: str, error: Any) -> str:
    """A mistake in a catalogue, with its key."""
    key = name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = f"no such key{_nearest(str(error['loc'][-1]), {**PlotSpec.model_fields, **PanelSpec.model_fields})}"
    elif error["type"] != "missing":
        message += f", got {error['input']!r:.60}"
    return f"{where}: {key}: {message}"


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
