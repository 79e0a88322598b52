"""Hosts as network namespaces, joined by veth pairs, with a route from each to each.

Nothing is visible outside the namespaces: both ends of each pair are created inside them. The names of the namespaces
carry the process that owns them, so that what a crash left behind is recognised and removed by the next run.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PREFIX = "whydrop-lab"
"""The beginning of our namespaces' names."""

# Packets as a line carries them: no part of the stack may pass on what is bigger than the MTU, or queues and policers
# drop 64 KiB at a time and captures show what never was on a wire.
OFFLOADS = "tso off gso off gro off sg off tx off rx off"

CONGESTION_CONTROL = "cubic"
ALLOWED_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")

# TCP as this repository's tests want it, whatever the machine's defaults are: large buffers so that the network and
# not the host is the limit (16 MB covers 100 Mbit/s at 1 s), CUBIC, and nothing remembered of earlier connections.
SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv6.conf.all.accept_dad": "0",
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv4.tcp_congestion_control": CONGESTION_CONTROL,
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_rmem": "4096 131072 16777216",
    "net.ipv4.tcp_wmem": "4096 131072 16777216",
    "net.ipv4.ping_group_range": "0 2147483647",
}

_numbers = itertools.count(1)

HANGS_S = 300.0
"""Longer than anything takes that the lab waits for, also on a busy machine: it only bounds a hang."""


class LabError(Exception):
    """A part of the lab could not be made or did not do what was asked; says which command and what it answered."""


def command(
    arguments: Sequence[str | os.PathLike[str]], *, input: str | None = None, timeout_s: float = HANGS_S
) -> str:
    """Run a program of the lab itself; what it printed. Raises :class:`LabError` with its complaint."""
    words = [os.fspath(word) for word in arguments]
    try:
        done = subprocess.run(words, input=input, capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError as missing:
        raise LabError(f"{words[0]} is not installed") from missing
    except subprocess.TimeoutExpired as late:
        raise LabError(f"{shlex.join(words)}: no answer within {timeout_s:g} s") from late
    if done.returncode != 0:
        given = f" given:\n{input}" if input else ""
        raise LabError(f"{shlex.join(words)} failed ({done.returncode}): {done.stderr.strip()}{given}")
    return done.stdout


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One at a time: `ip` lets one fail of two that make the first namespaces, and what is open to all is one list."""
    with Path(tempfile.gettempdir(), f"{PREFIX}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


class Process:
    """A program that runs in a host; what it prints goes into a file, so that it never waits for its reader."""

    def __init__(self, words: list[str], log: Path, **options: Any) -> None:
        self.words = words
        self.log = log
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )

    @property
    def pid(self) -> int:
        """The number of the program itself (``ip netns exec`` becomes it)."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, or ``None`` while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """The output so far, on stdout and stderr."""
        return self.log.read_text(errors="replace")

    def wait(self, timeout_s: float = HANGS_S) -> str:
        """Wait for its end, which must be a good one; what it printed."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LabError(f"{shlex.join(self.words)} did not end in {timeout_s:g} s:\n{self.output()}") from None
        if status != 0:
            raise LabError(f"{shlex.join(self.words)} failed ({status}):\n{self.output()}")
        return self.output()

    def wait_for(self, text: str, timeout_s: float = HANGS_S) -> None:
        """Wait until it has printed ``text``."""
        deadline = time.monotonic() + timeout_s
        while True:
            # Asked before its output is read: it may print the text and end between the two.
            over = self.returncode is not None or time.monotonic() > deadline
            if text in self.output():
                return
            if over:
                raise LabError(f"{shlex.join(self.words)} did not print {text!r}, but:\n{self.output()}")
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def stop(self, timeout_s: float = 10) -> str:
        """End it by SIGTERM, or by SIGKILL if that does not help; what it printed."""
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.output()

    def kill(self) -> None:
        """End it, and what it started, without a chance to tidy up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(eq=False)
class Interface:
    """One end of a link.

    Attributes:
        host: where it is.
        name: its name there.
        address: its IPv4 address.
        address6: its IPv6 address.
        hardware_address: its address on the link.
    """

    host: Host
    name: str
    address: str
    address6: str
    hardware_address: str

    def tc(self, text: str) -> str:
        """Run ``tc`` on it: ``interface.tc("qdisc replace dev {} root pfifo limit 10")``; ``{}`` is its name."""
        return self.host.run(["tc", *shlex.split(text.format(self.name))]).stdout

    def down(self) -> None:
        """Take the link away, as a pulled cable does."""
        command(["ip", "-n", self.host.namespace, "link", "set", self.name, "down"])

    def up(self) -> None:
        """Bring the link back, with the routes that went with it."""
        command(["ip", "-n", self.host.namespace, "link", "set", self.name, "up"])
        # Going down, an interface loses its IPv6 addresses, its neighbours and all its routes.
        again = f"address replace {self.address6}/126 dev {self.name} nodad\n"
        again += self.host.neighbours() + self.host.routes()
        command(["ip", "-n", self.host.namespace, "-batch", "-"], input=again)

    def qdiscs(self) -> list[dict[str, Any]]:
        """The queueing disciplines and their counters: ``kind``, ``packets``, ``drops``, ``backlog``, ..."""
        shown = command(["tc", "-n", self.host.namespace, "-s", "-j", "qdisc", "show", "dev", self.name])
        found: list[dict[str, Any]] = json.loads(shown)
        return found

    def dropped(self) -> int:
        """Packets that its queueing disciplines have dropped.

        A parent counts the drops of its children too, so the largest count is the sum.
        """
        return max((int(qdisc.get("drops", 0)) for qdisc in self.qdiscs()), default=0)

    @contextlib.contextmanager
    def captured(self, file: Path, snaplen: int = 96, expression: str = "") -> Iterator[Path]:
        """Capture with tcpdump while the block runs.

        Arriving packets are seen before a policer at ingress, leaving ones after the queue.
        """
        words = ["tcpdump", "-i", self.name, "-s", str(snaplen), "-U", "-Z", "root", "-w", str(file)]
        tcpdump = self.host.popen(["tcpdump", "--immediate-mode", *words[1:], *shlex.split(expression)])
        tcpdump.wait_for("listening on")
        try:
            yield file
        finally:
            tcpdump.stop()


@dataclass(eq=False)
class Host:
    """A network namespace.

    Attributes:
        name: its name in this network.
        namespace: its name on this machine, as ``ip netns list`` shows it.
        network: the network that it belongs to.
        interfaces: its ends of links, by the name of the host at the other end.
    """

    name: str
    namespace: str
    network: Network
    interfaces: dict[str, Interface] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The IPv4 address by which the others reach it (that of its first interface)."""
        return next(iter(self.interfaces.values())).address

    @property
    def address6(self) -> str:
        """The IPv6 address by which the others reach it (that of its first interface)."""
        return next(iter(self.interfaces.values())).address6

    def words(self, arguments: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command that runs ``arguments`` here."""
        return ["ip", "netns", "exec", self.namespace, *(os.fspath(word) for word in arguments)]

    def run(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        timeout_s: float = HANGS_S,
        check: bool = True,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program here and wait for it. Raises :class:`LabError` if it fails, unless ``check`` is false."""
        words = self.words(arguments)
        settings: dict[str, Any] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options}
        try:
            done = subprocess.run(words, timeout=timeout_s, check=False, **settings)
        except subprocess.TimeoutExpired as late:
            raise LabError(f"in {self.name}: {shlex.join(words[4:])} did not end in {timeout_s:g} s") from late
        if check and done.returncode != 0:
            said = (done.stderr or "") + (done.stdout or "")
            raise LabError(f"in {self.name}: {shlex.join(words[4:])} failed ({done.returncode}):\n{said.strip()}")
        return done

    def popen(self, arguments: Sequence[str | os.PathLike[str]], **options: Any) -> Process:
        """Start a program here. It ends with the network at the latest."""
        log = self.network.folder / f"{self.name}-{next(_numbers)}-{Path(arguments[0]).name}.log"
        process = Process(self.words(arguments), log, **options)
        self.network.processes.append(process)
        return process

    def wait_listening(self, port: int, *, udp: bool = False, timeout_s: float = HANGS_S) -> None:
        """Wait until something here listens on a port."""
        kind = "-uan" if udp else "-ltn"
        deadline = time.monotonic() + timeout_s
        while not self.run(["ss", "-H", kind, "sport", "=", f":{port}"]).stdout.strip():
            if time.monotonic() > deadline:
                raise LabError(f"in {self.name}: nothing listens on port {port} after {timeout_s:g} s")
            time.sleep(0.02)

    def sysctl(self, name: str, value: str) -> None:
        """Set a kernel parameter of this namespace."""
        self.run(["sysctl", "-q", "-w", f"{name}={value}"])

    def neighbours(self) -> str:
        """Lines for ``ip -batch`` that name the hosts at the other ends of the links.

        Else the first packets over a long hop would wait for ARP and neighbour discovery to go there and back.
        """
        return "".join(
            f"neighbour replace {address} lladdr {far.hardware_address} dev {near.name} nud permanent\n"
            for near, far in self.network.links_of(self)
            for address in (far.address, far.address6)
        )

    def routes(self) -> str:
        """Lines for ``ip -batch`` that make all other hosts reachable."""
        return "".join(
            f"route replace {prefix} via {via}\n" for prefix, via in sorted(self.network.next_hops(self).items())
        )


@dataclass(frozen=True)
class _Link:
    ends: tuple[Interface, Interface]
    prefixes: tuple[str, str]
    """Of IPv4 and of IPv6."""

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.ends[0].host, self.ends[1].host


class Network:
    """Hosts and links between them; a context manager that takes everything away again.

    >>> with Network() as network:                         # doctest: +SKIP
    ...     a, b = network.host("a"), network.host("b")
    ...     network.link(a, b)
    ...     network.start()
    ...     a.run(["ping", "-c", "1", b.address])
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own_folder = None if folder else tempfile.TemporaryDirectory(prefix=PREFIX + "-")
        self.folder = folder or Path(self._own_folder.name)  # type: ignore[union-attr]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.hosts: dict[str, Host] = {}
        self.processes: list[Process] = []
        self._links: list[_Link] = []
        self._name = f"{PREFIX}-{_owner(os.getpid())}-{next(_numbers)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def host(self, name: str) -> Host:
        """Add a host."""
        host = Host(name, f"{self._name}-{name}", self)
        with _alone():
            command(["ip", "netns", "add", host.namespace])
        self.hosts[name] = host
        return host

    def link(self, one: Host, other: Host) -> tuple[Interface, Interface]:
        """Join two hosts; the interfaces, first that of ``one``."""
        number = len(self._links)
        if number >= 2**14:
            raise LabError("a network has at most 16384 links")
        # 10.x.y.z/30 and fd77::N:0/126; the hosts are 1 and 2.
        base = number * 4
        at = [f"10.{base >> 16 & 255}.{base >> 8 & 255}." + str((base & 255) + end) for end in (0, 1, 2)]
        at6 = [f"fd77::{number + 1:x}:{end}" for end in (0, 1, 2)]
        hardware = [f"02:00:00:{number >> 8:02x}:{number & 255:02x}:{end:02x}" for end in (0, 1, 2)]
        ends = (
            Interface(one, f"to-{other.name}"[:15], at[1], at6[1], hardware[1]),
            Interface(other, f"to-{one.name}"[:15], at[2], at6[2], hardware[2]),
        )
        one.interfaces[other.name], other.interfaces[one.name] = ends
        self._links.append(_Link(ends, (f"{at[0]}/30", f"{at6[0]}/126")))
        return ends

    def start(self) -> None:
        """Make the links, addresses and routes."""
        pairs = "".join(
            f"link add {a.name} address {a.hardware_address} netns {a.host.namespace} type veth "
            f"peer name {b.name} address {b.hardware_address} netns {b.host.namespace}\n"
            for a, b in (link.ends for link in self._links)
        )
        # Before the links: an interface takes over what is the default when it is made.
        with _alone(), _allowed(CONGESTION_CONTROL):
            for host in self.hosts.values():
                host.run(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in SYSCTLS.items())])
        command(["ip", "-batch", "-"], input=pairs)
        for host in self.hosts.values():
            self._start_host(host)
        # Only when every interface is up do all the next hops exist.
        for host in self.hosts.values():
            command(["ip", "-n", host.namespace, "-batch", "-"], input=host.neighbours() + host.routes())

    def _start_host(self, host: Host) -> None:
        offloads_off = (f"ethtool -K {interface.name} {OFFLOADS} >&2" for interface in host.interfaces.values())
        host.run(["sh", "-c", " && ".join(offloads_off) or "true"])
        lines = "link set lo up\n"
        for interface in host.interfaces.values():
            # One segment at a time from TCP on: ethtool alone only splits what has passed the sender's own queue.
            lines += f"link set {interface.name} gso_max_segs 1\nlink set {interface.name} up\n"
            lines += f"address add {interface.address}/30 dev {interface.name}\n"
            lines += f"address add {interface.address6}/126 dev {interface.name} nodad\n"
        command(["ip", "-n", host.namespace, "-batch", "-"], input=lines)

    def links_of(self, host: Host) -> Iterator[tuple[Interface, Interface]]:
        """The links of a host: its own end and the other."""
        for link in self._links:
            for near, far in (link.ends, link.ends[::-1]):
                if near.host is host:
                    yield near, far

    def next_hops(self, start: Host) -> dict[str, str]:
        """For each link that ``start`` is not on: its prefix and the address to which packets for it go."""
        own = {prefix for link in self._links if start in link.hosts for prefix in link.prefixes}
        hops: dict[str, str] = {}
        seen = {start.name}
        waiting: deque[tuple[Host, Interface | None]] = deque([(start, None)])
        while waiting:
            host, first = waiting.popleft()
            for link in (link for link in self._links if host in link.hosts):
                far = link.ends[1] if link.ends[0].host is host else link.ends[0]
                # The next hop is the far end of the first link.
                via = first or far
                for prefix, address in zip(link.prefixes, (via.address, via.address6), strict=True):
                    if prefix not in own:
                        hops.setdefault(prefix, address)
                if far.host.name not in seen:
                    seen.add(far.host.name)
                    waiting.append((far.host, via))
        return hops

    def close(self) -> None:
        """End every program and remove every namespace; safe to call twice."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
        self.processes.clear()
        for host in self.hosts.values():
            _remove(host.namespace)
        self.hosts.clear()
        self._links.clear()
        if self._own_folder:
            self._own_folder.cleanup()


@contextlib.contextmanager
def _allowed(algorithm: str) -> Iterator[None]:
    """Let namespaces choose a congestion control while the block runs.

    Only the machine's own namespace may choose one that is not open to all; where the machine's default is another
    (BBR), CUBIC is not. What is chosen stays when the list is put back.
    """
    before = ALLOWED_CONGESTION_CONTROL.read_text()
    if algorithm in before.split():
        yield
        return
    ALLOWED_CONGESTION_CONTROL.write_text(f"{before.strip()} {algorithm}")
    try:
        yield
    finally:
        ALLOWED_CONGESTION_CONTROL.write_text(before)


def _owner(pid: int) -> str:
    """A name for a process that no later process will have: its number and when it started, in clock ticks."""
    # The program's name, second in the line, may hold spaces and brackets; the start is the 20th word after it.
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{pid}-{started}"


def _is_alive(owner: str) -> bool:
    try:
        return _owner(int(owner.partition("-")[0])) == owner
    except (OSError, ValueError, IndexError):
        return False


def _remove(namespace: str) -> None:
    """Remove a namespace and end what still runs in it."""
    with contextlib.suppress(LabError):
        for pid in command(["ip", "netns", "pids", namespace]).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(LabError):
        command(["ip", "netns", "delete", namespace])


def existing() -> list[str]:
    """The namespaces of all labs on this machine."""
    folder = Path("/run/netns")
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(PREFIX)) if folder.exists() else []


def sweep() -> list[str]:
    """Remove the namespaces that crashed runs left behind; their owners are gone. Returns their names."""
    stale = []
    for namespace in existing():
        owner = "-".join(namespace.removeprefix(PREFIX + "-").split("-")[:2])
        if not _is_alive(owner):
            _remove(namespace)
            stale.append(namespace)
    return stale
