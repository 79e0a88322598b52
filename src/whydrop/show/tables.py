"""The tables of captures, flows and transfers as cells for people; text and report lay them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whydrop import units
from whydrop.explaining.explained import Explained
from whydrop.show import words

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
    rows = [
        (
            transfer.flow,
            f"{transfer.start - began:.3f} s",
            units.duration(transfer.end - transfer.start),
            units.size(transfer.payload_bytes),
            units.count(transfer.packets),
            units.count(transfer.lost),
            "–" if transfer.goodput_bps is None else units.rate(transfer.goodput_bps),
            words.cause_title(transfer.cause),
            "–" if transfer.cause == "unknown" else units.percent(transfer.confidence),
        )
        for transfer in found.transfers
    ]
    columns = (
        Column("Transfer of flow", False, 0),
        Column("Start", True, 6),
        Column("Lasted", True, 5),
        Column("Payload", True, 3),
        Column("Packets", True, 7),
        Column("Lost", True, 1),
        Column("Goodput", True, 4),
        Column("Cause", False, 2),
        Column("Confidence", True, 8),
    )
    weights = tuple((transfer.lost, transfer.payload_bytes) for transfer in found.transfers)
    return Sheet("Transfers", columns, tuple(rows), weights, "those with most losses and bytes come first")


def flows(found: Explained) -> Sheet:
    """Flows: counts, losses, round-trip time."""
    rows = [
        (
            flow.flow,
            units.count(flow.packets),
            units.size(flow.payload_bytes),
            units.count(flow.lost),
            f"{units.significant(flow.lost / flow.packets * 100, 2)} %" if flow.packets else "–",
            units.count(flow.retransmitted),
            units.count(flow.spurious),
            units.count(flow.reordered),
            "–" if flow.rtt_min_s is None else units.duration(flow.rtt_min_s),
            "–" if flow.rtt_median_s is None else units.duration(flow.rtt_median_s),
            "–" if flow.mss is None else units.count(flow.mss),
            flow.vantage,
        )
        for flow in found.flows
    ]
    columns = (
        Column("Flow", False, 0),
        Column("Packets", True, 3),
        Column("Payload", True, 2),
        Column("Lost", True, 1),
        Column("Share lost", True, 4),
        Column("Retransmitted", True, 6),
        Column("Spurious", True, 8),
        Column("Reordered", True, 9),
        Column("RTT min", True, 5),
        Column("RTT median", True, 7),
        Column("MSS", True, 10),
        Column("Captured at", False, 11),
    )
    weights = tuple((flow.lost, flow.payload_bytes) for flow in found.flows)
    order = "those with most losses and bytes come first"
    return Sheet("Flows", columns, tuple(rows), weights, order, _summed(found))


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
        f"and {units.count(flows)} of small connections, listed nowhere: in all {units.count(packets)} packets with "
        f"{units.size(size)} of payload, {units.count(lost)} lost"
    )


def datagrams(found: Explained) -> Sheet:
    """UDP flows of one capture: the streams and spin bits found in them, and the size of the others."""
    columns = (
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
    known = found.datagrams
    if known is None:
        return Sheet("UDP flows", columns, (), (), "")
    rows: list[tuple[str, ...]] = []
    weights: list[tuple[float, float]] = []
    for flow in known["flows"]:
        for stream in flow["rtp"] or [None]:
            rows.append(_datagram_row(flow, stream))
            told = stream is not None or flow["spin"] is not None
            weights.append((float(told), flow["ip_bytes"]))
    order = "those of which something can be told, and the largest come first"
    return Sheet("UDP flows", columns, tuple(rows), tuple(weights), order, _unjudged(known))


def _datagram_row(flow: Mapping[str, Any], stream: Mapping[str, Any] | None) -> tuple[str, ...]:
    spin = flow["spin"]
    kind = "QUIC that spins" if spin else "–"
    rtp = ("–",) * 5
    if stream is not None:
        codec = f", {stream['codec']}" if stream["codec"] else ""
        kind = f"RTP type {stream['payload_type']}{codec}"
        rtp = (
            f"{units.count(stream['lost'])} of {units.count(stream['expected'])}",
            units.count(stream["duplicates"]),
            units.count(stream["reordered"]),
            units.duration(stream["jitter_mean_s"]),
            "–" if stream["mos"] is None else f"{stream['mos']:.1f}",
        )
    return (
        flow["flow"],
        units.count(flow["packets"]),
        units.size(flow["ip_bytes"]),
        kind,
        *rtp,
        units.duration(spin["rtt_median_s"]) if spin else "–",
        units.count(flow["ce_marked"]),
    )


def _unjudged(known: Mapping[str, Any]) -> str:
    """The share of UDP whose loss and delay one capture cannot tell."""
    packets, size = known["packets"] - known["judged_packets"], known["ip_bytes"] - known["judged_ip_bytes"]
    if not packets:
        return ""
    return (
        f"One capture cannot tell loss or delay of {units.percent(packets / known['packets'])} of the UDP packets "
        f"({units.percent(size / known['ip_bytes'])} of their bytes): nothing numbers or acknowledges them in the "
        "clear. A second capture would."
    )


def captures(found: Explained) -> Sheet:
    """Captures: what was read, and in what state it was."""
    rows = [
        (
            f"{number}: {capture.path}" if found.pair is not None else capture.path,
            capture.format,
            capture.link_type,
            units.count(capture.packets),
            "–" if capture.first is None else units.instant(capture.first),
            "–" if capture.first is None or capture.last is None else units.duration(capture.last - capture.first),
            "–" if capture.snaplen is None else f"{units.count(capture.snaplen)} B",
            units.count(capture.duplicates),
            "cut off" if capture.truncated else "whole",
        )
        for number, capture in enumerate(found.captures, start=1)
    ]
    columns = (
        Column("Capture", False, 0),
        Column("Format", False, 4),
        Column("Link type", False, 5),
        Column("Packets", True, 1),
        Column("First packet", False, 6),
        Column("Lasted", True, 2),
        Column("Snaplen", True, 7),
        Column("Duplicates", True, 8),
        Column("State", False, 3),
    )
    # Of one path they stand in its order.
    weights = tuple((-float(number), 0.0) for number in range(len(rows)))
    return Sheet("Captures", columns, tuple(rows), weights, "in their order")


def _began(found: Explained) -> float:
    firsts = [capture.first for capture in found.captures if capture.first is not None]
    return min(firsts, default=min((transfer.start for transfer in found.transfers), default=0.0))
