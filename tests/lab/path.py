"""The path that most tests want: clients, one bottleneck in both directions, delay, servers.

    client-1 ─┐                                              ┌─ delay-1 ── server-1
    client-2 ─┴─ near ══ rate and queue in both directions ══ far ─┴─ delay-2 ── server-2

Rate and queue stand on the link between ``near`` and ``far``; delay on hops of its own, one for each server, so that
netem's own queue is never the bottleneck and each server may be at another distance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lab.network import Host, Interface, Network
from lab.units import bits_per_second, seconds

# Queueing disciplines that take the rate themselves.
SHAPES_BY_ITSELF = ("cake",)

# Netem holds each packet for its delay; its limit must never drop what the bottleneck let pass.
NETEM_LIMIT_PACKETS = 100_000


def bottleneck_commands(device: str, rate: str | None, queue: str | None) -> list[str]:
    """The ``tc`` commands that make ``device`` send at ``rate`` from ``queue``."""
    if rate is None:
        return [f"qdisc replace dev {device} root handle 1: {queue}"] if queue else []
    if queue and queue.split()[0] in SHAPES_BY_ITSELF:
        return [f"qdisc replace dev {device} root handle 1: {queue} bandwidth {rate}"]
    return [
        f"qdisc replace dev {device} root handle 1: htb default 1",
        htb_class(device, rate),
        f"qdisc replace dev {device} parent 1:1 handle 10: {queue or 'pfifo limit 1000'}",
    ]


def htb_class(device: str, rate: str) -> str:
    """The ``tc`` command that sets the rate of a bottleneck."""
    # One full frame of 1514 bytes of burst: a line sends packets one after the other. At high rates as much more as
    # is sent in 0.1 ms, or the timers of the kernel would be the bottleneck.
    burst = max(1600, int(bits_per_second(rate) / 8 * 1e-4))
    return (
        f"class replace dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} "
        f"burst {burst} cburst {burst} quantum 1514"
    )


class NetworkPath:
    """Clients and servers with a bottleneck between them; made by :meth:`lab.Lab.path`.

    Attributes:
        clients: the hosts on the near side.
        servers: the hosts on the far side.
        near: the router on the clients' side; ``near.run([...])`` as on any host.
        far: the router on the servers' side.
        up: the bottleneck's interface towards the servers.
        down: the bottleneck's interface towards the clients.
        rtt_s: the round-trip time to each server without any queue, in seconds.
    """

    clients: list[Host]
    servers: list[Host]
    near: Host
    far: Host
    up: Interface
    down: Interface
    rtt_s: list[float]

    def __init__(
        self,
        network: Network,
        *,
        rate: str | None = None,
        queue: str | None = None,
        delay: str | Sequence[str] | None = None,
        loss: str | None = None,
        police: str | None = None,
        rate_down: str | None = None,
        queue_down: str | None = None,
        clients: int = 1,
        servers: int = 1,
        is_carried: bool = False,
    ) -> None:
        delays = [delay] * servers if delay is None or isinstance(delay, str) else list(delay)
        if len(delays) != servers:
            raise ValueError(f"{len(delays)} delays for {servers} servers: give one for all, or one for each")
        self.network = network
        self.near, self.far = network.host("near"), network.host("far")
        self.clients = [network.host(f"client-{number}") for number in range(1, clients + 1)]
        self.servers = [network.host(f"server-{number}") for number in range(1, servers + 1)]
        # A host is known by the address of its first interface: end hosts have only one.
        for client in self.clients:
            network.link(client, self.near)
        self.up, self.down = network.link(self.near, self.far)
        hops = [
            self._join(server, one_way, loss, is_carried) for server, one_way in zip(self.servers, delays, strict=True)
        ]
        self.rtt_s = [2 * seconds(one_way) if one_way else 0.0 for one_way in delays]
        network.start()
        for towards_server, towards_client, impairment in filter(None, hops):
            for interface in (towards_server, towards_client):
                interface.tc(f"qdisc replace dev {{}} root {impairment}")
        self.shape(self.up, rate, queue)
        self.shape(self.down, rate_down or rate, queue_down or queue)
        if police:
            self.police(police)

    @property
    def client(self) -> Host:
        """The first client."""
        return self.clients[0]

    @property
    def server(self) -> Host:
        """The first server."""
        return self.servers[0]

    def _join(
        self, server: Host, delay: str | None, loss: str | None, is_carried: bool
    ) -> tuple[Interface, Interface, str] | None:
        if not delay and not loss and not is_carried:
            self.network.link(server, self.far)
            return None
        hop = self.network.host(server.name.replace("server", "delay"))
        towards_server, _ = self.network.link(hop, server)
        _, towards_client = self.network.link(self.far, hop)
        if is_carried:
            return None
        impairment = f"netem limit {NETEM_LIMIT_PACKETS}"
        return (
            towards_server,
            towards_client,
            impairment + (f" delay {delay}" if delay else "") + (f" loss random {loss}" if loss else ""),
        )

    def shape(self, interface: Interface, rate: str | None, queue: str | None) -> None:
        """Give one direction of the bottleneck (``path.up``, ``path.down``) another rate and queue, traffic or not.

        What waits in the old queue is dropped.
        """
        if interface.qdiscs()[0]["kind"] != "noqueue":
            interface.tc("qdisc delete dev {} root")
        for line in bottleneck_commands(interface.name, rate, queue):
            interface.tc(line)

    def change_rate(self, interface: Interface, rate: str) -> None:
        """Another rate for one direction of the bottleneck; what waits in the queue goes on waiting."""
        interface.tc(htb_class(interface.name, rate))

    def police(self, text: str) -> None:
        """Drop what exceeds ``text`` (``rate 10mbit burst 50k``) where packets from the clients enter ``far``."""
        self.down.tc("qdisc replace dev {} clsact")
        self.down.tc(
            f"filter replace dev {{}} ingress pref 1 handle 1 matchall action police {text} conform-exceed drop"
        )

    def policed_drops(self) -> int:
        """Packets that the policer has dropped."""
        shown = json.loads(self.down.tc("-s -j filter show dev {} ingress"))
        actions = [action for entry in shown for action in entry.get("options", {}).get("actions", [])]
        return sum(int(action.get("stats", {}).get("drops", 0)) for action in actions)
