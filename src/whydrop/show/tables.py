"""The tables of captures, flows and transfers as cells for people; text and report lay them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from whydrop.explaining.document import Capture, Flow, Transfer
from whydrop.explaining.explained import Explained
from whydrop.show import words
from whydrop.text import quantities
from whydrop.text.quantities import plural

BYTE_BASES = {
    "ip": "bytes of IP packets, headers included",
    "ethernet": "bytes of Ethernet frames",
    "wire": "bytes on the wire, preamble and gap included",
}


@dataclass(frozen=True)
class Column:
    """A column; where the width is short, those of the highest ``rank`` go first."""

    title: str
    number: bool
    rank: int


Row = TypeVar("Row")
Value = TypeVar("Value")

# Each with what writes its cell of a row.
Columns = Mapping[Column, Callable[[Row], str]]


def known(value: Value | None, write: Callable[[Value], str]) -> str:
    """The cell of what may not be known.

    >>> known(1500, quantities.count), known(None, quantities.count)
    ('1 500', '–')
    """
    return "–" if value is None else write(value)


@dataclass(frozen=True)
class Sheet:
    """A table of cells. ``weights`` order the rows by importance; ``order`` says in words by what.

    ``summed`` says what there is besides that has no row of its own.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    weights: tuple[tuple[float, float], ...]
    order: str
    summed: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        columns: Columns[Row],
        rows: Sequence[Row],
        weight: Callable[[Row], tuple[float, float]],
        order: str,
        summed: str = "",
    ) -> Sheet:
        """The table of these rows, by columns that each know how to write their cells."""
        cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
        return cls(title, tuple(columns), cells, tuple(map(weight, rows)), order, summed)

    def most_important(self, number: int) -> list[tuple[str, ...]]:
        """At most so many rows, the most important first."""
        best = sorted(range(len(self.rows)), key=lambda row: self.weights[row], reverse=True)
        return [self.rows[row] for row in best[:number]]

    def columns_within(self, width: int, rows: Sequence[tuple[str, ...]], gap: int = 2) -> list[int]:
        """The columns that fit into ``width`` characters beside each other; the first always stays."""
        chosen = list(range(len(self.columns)))
        while len(chosen) > 1 and self._width(chosen, rows, gap) > width:
            chosen.remove(max(chosen[1:], key=lambda column: self.columns[column].rank))
        return chosen

    def _width(self, columns: Sequence[int], rows: Sequence[tuple[str, ...]], gap: int) -> int:
        widths = [max(len(self.columns[column].title), *(len(row[column]) for row in rows)) for column in columns]
        return sum(widths) + gap * (len(columns) - 1)


def transfers(found: Explained) -> Sheet:
    """Transfers: what was sent, what was lost, what limited it."""
    began = _began(found)
    columns: Columns[Transfer] = {
        Column("Transfer of flow", False, 0): lambda one: one.flow,
        Column("Start", True, 6): lambda one: f"{one.start - began:.3f} s",
        Column("Lasted", True, 5): lambda one: quantities.duration(one.end - one.start),
        Column("Payload", True, 3): lambda one: quantities.size(one.payload_bytes),
        Column("Packets", True, 7): lambda one: quantities.count(one.packets),
        Column("Lost", True, 1): lambda one: quantities.count(one.lost),
        Column("Goodput", True, 4): lambda one: known(one.goodput_bps, quantities.rate),
        Column("Cause", False, 2): lambda one: words.cause_title(one.cause),
        Column("Confidence", True, 8): lambda one: (
            "–" if one.cause == "unknown" else quantities.percent(one.confidence)
        ),
    }
    order = "those with most losses and bytes come first"
    return Sheet.of("Transfers", columns, found.transfers, lambda one: (one.lost, one.payload_bytes), order)


def flows(found: Explained) -> Sheet:
    """Flows: counts, losses, round-trip time."""
    columns: Columns[Flow] = {
        Column("Flow", False, 0): lambda one: one.flow,
        Column("Packets", True, 3): lambda one: quantities.count(one.packets),
        Column("Payload", True, 2): lambda one: quantities.size(one.payload_bytes),
        Column("Lost", True, 1): lambda one: quantities.count(one.lost),
        Column("Share lost", True, 4): _share_lost,
        Column("Retransmitted", True, 6): lambda one: quantities.count(one.retransmitted),
        Column("Spurious", True, 8): lambda one: quantities.count(one.spurious),
        Column("Reordered", True, 9): lambda one: quantities.count(one.reordered),
        Column("RTT min", True, 5): lambda one: known(one.rtt_min_s, quantities.duration),
        Column("RTT median", True, 7): lambda one: known(one.rtt_median_s, quantities.duration),
        Column("MSS", True, 10): lambda one: known(one.mss, quantities.count),
        Column("Captured at", False, 11): lambda one: one.vantage,
    }
    order = "those with most losses and bytes come first"
    return Sheet.of("Flows", columns, found.flows, lambda one: (one.lost, one.payload_bytes), order, _unlisted(found))


def _share_lost(flow: Flow) -> str:
    return f"{quantities.significant(flow.lost / flow.packets * 100, 2)} %" if flow.packets else "–"


def _unlisted(found: Explained) -> str:
    """The connections that are not among the flows, in words."""
    apart = [one for capture in found.captures[:1] for one in capture.control_connections]
    lines = [_summed(found), *(_set_apart(one) for one in apart)]
    return "; ".join(line for line in lines if line)


def _set_apart(own: Mapping[str, Any]) -> str:
    """Control connections of a program that measures: ``1 control connection of iperf3, 832 bytes, set apart``."""
    lost = f", {plural(own['lost'], 'packet')} lost" if own["lost"] else ""
    connections = plural(own["connections"], "control connection")
    return f"{connections} of {own['program']}, {quantities.size(own['payload_bytes'])}{lost}, set apart"


def _summed(found: Explained) -> str:
    """The flows of small connections that are summed up in the document."""
    small = [capture.small_connections for capture in found.captures if capture.small_connections is not None]
    if not small:
        return ""
    flows, packets, size, lost = (
        sum(one.flows for one in small),
        sum(one.packets for one in small),
        sum(one.payload_bytes for one in small),
        sum(one.lost for one in small),
    )
    return (
        f"and {quantities.count(flows)} of small connections, listed nowhere: in all "
        f"{quantities.count(packets)} packets with {quantities.size(size)} of payload, {quantities.count(lost)} lost"
    )


def datagrams(found: Explained) -> Sheet:
    """UDP flows of one capture: the streams and spin bits found in them, and the size of the others."""
    columns: tuple[Column, ...] = (
        Column("UDP flow", False, 0),
        Column("Packets", True, 2),
        Column("Size", True, 4),
        Column("Is", False, 1),
        Column("Lost", True, 3),
        Column("Duplicates", True, 9),
        Column("Reordered", True, 8),
        Column("Jitter", True, 5),
        Column("Score", True, 6),
        Column("RTT median", True, 7),
        Column("Marked", True, 10),
    )
    udp = found.datagrams
    if udp is None:
        return Sheet("UDP flows", columns, (), (), "")
    rows: list[tuple[str, ...]] = []
    weights: list[tuple[float, float]] = []
    for flow in udp["flows"]:
        for stream in flow["rtp"] or [None]:
            rows.append(_datagram_row(flow, stream))
            told = stream is not None or flow["spin"] is not None or "measured" in flow
            weights.append((float(told), flow["ip_bytes"]))
    order = "those of which something can be told, and the largest come first"
    of_streams = {"Duplicates", "Reordered", "Jitter", "Score"}
    if not any(flow["rtp"] for flow in udp["flows"]):
        kept = [number for number, column in enumerate(columns) if column.title not in of_streams]
        columns, rows = tuple(columns[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]
    return Sheet("UDP flows", columns, tuple(rows), tuple(weights), order, _unjudged(udp))


# Of whydrop's own packets.
_MEASURED = {
    "probes": "probes of whydrop",
    "answers": "answers to probes",
    "stream": "stream of whydrop",
    "bursts": "bursts of whydrop",
    "clock-comparisons": "clock comparisons",
}


def _datagram_row(flow: Mapping[str, Any], stream: Mapping[str, Any] | None) -> tuple[str, ...]:
    spin = flow["spin"]
    kind = "QUIC that spins" if spin else "–"
    rtp = ("–",) * 5
    if stream is not None:
        codec = f", {stream['codec']}" if stream["codec"] else ""
        kind = f"RTP type {stream['payload_type']}{codec}"
        rtp = (
            f"{quantities.count(stream['lost'])} of {quantities.count(stream['expected'])}",
            quantities.count(stream["duplicates"]),
            quantities.count(stream["reordered"]),
            quantities.duration(stream["jitter_mean_s"]),
            "–" if stream["mos"] is None else f"{stream['mos']:.1f}",
        )
    trip_s = spin["rtt_median_s"] if spin else None
    if (measured := flow.get("measured")) is not None:
        kind = _MEASURED.get(measured["kind"], "whydrop's")
        if measured["told"]:
            rtp = (f"{quantities.count(measured['lost'])} of {quantities.count(measured['told'])}", *rtp[1:])
        trip_s = measured["rtt_median_s"]
    return (
        flow["flow"],
        quantities.count(flow["packets"]),
        quantities.size(flow["ip_bytes"]),
        kind,
        *rtp,
        "–" if trip_s is None else quantities.duration(trip_s),
        quantities.count(flow["ce_marked"]),
    )


def _unjudged(known: Mapping[str, Any]) -> str:
    """The share of UDP whose loss and delay one capture cannot tell."""
    packets, size = known["packets"] - known["judged_packets"], known["ip_bytes"] - known["judged_ip_bytes"]
    if not packets:
        return ""
    return (
        f"One capture cannot tell loss or delay of {quantities.percent(packets / known['packets'])} of the UDP packets "
        f"({quantities.percent(size / known['ip_bytes'])} of their bytes): nothing numbers or acknowledges them in the "
        "clear. A second capture would."
    )


def captures(found: Explained) -> Sheet:
    """Captures: what was read, and in what state it was."""
    numbered = found.pair is not None
    columns: Columns[tuple[int, Capture]] = {
        Column("Capture", False, 0): lambda row: f"{row[0]}: {row[1].path}" if numbered else row[1].path,
        Column("Format", False, 4): lambda row: row[1].format,
        Column("Link type", False, 5): lambda row: row[1].link_type,
        Column("Packets", True, 1): lambda row: quantities.count(row[1].packets),
        Column("First packet", False, 6): lambda row: known(row[1].first, quantities.instant),
        Column("Lasted", True, 2): lambda row: _lasted(row[1]),
        Column("Snaplen", True, 7): lambda row: known(row[1].snaplen, lambda snaplen: f"{quantities.count(snaplen)} B"),
        Column("Duplicates", True, 8): lambda row: quantities.count(row[1].duplicates),
        Column("State", False, 3): lambda row: "cut off" if row[1].truncated else "whole",
    }
    rows = list(enumerate(found.captures, start=1))
    # Of one path they stand in its order.
    return Sheet.of("Captures", columns, rows, lambda row: (1.0 - row[0], 0.0), "in their order")


def _lasted(capture: Capture) -> str:
    return "–" if capture.first is None or capture.last is None else quantities.duration(capture.last - capture.first)


def _began(found: Explained) -> float:
    firsts = [capture.first for capture in found.captures if capture.first is not None]
    return min(firsts, default=min((transfer.start for transfer in found.transfers), default=0.0))
