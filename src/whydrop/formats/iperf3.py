"""The output of ``iperf3 --json`` (and ``--json-stream``) as a recording: TCP and UDP, either way or both at once.

iperf3 counts at this end only: an upload's intervals are what was sent, a download's what was received. The fact
``counted_at`` of a flow says which; its mean over the whole test is the receiver's wherever iperf3 tells it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.files import number, rounded
from whydrop.recording.recording import Recording, RecordingError
from whydrop.recording.tables import TABLES

_NS = 1_000_000_000

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
        self.start = _object(content.get("start"))
        self.end = _object(content.get("end"))
        self.settings = _object(self.start.get("test_start"))
        self.protocol = str(self.settings.get("protocol") or "TCP").upper()
        stamp = _object(self.start.get("timestamp"))
        millis = number(stamp.get("timemillis"))
        seconds = number(stamp.get("timesecs"))
        self.started_ns = (rounded(millis, 1e6) if millis else rounded(seconds, 1e9)) or 0
        self.notes: list[str] = []
        # By socket, in the order in which they were connected.
        self.streams: dict[int, list[Object]] = {}
        omitted = 0
        for stream in self._interval_streams():
            if stream.get("omitted"):
                # Its times begin at 0 again behind the omitted part.
                omitted += 1
                continue
            self.streams.setdefault(int(stream["socket"]), []).append(stream)
        if omitted:
            self.notes.append(f"{omitted} intervals that iperf3 was asked to omit were left out")

    def _interval_streams(self) -> Iterator[Object]:
        intervals = self.content.get("intervals")
        for interval in intervals if isinstance(intervals, list) else ():
            streams = _object(interval).get("streams")
            for stream in streams if isinstance(streams, list) else ():
                if isinstance(stream, dict) and isinstance(stream.get("socket"), int):
                    yield stream

    def tables(self) -> dict[str, pl.DataFrame]:
        rows: dict[str, list[Object]] = {"flows": [], "intervals": [], "tcp_info": []}
        for flow, (socket, streams) in enumerate(self.streams.items()):
            intervals = [row for stream in streams if (row := self._interval(flow, stream)) is not None]
            rows["intervals"] += intervals
            rows["tcp_info"] += self._tcp_info(flow, streams)
            rows["flows"].append(self._flow(flow, socket, intervals))
        return {
            name: pl.DataFrame(of_table, schema={c: TABLES[name][c] for c in of_table[0]})
            for name, of_table in rows.items()
            if of_table
        }

    def _direction(self, socket: int) -> str:
        told = self.streams[socket][0].get("sender")
        if isinstance(told, bool):
            return "up" if told else "down"
        # Versions before 3.7 tell it only of the whole test.
        return "down" if self.settings.get("reverse") else "up"

    def _name(self, socket: int) -> str:
        direction = self._direction(socket)
        alike = [other for other in self.streams if self._direction(other) == direction]
        name = f"{self.protocol} {direction}load"
        return name if len(alike) == 1 else f"{name} {alike.index(socket) + 1}"

    def _interval(self, flow: int, stream: Object) -> Object | None:
        start_ns, end_ns = self._time_ns(stream.get("start")), self._time_ns(stream.get("end"))
        if start_ns is None or end_ns is None:
            return None
        payload = number(stream.get("bytes"))
        row: Object = {
            "flow": flow,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "payload_bytes": rounded(payload),
            "goodput_bps": number(stream.get("bits_per_second")),
            "packets": None,
            "lost": None,
            "jitter_ns": None,
        }
        lost, packets = number(stream.get("lost_packets")), number(stream.get("packets"))
        jitter_ms = number(stream.get("jitter_ms"))
        if packets is not None:
            # The receiver's count is by sequence numbers: the lost ones are among them.
            row["packets"] = rounded(packets - (lost or 0))
            row["lost"] = rounded(lost)
        row["jitter_ns"] = rounded(jitter_ms, 1e6)
        return row

    def _time_ns(self, since_start_s: Any) -> int | None:
        """A time of day; ``None`` where there is none, or none that 64 bits hold."""
        since_start_ns = rounded(number(since_start_s), _NS)
        if since_start_ns is None:
            return None
        time_ns = self.started_ns + since_start_ns
        return time_ns if abs(time_ns) < 1 << 63 else None

    def _tcp_info(self, flow: int, streams: list[Object]) -> list[Object]:
        mss = number(self.start.get("tcp_mss") or self.start.get("tcp_mss_default"))
        retransmitted = 0
        rows = []
        for stream in streams:
            end_ns = self._time_ns(stream.get("end"))
            retransmits = number(stream.get("retransmits"))
            window, rtt_us = number(stream.get("snd_cwnd")), number(stream.get("rtt"))
            if end_ns is None or (retransmits is None and window is None and rtt_us is None):
                continue
            retransmitted += rounded(retransmits) or 0
            variation_us = number(stream.get("rttvar"))
            rows.append(
                {
                    "flow": flow,
                    "time_ns": end_ns,
                    "congestion_window_packets": rounded(window, 1 / mss) if mss else None,
                    "srtt_ns": rounded(rtt_us, 1000.0),
                    "rtt_variation_ns": rounded(variation_us, 1000.0),
                    "mss_bytes": rounded(mss) if mss else None,
                    "retransmitted_packets": rounded(retransmitted) if retransmits is not None else None,
                }
            )
        return rows

    def _flow(self, flow: int, socket: int, intervals: list[Object]) -> Object:
        direction = self._direction(socket)
        peer = next((peer for peer in _objects(self.start.get("connected")) if peer.get("socket") == socket), {})
        address = str(peer.get("remote_host") or "")
        whole = self._whole(socket)
        received = _object(whole.get("receiver")) or _object(whole.get("udp"))
        mean_bps = number(received.get("bits_per_second"))
        facts: Object = {"counted_at": "sender" if direction == "up" else "receiver", "iperf3": whole}
        if mean_bps is not None:
            facts["mean_value"] = mean_bps / 1e6
        for key in ("version", "tcp_mss_default", "sock_bufsize"):
            if key in self.start:
                facts[key] = self.start[key]
        sender = "sender_tcp_congestion"
        tos = number(self.settings.get("tos"))
        payload = number(received.get("bytes"))
        return {
            "flow": flow,
            "name": self._name(socket),
            "kind": "udp" if self.protocol == "UDP" else "tcp",
            "direction": direction,
            "runner": "iperf3",
            "host": str(_object(self.start.get("connecting_to")).get("host") or address) or None,
            "address": address or None,
            "ip_version": (6 if ":" in address else 4) if address else None,
            "dscp": (int(tos) >> 2) & 63 if tos is not None else None,
            "congestion_control": self.end.get(sender) if isinstance(self.end.get(sender), str) else None,
            "start_ns": intervals[0]["start_ns"] if intervals else None,
            "end_ns": intervals[-1]["end_ns"] if intervals else None,
            "payload_bytes": rounded(payload),
            "status": "complete" if intervals else "no-data",
            "settings": json.dumps(self.settings, sort_keys=True),
            "facts": json.dumps(facts, sort_keys=True),
        }

    def _whole(self, socket: int) -> Object:
        """The summary of a stream at iperf3's end."""
        for stream in _objects(self.end.get("streams")):
            if any(_object(part).get("socket") == socket for part in stream.values()):
                return stream
        return {}

    def metadata(self, path: Path) -> Object:
        error = self.content.get("error")
        last_s = max((number(stream.get("end")) or 0.0 for of in self.streams.values() for stream in of), default=0.0)
        host = _object(self.start.get("connecting_to")).get("host")
        return {
            "name": "iperf3",
            "title": path.stem,
            "status": "failed" if error else "complete",
            "failures": [f"iperf3: {error}"] if error else [],
            "started_ns": self.started_ns,
            "ended_ns": self._time_ns(last_s),
            "test": {
                "test": "iperf3",
                "title": "",
                "length_s": last_s,
                "delay_s": 0.0,
                "step_s": self._step_s(),
                "hosts": [host] if isinstance(host, str) else [],
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
                "metadata": {"start": self.start, "end": self.end},
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


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
