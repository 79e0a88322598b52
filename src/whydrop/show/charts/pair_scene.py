"""The packets between two captures, ready to draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import polars as pl

from whydrop.explaining.explained import Explained
from whydrop.explaining.pair import Pair, Transit
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import NothingToDraw
from whydrop.text.printable import printable

Direction = Literal["1-to-2", "2-to-1"]
DIRECTIONS: tuple[Direction, ...] = ("1-to-2", "2-to-1")

# One in so many packets captured at the very time of the one before it is no chance.
_MANY = 10

_HALF_WRAP = 1 << 31

TIME_TITLE = "Time since the first packet (s)"


@dataclass(frozen=True)
class PairScene:
    """Two neighbouring captures of a path, and the packets between them.

    Of ``rows`` (the table ``crossings``) ``t`` is seconds since the first packet, by capture 1's clock. ``scene`` is
    the flow that is looked at, where a chart is of one, and ``flow_number`` its place among the flows of the pair.
    """

    pair: Pair
    rows: pl.DataFrame
    scene: Scene
    files: tuple[str, str]
    flow_number: int | None

    @classmethod
    def of(cls, found: Explained, number: int) -> PairScene:
        """Take the packets between the captures that lost most between them.

        Raises:
            NothingToDraw: there is one capture only.
        """
        if found.pair is None:
            raise NothingToDraw("two captures of one path are needed")
        hop = max(range(len(found.path_segments)), key=lambda position: found.path_segments[position].lost)
        rows = found.table("crossings").filter(pl.col("hop") == hop).drop_nulls("sent_ns")
        rows = rows.sort("sent_ns", maintain_order=True)
        scene = Scene.of(found, number)
        pair = found.path_segments[hop]
        return cls(
            pair=pair,
            rows=rows.with_columns(t=_since_first(rows)),
            scene=scene,
            files=(_file(found, pair.first), _file(found, pair.second)),
            flow_number=pair.flow_number(scene.flow.flow),
        )

    @property
    def first(self) -> str:
        """The name of the capture that is nearer to the start of the path."""
        return f"capture {self.pair.first + 1}"

    @property
    def second(self) -> str:
        """The name of the other capture."""
        return f"capture {self.pair.second + 1}"

    @property
    def path(self) -> str:
        """Both captures with their files, to stand below a title."""
        return f"{self.first}: {self.files[0]}; {self.second}: {self.files[1]}"

    def ends(self, direction: Direction) -> tuple[str, str]:
        """Where a direction begins and where it ends."""
        return (self.first, self.second) if direction == "1-to-2" else (self.second, self.first)

    def transit(self, direction: Direction) -> Transit | None:
        """Transit times of a direction."""
        return self.pair.transit_1_to_2_s if direction == "1-to-2" else self.pair.transit_2_to_1_s

    def going(self, direction: Direction) -> pl.DataFrame:
        """The packets of one direction."""
        return self.rows.filter(pl.col("direction") == direction)

    @cached_property
    def lossy(self) -> Direction:
        """The direction that lost more."""
        return "1-to-2" if self.pair.lost_1_to_2 >= self.pair.lost_2_to_1 else "2-to-1"

    @cached_property
    def own(self) -> pl.DataFrame:
        """The data packets of the flow that is looked at.

        ``t`` is seconds since the first of them, and ``sequence`` bytes since the first of them.
        """
        rows = self.rows.filter(pl.col("flow") == self.flow_number, pl.col("payload_bytes") > 0)
        # The number in the header wraps: between neighbours it moves by less than half of what it counts.
        steps = (pl.col("sequence").cast(pl.Int64).diff().fill_null(0) + _HALF_WRAP) % (2 * _HALF_WRAP) - _HALF_WRAP
        return rows.with_columns(t=_since_first(rows), sequence=steps.cum_sum())


def lost(rows: pl.DataFrame) -> pl.DataFrame:
    """The packets that never arrived."""
    return rows.filter(pl.col("crossing") == "lost")


def matched(rows: pl.DataFrame) -> pl.DataFrame:
    """The packets that both captures hold, with their transit time."""
    return rows.filter(pl.col("crossing") == "matched").drop_nulls("transit_ns")


def is_offloaded(rows: pl.DataFrame) -> bool:
    """True if packets were captured at one time, before a network card cut them apart."""
    return int(rows["sent_ns"].diff().eq(0).sum()) * _MANY >= max(rows.height, 1)


def offloaded(rows: pl.DataFrame) -> str:
    """A sentence where packets were captured at one time, before a network card cut them apart; else nothing."""
    if not is_offloaded(rows):
        return ""
    return (
        " Packets that begin at one spot were captured as one large segment (segmentation offload) and left one after "
        "the other: that part of their transit time is not the path's."
    )


def _file(found: Explained, capture: int) -> str:
    return printable(Path(found.captures[capture].path).name)


def _since_first(rows: pl.DataFrame) -> pl.Series:
    return ((rows["sent_ns"] - (rows["sent_ns"].min() or 0)) / 1e9).rename("t")
