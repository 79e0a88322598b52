"""Flow control against discards as a document: each slow port, what else a pause would stop, and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.show.document import Document, Items, Section, parts
from whydrop.studies.discards.flow_control import FEEDS
from whydrop.studies.frame_tables import FrameColumn, table_of
from whydrop.text import quantities
from whydrop.text.phrases import listed

if TYPE_CHECKING:
    from whydrop.studies.discards.flow_control import FlowControl

_ELSEWHERE = "--json has all of them"
_PLACE = ("site", "switch", "machine", "port")
# Ports by which less than this left are not named.
_LEAST_SHARE = 0.01
_MOST_NAMES = 4
_FASTER = pl.col("is_faster") & (pl.col("entered_share") >= FEEDS)

_FIRST = (
    "Both ends of the link must support it: the switch sends pause frames, and the host or switch that it pauses stops "
    "for them. On a host: `ethtool -a INTERFACE`; `whydrop fix --flow-control` tries it.",
    "Pause the ports of hosts, not links between switches: a pause there holds up all hosts behind it.",
    "Mind what cannot wait: storage, voice, routing protocols on the paused port.",
    "Begin with one port, then some, then all, and judge each stage by the others: `whydrop study discards rollout`. "
    "Watch pause frames: `whydrop study discards pauses`.",
)


def _port(machine: str | None, port: str) -> str:
    return f"{port} ({machine})" if machine else port


_PORTS = (
    FrameColumn("Switch", ("switch",), str),
    FrameColumn("Port", ("port",), str),
    FrameColumn("Machine", ("machine",), str, 3),
    FrameColumn("Conclusion", ("conclusion",), str),
    FrameColumn("Discards", ("discards",), quantities.count),
    FrameColumn("Samples with", ("with_discards",), quantities.count, 2),
    FrameColumn("Utilisation", ("utilisation",), quantities.percent, 1),
    FrameColumn("Speed", ("speed_bps",), quantities.rate),
    FrameColumn("Speed from", ("speed_from",), str, 4),
    FrameColumn("Pause frames received", ("pause_rx",), quantities.count, 4),
)
_FEEDERS = (
    FrameColumn("Switch", ("switch",), str),
    FrameColumn("Slow port", ("port",), str),
    FrameColumn("Fed by", ("from_port",), str),
    FrameColumn("Machine", ("from_machine",), str, 3),
    FrameColumn("Entered", ("entered_bps",), quantities.rate, 2),
    FrameColumn("Share", ("entered_share",), quantities.percent, 1),
    FrameColumn("Speed", ("speed_bps",), quantities.rate, 3),
    FrameColumn("Pause frames sent", ("pause_tx",), quantities.count, 1),
    FrameColumn("Went elsewhere", ("elsewhere_low", "elsewhere_high"), quantities.percent),
    FrameColumn("A pause holds up", ("blocking",), str),
)
_LEFT = (
    FrameColumn("Switch", ("switch",), str),
    FrameColumn("Slow port", ("port",), str),
    FrameColumn("Left by", ("to_port",), str),
    FrameColumn("Machine", ("to_machine",), str, 1),
    FrameColumn("Rate", ("left_bps",), quantities.rate),
    FrameColumn("Share", ("left_share",), quantities.percent),
)


def document(found: FlowControl) -> Document:
    """The ports as a terminal shows them."""
    title = "Flow control against discards"
    if found.ports.is_empty():
        return Document(title, tuple(parts(Items.of(found.notes))))
    candidates = found.ports.filter(conclusion="candidate")
    said = [line for row in found.ports.iter_rows(named=True) for line in _of_port(row, found)]
    note = (
        "Numbers of feeders and of other ports are of the samples with discards in which all ports were read at the "
        "same time. Went elsewhere: bounds of the share of what entered that did not leave by the slow port; the upper "
        "one holds if the store has all ports of the switch."
    )
    first = Section("Check first", (Items.of(_FIRST),)) if candidates.height else None
    return Document(
        title,
        parts(
            Section(_answer(found.ports), parts(Items.of([*said, *found.notes]))),
            first,
            table_of("Ports that discard", found.ports, _PORTS, elsewhere=_ELSEWHERE),
            table_of("Ports that feed them", found.feeders, _FEEDERS, notes=[note], elsewhere=_ELSEWHERE),
            table_of("Other ports at the same time", found.left, _LEFT, elsewhere=_ELSEWHERE),
        ),
    )


def _answer(ports: pl.DataFrame) -> str:
    names = [
        f"{row['switch']} {_port(row['machine'], row['port'])}"
        for row in ports.filter(conclusion="candidate").iter_rows(named=True)
    ]
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return f"Flow control could hold packets back that these ports discard: {', '.join(names[:_MOST_NAMES])}{more}."
    if (ports["conclusion"] == "unknown").all():
        return "Whether flow control could replace discards is unknown."
    return "No port is known at which flow control could replace discards."


def _of_port(row: dict[str, Any], found: FlowControl) -> Iterator[str]:
    """Sentences on one port that discards."""
    place = [pl.col(name).eq_missing(row[name]) for name in _PLACE]
    feeders = found.feeders.filter(place).sort("entered_share", descending=True)
    name = f"{row['switch']}, out by {_port(row['machine'], row['port'])}"
    used = "" if row["utilisation"] is None else f", at a mean utilisation of {quantities.percent(row['utilisation'])}"
    if row["speed_from"] == "rates":
        used += f" if it has {quantities.rate(row['speed_bps'])}"
    discards = f"{quantities.plural(round(row['discards']), 'packet')} discarded in {row['with_discards']} of "
    yield f"{name}: {discards}{quantities.plural(row['samples'], 'sample')}{used}. {_words(row, feeders)}"
    if row["pause_rx"]:
        yield (
            f"{name}: the switch itself was paused there ({quantities.plural(round(row['pause_rx']), 'pause frame')} "
            "received while it discarded): what is behind that port may be the bottleneck."
        )
    if row["conclusion"] == "candidate":
        left = found.left.filter(place).filter(pl.col("left_share") >= _LEAST_SHARE)
        for one in feeders.filter(_FASTER).iter_rows(named=True):
            yield _blocking(one, left)


def _speed(feeder: dict[str, Any]) -> str:
    return "of unknown speed" if feeder["speed_bps"] is None else quantities.rate(feeder["speed_bps"])


def _words(row: dict[str, Any], feeders: pl.DataFrame) -> str:
    if row["conclusion"] == "unknown":
        return f"Whether flow control would help is unknown: {row['why']}."
    if row["conclusion"] == "no faster port":
        return "No port that feeds it is faster: several feed it at once. Pauses would hold all of them."
    faster = [
        f"{_port(one['from_machine'], one['from_port'])} "
        f"({_speed(one)}, {quantities.percent(one['entered_share'])} of what entered the switch)"
        for one in feeders.filter(_FASTER).iter_rows(named=True)
    ]
    fed = f"It has {quantities.rate(row['speed_bps'])}; faster ports feed it: {listed(faster)}"
    if row["conclusion"] == "paused already":
        return f"{fed}. The switch sent pause frames to them, and discarded nevertheless."
    return (
        f"{fed}. The switch sent them no pause frame while it discarded: flow control is off, or the switch did not "
        "use it."
    )


def _blocking(one: dict[str, Any], left: pl.DataFrame) -> str:
    """The sentence on what else a pause of a feeder stops."""
    name = _port(one["from_machine"], one["from_port"])
    share = quantities.interval(quantities.percent, one["elsewhere_low"], one["elsewhere_high"])
    most = quantities.percent(one["elsewhere_high"])
    others = [
        f"{_port(row['to_machine'], row['to_port'])} {quantities.percent(row['left_share'])}"
        for row in left.sort("left_share", descending=True).iter_rows(named=True)
        if (row["to_machine"], row["to_port"]) != (one["from_machine"], one["from_port"])
    ]
    at_once = f" Of all that left the switch at the same time: {listed(others[:_MOST_NAMES])}." if others else ""
    if one["blocking"] == "shared":
        return (
            f"A pause of {name} would also hold up other traffic (head-of-line blocking): {share} of what "
            f"entered there went elsewhere.{at_once}"
        )
    if one["blocking"] == "alone":
        return (
            f"Nothing else went through {name}, of the ports that the store has (at most {most} of what entered "
            "there): a pause holds up only the traffic of this port."
        )
    return (
        f"Whether a pause of {name} would hold up other traffic is unknown ({share} of what entered there went "
        f"elsewhere): {one['why']}.{at_once}"
    )
