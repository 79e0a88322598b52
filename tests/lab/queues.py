"""The batch of ``examples/queues`` in virtual machines, in virtual time: three hosts and their path on one computer.

    cd tests && python -m lab.queues --set cut=small -o RESULTS             all of it, two machines beside each other
    cd tests && python -m lab.queues --resume -o RESULTS                    what an earlier call left to do

Each machine runs its share of the batch over namespaces of its own, and copies each recording to RESULTS as soon as it
is finished. Options are those of ``whydrop batch run``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.batch import COMPILED, TICK, compile_whydrop
from lab.kernel import load_modules
from lab.machine import ROOT, Machine
from lab.network import Host, Network, Process

if TYPE_CHECKING:
    from whydrop.measure.batch.executing import Watcher

FILE = ROOT / "examples/queues/queues.toml"
STATE = f"{FILE.stem}.batch-state.json"
# What a machine writes while it measures is in its memory: a write to this computer would be idle time there.
_IN_MEMORY = Path("/dev/shm/results")
# Commands that run a shell on the hosts, and the secret; the state of a batch names them, so they are where they were.
_HOSTS = Path("/run/whydrop-queues-hosts")
_DISTANT = [f"10.99.0.{number}" for number in (1, 2, 3, 4)]
_MODULES = ("ifb", "act_mirred", "sch_dualpi2")
# Of this computer's processor; a run that hangs ends in the machine, by the batch's own limits.
_MOST_PROCESSOR_S = 24 * 3600
_LOOK_EVERY_S = 1.0

_GUEST = """\
cd {root}/tests
export PATH=$PATH:/usr/sbin:/sbin PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX={compiled}
{tick}{python} -m lab.queues --inside {share} -o {folder} {rest} >{log} 2>&1
echo "ended with status $?" >>{log}
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the batch; the exit status is 1 if a run failed or a machine did not get through."""
    parser = argparse.ArgumentParser(prog="python -m lab.queues", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the recordings")
    parser.add_argument("-b", "--batch", action="append", default=[], help="only these batches")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a variable of the batch")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--resume", action="store_true", help="do what an earlier call left to do")
    parser.add_argument("--machines", type=int, default=min(2, os.cpu_count() or 1), help="machines (default: 2)")
    parser.add_argument("--inside", metavar="K/N", help=argparse.SUPPRESS)
    parser.add_argument("--client", metavar="K/N", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.client:
        return _run_batch(given)
    rest = list(words if words is not None else sys.argv[1:])
    if given.inside:
        return _run_hosts(given.inside, rest)
    return run_machines(given.output.resolve(), given.machines, rest)


def run_machines(output: Path, count: int, options: Sequence[str]) -> int:
    """Start the machines, and print what they print until they end."""
    output.mkdir(parents=True, exist_ok=True)
    compile_whydrop()
    machines, logs = [], []
    for number in range(1, count + 1):
        log = output / f"machine-{number}.log"
        log.write_text("")
        script = _GUEST.format(
            root=shlex.quote(str(ROOT)),
            compiled=shlex.quote(str(COMPILED)),
            tick=TICK.format(python=shlex.quote(sys.executable)),
            python=shlex.quote(sys.executable),
            share=f"{number}/{count}",
            folder=shlex.quote(str(output)),
            rest=shlex.join(options),
            log=shlex.quote(str(log)),
        )
        machines.append(Machine(output, f"machine-{number}", script, virtual_time=True))
        logs.append(log)
    try:
        for machine in machines:
            machine.start(_MOST_PROCESSOR_S)
        _follow(machines, logs)
    finally:
        for machine in machines:
            machine.kill()
    return 0 if all(log.read_text().rstrip().endswith("ended with status 0") for log in logs) else 1


def _follow(machines: Sequence[Machine], logs: Sequence[Path]) -> None:
    printed = [0] * len(logs)
    is_last = False
    while not is_last:
        # Looked at before the logs are read, so that nothing of them is missed.
        is_last = None not in [machine.ended() for machine in machines]
        for number, log in enumerate(logs):
            lines = log.read_text(errors="replace").splitlines()
            for line in lines[printed[number] :]:
                print(f"machine {number + 1}: {line}", flush=True)
            printed[number] = len(lines)
        if not is_last:
            time.sleep(_LOOK_EVERY_S)


@dataclass
class Hosts:
    """A client, a router and a server in a row, with further addresses at the server.

    Attributes:
        folder: of the commands that run a shell on a host, and the secret.
    """

    client: Host
    router: Host
    server: Host
    folder: Path

    def settings(self) -> dict[str, str]:
        """The variables of the batch that name these hosts."""
        return {
            "router": str(self.folder / "router"),
            "server": str(self.folder / "server"),
            "client_device": self.client.interfaces["router"].name,
            "router_up": self.router.interfaces["server"].name,
            "router_down": self.router.interfaces["client"].name,
            "server_device": self.server.interfaces["router"].name,
            "address": self.server.address,
            "distant": ",".join(_DISTANT),
            "secret": str(self.folder / "secret"),
        }

    def start_responder(self) -> Process:
        """Start the far end of the tests."""
        program = Path(sys.executable).with_name("whydrop")
        responder = self.server.popen([program, "responder", "--secret-file", self.folder / "secret"])
        self.server.wait_listening(17370)
        return responder


@contextmanager
def three_hosts(folder: Path) -> Iterator[Hosts]:
    """The hosts of the study as namespaces; ``folder`` is made for what names them."""
    with Network() as network:
        client, router, server = (network.host(name) for name in ("client", "router", "server"))
        network.link(client, router)
        network.link(router, server)
        network.start()
        for address in _DISTANT:
            server.run(["ip", "address", "add", f"{address}/32", "dev", "lo"])
            router.run(["ip", "route", "add", address, "via", server.address])
            client.run(["ip", "route", "add", address, "via", router.interfaces["client"].address])
        folder.mkdir(parents=True)
        for host in (router, server):
            script = folder / host.name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(host.words([]))} "$@"\n')
            script.chmod(0o755)
        secret = folder / "secret"
        secret.write_text(os.urandom(24).hex())
        secret.chmod(0o600)
        yield Hosts(client, router, server, folder)


def _run_hosts(share: str, options: Sequence[str]) -> int:
    """In a machine: make the three hosts, start the responder, and run the batch in the client."""
    load_modules(_MODULES)
    with three_hosts(_HOSTS) as hosts:
        responder = hosts.start_responder()
        settings = [word for key, value in hosts.settings().items() for word in ("--set", f"{key}={value}")]
        # If a signal ends the client, it prints where it was.
        python = [sys.executable, "-X", "faulthandler", "-m", "lab.queues"]
        done = hosts.client.run(
            [*python, "--client", share, *settings, *options],
            timeout_s=_MOST_PROCESSOR_S,
            capture_output=False,
            check=False,
        )
        responder.stop()
    return done.returncode


def _run_batch(given: argparse.Namespace) -> int:
    """In the client: run a share of the batch, and copy what each run leaves."""
    import whydrop
    from whydrop.measure.batch.executing import Outcome, Watcher
    from whydrop.measure.batch.expanding import Run

    number, count = map(int, given.client.split("/"))
    own_state = given.output / f"queues-{number}-of-{count}.batch-state.json"
    _IN_MEMORY.mkdir(parents=True, exist_ok=True)
    if given.resume and own_state.exists():
        shutil.copy(own_state, _IN_MEMORY / STATE)

    class Copying(Watcher):
        busy_s = _busy_s()

        def planned(self, runs: Sequence[Run], done: set[str]) -> None:
            print(f"{len(runs)} runs, {len(done)} complete before", flush=True)

        def ends(self, run: Run, outcome: Outcome) -> None:
            busy_s = _busy_s()
            cost = f"{busy_s - self.busy_s:.1f} s of the processor"
            print(
                f"{time.strftime('%H:%M:%S')} {run.key}: {outcome.status} {outcome.message or ''} ({cost})", flush=True
            )
            self.busy_s = busy_s
            for warning in outcome.warnings:
                print(f"  {warning}", flush=True)
            _move_all(_IN_MEMORY, given.output)
            shutil.copy(_IN_MEMORY / STATE, own_state)

    @contextmanager
    def watching(_: object) -> Iterator[Watcher]:
        yield Copying()

    choices = {} if given.resume else {
        "batches": given.batch,
        "overrides": dict(one.split("=", 1) for one in given.set),
        "repetitions": given.repetitions,
        "seed": given.seed,
        "share": (number, count),
    }  # fmt: skip
    found = whydrop.batch(FILE, output=_IN_MEMORY, resume=given.resume, watching=watching, **choices)
    return 1 if found.count("failed") else 0


def _busy_s() -> float:
    """Processor time that the machine has used since its start, in s; in virtual time 10^9 instructions are one."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split(maxsplit=11)[1:11])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _move_all(source: Path, target: Path) -> None:
    """Move finished folders of ``source`` into the same folders of ``target``, each complete or not at all."""
    for folder in [*source.glob("*/*.recording"), *source.glob("*/*.commands")]:
        place = target / folder.relative_to(source)
        hidden = place.with_name(f".{place.name}")
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, hidden)
        hidden.rename(place)
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
