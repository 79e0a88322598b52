"""Measuring a path: tests, watches, queues, batches, and the far end."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from whydrop.measure.batch.executing import Summary, Watcher
    from whydrop.measure.batch.preparing import Prepared
    from whydrop.measure.deploying import Deployed
    from whydrop.measure.depth.measurement import FarEnd, Measured
    from whydrop.measure.far_hosts import FarHost
    from whydrop.measure.handle import Run
    from whydrop.measure.plan import Plan, Settings
    from whydrop.measure.responding import Responder
    from whydrop.monitoring.rolling.roll import Roll
    from whydrop.monitoring.sockets.live import LiveWatch
    from whydrop.monitoring.sockets.watch import Watched
    from whydrop.recording.recording import Recording

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def far_hosts(to: Sequence[str], port: int | None, secret: str | None) -> list[FarHost]:
    """The hosts, written as ``host`` or ``host:port``; ``port`` is of those without one of their own."""
    from whydrop.measure import far_hosts
    from whydrop.measure.secret_files import shared_secret

    return far_hosts.far_hosts(to, port, secret or shared_secret())


def _with_arguments_of(
    function: Callable[Arguments, Any],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """Show a function that hands all its arguments on with the signature of the one that takes them."""

    def decorate(handing_on: Callable[..., Result]) -> Callable[Arguments, Result]:
        returned = handing_on.__annotations__["return"]
        signature = inspect.signature(function).replace(return_annotation=returned)
        handing_on.__signature__ = signature  # type: ignore[attr-defined]
        return handing_on

    return decorate


def planned(
    test: str,
    to: str | Sequence[str] = (),
    *,
    duration_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    runner: str | None = None,
    port: int | None = None,
    secret: str | None = None,
    ip_version: Literal[4, 6] | None = None,
    local_address: str | None = None,
    interface: str | None = None,
    access_point: str | None = None,
    title: str = "",
    note: str = "",
    output: str | PathLike[str] = ".",
    fallback: str | PathLike[str] | None = None,
    redact: bool = False,
    counters: bool = True,
) -> tuple[Plan, Settings]:
    """Plan a test; the arguments are those of :func:`start`."""
    from whydrop.measure import local_ends
    from whydrop.measure.far_hosts import cannot_leave
    from whydrop.measure.plan import Settings
    from whydrop.measure.tests import resolve

    far = far_hosts([to] if isinstance(to, str) else to, port, secret)
    if local_address is not None:
        problem = cannot_leave(local_address, [one.address or one.name for one in far], ip_version)
        if problem is not None:
            raise local_ends.CannotLeaveError(problem)
    given = {
        "length_s": duration_s,
        "local_address": local_address,
        "interface": interface,
        "access_point": access_point,
    }
    wanted = {**(parameters or {}), **{name: value for name, value in given.items() if value is not None}}
    plan = resolve(test, [one.name for one in far], wanted, runner, title=title).by_ip_version(ip_version)
    settings = Settings(
        output=Path(output),
        hosts=far,
        title=title,
        note=note,
        redact=redact,
        counters=counters,
        fallback=None if fallback is None else Path(fallback),
    )
    return plan, settings


@_with_arguments_of(planned)
def start(*given: Any, **options: Any) -> Run:
    """Start a test, and return at once; several may run at the same time.

    Args:
        test: its name in the catalogue (:func:`whydrop.tests` lists them), or the path of a test file.
        to: the hosts to test against, as ``host`` or ``host:port``.
        duration_s: how long the load lasts; by default as the test says.
        parameters: of the test, by name (:func:`whydrop.tests` lists them).
        runner: measure with another program and its server at the far end, such as ``iperf3``.
        port: of the responder, for hosts without one of their own.
        secret: that the responders ask for; by default that of ``WHYDROP_SECRET``, or of its file.
        ip_version: use only IPv4 or only IPv6.
        local_address: the address of this host that packets leave from.
        interface: the interface of this host that packets leave by.
        access_point: a router or Wi-Fi access point to probe beside the far end, to show where delay and loss arise;
            ``"auto"`` is the router that packets to the far end go to first.
        title: distinguishes this recording from others.
        note: kept with the recording.
        output: the folder in which the recording gets a folder of its own.
        fallback: the folder for the recording if the disk of ``output`` is full.
        redact: hide names and addresses of hosts in the recording.
        counters: sample the queues, interfaces and processors of this host during the test.

    Returns:
        The run: :meth:`Run.events` follows it, :meth:`Run.stop` ends it, :meth:`Run.recording` waits for it.

    Raises:
        whydrop.Error: there is no such test, its file has mistakes, or hosts and parameters do not fit it. Problems of
            the run itself are raised by :meth:`Run.wait`.

    >>> import whydrop
    >>> run = whydrop.start("rrul", to="server.example", duration_s=10)  # doctest: +SKIP
    >>> for event in run.events():  # doctest: +SKIP
    ...     print(event.state, event.elapsed_s)
    """
    from whydrop.measure.handle import Run

    return Run(*planned(*given, **options))


@_with_arguments_of(planned)
def run(*given: Any, **options: Any) -> Recording:
    """Run a test, and return its recording; the arguments are those of :func:`start`.

    Ctrl-C ends the test: the recording keeps what was measured, and ``KeyboardInterrupt`` is raised.

    Raises:
        whydrop.Error: as of :func:`start`; or a host cannot be reached, or a program is missing.
    """
    started = start(*given, **options)
    try:
        return started.recording()
    except KeyboardInterrupt:
        started.stop()
        started.wait()
        raise


def tests() -> list[dict[str, Any]]:
    """List the tests of the catalogue: name, title and family of each; :func:`describe_test` says more.

    >>> import whydrop
    >>> "rrul" in [test["name"] for test in whydrop.tests()]
    True
    """
    from whydrop.measure.tests.explaining import listing

    return listing()


def describe_test(test: str) -> dict[str, Any]:
    """Describe a test: what it measures, its flows, parameters and plots.

    Args:
        test: its name, or the path of a test file.

    Raises:
        whydrop.Error: there is no such test, or its file has mistakes.

    >>> import whydrop
    >>> whydrop.describe_test("rrul")["name"]
    'rrul'
    """
    from whydrop.measure.tests import load
    from whydrop.measure.tests.explaining import document

    return document(load(test))


def depth(
    host: str,
    *,
    direction: Literal["up", "down"] = "up",
    far_end: FarEnd = "responder",
    max_bytes: float = 200e6,
    max_time_s: float = 60.0,
    max_rate_bps: float | None = None,
    port: int | None = None,
    secret: str | None = None,
    ip_version: Literal[4, 6] | None = None,
    ecn: bool = False,
    trace: bool = False,
    title: str = "",
    output: str | PathLike[str] = ".",
    say: Callable[[str], None] = lambda _: None,
) -> Measured:
    """Measure how much the queue of a path holds, and how fast it drains, by bursts of UDP packets.

    Args:
        host: the far end, as ``host`` or ``host:port``.
        direction: ``"up"``: from here to the host; ``"down"``: from the host to here.
        far_end: the server that runs there. Other servers than the responder measure less exactly, and only ``"up"``.
        max_bytes: the most to send, with all headers.
        max_time_s: nothing is sent after this time.
        max_rate_bps: of each burst; by default as fast as the interface.
        port: of the server.
        secret: that the responder asks for; by default that of ``WHYDROP_SECRET``, or of its file.
        ip_version: use only IPv4 or only IPv6.
        ecn: send packets that a queue may mark instead of dropping them.
        trace: find the hop of the queue, too: by packets that end at each router, behind bursts. Only
            ``"up"``.
        title: distinguishes this recording from others.
        output: the folder in which the recording gets a folder of its own.
        say: called with a line about each step.

    Returns:
        ``found`` is the result, ``status`` says how the measurement ended, ``folder`` is the recording.

    Raises:
        whydrop.Error: the host cannot be reached, or the recording cannot be written.
    """
    from whydrop.measure.depth.measurement import Wanted, measure
    from whydrop.measure.depth.rounds import Caps

    (far,) = far_hosts([host], port, secret)
    wanted = Wanted(
        host=far,
        far_end=far_end,
        direction=direction,
        caps=Caps(max_bytes, max_time_s, max_rate_bps),
        ip_version=ip_version,
        ecn=ecn,
        trace=trace,
        output=Path(output),
        title=title,
    )
    return measure(wanted, say)


def batch_plan(
    *files: str | PathLike[str],
    batches: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
    repetitions: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    share: tuple[int, int] | None = None,
    output: str | PathLike[str] = ".",
    resume: bool = False,
) -> Prepared:
    """List the runs of batch files in their order, with how long they take; run nothing.

    Args:
        files: TOML (docs/batches.md); a later file replaces tables of an earlier one.
        batches: names or patterns; none: all batches that are neither abstract nor disabled.
        overrides: settings or variables of every batch; ``set.NAME`` for a parameter of the tests.
        repetitions: of each run; by default as the file says.
        shuffle: run in random order; by default as the file says.
        seed: of the random order; by default from the contents of the files.
        share: ``(1, 2)``: only the first of two shares of the runs, so that two hosts can run a batch together.
        output: the folder for the recordings and the state.
        resume: those that an earlier call has left to do; its choices hold.

    Raises:
        whydrop.Error: the files have mistakes.
    """
    from whydrop.measure.batch.expanding import Wanted
    from whydrop.measure.batch.preparing import prepare

    choice = Wanted(batches, overrides or {}, repetitions, shuffle, seed, share=share)
    return prepare([Path(file) for file in files], Path(output), choice, resume=resume)


def batch(
    *files: str | PathLike[str],
    batches: Sequence[str] = (),
    overrides: Mapping[str, str] | None = None,
    repetitions: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    share: tuple[int, int] | None = None,
    output: str | PathLike[str] = ".",
    resume: bool = False,
    restart: bool = False,
    stop_on_failure: bool = False,
    watching: Callable[[Prepared], AbstractContextManager[Watcher | None]] = lambda _: nullcontext(),
) -> Summary:
    """Run the batches of files; the arguments are those of :func:`batch_plan`.

    Ctrl-C ends the run at hand and runs its post commands; ``interrupted`` of the result says so.

    Args:
        resume: continue an earlier call: runs that are complete are not run again, and its choices hold.
        restart: begin again, although an earlier call has left runs to do.
        stop_on_failure: stop at the first run that fails.
        watching: opens what hears of each step, given the runs.

    Raises:
        whydrop.Error: the files have mistakes, or an earlier call has left runs to do.
    """
    from whydrop.measure.batch import preparing
    from whydrop.measure.batch.executing import execute
    from whydrop.measure.batch.one_run import run_test

    if not resume and not restart:
        preparing.require_nothing_left(preparing.state_path([Path(file) for file in files], Path(output)))
    prepared = batch_plan(
        *files,
        batches=batches,
        overrides=overrides,
        repetitions=repetitions,
        shuffle=shuffle,
        seed=seed,
        share=share,
        output=output,
        resume=resume,
    )
    with watching(prepared) as watcher:
        return execute(
            prepared.runs,
            prepared.state,
            state_path=prepared.path,
            output=Path(output),
            run_test=run_test,
            watcher=watcher,
            stop_on_failure=stop_on_failure,
        )


def watch(
    *,
    ports: Sequence[int] = (),
    destinations: Sequence[str] = (),
    pids: Sequence[int] = (),
    cgroups: Sequence[str] = (),
    duration_s: float | None = None,
    every_s: float = 0.1,
    counters_every_s: float = 1.0,
    drops: Literal["auto", "program", "drop-monitor", "tracepoint", "off"] = "auto",
    events: bool = False,
    udp: bool = False,
    rotate_s: float | None = None,
    keep: int | None = None,
    title: str = "",
    note: str = "",
    output: str | PathLike[str] = ".",
) -> Watched:
    """Record what the kernel of this host knows of its TCP connections, until Ctrl-C or for a time.

    Args:
        ports: only connections with one of these ports at either end.
        destinations: only connections to these addresses, prefixes (``192.0.2.0/24``) or hosts.
        pids: only connections of these processes and of those that they start.
        cgroups: only connections of these control groups, such as ``system.slice/nginx.service``.
        duration_s: stop after this time; by default at Ctrl-C.
        every_s: from one poll of the sockets to the next, 0.001 s or more.
        counters_every_s: from one reading of the counters of drops and errors to the next; 0: none.
        drops: how the packets that this host drops are watched; ``"auto"``: as well as the kernel allows.
        events: record TCP's events in the kernel, too: each reduction of a window with its cause (root).
        udp: record the queues and drops of UDP sockets, too.
        rotate_s: begin a new recording after this time.
        keep: keep so many recordings, and remove older ones.
        title: distinguishes this recording from others.
        note: kept with the recording.
        output: the folder in which each recording gets a folder of its own.

    Returns:
        ``folders`` are the recordings, in order; ``connections`` were seen; ``warnings`` limit what they show.

    Raises:
        whydrop.Error: the kernel does not report its sockets, a destination or process is unknown, or the recording
            cannot be written.
    """
    from whydrop.monitoring.sockets.selection import wanted
    from whydrop.monitoring.sockets.watch import Settings, Watch

    settings = Settings(
        wanted(ports, destinations, pids, cgroups),
        every_s=every_s,
        output=Path(output),
        title=title,
        note=note,
        datagrams=udp,
        counters_every_s=counters_every_s,
        drops=drops,
        events=events,
        rotate_s=rotate_s,
        keep=keep,
    )
    watching = Watch(settings)
    until_s = float("inf") if duration_s is None else time.monotonic() + duration_s
    return watching.run(lambda: time.monotonic() >= until_s or watching.is_alone())


def watch_live(
    *,
    ports: Sequence[int] = (),
    destinations: Sequence[str] = (),
    pids: Sequence[int] = (),
    cgroups: Sequence[str] = (),
    every_s: float = 1.0,
) -> LiveWatch:
    """Look at the TCP connections of this host as they are now, and record nothing.

    Args:
        ports: only connections with one of these ports at either end.
        destinations: only connections to these addresses, prefixes (``192.0.2.0/24``) or hosts.
        pids: only connections of these processes and of those that they start.
        cgroups: only connections of these control groups, such as ``system.slice/nginx.service``.
        every_s: from one state to the next.

    Returns:
        An iterator over states, without an end: close it, or use it in a ``with``. The ``connections`` of a state are a
        frame with the limit, the rates, the round-trip time and the congestion window of each.

    Raises:
        whydrop.Error: the kernel does not report its sockets, or a destination or process is unknown.
    """
    from whydrop.monitoring.sockets.live import LiveWatch
    from whydrop.monitoring.sockets.selection import wanted

    return LiveWatch(wanted(ports, destinations, pids, cgroups), every_s)


def roll(
    interface: str = "any",
    *,
    filter: str = "",
    seconds: float = 30.0,
    max_bytes: int = 256_000_000,
    snap_bytes: int = 256,
    loss_packets: int | None = None,
    delay_s: float | None = None,
    limits: Sequence[str] = (),
    after_s: float = 3.0,
    hold_off_s: float = 60.0,
    max_kept: int = 20,
    max_kept_bytes: int = 2_000_000_000,
    output: str | PathLike[str] = ".",
    on_event: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Roll:
    """Hold the packets of the last seconds on disk, and keep and explain them when a trigger fires; return at once.

    It needs Linux and the capability CAP_NET_RAW. The triggers look at the TCP connections of this host.

    Args:
        interface: its name, or ``"any"``.
        filter: only these packets: ``host ADDRESS``, ``port NUMBER``, ``tcp``, ``udp``, ``icmp``, ``ip``, ``ip6``,
            with ``and``, ``or``, ``not`` and parentheses.
        seconds: to hold.
        max_bytes: to hold; the older packets go first.
        snap_bytes: of each packet, from its begin.
        loss_packets: trigger: a connection retransmits so many segments within one second.
        delay_s: trigger: the smoothed round-trip time of a connection in use.
        limits: trigger: what limits a connection, in the words of ``whydrop watch``, or ``"network"``.
        after_s: packets are captured for so long after a trigger, then they are kept.
        hold_off_s: further triggers keep nothing for so long.
        max_kept: kept captures in the folder; further triggers then keep nothing.
        max_kept_bytes: of them.
        output: the folder of kept captures.
        on_event: called from threads, with ``kept`` (a capture, when it is kept and when it is explained) or
            ``message`` (a sentence).

    Returns:
        :meth:`Roll.keep` keeps a capture by hand, :meth:`Roll.status` has the counts, :attr:`Roll.kept` the captures
        with their verdicts, :meth:`Roll.stop` ends it.

    Raises:
        whydrop.Error: packets cannot be captured (the message says what to type), or a setting is not valid.

    >>> import whydrop
    >>> with whydrop.roll("eth0", loss_packets=3, delay_s=0.2) as rolling:  # doctest: +SKIP
    ...     rolling.wait(3600)
    """
    from whydrop.monitoring.rolling.roll import Roll, Settings
    from whydrop.monitoring.rolling.triggers import Triggers

    settings = Settings(
        interface, filter, seconds=seconds, most_bytes=max_bytes, snap_bytes=snap_bytes, after_s=after_s,
        hold_off_s=hold_off_s, most_kept=max_kept, most_kept_bytes=max_kept_bytes, output=Path(output),
        triggers=Triggers(loss_packets, delay_s, tuple(limits)),
    )  # fmt: skip
    return Roll(settings, on_event)


def responder(
    *,
    secret: str | None = None,
    secret_file: str | PathLike[str] | None = None,
    open: bool = False,
    addresses: Sequence[str] = (),
    port: int = 17370,
    max_sessions: int | None = None,
    max_duration_s: float | None = None,
    max_rate_bps: float | None = None,
    describe_host: bool = True,
    metrics: str | PathLike[str] | None = None,
) -> Responder:
    """Answer the tests of other hosts, in a thread of its own, until it is closed.

    Args:
        secret: that clients must know, or lines with a name and a secret for each client.
        secret_file: with them, read again when it changes; without both, that of ``WHYDROP_SECRET_FILE``, or the
            variable ``WHYDROP_SECRET``.
        open: serve everyone, within hard limits.
        addresses: of this host, to listen at; none: all.
        port: of TCP and of UDP; 0: any that is free, :attr:`Responder.port` says which.
        max_sessions: most tests at the same time; by default 32, open 8.
        max_duration_s: of one test; by default 4 h, open 10 min.
        max_rate_bps: sent and received in one test; by default any, open 1 Gbit/s.
        describe_host: answer clients that ask for the metadata of this host.
        metrics: a file to replace every 10 s, with counts in the text format of Prometheus.

    Raises:
        whydrop.Error: it cannot listen there, a secret is weak, or there is none and it is not open.
        OSError: the file cannot be read.

    >>> import whydrop
    >>> with whydrop.responder(open=True, addresses=["127.0.0.1"], port=0) as far:
    ...     far.port > 0
    True
    """
    from whydrop import _core
    from whydrop.measure.responding import NoSecretError, Responder
    from whydrop.measure.secret_files import keyring

    secrets = None
    if not open:
        file = None if secret_file is None else Path(secret_file)
        secrets = keyring(file) if secret is None else _core.Keyring(secret)
        if secrets is None:
            raise NoSecretError("give a secret (or set WHYDROP_SECRET), or open=True to serve everyone")
    return Responder(
        keyring=secrets,
        addresses=addresses,
        port=port,
        max_sessions=max_sessions,
        max_duration_s=max_duration_s,
        max_rate_bps=max_rate_bps,
        describe_host=describe_host,
        metrics=metrics,
    )


def deploy(
    host: str,
    *,
    secret: str | None = None,
    address: str | None = None,
    port: int = 17370,
    program: str | PathLike[str] | None = None,
    ssh: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Deployed:
    """Copy the program ``whydrop-responder`` to a host by ssh, and run it there until it is stopped.

    Its file is removed once it runs, and it ends with the connection of ssh, so that nothing is left on the host.

    Args:
        host: argument of ssh, such as ``root@server.example``, or an alias of its configuration.
        secret: that clients must know; by default a new one.
        address: of the host, for tests; by default the host name that ssh connects to.
        port: of TCP and of UDP.
        program: to copy; by default the one that is installed here.
        ssh: program to connect with, and its options, which take precedence over whydrop's time-outs.
        progress: called with the bytes that are copied, and the bytes in all.

    Raises:
        whydrop.Error: the responder could not be started there; the message says why.

    Example::

        with whydrop.deploy("root@server.example") as far_end:
            whydrop.run("rrul", to=far_end.place, secret=far_end.secret)
    """
    from whydrop.measure import deploying

    return deploying.deploy(
        host,
        secret=secret or new_secret(),
        ssh=ssh or deploying.SSH,
        program=None if program is None else Path(program),
        address=address,
        port=port,
        progress=progress,
    )


def new_secret(
    path: str | PathLike[str] | None = None,
    *,
    name: str | None = None,
    add_to: str | PathLike[str] | None = None,
) -> str:
    """Make a random secret for a responder and its clients, or for one client with a name.

    Args:
        path: of a new file to write it into, with mode 600.
        name: of the client, put before the secret.
        add_to: the file of the responder, to which the name and the secret are added.

    Raises:
        OSError: the file exists, or cannot be written.
        whydrop.Error: the name is invalid, or in the file of the responder already.

    >>> import whydrop
    >>> whydrop.new_secret().startswith("whydrop-")
    True
    """
    from whydrop import _core
    from whydrop.errors import Mistake
    from whydrop.measure.secret_files import add_secret, write_secret

    try:
        secret = _core.new_secret(name)
    except _core.TrafficError as reason:
        raise Mistake(str(reason)) from None
    if path is not None:
        write_secret(Path(path), secret)
    if add_to is not None:
        try:
            add_secret(Path(add_to), secret)
        except BaseException:
            if path is not None:
                Path(path).unlink(missing_ok=True)
            raise
    return secret
