"""Many tests in one boot of the virtual machine, or of two beside each other: node ids in, pytest's reports out.

A machine uses one processor of this one. In virtual time two do not disturb each other: where there are processors for
both, each has all tests before it, one from the first on and one from the last, and takes the next that is not taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.machine import ROOT, Machine
from lab.network import LabError

INSIDE = "WHYDROP_LAB_INSIDE"
"""Set in the machine, to the folder that it shares with this one."""

MACHINE = "WHYDROP_LAB_MACHINE"
"""Set in the machine, to its name."""

REPORTS = "reports.jsonl"
CLAIMS = "claims"
"""Where a machine makes a folder for each test that it takes: of two that try, one does."""

# More would each wait for the longest test. The start of a machine costs as much of a processor as some ten tests.
MOST_MACHINES = 2
TESTS_WORTH_A_MACHINE = 20
_LOOK_EVERY_S = 0.5

# Of this machine's processor; five times what was measured. A machine that hangs must not hang the suite.
MOST_FOR_BOOT_S = 150
MOST_PER_TEST_S = 150
# A few long tests take more than the mean of many.
LEAST_ALLOWED_S = 1200

# Each is started once before it matters, so that it comes out of memory when time is measured.
_WARM = "ip -V; tc -V; ethtool --version; ss -V; ping -V; iperf3 -v; irtt version; tcpdump --version; sysctl --version"

# Virtual time jumps over idleness to the next timer, and waiting for a file of the host is idleness: without a timer
# at hand one wait could be a second. This one is always near.
_TICK_S = 0.001
TICK = f"{{python}} -c 'import time\nwhile True: time.sleep({_TICK_S})' &\n"

_GUEST = """\
cd {root}
export {inside}={folder} {machine}={name} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PATH=$PATH:/usr/sbin:/sbin
export PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX={compiled}
{tick}{{ {warm}; }} >/dev/null 2>&1
PYTHONPATH=tests {python} -c 'from lab.kernel import load_modules; load_modules()'
{python} -m pytest {without} -o faulthandler_timeout=0 --tb=short @{folder}/{name}/nodes
"""
# Parts of pytest that nothing there needs: importing each costs a second of a processor.
_WITHOUT = " ".join(f"-p no:{name}" for name in ("cacheprovider", "doctest", "junitxml", "legacypath", "pastebin"))


# Compiling all that whydrop imports takes longer in the machine than most tests: it is done here, once.
COMPILED = ROOT / "build/compiled"
_IMPORT_ALL = """\
import contextlib, importlib, pkgutil, numpy, polars, whydrop
for found in pkgutil.walk_packages(whydrop.__path__, "whydrop."):
    if not found.name.endswith("__main__"):
        with contextlib.suppress(Exception):
            importlib.import_module(found.name)
"""


def compile_python(nodes: Path) -> None:
    """Leave in ``COMPILED`` what Python in the machine would else compile at every start."""
    compile_whydrop()
    _compile(["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", f"@{nodes}"])


def compile_whydrop() -> None:
    """Leave all of whydrop in ``COMPILED``."""
    _compile(["-c", _IMPORT_ALL])


def _compile(words: Sequence[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(COMPILED), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # What cannot be imported is not compiled; the test that needs it will report it.
    subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, check=False)


class BatchError(LabError):
    """The machine gave no report of a test; says what its console showed."""


class Batch:
    """The tests of a session that go to the machine.

    Attributes:
        nodes: their node ids.
        machines: how many machines they are shared among.
        wall_s: how long it took.
    """

    def __init__(self, nodes: Sequence[str], folder: Path, *, virtual_time: bool) -> None:
        self.nodes = list(nodes)
        self.virtual_time = virtual_time
        self.wall_s = 0.0
        worth = 1 + len(self.nodes) // TESTS_WORTH_A_MACHINE
        self.machines = min(MOST_MACHINES, worth, os.cpu_count() or 1) if virtual_time else 1
        self._folder = folder.resolve()
        self._reports: dict[str, list[dict[str, Any]]] | None = None
        self._consoles: dict[str, str] = {}

    @property
    def has_run(self) -> bool:
        """True if the machine was started and has ended."""
        return self._reports is not None

    def run(self, pass_on: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Boot the machines and run the tests in them; ``pass_on`` gets each report as soon as it is there."""
        self._reports = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        with _only_one(self._folder.with_suffix(".lock")):
            began = time.monotonic()
            machines = [self._machine(number) for number in range(self.machines)]
            most_processor_s = max(MOST_FOR_BOOT_S + MOST_PER_TEST_S * len(self.nodes), LEAST_ALLOWED_S)
            try:
                for machine in machines:
                    machine.start(most_processor_s)
                self._watch(machines, pass_on)
            finally:
                for machine in machines:
                    machine.kill()
            self.wall_s = time.monotonic() - began

    def _machine(self, number: int) -> Machine:
        name = f"machine-{number + 1}"
        own = self._folder / name
        own.mkdir(exist_ok=True)
        (own / REPORTS).unlink(missing_ok=True)
        (own / "nodes").write_text("".join(f"{node}\n" for node in self.nodes[:: 1 if number % 2 == 0 else -1]))
        if number == 0:
            shutil.rmtree(self._folder / CLAIMS, ignore_errors=True)
            (self._folder / CLAIMS).mkdir()
            compile_python(own / "nodes")
        return Machine(self._folder, name, self._script(name), virtual_time=self.virtual_time)

    def _watch(self, machines: list[Machine], pass_on: Callable[[dict[str, Any]], None]) -> None:
        """Until all have ended."""
        running = {machine.name: machine for machine in machines}
        seen = dict.fromkeys(running, 0)
        while running:
            # Before the last look at what they report.
            ended = {name: found for name, machine in running.items() if (found := machine.ended()) is not None}
            for name in running:
                reports = _read(self._folder / name / REPORTS)
                for report in reports[seen[name] :]:
                    self._enter(report)
                    pass_on(report)
                seen[name] = len(reports)
            for name, how in ended.items():
                self._consoles[name] = how.console
                del running[name]
            if not ended:
                time.sleep(_LOOK_EVERY_S)

    def _enter(self, report: dict[str, Any]) -> None:
        assert self._reports is not None
        self._reports.setdefault(report["nodeid"], []).append(report)

    def reports(self, node: str) -> list[dict[str, Any]]:
        """The reports of a test, as pytest serialises them. Raises :class:`BatchError` where they are not complete."""
        if self._reports is None:
            self.run()
        found = (self._reports or {}).get(node, [])
        if not any(report.get("when") == "teardown" for report in found):
            shown = "\n".join(self._consoles.values())
            raise BatchError(f"the virtual machine did not get through this test. Its console:\n{shown}")
        return found

    def _script(self, name: str) -> str:
        python = shlex.quote(sys.executable)
        return _GUEST.format(
            tick=TICK.format(python=python) if self.virtual_time else "",
            root=shlex.quote(str(ROOT)),
            inside=INSIDE,
            machine=MACHINE,
            name=name,
            folder=shlex.quote(str(self._folder)),
            compiled=shlex.quote(str(COMPILED)),
            warm=_WARM,
            without=_WITHOUT,
            python=python,
        )


def may_take(node: str) -> bool:
    """In the machine: whether a test is ours to run, because no other has taken it."""
    try:
        Path(os.environ[INSIDE], CLAIMS, hashlib.sha256(node.encode()).hexdigest()).mkdir()
    except FileExistsError:
        return False
    return True


def _read(reports: Path) -> list[dict[str, Any]]:
    found = []
    if reports.exists():
        for line in reports.read_text().splitlines():
            # The last line may be cut off: of a machine that was killed, or that is writing it.
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
    return found


@contextlib.contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Wait until no other test session of this checkout runs the machine."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
