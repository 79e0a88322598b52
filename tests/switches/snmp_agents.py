"""SNMP agents for tests: net-snmp's snmpd, and snmpsim playing a switch; both real processes on loopback."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Configure = Callable[..., Path]  # the fixture `configure`

COMMUNITY = "public"
USER, AUTH_PASSPHRASE, PRIV_PASSPHRASE = "watcher", "a long enough key", "another long key"

# Users of net-snmp's agent in all the protocols that it has: what its configuration and ours call them.
PROTOCOLS = {
    "md5-des": ("MD5", "DES", "MD5", "DES"),
    "sha-aes": ("SHA-1", "AES-128", "SHA", "AES"),
    "sha512-aes": ("SHA-512", "AES-128", "SHA-512", "AES"),
    "sha512-aes256": ("SHA-512", "AES-256", "SHA-512", "AES-256"),
    "sha-aes256": ("SHA-1", "AES-256", "SHA", "AES-256"),
    "sha-aes256-cisco": ("SHA-1", "AES-256-Cisco", "SHA", "AES-256-C"),
}

IF, IFX, PAUSE = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.10.7.10.1"
UP_TIME, TABLE_CHANGE = "1.3.6.1.2.1.1.3.0", "1.3.6.1.2.1.31.1.5.0"
WIDE, NARROW, PAUSES = (6, 7, 8, 9, 10, 11, 12, 13), (13, 14, 19, 20), (3, 4)

_PATIENCE_S = 120.0


def free_port(address: str = "127.0.0.1") -> int:
    """A free UDP and TCP port outside the ephemeral range."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, max(10_100, ephemeral))
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        ):
            udp.bind((address, port))
            tcp.bind((address, port))
            return port
    raise AssertionError("no free port was found")


def snmpd() -> str | None:
    """The program, which Debian keeps where users do not look."""
    return shutil.which("snmpd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@dataclass
class Agent:
    """A process that answers SNMP at ``address`` and ``port``."""

    words: list[str]
    port: int
    address: str = "127.0.0.1"
    environment: Mapping[str, str] = field(default_factory=dict)
    community: str = COMMUNITY
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(
            self.words,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _PATIENCE_S
        while not answers(self.address, self.port, self.community):
            assert self.process.poll() is None, f"{self.words[0]} ended with {self.process.returncode}"
            assert time.monotonic() < deadline, f"{self.words[0]} does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power failure does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def restart(self) -> None:
        """Let its counters and its sysUpTime restart."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Let it fall silent."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again, first what it was asked meanwhile."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def answers(address: str, port: int, community: str) -> bool:
    """True if an agent of v2c is there."""
    from gufo.snmp import SnmpError
    from gufo.snmp.sync import SnmpSession

    with contextlib.suppress(SnmpError, OSError):
        return SnmpSession(address, port, community=community, timeout=0.2).get(UP_TIME) is not None
    return False


@contextlib.contextmanager
def net_snmp(folder: Path, more: str = "") -> Iterator[Agent]:
    """An unprivileged snmpd with a community and a user, and a folder of its own for what it remembers."""
    program = snmpd()
    assert program is not None
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    users = "".join(
        f'createUser {name} {auth} "{AUTH_PASSPHRASE}" {priv} "{PRIV_PASSPHRASE}"\nrouser {name} priv\n'
        for name, (_, _, auth, priv) in PROTOCOLS.items()
    )
    (folder / "snmpd.conf").write_text(
        f"agentaddress udp:127.0.0.1:{port}\n"
        f"rocommunity {COMMUNITY} 127.0.0.1\n"
        f'createUser {USER} SHA-256 "{AUTH_PASSPHRASE}" AES "{PRIV_PASSPHRASE}"\n'
        f"rouser {USER} priv\n{users}{more}\n"
    )
    words = [program, "-f", "-Lf", str(folder / "log"), "-C", "-c", str(folder / "snmpd.conf")]
    agent = Agent(words, port, environment={"SNMP_PERSISTENT_DIR": str(folder / "persistent")})
    try:
        agent.start()
        yield agent
    finally:
        agent.kill()


@contextlib.contextmanager
def simulated(
    folder: Path, records: Mapping[str, Mapping[str, str]], address: str = "127.0.0.1", more_addresses: int = 0
) -> Iterator[Agent]:
    """An snmpsim that plays a switch.

    Args:
        folder: for its data.
        records: by community, objects of the switch: their identifier, and tag and value as snmpsim writes them.
        address: at which it answers.
        more_addresses: of loopback, following ``address``, at which it plays the same switch, all at one port.
    """
    for community, objects in records.items():
        path = folder / "data" / f"{community}.snmprec"
        path.parent.mkdir(parents=True, exist_ok=True)
        ordered = sorted(objects, key=lambda oid: tuple(map(int, oid.split("."))))
        path.write_text("".join(f"{oid}|{objects[oid]}\n" for oid in ordered))
    port = free_port(address)
    program = Path(sys.executable).with_name("snmpsim-command-responder")
    # As root it would drop its privileges and could not read a Python below a home. Its folders precede addresses.
    user = ["--process-user", "root", "--process-group", "root"] if os.geteuid() == 0 else []
    words = [str(program), *user, "--logging-method", "null", "--cache-dir", str(folder / "cache")]
    words += ["--data-dir", str(folder / "data")]
    first, _, last = address.rpartition(".")
    for number in range(more_addresses + 1):
        words += ["--agent-udpv4-endpoint", f"{first}.{int(last) + number}:{port}"]
    agent = Agent(words, port, address, community=next(iter(records)))
    try:
        agent.start()
        yield agent
    finally:
        agent.kill()


def switch_records(ports: int = 48, *, first_index: int = 501) -> dict[str, str]:
    """Objects of a switch with counters that all grow, each at its own pace (`paces`)."""
    objects = {
        "1.3.6.1.2.1.1.1.0": "4|a switch that is played",
        UP_TIME: "67:numeric|rate=100,initial=100",
        TABLE_CHANGE: "67|7",
    }
    for number in range(ports):
        index = first_index + number
        uplink = number == ports - 1
        objects[f"{IFX}.1.{index}"] = f"4|{'xe' if uplink else 'ge'}-0/0/{number}"
        objects[f"{IFX}.18.{index}"] = f"4|{'uplink to the world' if uplink else f'mlab{number + 1}'}"
        objects[f"{IFX}.15.{index}"] = f"66|{10000 if uplink else 1000}"
        for column, pace in paces(number).items():
            tag = 70 if column.startswith(f"{IFX}.") else 65
            objects[f"{column}.{index}"] = f"{tag}:numeric|rate={pace},initial=1000000"
    return objects


def paces(number: int) -> dict[str, int]:
    """By column, how much the counters of a simulated switch's port grow in a second."""
    columns = [f"{IFX}.{place}" for place in WIDE] + [f"{IF}.{place}" for place in NARROW]
    columns += [f"{PAUSE}.{place}" for place in PAUSES]
    return {column: 1000 * (1 + number) + 10 * place for place, column in enumerate(columns)}


V2C = 'community_file = "secrets/community"'
V3 = f"""\
version = "v3"
user = "{USER}"
auth = "SHA-256"
auth_file = "secrets/auth"
priv = "AES-128"
priv_file = "secrets/priv"
"""


def switch_of(agent: Agent, name: str = "s1.dfw07", ports: str = '"all"', account: str = V2C, more: str = "") -> str:
    """A ``[[switch]]`` that polls an agent."""
    return (
        f'[[switch]]\nname = "{name}"\naddress = "{agent.address}"\nport = {agent.port}\n{account}\n'
        f"ports = {ports}\n{more}\n"
    )
