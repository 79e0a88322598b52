"""Recordings of synthetic paths: fluid flows of TCP through a queue in steps of 5 ms, and probes beside them.

No packets, but the same physics as of the real thing: windows grow by what is acknowledged and fall at losses, a queue
fills by what arrives faster than it drains, delays are what stands in it. Each queue is a few lines below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import recordings
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording
from whydrop.recording.writer import RecordingWriter

S, MS = recordings.S, recordings.MS
START_NS = recordings.START_NS
TICK_S = 0.005
STEP_S = 0.2
MSS, IP_BYTES = 1448, 1500


@dataclass
class Queue:
    """One direction of the path. ``delay_s`` is what a probe waits, ``own_s`` what each flow's packets wait."""

    rate_bps: float
    limit_packets: float = 1000.0
    held: float = 0.0

    @property
    def per_tick(self) -> float:
        return self.rate_bps * TICK_S / 8 / IP_BYTES

    def pass_on(self, arrived: np.ndarray, random: np.random.Generator, now_s: float) -> np.ndarray:
        """Packets lost of each flow in this tick."""
        self.held = max(0.0, self.held + arrived.sum() - self.per_tick)
        over = max(0.0, self.held - self.limit_packets)
        self.held -= over
        return arrived / max(arrived.sum(), 1e-9) * over

    @property
    def standing(self) -> float:
        """Packets in it."""
        return self.held

    @property
    def delay_s(self) -> float:
        return self.held * IP_BYTES * 8 / self.rate_bps

    def own_s(self, flows: int) -> np.ndarray:
        return np.full(flows, self.delay_s)

    def loses_probe(self, random: np.random.Generator) -> bool:
        return self.held >= self.limit_packets * 0.999 and random.random() < 0.3


@dataclass
class Lossy(Queue):
    """Drops packets by chance as well, whatever the load."""

    chance: float = 0.01

    def pass_on(self, arrived: np.ndarray, random: np.random.Generator, now_s: float) -> np.ndarray:
        return super().pass_on(arrived, random, now_s) + random.poisson(arrived * self.chance)

    def loses_probe(self, random: np.random.Generator) -> bool:
        return bool(random.random() < self.chance)


@dataclass
class Policer(Queue):
    """A token bucket that drops; the link behind it is far faster."""

    burst_packets: float = 40.0
    tokens: float = 40.0
    dropping: float = 0.0

    def pass_on(self, arrived: np.ndarray, random: np.random.Generator, now_s: float) -> np.ndarray:
        self.tokens = min(self.burst_packets, self.tokens + self.per_tick)
        over = max(0.0, float(arrived.sum()) - self.tokens)
        self.tokens -= float(arrived.sum()) - over
        self.dropping = over / max(float(arrived.sum()), 1e-9)
        return arrived / max(arrived.sum(), 1e-9) * over

    @property
    def standing(self) -> float:
        return 0.0

    @property
    def delay_s(self) -> float:
        return 0.0

    def loses_probe(self, random: np.random.Generator) -> bool:
        return bool(random.random() < self.dropping)


@dataclass
class CoDel(Queue):
    """RFC 8289 in fluid form: one drop an interval over the root of the count, while more than 5 ms are waited."""

    above_s: float = -1.0
    next_s: float = math.inf
    count: int = 0
    marks: bool = False

    def pass_on(self, arrived: np.ndarray, random: np.random.Generator, now_s: float) -> np.ndarray:
        lost = super().pass_on(arrived, random, now_s)
        if self.delay_s < 0.005 or not arrived.sum():
            self.above_s, self.next_s, self.count = -1.0, math.inf, max(0, self.count - 1)
            return lost
        if self.above_s < 0:
            self.above_s = now_s
            self.next_s = now_s + 0.1 / math.sqrt(max(1, self.count))
        if now_s >= self.next_s:
            self.count += 1
            self.next_s = now_s + 0.1 / math.sqrt(self.count)
            lost[random.choice(len(arrived), p=arrived / arrived.sum())] += 1.0
        return lost

    def loses_probe(self, random: np.random.Generator) -> bool:
        return False


class FlowQueues(Queue):
    """A CoDel for each flow, served in turn; probes pass ahead of what stands."""

    @property
    def standing(self) -> float:
        return sum(one.held for one in self.queues)

    def __init__(self, rate_bps: float, flows: int) -> None:
        super().__init__(rate_bps)
        self.queues = [CoDel(rate_bps / flows) for _ in range(flows)]

    def pass_on(self, arrived: np.ndarray, random: np.random.Generator, now_s: float) -> np.ndarray:
        active = max(1, sum(bool(one.held + a > 0) for one, a in zip(self.queues, arrived, strict=True)))
        lost = np.zeros(len(arrived))
        for number, one in enumerate(self.queues):
            one.rate_bps = self.rate_bps / active
            lost[number] = one.pass_on(arrived[number : number + 1], random, now_s)[0]
        return lost

    @property
    def delay_s(self) -> float:
        active = sum(one.held > 0 for one in self.queues)
        return 0.5 * active * IP_BYTES * 8 / self.rate_bps if active else 0.0

    def own_s(self, flows: int) -> np.ndarray:
        return np.array([one.delay_s for one in self.queues])

    def loses_probe(self, random: np.random.Generator) -> bool:
        return False


@dataclass
class MadePath:
    """The measured path: base round trips of each host, a queue in each direction, and everything odd about it."""

    up: Queue
    down: Queue
    rtts_s: tuple[float, ...] = (0.05,)
    uploads: int = 4
    downloads: int = 0
    length_s: float = 30.0
    idle_s: float = 5.0
    window_packets: float = math.inf  # the receive window
    duty: float = 1.0  # the share of the time in which the application has something to send
    noise: Callable[[np.random.Generator, float], float] = lambda random, now_s: abs(random.normal(0, 0.0002))
    outage_s: tuple[float, float] | None = None
    control: str = "cubic"
    one_way: bool = True
    tells_queue: bool = True
    streams: int = 3
    seed: int = 1
    log: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def record(folder: Path, path: MadePath) -> Recording:
    """Measure a path, into a recording."""
    random = np.random.default_rng(path.seed)
    flows = path.uploads + path.downloads
    is_up = np.arange(flows) < path.uploads
    rtts = np.array([path.rtts_s[number % len(path.rtts_s)] for number in range(flows)])
    state = _Flows(flows, path.control == "cubic")
    tables: dict[str, list[dict[str, Any]]] = {"intervals": [], "tcp_info": [], "probes": []}
    whole_s = path.length_s + 2 * path.idle_s
    for tick in range(round(whole_s / TICK_S)):
        now_s = tick * TICK_S
        out = path.outage_s is not None and path.outage_s[0] <= now_s < path.outage_s[1]
        load = path.idle_s <= now_s < path.idle_s + path.length_s
        talks = load and not out and (now_s % 1.0) < path.duty
        own = np.where(
            is_up, _padded(path.up.own_s(path.uploads), is_up), _padded(path.down.own_s(path.downloads), ~is_up)
        )
        across = np.where(is_up, path.down.delay_s, path.up.delay_s)
        rtt = rtts + own + across
        window = np.minimum(state.window, path.window_packets)
        arrived = window / rtt * TICK_S if talks else np.zeros(flows)
        lost, share = np.zeros(flows), np.zeros(flows)
        for queue, mine in ((path.up, is_up), (path.down, ~is_up)):
            before = queue.standing
            lost[mine] = queue.pass_on(arrived[mine], random, now_s)
            # What came out: what went in, less what stayed.
            went_in = float((arrived[mine] - lost[mine]).sum())
            came_out = went_in - (queue.standing - before)
            share[mine] = max(0.0, came_out) / went_in if went_in > 0 else 0.0
        if load:
            state.react(arrived, lost, rtt, own + across, now_s, random)
            state.receive((arrived - lost) * share)
            state.count(path, talks)
        if round(now_s / STEP_S, 6) == round(now_s / STEP_S):
            if load:
                _sample(tables, state, rtt, rtts, now_s, path)
            _probe(tables["probes"], path, flows, now_s, out, random)
    return _written(folder, path, tables, is_up)


def _padded(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    wide = np.zeros(len(where))
    wide[where] = values[: int(where.sum())]
    return wide


class _Flows:
    """Windows that double each round trip until the first loss, and then grow by a packet."""

    def __init__(self, count: int, is_cubic: bool) -> None:
        self.is_cubic = is_cubic
        self.highest, self.since_s = np.full(count, np.nan), np.zeros(count)
        self.window = np.full(count, 10.0)
        self.threshold = np.full(count, np.inf)
        self.quiet_until = np.zeros(count)
        self.pending = np.zeros(count)
        self.lost, self.delivered = np.zeros(count), np.zeros(count)
        self.interval = np.zeros(count)
        self.busy_s = self.window_s = 0.0

    def react(
        self,
        arrived: np.ndarray,
        lost: np.ndarray,
        rtt: np.ndarray,
        waited: np.ndarray,
        now_s: float,
        random: np.random.Generator,
    ) -> None:
        self.pending += lost
        whole = np.floor(self.pending)
        self.pending -= whole
        self.lost += whole
        passed = np.maximum(0.0, arrived - lost)
        self.delivered += passed
        hit = (whole > 0) & (now_s >= self.quiet_until)
        # HyStart++ (RFC 9406): the delay ends slow start before the queue does.
        late = waited > np.clip((rtt - waited) / 8, 0.004, 0.016)
        self.threshold = np.where(late & (self.window > 16), np.minimum(self.threshold, self.window), self.threshold)
        slow = self.window < self.threshold
        self.window += np.where(slow, passed, passed / self.window)
        if self.is_cubic:
            self._follow_the_cubic(now_s, slow)
        self.highest = np.where(hit, self.window, self.highest)
        self.since_s = np.where(hit, now_s, self.since_s)
        self.window = np.where(hit, np.maximum(2.0, 0.7 * self.window), self.window)
        self.threshold = np.where(hit, self.window, self.threshold)
        self.quiet_until = np.where(hit, now_s + rtt * random.uniform(1.0, 1.5, len(rtt)), self.quiet_until)

    def _follow_the_cubic(self, now_s: float, slow: np.ndarray) -> None:
        """RFC 9438: C (t - K)^3 + the window before the loss, where that is more."""
        begins = ~slow & np.isnan(self.highest)
        self.highest = np.where(begins, self.window, self.highest)
        self.since_s = np.where(begins, now_s, self.since_s)
        back_s = np.cbrt(self.highest * np.where(self.lost > 0, 0.3, 0.0) / 0.4)
        aim = 0.4 * (now_s - self.since_s - back_s) ** 3 + self.highest
        self.window = np.where(slow, self.window, np.fmax(self.window, np.fmin(aim, 1.01 * self.window)))

    def receive(self, packets: np.ndarray) -> None:
        self.interval += packets

    def count(self, path: MadePath, talks: bool) -> None:
        self.busy_s += TICK_S if talks else 0.0
        self.window_s += TICK_S if talks and bool((self.window > path.window_packets).all()) else 0.0


def _sample(
    tables: dict[str, list[dict[str, Any]]],
    state: _Flows,
    rtt: np.ndarray,
    base: np.ndarray,
    now_s: float,
    path: MadePath,
) -> None:
    at_ns = START_NS + round(now_s * S)
    for flow in range(len(rtt)):
        tables["intervals"].append(
            {
                "flow": flow,
                "start_ns": at_ns - 200 * MS,
                "end_ns": at_ns,
                "payload_bytes": round(state.interval[flow] * MSS),
                "goodput_bps": state.interval[flow] * MSS * 8 / STEP_S,
            }
        )
        info = {
            "flow": flow,
            "time_ns": at_ns,
            "congestion_window_packets": round(state.window[flow]),
            "srtt_ns": round(rtt[flow] * S),
            "min_rtt_ns": round(base[flow] * S),
            "mss_bytes": MSS,
            "retransmitted_packets": int(state.lost[flow]),
            "busy_ns": round(state.busy_s * S),
            "receive_window_limited_ns": round(state.window_s * S),
            "send_buffer_limited_ns": 0,
        }
        tables["tcp_info"].append(info if path.tells_queue else {"flow": flow, "time_ns": at_ns, "mss_bytes": MSS})
    state.interval[:] = 0.0


def _probe(
    rows: list[dict[str, Any]], path: MadePath, flows: int, now_s: float, out: bool, random: np.random.Generator
) -> None:
    at_ns = START_NS + round(now_s * S)
    for stream in range(path.streams):
        ways = (path.up, path.down)
        lost = [out or queue.loses_probe(random) for queue in ways]
        base_s = path.rtts_s[stream % len(path.rtts_s)] / 2
        up_s, down_s = (base_s + queue.delay_s + path.noise(random, now_s) for queue in ways)
        fate = "lost-up" if lost[0] else "lost-down" if lost[1] else "ok"
        gone = fate != "ok"
        tells = path.one_way and not gone
        rows.append(
            {
                "flow": flows + stream,
                "sequence": round(now_s / STEP_S),
                "scheduled_ns": at_ns,
                "sent_ns": at_ns,
                "received_ns": None if gone else at_ns + round((up_s + down_s) * S),
                "rtt_ns": None if gone else round((up_s + down_s) * S),
                "up_ns": round(up_s * S) if tells else None,
                "down_ns": round(down_s * S) if tells else None,
                "fate": fate if path.one_way or not gone else "lost",
            }
        )


def _written(folder: Path, path: MadePath, tables: dict[str, list[dict[str, Any]]], is_up: np.ndarray) -> Recording:
    names = [f"TCP {'upload' if up else 'download'} {number + 1}" for number, up in enumerate(is_up)]
    begin_ns, end_ns = (START_NS + round(at * S) for at in (path.idle_s, path.idle_s + path.length_s))
    rows = [
        {
            "flow": number,
            "name": name,
            "kind": "tcp",
            "direction": "up" if is_up[number] else "down",
            "host": f"server-{number % len(path.rtts_s)}",
            "dscp": 0,
            "congestion_control": path.control,
            "start_ns": begin_ns,
            "end_ns": end_ns,
            "status": "complete",
        }
        for number, name in enumerate(names)
    ]
    for stream in range(path.streams):
        host = f"server-{stream % len(path.rtts_s)}"
        probes = {"flow": len(names) + stream, "name": f"Ping (ms) {stream + 1}", "kind": "probe", "direction": "both"}
        rows.append({**probes, "host": host, "dscp": 0, "start_ns": START_NS, "end_ns": end_ns, "status": "complete"})
    plan = {**recordings.metadata()["test"], "flows": [], "computed": []}
    writer = RecordingWriter(folder, recordings.metadata(test=plan, name="made-up"))
    writer.append("flows", pl.DataFrame(rows, infer_schema_length=None))
    for name, columns in tables.items():
        if columns:
            writer.append(name, pl.DataFrame(columns, infer_schema_length=None))
    return open_recording(writer.finish("complete"))
