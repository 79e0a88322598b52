"""From a verdict to the mildest fix that this host can try, with what is expected of it, or to the reason why none."""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.act import planning, proving
from whydrop.act.alternatives import Alternative
from whydrop.act.changes import CannotChangeError, Change
from whydrop.act.meter import RESPONDER_JUDGED, Judged, Measuring, NoMeasurementError, metrics, read
from whydrop.act.pacing import Route
from whydrop.act.planning import Bottleneck
from whydrop.explaining import completing
from whydrop.explaining.recordings import document as explained
from whydrop.recording.recording import Recording
from whydrop.runtime import guarding, process_groups
from whydrop.text import quantities

# A queue of this host in which packets wait for this share of the delay is where the delay is.
_HERE = 0.5
# Below this share of what is expected there is goodput to be gained; else there are only losses to be saved.
_ROOM = 0.9
# Of a full frame, the payload.
_PAYLOAD_SHARE = 1448 / 1514
# A smaller share of goodput is not mentioned.
_LEAST_PRICE = 0.005
# CoDel's target (RFC 8289): the standing delay of a managed queue.
_TARGET_S = 0.005
# Idle time before and after the load, for the path without load.
_IDLE_S = 3.0

# Headers with all options, and no payload.
_SNAPLEN_BYTES = 128
_STARTS_WITHIN_S = 10.0
_ENDS_WITHIN_S = 5.0

_REASONS = {
    "random-loss": "packets are lost at random, with load and without: a lower or smoother rate loses the same "
    "share, so neither pacing nor a queue helps; look for a bad link (wireless, cable, optics, duplex)",
    "none": "no packet was lost or delayed: there is nothing to fix",
    "receiver-window": "the receive window limits the flow: raise net.ipv4.tcp_rmem at the far end",
    "sender": "the sender limits the flow: its send buffer (net.ipv4.tcp_wmem) or its application",
    "reordering": "packets are reordered, none is lost: the sender's kernel adapts on its own",
    "aqm": "a managed queue keeps the delay short, and drops or marks to do so: it works as intended",
    "capture-loss": "the capture missed packets that the path delivered: capture fewer bytes of each packet",
    "outage": "the path was interrupted: no setting of this host changes that",
    "unfairness": "flows share the path unequally: no queue of this host fixes that",
}


@dataclass(frozen=True)
class Evidence:
    """Measurements, and their explanation.

    Attributes:
        recording: the folder; None where a capture was given instead.
        document: of the JSON contract, in words.
        before: metrics by key.
        round_trip_s: the least that a flow saw; NaN where it is not known.
        notes: what could not be done.
    """

    recording: Path | None
    document: dict[str, Any]
    before: dict[str, float]
    notes: tuple[str, ...] = ()
    round_trip_s: float = math.nan

    @property
    def headline(self) -> dict[str, Any] | None:
        """The first verdict on the load of a measurement; of a capture the first one."""
        verdicts = self.document["verdicts"]
        on_load = [one for one in verdicts if (one.get("at") or {}).get("direction") in ("up", "both")]
        found: dict[str, Any] | None = next(iter(on_load if self.recording and on_load else verdicts), None)
        return found


@dataclass(frozen=True)
class Remedy:
    """A fix that can be tried.

    Attributes:
        words: what it does.
        expected: what should come of it.
        aim, beside: keys of the metrics that should be better, and that must not be much worse.
        change: to queues or flow control of this host; None for a setting of whydrop's own flows.
        highest_bps: where the rate is known too little, it is searched for up to this one; infinite: the interface's.
        parameters: of the test that tries it.
        bottleneck: where another operator runs it: what is known of it.
        commands: that make it last, where it is no change of queues.
        others: other fixes that are indicated as well.
    """

    words: str
    expected: str
    aim: str
    beside: tuple[str, ...]
    change: Change | None = None
    highest_bps: float | None = None
    parameters: Mapping[str, Any] | None = None
    bottleneck: Bottleneck | None = None
    commands: tuple[str, ...] = ()
    others: tuple[Alternative, ...] = ()

    def all_commands(self) -> list[str]:
        """The commands that make the fix, to paste."""
        return list(self.commands) if self.change is None else self.change.commands()


@dataclass(frozen=True)
class NoRemedy:
    """Why nothing is tried."""

    why: str


@dataclass(frozen=True)
class Fixed:
    """The outcome of :func:`whydrop.fix`.

    Attributes:
        evidence: the measurements, and the verdicts on them.
        remedy: the fix, as it was tried; or why there is none.
        proof: the measurements with and without it, in turns; ``None`` where nothing was tried.
        judged: the source of its numbers.
    """

    evidence: Evidence
    remedy: Remedy | NoRemedy
    proof: proving.Proof | None
    judged: Judged = RESPONDER_JUDGED

    @property
    def words(self) -> str:
        """The fix in words; why there is none, where there is none."""
        return self.remedy.why if isinstance(self.remedy, NoRemedy) else self.remedy.words

    @property
    def ticket(self) -> str | None:
        """Advice to the operator of the bottleneck on a permanent fix; ``None`` where the bottleneck is not known."""
        bottleneck, round_trip_s = getattr(self.remedy, "bottleneck", None), self.evidence.round_trip_s
        if bottleneck is None or math.isnan(round_trip_s):
            return None
        return planning.for_the_other_side(bottleneck, round_trip_s)

    @property
    def helps(self) -> bool:
        """False if the fix was tried and does not help."""
        return self.proof is None or self.proof.holds

    def __repr__(self) -> str:
        tried = "not tried" if self.proof is None else "helps" if self.proof.holds else "does not help"
        return f"<whydrop.Fixed: {self.words}: {tried}>"


def measured(meter: Measuring, route: Route) -> Evidence:
    """Load the path, capture what is sent, and explain both together.

    Raises:
        whydrop.act.meter.NoMeasurementError, EngineError: it cannot be measured.
    """
    file = meter.output / "capture.pcap"
    with _captured(route.interface, str(route.addresses[0]), file) as problems:
        folder = meter.loaded("as it is", probes=True, delay_s=_IDLE_S)
    recording = Recording.open(folder)
    seen = None
    if not problems:
        # With the recording, so that `whydrop explain` and `whydrop report` find it.
        kept = folder / file.name
        file.replace(kept)
        try:
            seen = _core.explain([str(kept)], tables=False)
        except _core.CaptureError as reason:
            problems.append(str(reason))
    if not meter.sends:
        # In the recording all connections are one flow, so the capture alone is explained.
        if seen is None:
            raise NoMeasurementError(f"existing connections are explained by a capture: {'; '.join(problems)}")
        shown = completing.document(seen.document())
        return Evidence(None, shown, metrics(recording), tuple(problems), read(recording).min_rtt_s)
    document = completing.document(explained.of_recording(recording, seen).document())
    return Evidence(folder, document, metrics(recording), tuple(problems), read(recording).min_rtt_s)


@contextmanager
def _captured(interface: str, address: str, file: Path) -> Iterator[list[str]]:
    """Capture the headers of TCP to and from an address with tcpdump, if there is one.

    The list that is given has a line for each thing that could not be done.
    """
    problems: list[str] = []
    program = shutil.which("tcpdump", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        problems.append("no capture was made: tcpdump is not installed")
        yield problems
        return
    options = f"-i {interface} -s {_SNAPLEN_BYTES} -U --immediate-mode -Z root -w".split()
    process = guarding.start(
        [program, *options, str(file), "tcp", "and", "host", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + _STARTS_WITHIN_S
        while not file.exists() and not process_groups.has_ended(process.pid) and time.monotonic() < until:
            time.sleep(0.02)
        yield problems
    finally:
        process_groups.signal_group(process.pid, signal.SIGTERM)
        process_groups.end(process.pid, _ENDS_WITHIN_S)
        _, said = process.communicate()
        guarding.forget(process.pid)
        if not file.exists() or file.stat().st_size == 0:
            lines = said.decode(errors="replace").strip().splitlines()
            problems.append(f"no capture: tcpdump printed: {lines[-1] if lines else 'nothing'}")


def of_capture(path: Path) -> Evidence:
    """Explain a capture that was made before. Raises :class:`whydrop.CaptureError`."""
    return Evidence(None, completing.document(_core.explain([str(path)], tables=False).document()), {})


def choose(evidence: Evidence, route: Route) -> Remedy | NoRemedy:
    """The mildest fix that the headline suggests.

    Raises:
        whydrop.act.changes.CannotChangeError: it would have to change a configured queue.
    """
    verdict = evidence.headline
    if verdict is None:
        return NoRemedy("there is no verdict: too few packets were measured")
    if verdict["cause"] in _REASONS:
        return NoRemedy(_REASONS[verdict["cause"]])
    bottleneck = planning.from_verdict(verdict)
    if bottleneck is None:
        return NoRemedy(
            "the cause is not certain enough to choose a fix; `whydrop pace` tests whether pacing helps"
            if verdict["cause"] == "unknown"
            else "the verdict gives no rate to pace at: `whydrop pace` searches for one"
        )
    if verdict["cause"] in ("deep-queue", "shaper"):
        return _against_delay(evidence, bottleneck, route)
    return _paced(evidence, bottleneck, route)


def _paced(evidence: Evidence, bottleneck: Bottleneck, route: Route) -> Remedy:
    pace = planning.pace_for(bottleneck)
    change = route.paced(pace.rate_bps, pace.burst_bytes)
    payload_bps = pace.rate_bps * _PAYLOAD_SHARE
    goodput_bps = evidence.before.get("goodput-up", 0.0) * 1e6
    gains = goodput_bps < _ROOM * payload_bps
    expected = f"{quantities.rate(payload_bps)} of payload" if gains else _expected_goodput(payload_bps, goodput_bps)
    uncertain, words = bottleneck.is_uncertain, change.words
    if uncertain:
        rate = bottleneck.rate_bps
        low, high = ("?" if end is None else quantities.rate(end) for end in (rate.low, rate.high))
        words += f" at first; the rate is uncertain ({low} to {high}), so a search follows"
    return Remedy(
        words,
        f"{expected}, and hardly any retransmission",
        "goodput-up" if gains else "retransmits",
        ("retransmits", "rtt-median") if gains else ("goodput-up", "rtt-median"),
        change=change,
        highest_bps=(bottleneck.rate_bps.high or math.inf) if uncertain else None,
        bottleneck=bottleneck,
    )


def _expected_goodput(paced_bps: float, before_bps: float) -> str:
    """The goodput behind a pace below the rate of the bottleneck, in words: what it costs is said before it is tried.

    >>> _expected_goodput(9.0e6, 9.4e6)
    '4 % less goodput'
    """
    price = 1 - paced_bps / before_bps if before_bps > 0 else 0.0
    return f"{quantities.percent(price)} less goodput" if price >= _LEAST_PRICE else "as much goodput as before"


def _against_delay(evidence: Evidence, bottleneck: Bottleneck, route: Route) -> Remedy:
    waits_s = evidence.before.get("induced-latency", math.nan) / 1e3
    beside = ("goodput-up", "retransmits")
    rate = quantities.rate(bottleneck.rate_bps.value)
    if _stands_here(evidence, route, bottleneck, waits_s):
        change = _managed(route)
        words = f"the queue is in this host; {change.words}"
        return Remedy(
            words,
            f"at most {quantities.duration(_TARGET_S)} of queueing delay instead of {quantities.duration(waits_s)}, at "
            "the same rate",
            "rtt-median",
            # It signals congestion by drops (RFC 7567, section 2); the goodput shows what they cost.
            ("goodput-up",),
            change=change,
        )
    try:
        remedy = _paced(evidence, bottleneck, route)
    except CannotChangeError:
        if "bbr" not in _congestion_controls():
            raise
        return Remedy(
            f"a hop on the path queues at {rate}; whydrop's own flows use BBR, which does not fill the queue",
            f"less than the present {quantities.duration(waits_s)} of queueing delay, at the same rate",
            "rtt-median",
            beside,
            parameters={"congestion_control": "bbr"},
            bottleneck=bottleneck,
            commands=("sysctl -w net.ipv4.tcp_congestion_control=bbr",),
        )
    paced_bps = planning.pace_for(bottleneck).rate_bps * _PAYLOAD_SHARE
    goodput = _expected_goodput(paced_bps, evidence.before.get("goodput-up", 0.0) * 1e6)
    expected = f"hardly any queueing delay instead of {quantities.duration(waits_s)}, and {goodput}"
    return replace(remedy, expected=expected, aim="rtt-median", beside=beside)


def _managed(route: Route) -> Change:
    """FQ-CoDel (RFC 8290), or CAKE where the kernel has only that."""
    try:
        return route.managed("fq_codel")
    except CannotChangeError as reason:
        if "this kernel has no" not in str(reason):
            raise
    return route.managed("cake")


def _congestion_controls() -> list[str]:
    try:
        return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:
        return []


def _stands_here(evidence: Evidence, route: Route, bottleneck: Bottleneck, waits_s: float) -> bool:
    """True if this host's counters under load show most of the queueing delay in its own queue."""
    if evidence.recording is None or not waits_s > 0:
        return False
    counters = Recording.open(evidence.recording).table("counters")
    own = counters.filter(
        (pl.col("source") == "qdisc")
        & (pl.col("counter") == "backlog_bytes")
        & pl.col("object").str.starts_with(f"{route.interface} ")
        & (pl.col("value") > 0)
    )
    if own.is_empty():
        return False
    # A parent counts the packets in its leaves, too.
    largest = own.group_by("object").agg(pl.col("value").median())["value"].max()
    stands_s = float(largest) * 8 / bottleneck.rate_bps.value  # type: ignore[arg-type]
    return stands_s >= _HERE * waits_s


def prove(meter: Measuring, remedy: Remedy, on: Callable[[], None], off: Callable[[], None]) -> proving.Proof:
    """Measure with and without the fix in turns; ``on`` and ``off`` are of the change, if it has one."""
    asked: dict[str, Any] = {}

    def apply() -> None:
        asked.update(remedy.parameters or {})
        on()

    def restore() -> None:
        asked.clear()
        off()

    def run(title: str) -> Path:
        return meter.loaded(title, delay_s=1.0, **asked)

    return proving.prove(run, apply, restore, remedy.aim, remedy.beside)
