"""Agents to poll: net-snmp's with many real interfaces, or snmpsim playing many switches; both on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from measuring import ProgramError

COMMUNITY = "public"
COUNTERS = 14  # of each port
_PATIENCE_S = 60.0
_IF, _IFX, _PAUSE = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.10.7.10.1"
_WIDE, _NARROW, _PAUSES = range(6, 14), (13, 14, 19, 20), (3, 4)
# Linux' agent has no pause frames: two other counters are asked for instead.
_INSTEAD_OF_PAUSE = (("unknown.rx", f"{_IF}.15", 32), ("narrow.rx", f"{_IF}.10", 32))


@dataclass(frozen=True)
class Agents:
    """Switches that answer."""

    name: str
    addresses: Sequence[str]
    port: int
    ports: int
    """Of each switch."""
    inside: tuple[str, ...] = ()
    """The words that begin a command that is to reach them."""
    instead_of_pause: bool = False

    def config(self, store: Path, interval_s: int) -> str:
        """A CONFIG.toml that polls all of them; the community is in ``WHYDROP_BENCH_COMMUNITY``."""
        lines = [
            f'store = "{store}"',
            f"interval_s = {interval_s}",
            'host = "bench"',
            "[defaults]",
            'site = "dfw07"',
            'metro = "dfw"',
            f"port = {self.port}",
            'community_env = "WHYDROP_BENCH_COMMUNITY"',
            'ports = [{ ifname = "b*" }]',
            # Hundreds of switches that are one process answer one after the other.
            f"timeout_s = {min(4, 0.45 * interval_s):g}",
        ]
        if self.instead_of_pause:
            kinds = ["octets", "unicast", "multicast", "broadcast", "discards", "errors"]
            names = [*kinds, *(name for name, _, _ in _INSTEAD_OF_PAUSE)]
            lines.append("counters = [" + ", ".join(f'"{name}"' for name in names) + "]")
            for name, oid, bits in _INSTEAD_OF_PAUSE:
                lines += ["[[counter]]", f'name = "{name}"', f'oid = "{oid}"', f"bits = {bits}"]
        for number, address in enumerate(self.addresses):
            lines += ["[[switch]]", f'name = "s{number}"', f'address = "{address}"']
        return "\n".join(lines) + "\n"


def snmpd() -> str | None:
    """net-snmp's agent, which Debian keeps where users do not look; ``None`` where it cannot be used."""
    program = shutil.which("snmpd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return program if os.geteuid() == 0 and shutil.which("ip") else None


@contextmanager
def real(folder: Path, ports: int, switches: int = 1) -> Iterator[Agents]:
    """net-snmp's agent in a network namespace that has so many interfaces.

    Args:
        folder: for its configuration.
        ports: interfaces, ends of veth pairs; an even number.
        switches: addresses at which it answers, each as if it was a switch of its own.

    Raises:
        ProgramError: it does not start.
    """
    namespace = f"whydrop-bench-{os.getpid()}-switch"
    inside = ("ip", "netns", "exec", namespace)
    folder.mkdir(parents=True, exist_ok=True)
    addresses = _addresses(switches)
    listen = ",".join(f"udp:{address}:161" for address in addresses)
    (folder / "snmpd.conf").write_text(f"agentaddress {listen}\nrocommunity {COMMUNITY} 127.0.0.0/8\n")
    links = "".join(f"link add b{pair} type veth peer name b{pair + 1}\n" for pair in range(0, ports, 2))
    links += "".join(f"link set b{number} up\n" for number in range(ports)) + "link set lo up\n"
    try:
        _do("ip", "netns", "add", namespace)
        _do("ip", "-n", namespace, "-batch", "-", given=links)
        words = (*inside, str(snmpd()), "-f", "-Lf", str(folder / "log"), "-C", "-c", str(folder / "snmpd.conf"))
        with _running(words, {"SNMP_PERSISTENT_DIR": str(folder / "persistent")}):
            made = Agents("snmpd", addresses, 161, ports, inside, instead_of_pause=True)
            _wait_for(made)
            yield made
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


@contextmanager
def simulated(folder: Path, ports: int, switches: int = 1) -> Iterator[Agents]:
    """snmpsim, with counters that all grow.

    Args:
        folder: for its data.
        ports: of each switch.
        switches: addresses at which it plays the same switch.

    Raises:
        ProgramError: it does not start.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    objects = sorted(_objects(ports).items(), key=lambda item: tuple(map(int, item[0].split("."))))
    (folder / "data" / f"{COMMUNITY}.snmprec").write_text("".join(f"{oid}|{value}\n" for oid, value in objects))
    addresses, port = _addresses(switches), _free_port()
    # As root it would drop its privileges and could not read a Python below a home. Its folders precede addresses.
    user = ("--process-user", "root", "--process-group", "root") if os.geteuid() == 0 else ()
    words = [str(Path(sys.executable).with_name("snmpsim-command-responder")), *user, "--logging-method", "null"]
    words += ["--cache-dir", str(folder / "cache"), "--data-dir", str(folder / "data")]
    for address in addresses:
        words += ["--agent-udpv4-endpoint", f"{address}:{port}"]
    with _running(words, {}):
        made = Agents("snmpsim", addresses, port, ports)
        _wait_for(made)
        yield made


def _objects(ports: int) -> dict[str, str]:
    objects = {"1.3.6.1.2.1.1.1.0": "4|a switch that is played", "1.3.6.1.2.1.1.3.0": "67:numeric|rate=100,initial=100"}
    objects["1.3.6.1.2.1.31.1.5.0"] = "67|7"
    columns = [f"{_IFX}.{place}" for place in _WIDE]
    columns += [*(f"{_IF}.{place}" for place in _NARROW), *(f"{_PAUSE}.{place}" for place in _PAUSES)]
    for index in range(1, ports + 1):
        objects[f"{_IFX}.1.{index}"] = f"4|b{index}"
        objects[f"{_IFX}.15.{index}"] = "66|10000"
        for place, column in enumerate(columns):
            tag = 70 if column.startswith(f"{_IFX}.") else 65
            objects[f"{column}.{index}"] = f"{tag}:numeric|rate={100 * index + place},initial=1000000"
    return objects


def _addresses(count: int) -> list[str]:
    return [f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(count)]


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        words,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for(agents: Agents) -> None:
    """Until the last address answers: the collector is not to be measured by how long an agent takes to start."""
    ask = (
        "from gufo.snmp.sync import SnmpSession; import sys; "
        "SnmpSession(sys.argv[1], int(sys.argv[2]), community=sys.argv[3], timeout=1).get('1.3.6.1.2.1.1.3.0')"
    )
    words = [*agents.inside, sys.executable, "-c", ask, agents.addresses[-1], str(agents.port), COMMUNITY]
    deadline = time.monotonic() + _PATIENCE_S
    while subprocess.run(words, capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ProgramError(f"{agents.name} does not answer at {agents.addresses[-1]} port {agents.port}")
        time.sleep(0.1)


def _do(*words: str, given: str = "") -> None:
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(words)}: {done.stderr.strip() or f'status {done.returncode}'}")
