"""Changes of this host's queues: pacing, fixes, and what becomes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from whydrop.act.changes import Change
    from whydrop.act.fixing import Evidence, Fixed, NoRemedy, Remedy
    from whydrop.act.meter import Measuring
    from whydrop.act.pacing import Paced, Plan, Route
    from whydrop.act.planning import Bottleneck
    from whydrop.act.proving import Proof
    from whydrop.act.sizes import Sizes
    from whydrop.act.state import Book, Entry

# The headers of usual packets take 4 % of what large ones carry, and two runs differ by 5 %.
_AS_GOOD = 0.9

Say = Callable[[str], None]


def _silent(_: str) -> None:
    pass


def pace(
    host: str,
    *,
    source: str | PathLike[str] | None = None,
    rate_bps: float | None = None,
    burst_bytes: float | None = None,
    mtu_bytes: float | None = None,
    highest_bps: float | None = None,
    for_s: float = 600.0,
    keep: bool = False,
    prove: bool = True,
    dry_run: bool = False,
    replace_root: bool = False,
    duration_s: float = 4.0,
    far_end: str = "responder",
    connections: bool = False,
    port: int | None = None,
    secret: str | None = None,
    ip_version: Literal[4, 6] | None = None,
    output: str | PathLike[str] | None = None,
    planned: Callable[[Plan, Change], None] = lambda *_: None,
    say: Say = _silent,
) -> Paced:
    """Find the best pacing rate to one host, apply it to that host alone, and prove that it helps.

    Where packets to it are larger than usual (jumbo frames), it also tries usual ones, and may keep them instead.

    Args:
        host: the far end, as ``host`` or ``host:port``.
        source: a capture, or the JSON of ``whydrop depth``, that says where the bottleneck is; by default it is
            searched for.
        rate_bps: pace at this rate, counted as Ethernet frames, and search for none.
        burst_bytes: what may leave at once; by default as little as the rate needs.
        mtu_bytes: do not pace, but keep packets to the host to this size, and search for nothing.
        highest_bps: search up to this rate; by default up to that of the interface.
        for_s: the pacing is reverted after this time, unless :func:`pace_keep` is called.
        keep: keep it without a limit of time.
        prove: measure with and without it in turns, and revert it if it is not better by more than the noise.
        dry_run: change nothing. Needs no privileges.
        replace_root: replace a root queue of the interface that was configured by hand.
        duration_s: of one measurement, at least; longer where the round-trip time is long.
        far_end: what takes the data there: ``responder`` (``whydrop responder``), ``iperf3``, ``nuttcp`` or ``ssh``
            (each with ``:PORT``), ``ssh:USER@HOST``, or the URL of an upload. Without a responder, this host's kernel
            counts what is acknowledged.
        connections: send nothing; judge by the existing connections to the host, 30 s each time at least.
        port: of the server there.
        secret: that the responder asks for; by default that of ``WHYDROP_SECRET``, or of its file.
        ip_version: use only IPv4 or only IPv6.
        output: a folder that keeps the recordings of all measurements.
        planned: called with the plan and the change before the change is proved.
        say: called with a line about each step.

    Raises:
        whydrop.Error: this process may not change queues (``CAP_NET_ADMIN``), the host cannot be measured, or the
            interface has queues that must not be replaced.
    """
    from whydrop.act import pacing, reverting, segments
    from whydrop.act.applying import leased
    from whydrop.act.changes import CannotChangeError
    from whydrop.act.meter import read
    from whydrop.recording.recording import Recording

    recover(say)
    if not dry_run and not reverting.allowed():
        raise CannotChangeError(
            "changing queues needs CAP_NET_ADMIN: run as root, or only print the commands (--dry-run, dry_run=True)"
        )
    with ExitStack() as opened:
        meter = opened.enter_context(
            _meter(host, duration_s, far_end, connections, port, secret, ip_version, output, say)
        )
        route = pacing.route_to(meter.host.address or host, ip_version, replace_root=replace_root)
        known, up_to_bps = _known(source, rate_bps, burst_bytes, say)
        if mtu_bytes is not None:
            known = pacing.kept_to(round(mtu_bytes), route)
        lease = sizes = None
        if known is None and not dry_run:
            sizes = segments.measured(meter, route, host)
            # The search varies the rate.
            lease = opened.enter_context(leased(route.paced(route.speed_bps), host))
        plan = known or pacing.searched(meter, route, lease, highest_bps=highest_bps or up_to_bps)
        if dry_run and known is None and route.mtu_bytes > pacing.USUAL_MTU_BYTES:
            why = f"{plan.why}; packets of {pacing.USUAL_MTU_BYTES} bytes are tried without --dry-run only"
            plan = dataclasses.replace(plan, why=why)
        if sizes is not None and lease is not None and _by_size(plan, sizes):
            lease.end()
            lease = None
            plan = dataclasses.replace(plan, why=sizes.words, mtu_bytes=sizes.usual.mtu_bytes)
        change = pacing.change_of(plan, route)
        planned(plan, change)
        if dry_run or not plan.helps:
            return pacing.Paced(plan, change, None, "planned" if plan.helps else "does not help", meter.judged(), sizes)
        if lease is None:
            lease = opened.enter_context(leased(change, host))
        if plan.mtu_bytes is None:
            lease.use(change)
        else:
            lease.on()
        proof = None
        if prove:
            lease.off()
            proof = pacing.proved(meter, lease)
            first = read(Recording.open(proof.recordings[0]))
            plan = dataclasses.replace(plan, round_trip_s=first.min_rtt_s, mss_bytes=first.mss_bytes)
        if proof is not None and not proof.holds:
            lease.end()
            return pacing.Paced(plan, change, proof, "not better", meter.judged(), sizes)
        lease.leave("kept" if keep else "until", for_s)
        return pacing.Paced(plan, change, proof, "applied" if proof is None else "better", meter.judged(), sizes)


def _by_size(plan: Plan, sizes: Sizes) -> bool:
    """True if smaller packets bring as much as pacing large ones: a rate is out of date when the path changes."""
    paced_bps = plan.search.best.goodput_bps if plan.search is not None and plan.search.best is not None else 0.0
    return sizes.prefers_usual and sizes.usual.goodput_bps >= paced_bps * _AS_GOOD


def _known(
    source: str | PathLike[str] | None, rate_bps: float | None, burst_bytes: float | None, say: Say
) -> tuple[Plan | None, float | None]:
    """The plan where the rate is known; where its interval is wide, ``None`` and the rate to search up to."""
    from whydrop.act import pacing, planning
    from whydrop.act.changes import Pace

    if rate_bps is not None:
        given = planning.Bottleneck("unknown", planning.Estimate(rate_bps), found="the rate was given")
        burst = round(burst_bytes) if burst_bytes else planning.burst_for(rate_bps)
        return pacing.known(given, Pace(rate_bps, burst)), None
    if source is None:
        return None, None
    bottleneck = _bottleneck(Path(source))
    if bottleneck.is_uncertain:
        say("the interval of the rate is wide: searching for the rate")
        return None, bottleneck.rate_bps.high
    return pacing.known(bottleneck, planning.pace_for(bottleneck)), None


def _bottleneck(source: Path) -> Bottleneck:
    from whydrop.act import planning
    from whydrop.api.explaining import explain

    with source.open("rb") as file:
        if file.read(64).lstrip().startswith(b"{"):
            return planning.from_depth(source.read_text(errors="replace"), str(source))
    verdicts = explain(source, tables=False).document["verdicts"]
    found = next(filter(None, map(planning.from_verdict, verdicts)), None)
    if found is None:
        headline = verdicts[0]["sentence"] if verdicts else "no verdict"
        raise planning.NoPlanError(f"{source}: no verdict gives a rate to pace at ({headline})")
    return found


def fix(
    host: str,
    *,
    apply: bool = False,
    source: str | PathLike[str] | None = None,
    for_s: float = 600.0,
    keep: bool = False,
    flows: int = 1,
    duration_s: float = 6.0,
    replace_root: bool = False,
    flow_control: bool = False,
    far_end: str = "responder",
    connections: bool = False,
    port: int | None = None,
    secret: str | None = None,
    ip_version: Literal[4, 6] | None = None,
    output: str | PathLike[str] | None = None,
    chosen: Callable[[Evidence, Remedy | NoRemedy], None] = lambda *_: None,
    say: Say = _silent,
) -> Fixed:
    """Measure why packets to a host are lost or delayed, and try the mildest fix that this host can make.

    Args:
        host: the far end, as ``host`` or ``host:port``.
        apply: try the fix; it stays if it is better by more than the noise. Without it nothing is changed.
        source: explain this capture instead of measuring.
        for_s: the fix is reverted after this time, unless :func:`pace_keep` is called.
        keep: keep it without a limit of time.
        flows: TCP flows that make the load.
        duration_s: of the load of one measurement.
        replace_root: replace a root queue of the interface that was configured by hand.
        flow_control: try flow control of this host's own interface (pause frames) instead of the mildest fix, if the
            measurements indicate it.
        far_end: what takes the data there: ``responder`` (``whydrop responder``), ``iperf3``, ``nuttcp`` or ``ssh``
            (each with ``:PORT``), ``ssh:USER@HOST``, or the URL of an upload. Without a responder, this host's kernel
            counts what is acknowledged.
        connections: send nothing; judge by the existing connections to the host, 30 s each time at least.
        port: of the server there.
        secret: that the responder asks for; by default that of ``WHYDROP_SECRET``, or of its file.
        ip_version: use only IPv4 or only IPv6.
        output: a folder that keeps the recordings and the capture.
        chosen: called with the evidence and the fix before the fix is tried.
        say: called with a line about each step.

    Raises:
        whydrop.Error: the host cannot be measured, or the fix cannot be applied.
    """
    from whydrop.act import far_ends, fixing, pacing
    from whydrop.act.meter import Meter

    recover(say)
    with _meter(host, duration_s, far_end, connections, port, secret, ip_version, output, say) as meter:
        if isinstance(meter, Meter) and meter.far_end.kind == "responder":
            meter.flows = flows
        elif flows > 1:
            raise far_ends.FarEndError(f"--flows {flows}: several flows need `whydrop responder` at the far end")
        route = pacing.route_to(meter.host.address or host, ip_version, replace_root=replace_root)
        evidence = fixing.measured(meter, route) if source is None else fixing.of_capture(Path(source))
        remedy = _remedy(evidence, route, flow_control=flow_control)
        chosen(evidence, remedy)
        if isinstance(remedy, fixing.NoRemedy) or not apply:
            return fixing.Fixed(evidence, remedy, None)
        if remedy.change is None and not meter.sends:
            return fixing.Fixed(evidence, fixing.NoRemedy("the fix is of whydrop's own flows, and none are sent"), None)
        if remedy.change is None:
            return fixing.Fixed(
                evidence, remedy, fixing.prove(meter, remedy, lambda: None, lambda: None), meter.judged()
            )
        tried = _tried(meter, route, remedy, host, "kept" if keep else "until", for_s)
        return fixing.Fixed(evidence, *tried, meter.judged())


def _remedy(evidence: Evidence, route: Route, *, flow_control: bool) -> Remedy | NoRemedy:
    from whydrop.act import fixing, pause_remedy

    if flow_control:
        return pause_remedy.choose(evidence, route)
    found = fixing.choose(evidence, route)
    if isinstance(found, fixing.NoRemedy):
        return found
    return dataclasses.replace(found, others=pause_remedy.beside(evidence, route))


def _tried(
    meter: Measuring,
    route: Route,
    remedy: Remedy,
    host: str,
    phase: Literal["kept", "until"],
    for_s: float,
) -> tuple[Remedy, Proof]:
    """The fix as it was proved: with the rate that was found, where it was searched for."""
    from whydrop.act import fixing, pacing
    from whydrop.act.applying import leased

    assert remedy.change is not None
    with leased(remedy.change, host) as lease:
        if remedy.highest_bps is not None:
            highest_bps = min(remedy.highest_bps, route.speed_bps)
            plan = pacing.searched(meter, route, lease, highest_bps=highest_bps)
            change = route.paced(plan.rate_bps, plan.burst_bytes)
            lease.use(change)
            lease.off()
            remedy = dataclasses.replace(remedy, change=change, words=f"{change.words}; {plan.why}")
        proof = fixing.prove(meter, remedy, lease.on, lease.off)
        if lease.reported:
            remedy = dataclasses.replace(remedy, words=f"{remedy.words}; {lease.reported}")
        if proof.holds:
            lease.leave(phase, for_s)
    return remedy, proof


@contextmanager
def _meter(
    host: str,
    duration_s: float,
    far_end: str,
    connections: bool,
    port: int | None,
    secret: str | None,
    ip_version: int | None,
    output: str | PathLike[str] | None,
    say: Say,
) -> Iterator[Measuring]:
    """The meter of a host; its recordings are removed at the end unless a folder is named."""
    from whydrop.act import far_ends
    from whydrop.act.existing import ConnectionsMeter
    from whydrop.act.meter import Meter
    from whydrop.api.measuring import far_hosts
    from whydrop.runtime.temporary_folders import TemporaryFolder

    (far,) = far_hosts([host], port, secret)
    with ExitStack() as opened:
        folder = Path(output or opened.enter_context(TemporaryFolder()))
        folder.mkdir(parents=True, exist_ok=True)
        if connections and far_end != "responder":
            raise far_ends.FarEndError(f"--connections sends nothing: leave out --far-end {far_end}")
        if connections:
            yield ConnectionsMeter(far, folder, duration_s, say)
            return
        yield Meter(
            far, folder, duration_s, ip_version, say=say, far_end=far_ends.far_end(far_end), keeps=output is not None
        )


def recover(say: Say = _silent) -> None:
    """Revert changes of earlier runs that are due, if this process may, and say so."""
    from whydrop.act import reverting, state

    if reverting.allowed():
        with state.opened() as book:
            for words in reverting.recover(book):
                say(f"{words} (left by an earlier run)")


def pace_status() -> list[dict[str, Any]]:
    """List the changes of this host's queues that :func:`pace` and :func:`fix` have made and that are in place."""
    from whydrop.act import state

    with state.opened() as book:
        return [
            {
                "interface": one.interface,
                "host": one.host,
                "words": one.words,
                "phase": one.phase,
                "left_s": None if one.phase == "kept" else one.left_s(),
                "commands": one.commands,
                "process": one.owner[0],
            }
            for one in book.ours()
        ]


def pace_keep() -> list[str]:
    """Keep the changes that are in place without a limit of time; return what they are."""

    def keep(book: Book, entry: Entry) -> None:
        book.update(entry, phase="kept")

    return _each(keep)


def pace_revert() -> list[str]:
    """Revert the changes that are in place; return what they were, and of which the interface has gone.

    Raises:
        whydrop.Error: the queues cannot be restored, such as after another program changed them.
    """
    from whydrop.act import reverting

    return _each(lambda book, entry: None if reverting.revert(book, entry) else reverting.gone(entry))


def pace_forget() -> list[str]:
    """Forget the changes that cannot be reverted; return what they were. The queues stay as they are."""
    return _each(lambda book, entry: book.drop(entry))


def _each(do: Callable[[Book, Entry], str | None]) -> list[str]:
    """Do something with every change that is in place; return what they are, or the words that it gave instead."""
    from whydrop.act import state

    done: list[str] = []
    with state.opened() as book:
        for entry in book.ours():
            try:
                words = do(book, entry)
            except Exception as reason:
                for one in done:
                    reason.add_note(f"done before: {one}")
                raise
            done.append(words or entry.words)
    return done
