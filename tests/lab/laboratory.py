"""The one thing that tests ask for: ``lab``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.network import Network
from lab.path import NetworkPath


class Lab:
    """Makes networks for one test.

    Attributes:
        folder: a folder of this test; what it leaves here (recordings, captures) outlives the test and, where the test
            ran in a virtual machine, the machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def network(self) -> Iterator[Network]:
        """An empty network, for topologies of one's own: ``host``, ``link``, then ``start``."""
        with Network() as network:
            yield network

    @contextlib.contextmanager
    def path(
        self,
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
    ) -> Iterator[NetworkPath]:
        """Clients, a bottleneck in both directions, delay, servers.

        Args:
            rate: of the bottleneck, on the Ethernet layer, as ``tc`` writes it: ``10mbit``.
            queue: before it, as ``tc`` writes it: ``pfifo limit 1000``, ``fq_codel``, ``cake``.
            delay: one-way delay, in each direction: ``25ms``; or a list, one for each server. Needs ``netem``.
            loss: of packets at random in each direction: ``0.1%``. Needs ``netem``.
            police: what comes from the clients: ``rate 10mbit burst 50k`` (50 * 1024 IP bytes). Needs ``police``.
            rate_down: towards the clients, where it differs.
            queue_down: towards the clients, where it differs.
            clients: how many.
            servers: how many.
            is_carried: a host ``delay-1``, ... stands before each server, and the test has a program of its own carry
                packets through it, as where the kernel has no ``netem``.
        """
        with Network() as network:
            yield NetworkPath(
                network,
                rate=rate,
                queue=queue,
                delay=delay,
                loss=loss,
                police=police,
                rate_down=rate_down,
                queue_down=queue_down,
                clients=clients,
                servers=servers,
                is_carried=is_carried,
            )
