#!/usr/bin/env python
"""Draw the data in flight of Linux's senders and of simulated ones over the same paths.

    python bench/twin/draw_twins.py /tmp/twins docs/images/twins.png

Small multiples: a row a path, a column a congestion control; the first seconds of each connection.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import altair as alt
import polars as pl

import whydrop
from whydrop import _core
from whydrop.show.theme import BLUE, ORANGE
from whydrop.show.vega.drawing import CONFIG

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from transfers import Scenario  # noqa: E402
from twin_paths import CONTROLS, SETS  # noqa: E402
from twin_settings import setting  # noqa: E402

PATHS = {
    "deep-250": "9 Mbit/s, 250 packets",
    "shallow-18": "5 Mbit/s, 18 packets",
    "codel-110ms": "9 Mbit/s, CoDel",
}
TITLES = {"cubic": "CUBIC", "reno": "Reno", "bbr": "BBR"}
KINDS = {"Linux 6.1": BLUE, "simulated": ORANGE}
DURATION_S = 20
SHOWN_S = 12
STEP_S = 0.05
SEED = 1


def main() -> int:
    """Draw the recordings of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where record_twins.py has put the set `paths`")
    parser.add_argument("picture", type=Path, help="an SVG or PNG file")
    given = parser.parse_args()
    courses = [both(given.folder, path, control) for path in PATHS for control in CONTROLS]
    title = alt.Title(
        "Data in flight of one connection, of Linux and simulated",
        subtitle="Largest of each 0.05 s; the simulated sender and path have the parameters that were configured",
    )
    scale = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    dashes = alt.Scale(domain=list(KINDS), range=[[1, 0], [5, 2]])
    header = alt.Header(title=None, labelFontSize=13, labelLimit=400)
    chart = (
        alt.Chart(pl.concat(courses), width=250, height=110)
        .mark_line(strokeWidth=1.4, interpolate="step-after")
        .encode(
            x=alt.X("time_s:Q", title="time, s"),
            y=alt.Y("in_flight_kb:Q", title="data in flight, kB", axis=alt.Axis(tickCount=4)),
            color=alt.Color("kind:N", scale=scale, title=None),
            strokeDash=alt.StrokeDash("kind:N", scale=dashes, title=None),
        )
        .facet(
            row=alt.Row("path:N", sort=list(PATHS.values()), header=header),
            column=alt.Column("control:N", sort=list(TITLES.values()), header=header),
            spacing=14,
        )
        .resolve_scale(y="independent")
        .properties(title=title)
        .configure(**CONFIG)
    )
    chart.save(str(given.picture))
    return 0


def both(folder: Path, path: str, control: str) -> pl.DataFrame:
    """Both courses over one path."""
    files = [str(folder / path / control / f"{point}.pcap.zst") for point in "by"]
    courses = (linux(files), simulated(SETS["paths"][f"{path}/{control}"]))
    texts = {"path": PATHS[path], "control": TITLES[control]}
    named = [
        course.with_columns(pl.lit(kind).alias("kind"), *(pl.lit(text).alias(name) for name, text in texts.items()))
        for course, kind in zip(courses, KINDS, strict=True)
    ]
    return pl.concat(named)


def linux(files: Sequence[str]) -> pl.DataFrame:
    """The course of the flow with most data."""
    found = whydrop.explain(*files)
    flows = found.table("flows").sort("payload_bytes", descending=True)
    return binned(found.table("segments").filter(pl.col("flow") == flows["flow"][0]))


def simulated(scenario: Scenario) -> pl.DataFrame:
    """The course of the twin."""
    course = json.loads(_core.predicted_course(_core.dumps(setting(scenario, DURATION_S)), SEED))
    return binned(pl.DataFrame(course["packets"]))


def binned(packets: pl.DataFrame) -> pl.DataFrame:
    """The largest flight of each step, from the first full packet on."""
    full = packets.filter(pl.col("ip_bytes") > 1000)
    time_s = (pl.col("time_ns") - full["time_ns"][0]) / 1e9
    steps = full.group_by(((time_s // STEP_S) * STEP_S).alias("time_s"))
    flight = steps.agg((pl.col("in_flight_bytes").max() / 1e3).alias("in_flight_kb").cast(pl.Float64))
    return flight.filter(pl.col("time_s") < SHOWN_S).sort("time_s")


if __name__ == "__main__":
    sys.exit(main())
