"""irtt's JSON (format 1), and the lines that it prints while it runs, for when it dies before the JSON is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from whydrop.measure.runners.clock_offset import Offset, Stamps, estimate
from whydrop.measure.runners.parsing.base import Parser, epoch_ns, number, whole

_LINE = re.compile(r"^seq=(?P<sequence>\d{1,9}) (?P<rest>.*)$")
# which of them came twice stands here only
_DUPLICATE = re.compile(r"^DUP! seq=(\d{1,9})")
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)(ns|µs|us|ms|s|m|h)")
_NS = {"ns": 1, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
# irtt's own word for what became of a probe, and ours
_FATES = {"false": "ok", "true": "lost", "true_up": "lost-up", "true_down": "lost-down"}
# Facts from irtt's summary that no row has.
_COUNTS = ("duplicates", "late_packets", "timer_misses", "packets_sent", "packets_received", "server_packets_received")
_LOSSES = ("upstream", "downstream", "packet")


class IrttParser(Parser):
    """Lines as they come are kept aside; :meth:`document`, with exact times of every probe, replaces them.

    Args:
        flow: number of the flow.
        host: the far end, for the table ``clocks``.
        interval_ns: from one probe to the next.
        timeout_ns: after which an answer is late.
    """

    def __init__(self, flow: int, *, host: str, interval_ns: int, timeout_ns: int) -> None:
        super().__init__(flow)
        self._host = host
        self._interval_ns = interval_ns
        self._timeout_ns = timeout_ns
        self._lines: list[tuple[int, int, int]] = []  # sequence, arrival, round trip
        self._duplicates: Counter[int] = Counter()
        self._documented = False

    def line(self, text: str, arrived_ns: int, /) -> None:
        """One answered probe, or one of the lines around them."""
        if duplicate := _DUPLICATE.match(text):
            self._duplicates[int(duplicate[1])] += 1
        match = _LINE.match(text)
        if match is None:
            return
        pairs = dict(word.split("=", 1) for word in match["rest"].split() if "=" in word)
        rtt_ns = duration_ns(pairs.get("rtt", ""))
        if rtt_ns is None:
            self.not_understood(text)
        else:
            self._lines.append((int(match["sequence"]), arrived_ns, rtt_ns))

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Such as a server that does not answer."""
        if text.startswith("Error: "):
            self.failure = text.removeprefix("Error: ").strip()

    def end(self, _now_ns: int, /) -> None:
        """Without a document, what the lines said: three digits of each time, and nothing of what was lost."""
        if self._documented or not self._lines:
            return
        self.facts["read_from"] = "lines: irtt ended without its JSON, so lost probes are those that no line was about"
        answered = {sequence: (arrived_ns, rtt_ns) for sequence, arrived_ns, rtt_ns in reversed(self._lines)}
        highest = max(answered)
        begun_ns = min(arrived_ns - rtt_ns - number_ * self._interval_ns for number_, arrived_ns, rtt_ns in self._lines)
        for sequence in range(min(highest + 1, 10 * len(answered) + 1000)):
            due_ns = begun_ns + sequence * self._interval_ns
            arrived, rtt = answered.get(sequence, (None, None))
            sent_ns = arrived - rtt if arrived is not None and rtt is not None else due_ns
            fate = "lost" if rtt is None else self._in_time(rtt)
            self.rows.add(
                "probes",
                flow=self.flow,
                sequence=sequence,
                scheduled_ns=due_ns,
                sent_ns=sent_ns,
                received_ns=arrived,
                rtt_ns=rtt,
                fate=fate,
            )

    def document(self, text: str) -> None:
        """The whole result, as irtt writes it when it ends."""
        try:
            document = _dict(json.loads(text))
        except (ValueError, RecursionError) as reason:
            self.failure = self.failure or f"irtt wrote a result that is no JSON ({reason})"
            return
        trips = document.get("round_trips")
        if not isinstance(trips, list):
            self.failure = self.failure or "irtt wrote a result without round_trips"
            return
        self._documented = True
        self._summary(document)
        probes = [probe for probe in map(_probe, trips) if probe is not None]
        if len(probes) < len(trips):
            self.facts["round_trips_not_understood"] = len(trips) - len(probes)
        offset = estimate([stamps for probe in probes if (stamps := probe.get("stamps")) is not None])
        if offset is not None:
            self.rows.add(
                "clocks",
                host=self._host,
                time_ns=offset.time_ns,
                offset_ns=round(offset.offset_ns),
                uncertainty_ns=round(offset.uncertainty_ns),
                drift_ppm=offset.drift_ppm,
            )
        self._probes(probes, offset, _started_ns(_dict(document.get("stats"))))

    def _summary(self, document: dict[str, Any]) -> None:
        stats, parameters = _dict(document.get("stats")), _dict(_dict(document.get("config")).get("params"))
        timer = _dict(stats.get("timer_error"))
        known = {key: whole(stats.get(key)) for key in _COUNTS}
        known |= {f"timer_error_{key}_ns": whole(timer.get(key)) for key in ("mean", "max", "stddev")}
        known |= {f"agreed_{key}": whole(parameters.get(key)) for key in ("interval", "duration", "length", "dscp")}
        losses = {f"{where}_loss_percent": number(stats.get(f"{where}_loss_percent")) for where in _LOSSES}
        self.facts |= {key: value for key, value in (known | losses).items() if value is not None}
        # The server may have insisted on another interval than we asked for.
        if (interval := known["agreed_interval"]) is not None and interval > 0:
            self._interval_ns = interval

    def _probes(self, probes: list[dict[str, Any]], offset: Offset | None, started_ns: int | None) -> None:
        slot, highest_received_ns = -1, 0
        for probe in sorted(probes, key=lambda one: int(one["sequence"])):
            sent_ns = probe["sent_ns"]
            slot += 1
            if started_ns is not None and sent_ns is not None:
                # It leaves out what it missed, so the slot is the nearest: its timer corrects itself, and may be early.
                slot = max(slot, (sent_ns - started_ns + self._interval_ns // 2) // self._interval_ns)
            row = {
                "sequence": probe["sequence"],
                "scheduled_ns": whole(started_ns + slot * self._interval_ns) if started_ns is not None else None,
                "sent_ns": sent_ns,
                "received_ns": probe["received_ns"],
                "rtt_ns": probe["rtt_ns"],
                "fate": probe["fate"] if probe["fate"] != "ok" else self._in_time(probe["rtt_ns"]),
                "duplicates": self._duplicates.get(probe["sequence"], 0),
                "payload_bytes": self.facts.get("agreed_length"),
            }
            stamps = probe["stamps"]
            if stamps is not None and offset is not None:
                # rounded first: times since the epoch do not fit into a float
                ahead_ns = round(offset.at(stamps.near_sent_ns))
                row["up_ns"] = stamps.far_received_ns - ahead_ns - stamps.near_sent_ns
                row["down_ns"] = stamps.near_received_ns - (stamps.far_sent_ns - ahead_ns)
            if probe["received_ns"] is not None:
                row["reordered"] = probe["received_ns"] < highest_received_ns
                highest_received_ns = max(highest_received_ns, probe["received_ns"])
            self.rows.add("probes", flow=self.flow, **row)

    def _in_time(self, rtt_ns: int | None) -> str:
        return "late" if rtt_ns is not None and rtt_ns > self._timeout_ns else "ok"


def duration_ns(text: str) -> int | None:
    """A duration as Go prints it.

    >>> duration_ns("50.1µs"), duration_ns("1m2.5s"), duration_ns("-8ns"), duration_ns("n/a")
    (50100, 62500000000, -8, None)
    """
    found = _DURATION.findall(text)
    if not found or "".join(value + unit for value, unit in found) != text:
        return None
    sign = -1 if text.startswith("-") else 1
    return whole(sign * sum(abs(number(value) or 0.0) * _NS[unit] for value, unit in found))


def _probe(trip: object) -> dict[str, Any] | None:
    """The probe of one entry of round_trips; ``None`` where it has no sequence number or nonsense for it."""
    trip = _dict(trip)
    sequence = whole(trip.get("seqno"))
    fate = _FATES.get(str(trip.get("lost")))
    if sequence is None or fate is None:
        return None
    walls = _dict(trip.get("timestamps"))
    near, far = _dict(walls.get("client")), _dict(walls.get("server"))
    sent_ns, received_ns = _wall(near, "send"), _wall(near, "receive")
    # irtt's round trip is by the monotonic clock, which no step disturbs
    rtt_ns = whole(_dict(trip.get("delay")).get("rtt")) if fate == "ok" else None
    if fate == "ok" and rtt_ns is None:
        return None
    stamps = [stamp for stamp in (sent_ns, _wall(far, "receive"), _wall(far, "send"), received_ns) if stamp is not None]
    return {
        "sequence": sequence,
        "sent_ns": sent_ns,
        "received_ns": received_ns if fate == "ok" else None,
        "rtt_ns": rtt_ns,
        "fate": fate,
        "stamps": Stamps(*stamps) if len(stamps) == 4 and fate == "ok" else None,
    }


def _wall(host: dict[str, Any], what: str) -> int | None:
    stamp = whole(_dict(host.get(what)).get("wall"))
    return stamp if stamp else None  # 0: the server was not asked for it


def _started_ns(stats: dict[str, Any]) -> int | None:
    """When the first probe was due: irtt writes it as RFC 3339 with nanoseconds.

    >>> _started_ns({"start_time": "2026-11-22T03:04:54.696234604Z"})
    1795316694696234604
    """
    text = stats.get("start_time")
    match = re.fullmatch(r"([^.]+)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", text) if isinstance(text, str) else None
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    seconds = int(moment.timestamp())
    return epoch_ns(f"{seconds}.{match[2] or 0}") if seconds >= 0 else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
