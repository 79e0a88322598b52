"""Plots of recordings: a catalogue as data, one or many recordings, and everything drawn also as numbers."""

from typing import Literal, get_args

# How the recordings of a group are combined; here, as the command line needs no more.
Combiner = Literal[
    "groups", "groups-points", "groups-concat", "series", "both", "batch", "batch-concat", "batch-series"
]
COMBINERS: tuple[str, ...] = get_args(Combiner)
