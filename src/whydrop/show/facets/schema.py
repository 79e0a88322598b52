"""The look of a grid of panels as data, and catalogues of them, which are TOML."""

from __future__ import annotations

import tomllib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

Kind = Literal["points", "line", "density", "bars"]
Shape = Literal["dot", "square", "triangle-up", "triangle-down", "diamond", "plus"]
Colour = Literal["blue", "orange", "green", "purple", "sky", "grey", "vermillion", "ink"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Axis(_Strict):
    """One axis of every panel of a picture."""

    title: str = ""  # the unit is added
    unit: str = ""  # of the numbers in the frame
    scale: Literal["linear", "log", "time"] = "linear"  # time is seconds since the Unix epoch, shown as UTC
    limits: tuple[float, float] | None = None  # fixed ends; rows beyond them are counted
    cover: tuple[float, float] | None = None  # range that the axis includes at least


class Group(_Strict):
    """A group with a fixed look and fixed words; others take the next free ones."""

    name: str  # in the frame
    label: str = ""  # in the legend; default: the name
    colour: Colour | None = None
    shape: Shape | None = None
    front: bool = False  # drawn on top of the others and never thinned, for rare events


class Rows(_Strict):
    """Rows of a table that become rows of the frame. Texts in braces name columns: ``{site} discards``."""

    table: str
    x: str  # column; days as text become seconds since the Unix epoch
    y: str = ""  # column; none for a density
    panel: str  # with columns in braces
    group: str  # with columns in braces
    x_factor: float = 1.0  # from the unit of the column to the unit of the axis
    y_factor: float = 1.0
    density: Literal["left-edges", "centres"] | None = None  # of the logarithm of x: the values' place in their bins


class FacetSpec(_Strict):
    """One picture, with everything that it inherits filled in."""

    title: str
    caption: str = ""  # definition of the values shown, in sentences
    parent: str | None = None  # picture that provides the missing keys
    kind: Kind = "points"
    x: Axis = Axis()
    y: Axis = Axis()
    share: Literal["both", "x", "y", "none"] = "both"  # axes that all panels share
    wide: bool = False  # stack up to four panels, for series over time
    breaks: bool = False  # break lines at gaps of more than five steps
    # Colour and shape by group; parts: shape by its last word, colour by the rest; overlay: no shapes.
    look: Literal["group", "parts", "overlay"] = "group"
    groups: tuple[Group, ...] = ()  # with a fixed look, in the order of the legend
    rows: tuple[Rows, ...] = ()  # source of the frame; none if it is made elsewhere
    missing: str = "without a value"  # reason for rows without y, for the text below the picture

    @model_validator(mode="after")
    def _densities_have_no_y(self) -> FacetSpec:
        for row in self.rows:
            if bool(row.y) == (row.density is not None):
                raise ValueError(f"rows of {row.table}: expected either y or density")
        return self


def read(text: str) -> dict[str, FacetSpec]:
    """The pictures of a catalogue by name; each table of TOML is over that of its ``parent``."""
    tables = tomllib.loads(text)
    return {name: FacetSpec.model_validate(_inherited(table, tables)) for name, table in tables.items()}


def _inherited(table: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    parent = table.get("parent")
    return table if parent is None else _merged(_inherited(tables[parent], tables), table)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` on ``under``, tables within tables too: an heir may change one limit of an axis and keep its title."""
    made = dict(under)
    for key, value in over.items():
        below = made.get(key)
        made[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    for fixed, loose in (("limits", "cover"), ("cover", "limits")):
        if fixed in over and loose not in over:
            made.pop(loose, None)
    return made
