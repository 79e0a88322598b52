"""The tables of an explanation: transfers, flows, UDP flows, captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whydrop.explaining.document import Capture, Flow, Transfer
from whydrop.explaining.explained import Explained
from whydrop.show import words
from whydrop.show.document import Column, Columns, Table, known
from whydrop.text import quantities
from whydrop.text.quantities import plural

BYTE_BASES = {
    "ip": "bytes of IP packets, headers included",
    "ethernet": "bytes of Ethernet frames",
    "wire": "bytes on the wire, preamble and gap included",
}

# Rows that a terminal shows.
_MOST = 12
_ORDER = "those with most losses and bytes are listed first"
_ELSEWHERE = "--json and --report list all"


def transfers(found: Explained) -> Table:
    """Transfers: what was sent, what was lost, what limited it."""
    began = _began(found)
    columns: Columns[Transfer] = {
        Column("Transfer of flow"): lambda one: one.flow,
        Column("Start", True, 6): lambda one: f"{one.start - began:.3f} s",
        Column("Lasted", True, 5): lambda one: quantities.duration(one.end - one.start),
        Column("Payload", True, 3): lambda one: quantities.size(one.payload_bytes),
        Column("Packets", True, 7): lambda one: quantities.count(one.packets),
        Column("Lost", True, 1): lambda one: quantities.count(one.lost),
        Column("Goodput", True, 4): lambda one: known(one.goodput_bps, quantities.rate),
        Column("Cause", False, 2): lambda one: words.cause_title(one.cause),
        Column("Confidence", True, 8): _confidence,
    }
    return Table.of(
        "Transfers", columns, found.transfers, weight=lambda one: (one.lost, one.payload_bytes),
        order=_ORDER, most=_MOST, elsewhere=_ELSEWHERE, names="flow",
    )  # fmt: skip


def _confidence(transfer: Transfer) -> str:
    return "–" if transfer.cause == "unknown" else quantities.percent(transfer.confidence)


def flows(found: Explained) -> Table:
    """Flows: counts, losses, round-trip time."""
    columns: Columns[Flow] = {
        Column("Flow"): lambda one: one.flow,
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
    return Table.of(
        "Flows", columns, found.flows, weight=lambda one: (one.lost, one.payload_bytes),
        order=_ORDER, notes=_unlisted(found), most=_MOST, elsewhere=_ELSEWHERE, names="flow",
    )  # fmt: skip


def _share_lost(flow: Flow) -> str:
    return f"{quantities.significant(flow.lost / flow.packets * 100, 2)} %" if flow.packets else "–"


def _unlisted(found: Explained) -> list[str]:
    """A sentence on each kind of connection that is not among the flows."""
    apart = [one for capture in found.captures[:1] for one in capture.control_connections]
    return [_summed(found), *(_control(one) for one in apart)]


def _control(own: Mapping[str, Any]) -> str:
    """The control connections of a program that measures."""
    lost = f", {plural(own['lost'], 'packet')} lost" if own["lost"] else ""
    connections = plural(own["connections"], "control connection")
    return f"Not listed: {connections} of {own['program']} ({quantities.size(own['payload_bytes'])}{lost})."


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
        f"Not listed: {quantities.count(flows)} flows of small connections, with {quantities.count(packets)} packets, "
        f"{quantities.size(size)} of payload and {plural(lost, 'lost packet')}."
    )


def datagrams(found: Explained) -> Table:
    """UDP flows of one capture: the RTP streams, spin bits and probes found in them, and the size of the others."""
    udp = found.datagrams
    columns: Columns[_Datagram] = {
        Column("UDP flow"): lambda row: str(row.flow["flow"]),
        Column("Packets", True, 2): lambda row: quantities.count(row.flow["packets"]),
        Column("Size", True, 4): lambda row: quantities.size(row.flow["ip_bytes"]),
        Column("Kind", False, 1): _kind,
        Column("Lost", True, 3): _lost,
        Column("Duplicates", True, 9): lambda row: known(row.of_stream("duplicates"), quantities.count),
        Column("Reordered", True, 8): lambda row: known(row.of_stream("reordered"), quantities.count),
        Column("Jitter", True, 5): lambda row: known(row.of_stream("jitter_mean_s"), quantities.duration),
        Column("Score", True, 6): lambda row: known(row.of_stream("mos"), "{:.1f}".format),
        Column("RTT median", True, 7): _rtt,
        Column("Lost at receiver", True, 11): lambda row: known(
            row.reported("lost"), lambda lost: quantities.count(max(lost, 0))
        ),
        Column("Jitter at receiver", True, 12): lambda row: known(row.reported("jitter_mean_s"), quantities.duration),
        Column("Marked", True, 10): lambda row: quantities.count(row.flow["ce_marked"]),
    }
    rows = [_Datagram(flow, stream) for flow in (udp or {"flows": ()})["flows"] for stream in flow["rtp"] or [None]]
    shown = Table.of(
        "UDP flows", columns, rows, weight=lambda row: (float(row.is_judged), row.flow["ip_bytes"]),
        order="those with known loss or delay are first, then the largest", notes=[_unjudged(udp)] if udp else [],
        most=_MOST, elsewhere=_ELSEWHERE,
    )  # fmt: skip
    return shown.without_empty_columns()


@dataclass(frozen=True)
class _Datagram:
    """A UDP flow of the document, and one of its RTP streams."""

    flow: Mapping[str, Any]
    stream: Mapping[str, Any] | None

    def of_stream(self, key: str) -> Any:
        """A value of the RTP stream; None without one."""
        return None if self.stream is None else self.stream[key]

    def reported(self, key: str) -> Any:
        """A value that the receiver of the stream reported (RTCP); None without reports."""
        found = self.of_stream("reported")
        return None if found is None else found[key]

    @property
    def is_judged(self) -> bool:
        """True where loss or delay of the flow is known."""
        return self.stream is not None or self.flow["spin"] is not None or "measured" in self.flow


# Between two reports, a smaller share of losses is no finding of its own.
_FEW_LOST = 0.01

# Of whydrop's own packets.
_MEASURED = {
    "probes": "probes of whydrop",
    "answers": "answers to probes",
    "stream": "stream of whydrop",
    "bursts": "bursts of whydrop",
    "clock-comparisons": "clock comparisons",
}


def _kind(row: _Datagram) -> str:
    if (measured := row.flow.get("measured")) is not None:
        return _MEASURED.get(measured["kind"], "packets of whydrop")
    if row.stream is not None:
        codec = f", {row.stream['codec']}" if row.stream["codec"] else ""
        return f"RTP type {row.stream['payload_type']}{codec}"
    return "QUIC with spin bit" if row.flow["spin"] else "–"


def _lost(row: _Datagram) -> str:
    measured = row.flow.get("measured")
    if measured is not None and (reported := measured["told"]):
        return f"{quantities.count(measured['lost'])} of {quantities.count(reported)}"
    if row.stream is not None:
        return f"{quantities.count(row.stream['lost'])} of {quantities.count(row.stream['expected'])}"
    return "–"


def _rtt(row: _Datagram) -> str:
    source = row.flow.get("measured") or row.flow["spin"] or row.of_stream("reported")
    return known(source["rtt_median_s"] if source else None, quantities.duration)


def _unjudged(known: Mapping[str, Any]) -> str:
    """The share of UDP packets without known loss and delay."""
    packets, size = known["packets"] - known["judged_packets"], known["ip_bytes"] - known["judged_ip_bytes"]
    if not packets:
        return ""
    return (
        f"Loss and delay are unknown for {quantities.share(packets / known['packets'])} of the UDP packets "
        f"({quantities.share(size / known['ip_bytes'])} of their bytes), because they carry no sequence numbers or "
        "acknowledgments in the clear. A second capture, at the other end, shows them."
    )


def lost_beyond(found: Explained) -> str:
    """A sentence on packets of RTP streams that were lost after the capture point, as their receivers reported."""
    flows = (found.datagrams or {"flows": ()})["flows"]
    lossy = {flow["flow"]: beyond for flow in flows if (beyond := sum(map(_beyond, flow["rtp"])))}
    if not lossy:
        return ""
    most = max(lossy, key=lambda name: lossy[name])
    of = most if len(lossy) == 1 else f"{quantities.count(len(lossy))} flows, most of {most}"
    lost = quantities.plural(sum(lossy.values()), "lost packet")
    return f"Receivers of RTP reported {lost} beyond the capture point (RTCP): of {of}."


def _beyond(stream: Mapping[str, Any]) -> int:
    """The losses that a receiver reported and the capture lacks; of late packets it may count few as lost."""
    reported = stream["reported"]
    if reported is None or reported["lost_share_max"] < _FEW_LOST:
        return 0
    return max(int(reported["lost"]) - int(stream["lost"]), 0)


def servers(found: Explained) -> Table:
    """Servers of one capture that were asked by UDP, or for DNS, and the outcome of the requests."""
    columns: Columns[Mapping[str, Any]] = {
        Column("Server"): lambda row: f"{row['address']} port {row['port']}",
        Column("Protocol"): lambda row: row["service"],
        Column("Requests", True, 1): lambda row: quantities.count(row["requests"]),
        Column("Unanswered", True, 2): lambda row: quantities.count(row["unanswered"]),
        Column("Attempts", True, 4): lambda row: quantities.count(row["attempts"]),
        Column("Refused or failed", True, 5): lambda row: quantities.count(row["refused"] + row["failed"]),
        Column("No such name", True, 7): lambda row: quantities.count(row["no_such_name"]),
        Column("Fastest answer", True, 6): lambda row: known(row["shortest_s"], quantities.duration),
        Column("Slowest answer", True, 3): lambda row: known(row["longest_s"], quantities.duration),
    }
    return Table.of(
        "Requests", columns, found.servers, weight=lambda row: (row["unanswered"] + row["failed"], row["requests"]),
        order="those with most requests without an answer are listed first", most=_MOST, elsewhere=_ELSEWHERE,
    )  # fmt: skip


def captures(found: Explained) -> Table:
    """Captures: what was read, and in what state it was."""
    numbered = found.pair is not None
    columns: Columns[tuple[int, Capture]] = {
        Column("Capture"): lambda row: f"{row[0]}: {row[1].path}" if numbered else row[1].path,
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
    return Table.of("Captures", columns, rows, most=_MOST, elsewhere=_ELSEWHERE)


def _lasted(capture: Capture) -> str:
    return "–" if capture.first is None or capture.last is None else quantities.duration(capture.last - capture.first)


def _began(found: Explained) -> float:
    firsts = [capture.first for capture in found.captures if capture.first is not None]
    return min(firsts, default=min((transfer.start for transfer in found.transfers), default=0.0))
