"""Scenes: two real hosts, what is between them, a conversation, and a capture of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.network import Host, Network

PORT = 5001
# Scenes are about milliseconds: their programs run ahead of whatever else the machine does, where one may have them so.
REAL_TIME = ["chrt", "--rr", "1"]
if subprocess.run([*REAL_TIME, "true"], capture_output=True, check=False).returncode:
    REAL_TIME = []
MIDDLEBOX = Path(__file__).parent / "middlebox.py"

# The server: each connection is served by what its first line says; what is written to it is not read else.
SERVER = """
import socket, struct, threading, time
def serve(c):
    try:
        asked = c.makefile("rb").readline().split()
        if asked[0] == b"send":
            sent, pause, piece = int(asked[1]), float(asked[2]), int(asked[3])
            while sent > 0:
                c.sendall(bytes(min(piece, sent)))
                sent -= piece
                time.sleep(pause)
        if asked[0] == b"talk":
            for line in iter(lambda: c.recv(100), b""):
                if line.startswith(b"die"):
                    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                c.sendall(line)
                if line.startswith(b"bulk"):
                    c.sendall(bytes(8000))
        c.close()
    except OSError:
        pass
s = socket.create_server(("", 5001))
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""

# The client: one conversation after the other, each given as words.
CLIENT = """
import json, socket, sys, time
def connect(window=0):
    s = socket.socket()
    if window:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    s.settimeout(float(sys.argv[3]))
    s.connect((sys.argv[1], 5001))
    return s
kept = []
for what, *rest in json.loads(sys.argv[2]):
    try:
        if what == "send":
            s = connect(*rest[3:])
            s.sendall(b"send %d %f %d\\n" % tuple(rest[:3]))
            while s.recv(65536):
                pass
            s.close()
        elif what == "open":
            s = connect()
            s.sendall(b"talk\\n")
            kept.append(s)
        elif what == "say":
            kept[-1].sendall(rest[0].encode())
            got, wanted = 0, rest[1]
            while got < wanted:
                more = kept[-1].recv(65536)
                if not more:
                    break
                got += len(more)
        elif what == "wait":
            time.sleep(rest[0])
        elif what == "close":
            kept.pop().close()
    except OSError as error:
        print(what, error, flush=True)
print("over", flush=True)
"""


@dataclass
class Scene:
    """The events between a client and a server.

    Attributes:
        talk: what the client does, one entry each: ``["send", bytes, pause_s, piece_bytes]`` has the server send,
            ``["open"]``, ``["say", words, bytes_of_the_answer]``, ``["wait", s]``, ``["close"]`` keep a connection; at
            ``bulk`` the server sends 8 kB, at ``die`` it aborts.
        box: what the box between them does, see ``middlebox.py``; ``None`` for a router of Linux.
        at: where the capture is taken: ``client``, ``server``, ``router`` (on all its interfaces), or ``ends``, one
            at each host.
        mtu: of the link behind the router.
        sysctls: of the hosts.
        snaplen: of the capture.
        ends_after_s: the talk is cut off after this; ``None`` lets it end.
    """

    talk: list[list[Any]]
    box: dict[str, Any] | None = field(default_factory=dict)
    at: str = "server"
    mtu: int | None = None
    sysctls: dict[str, dict[str, str]] = field(default_factory=dict)
    ends_after_s: float | None = None
    snaplen: int = 128
    patience_s: float = 60.0

    def play(self, folder: Path, name: str) -> list[Path]:
        """Let it happen; the captures of it."""
        with Network(folder / f"{name}-logs") as network:
            client, box, server = (network.host(host) for host in ("client", "box", "server"))
            network.link(client, box)
            if self.mtu:
                far = network.host("far")
                narrow = network.link(box, far)
                network.link(far, server)
            else:
                network.link(box, server)
            network.start()
            if self.mtu:
                for end in narrow:
                    end.host.run(["ip", "link", "set", end.name, "mtu", str(self.mtu)])
            for host, settings in self.sysctls.items():
                for key, value in settings.items():
                    network.hosts[host].sysctl(key, value)
            if self.box is not None and not self.mtu:
                carry(box, client, server, self.box)
            places = ["client", "server"] if self.at == "ends" else [self.at]
            captures = {place: folder / f"{name}-{place}.pcap" for place in places}
            with contextlib.ExitStack() as capturing:
                for place, capture in captures.items():
                    capturing.enter_context(self._captured(network, place, capture))
                self._talk(client, server)
                time.sleep(0.1)
        return list(captures.values())

    @contextlib.contextmanager
    def _captured(self, network: Network, place: str, capture: Path) -> Any:
        host = network.hosts["box" if place == "router" else place]
        link = "any" if place == "router" else next(iter(host.interfaces.values())).name
        words = [
            *REAL_TIME,
            "tcpdump",
            "--immediate-mode",
            "-i",
            link,
            "-s",
            str(self.snaplen),
            "-U",
            "-Z",
            "root",
            "-w",
            str(capture),
        ]
        tcpdump = host.popen(words)
        tcpdump.wait_for("listening on")
        yield
        tcpdump.stop()

    def _talk(self, client: Host, server: Host) -> None:
        serving = server.popen([*REAL_TIME, sys.executable, "-c", SERVER])
        serving.wait_for("listening")
        conversation = [server.address, json.dumps(self.talk), str(self.patience_s)]
        talking = client.popen([*REAL_TIME, sys.executable, "-c", CLIENT, *conversation])
        if self.ends_after_s is None:
            talking.wait_for("over", timeout_s=90)
        else:
            time.sleep(self.ends_after_s)


def carry(box: Host, client: Host, server: Host, settings: dict[str, Any]) -> None:
    """Have the box carry packets instead of its kernel."""
    for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        box.sysctl(setting, "0")
    links = []
    for far in (client, server):
        near, end = box.interfaces[far.name], far.interfaces[box.name]
        addresses = {"to": end.hardware_address, "from": near.hardware_address}
        links.append({"name": near.name, **{key: value.replace(":", "") for key, value in addresses.items()}})
    carrying = [sys.executable, str(MIDDLEBOX), json.dumps({**settings, "links": links})]
    box.popen([*REAL_TIME, *carrying]).wait_for("carrying")


def played(
    scenes: dict[str, Scene], folder: Path, explain: Callable[[list[Path]], Any], at_once: int = 8
) -> dict[str, Any]:
    """All scenes side by side, and what is explained of each."""
    with ThreadPoolExecutor(at_once) as pool:
        captures = dict(zip(scenes, pool.map(lambda name: scenes[name].play(folder, name), scenes), strict=True))
    return {name: explain(taken) for name, taken in captures.items()}
