"""One run of iperf3, as ``--json`` writes it, as a recording: TCP, UDP and SCTP, in one or both directions.

iperf3 counts at this end only: an upload's intervals are what was sent, a download's what was received, unless the
server's own output is there (``--get-server-output``). The fact ``counted_at`` of a flow says which; its mean over the
whole test is the receiver's wherever iperf3 reports it. What a UDP sender sent is
no goodput: an upload is one interval with the received bytes of the end section; the sent bytes of each interval are
the series ``NAME::sent_mbit``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.files import number, rounded
from whydrop.formats.iperf3 import rows
from whydrop.formats.iperf3.ends import End, Whole, as_object, as_objects
from whydrop.recording.recording import Recording, RecordingError
from whydrop.recording.tables import TABLES

_NS = 1_000_000_000

# An interval shorter than this share of the usual one is the rest of a test, and has no rate.
_SHORTEST_INTERVAL = 0.1

# Of a UDP flow: what its sender sent, as a further series.
_SENT = "sent_mbit"

Object = dict[str, Any]


def recording(content: Object, path: Path) -> Recording:
    """Convert iperf3's output, read from JSON, to a recording.

    Raises:
        RecordingError: it measured nothing.
    """
    found = _Output(content)
    if not found.streams:
        reason = content.get("error")
        raise RecordingError(f"{path}: iperf3 measured nothing" + (f": {reason}" if reason else ""))
    return Recording(path, found.metadata(path), found.tables(), found.notes)


class _Output:
    """One run of iperf3."""

    def __init__(self, content: Object) -> None:
        self.content = content
        self.start = as_object(content.get("start"))
        self.end = End(content)
        self.settings = as_object(self.start.get("test_start"))
        self.protocol = str(self.settings.get("protocol") or "TCP").upper()
        told_ns = rows.started_ns(self.start)
        self.has_time = told_ns is not None
        self.started_ns = told_ns or 0
        self.is_server = "accepted_connection" in self.start and "connecting_to" not in self.start
        self.notes: list[str] = []
        # By socket, in the order in which they were connected.
        self.streams, omitted = _by_socket(content)
        if not self.streams:
            self.streams = {socket: [own] for socket, own in self.end.own_counts()}
        self.far = self._far_streams()
        self._wholes = {socket: self._whole(socket) for socket in self.streams}
        if omitted:
            self.notes.append(f"{omitted} intervals that iperf3 was asked to omit were left out")
        self.notes += self._missing()

    def _far_streams(self) -> dict[int, list[Object]]:
        """Intervals of each stream as the server wrote them (``--get-server-output``), by this end's socket."""
        far = as_object(self.content.get("server_output_json"))
        streams, _ = _by_socket(far)
        of_port = {
            peer.get("remote_port"): streams[peer["socket"]]
            for peer in as_objects(as_object(far.get("start")).get("connected"))
            if isinstance(peer.get("socket"), int) and peer["socket"] in streams
        }
        return {
            peer["socket"]: of_port[peer["local_port"]]
            for peer in as_objects(self.start.get("connected"))
            if isinstance(peer.get("local_port"), int)
            and peer["local_port"] in of_port
            and isinstance(peer.get("socket"), int)
        }

    def _whole(self, socket: int) -> Whole:
        direction = self._direction(socket)
        alike = sum(self._direction(other) == direction for other in self.streams)
        return self.end.of(socket, is_upload=direction == "up", is_alone=alike == 1)

    def _missing(self) -> Iterator[str]:
        """Words for what a whole run would have reported."""
        if not self.streams:
            return
        if not self.has_time:
            yield "iperf3 reported no time of day: times are since its start"
        if self.protocol not in ("TCP", "UDP"):
            yield f"flows of {self.protocol} are shown as those of TCP are"
        if not self.end.is_there:
            yield "iperf3's end section is missing: what the far end counted is not known"
        elif any(
            self._direction(socket) == "up" and whole.reported and whole.payload_bytes is None
            for socket, whole in self._wholes.items()
        ):
            yield "iperf3 had no result from the far end: the receiver's counts are not known"

    def tables(self) -> dict[str, pl.DataFrame]:
        found: dict[str, list[Object]] = {"flows": [], "intervals": [], "tcp_info": [], "values": []}
        for flow, (socket, streams) in enumerate(self.streams.items()):
            own = self._intervals(flow, streams)
            arrived = self._arrived(flow, socket, own)
            found["intervals"] += arrived
            if arrived is not own:
                found["values"] += [_sent(row) for row in own if row["goodput_bps"] is not None]
            is_far_sender = self._direction(socket) == "down" and socket in self.far
            found["tcp_info"] += self._tcp_info(flow, self.far[socket] if is_far_sender else streams)
            found["flows"].append(self._flow(flow, socket, own, arrived))
        return {
            name: pl.DataFrame(of_table, schema={c: TABLES[name][c] for c in of_table[0]})
            for name, of_table in found.items()
            if of_table
        }

    def _direction(self, socket: int) -> str:
        told = self.streams[socket][0].get("sender")
        if isinstance(told, bool):
            return "up" if told else "down"
        # Versions before 3.7 report it only for the whole test, as the client sees it.
        return "down" if bool(self.settings.get("reverse")) != self.is_server else "up"

    def _name(self, socket: int) -> str:
        direction = self._direction(socket)
        alike = [other for other in self.streams if self._direction(other) == direction]
        name = f"{self.protocol} {direction}load"
        return name if len(alike) == 1 else f"{name} {alike.index(socket) + 1}"

    def _intervals(self, flow: int, streams: list[Object]) -> list[Object]:
        return _without_rests([row for stream in streams if (row := self._interval(flow, stream)) is not None])

    def _counted_at_sender(self, socket: int) -> bool:
        return self._direction(socket) == "up" and socket not in self.far

    def _arrived(self, flow: int, socket: int, own: list[Object]) -> list[Object]:
        """Intervals at the receiver; for TCP the sent bytes are close enough, for UDP only the end section has them."""
        if self._direction(socket) == "up" and socket in self.far:
            return self._intervals(flow, self.far[socket])
        if self.protocol != "UDP" or not self._counted_at_sender(socket) or not own:
            return own
        whole = self._wholes[socket]
        if whole.sent_packets is None or whole.lost_packets is None:
            return []
        start_ns = own[0]["start_ns"]
        return [
            {
                "flow": flow,
                "start_ns": start_ns,
                "end_ns": start_ns + (rounded(whole.seconds, _NS) or own[-1]["end_ns"] - start_ns),
                "payload_bytes": rounded(whole.payload_bytes),
                "goodput_bps": whole.mean_bps,
                "packets": rounded(whole.sent_packets - whole.lost_packets),
                "lost": rounded(whole.lost_packets),
                "jitter_ns": rounded(whole.jitter_ms, 1e6),
            }
        ]

    def _interval(self, flow: int, stream: Object) -> Object | None:
        start_ns, end_ns = self._time_ns(stream.get("start")), self._time_ns(stream.get("end"))
        if start_ns is None or end_ns is None:
            return None
        return rows.interval(flow, start_ns, end_ns, stream)

    def _time_ns(self, since_start_s: Any) -> int | None:
        """A time of day; ``None`` where there is none, or none that 64 bits hold."""
        since_start_ns = rounded(number(since_start_s), _NS)
        if since_start_ns is None:
            return None
        time_ns = self.started_ns + since_start_ns
        return time_ns if abs(time_ns) < 1 << 63 else None

    def _tcp_info(self, flow: int, streams: list[Object]) -> list[Object]:
        mss = rows.segment_bytes(self.start)
        retransmitted = 0
        found = []
        for stream in streams:
            end_ns = self._time_ns(stream.get("end"))
            retransmits = number(stream.get("retransmits"))
            known = (retransmits, number(stream.get("snd_cwnd")), number(stream.get("rtt")))
            if end_ns is None or known == (None,) * 3:
                continue
            retransmitted += max(0, rounded(retransmits) or 0)
            so_far = None if retransmits is None else rounded(retransmitted)
            found.append(rows.tcp_info(flow, end_ns, stream, mss, so_far))
        return found

    def _flow(self, flow: int, socket: int, own: list[Object], arrived: list[Object]) -> Object:
        direction = self._direction(socket)
        peer = next((peer for peer in as_objects(self.start.get("connected")) if peer.get("socket") == socket), {})
        address = str(peer.get("remote_host") or "")
        whole = self._wholes[socket]
        facts: Object = {
            "counted_at": "sender" if self._counted_at_sender(socket) else "receiver",
            "iperf3": whole.reported,
        }
        if whole.mean_bps is not None:
            facts["mean_value"] = whole.mean_bps / 1e6
        facts |= self._retransmitted_in_all(socket, whole)
        for key in ("version", "tcp_mss_default", "sock_bufsize"):
            if key in self.start:
                facts[key] = self.start[key]
        tos = number(self.settings.get("tos"))
        return {
            "flow": flow,
            "name": self._name(socket),
            "kind": "udp" if self.protocol == "UDP" else "tcp",
            "direction": direction,
            "runner": "iperf3",
            "host": self._host() or address or None,
            "address": address or None,
            "ip_version": (6 if ":" in address else 4) if address else None,
            "dscp": (int(tos) >> 2) & 63 if tos is not None else None,
            "congestion_control": self.end.congestion_control(),
            "start_ns": own[0]["start_ns"] if own else None,
            "end_ns": own[-1]["end_ns"] if own else None,
            "payload_bytes": rounded(whole.payload_bytes),
            "status": "complete" if arrived else "no-data",
            "settings": json.dumps(self.settings, sort_keys=True),
            "facts": json.dumps(facts, sort_keys=True),
        }

    def _retransmitted_in_all(self, socket: int, whole: Whole) -> Object:
        """Under the names that netperf has for them; for a download from the end section alone."""
        mss = rows.segment_bytes(self.start)
        counts = [number(stream.get("retransmits")) for stream in self.streams[socket]]
        known = [count for count in counts if count is not None and count >= 0]
        again = sum(known) if known else whole.retransmitted
        if again is None:
            return {}
        return {"TCP_RETRANSMIT": again, "BYTES_SENT": whole.sent_bytes, "TCP_MSS": mss}

    def _host(self) -> str:
        peer = as_object(self.start.get("accepted_connection" if self.is_server else "connecting_to"))
        return str(peer.get("host") or "")

    def metadata(self, path: Path) -> Object:
        error = self.content.get("error")
        last_s = max((number(stream.get("end")) or 0.0 for of in self.streams.values() for stream in of), default=0.0)
        was_interrupted = str(error).startswith("interrupt") if error else not self.end.is_there
        host = self._host()
        return {
            "name": "iperf3",
            "title": path.stem,
            "status": "interrupted" if was_interrupted else "failed" if error else "complete",
            "failures": [f"iperf3: {error}"] if error else [],
            "started_ns": self.started_ns if self.has_time else None,
            "ended_ns": self._time_ns(last_s) if self.has_time else None,
            "test": {
                "test": "iperf3",
                "title": "",
                "length_s": last_s,
                "delay_s": 0.0,
                "step_s": self._step_s(),
                "hosts": [host] if host else [],
                "flows": [],
                "computed": list(self._computed()),
                "parameters": self.settings,
                "source": "iperf3",
            },
            "hosts": {"local": {"kernel": {"description": str(self.start.get("system_info") or "")}}},
            "imported": {
                "format": "iperf3",
                "file": path.name,
                "written_by": str(self.start.get("version") or ""),
                "metadata": {"start": self.start, "end": as_object(self.content.get("end"))},
            },
        }

    def _step_s(self) -> float:
        spans = sorted(
            span
            for of_socket in self.streams.values()
            for stream in of_socket
            if (span := number(stream.get("seconds"))) is not None and span > 0
        )
        return round(spans[len(spans) // 2], 3) or 1.0 if spans else 1.0

    def _computed(self) -> Iterator[Object]:
        for direction in ("up", "down"):
            if sum(self._direction(socket) == direction for socket in self.streams) > 1:
                name = f"{self.protocol} {direction}load"
                for ending, by in (("avg", "mean"), ("sum", "sum")):
                    yield {"name": f"{name} {ending}", "by": by, "of": [f"{name} *"], "units": "Mbit/s"}
                yield {"name": f"{name} fairness", "by": "fairness", "of": [f"{name} *"], "units": ""}


def _by_socket(content: Object) -> tuple[dict[int, list[Object]], int]:
    """The intervals of each stream by its socket, and how many were to be omitted."""
    streams: dict[int, list[Object]] = {}
    omitted = 0
    for interval in as_objects(content.get("intervals")):
        for stream in as_objects(interval.get("streams")):
            if not isinstance(stream.get("socket"), int):
                continue
            if stream.get("omitted"):
                # Its times begin at 0 again behind the omitted part.
                omitted += 1
                continue
            streams.setdefault(int(stream["socket"]), []).append(stream)
    return streams, omitted


def _without_rests(rows: list[Object]) -> list[Object]:
    """Intervals in order; an interval too short for a rate is joined to the one before."""
    spans = sorted(row["end_ns"] - row["start_ns"] for row in rows)
    shortest_ns = spans[len(spans) // 2] * _SHORTEST_INTERVAL if spans else 0
    kept: list[Object] = []
    for row in rows:
        if kept and row["end_ns"] - row["start_ns"] < shortest_ns and row["start_ns"] >= kept[-1]["start_ns"]:
            kept[-1] = _joined(kept[-1], row)
        else:
            kept.append(row)
    return kept


def _joined(first: Object, rest: Object) -> Object:
    end_ns = max(first["end_ns"], rest["end_ns"])
    sums = {
        key: first[key] + rest[key] if first[key] is not None and rest[key] is not None else first[key]
        for key in ("payload_bytes", "packets", "lost")
    }
    rate = first["goodput_bps"]
    if sums["payload_bytes"] is not None and end_ns > first["start_ns"]:
        rate = sums["payload_bytes"] * 8 * _NS / (end_ns - first["start_ns"])
    return {**first, **sums, "end_ns": end_ns, "goodput_bps": rate}


def _sent(row: Object) -> Object:
    return {"flow": row["flow"], "time_ns": row["end_ns"], "key": _SENT, "value": row["goodput_bps"] / 1e6}
