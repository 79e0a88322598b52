"""The programs that are measured side by side: their command lines, their versions, how to install them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TSHARK_FIELDS = (
    "frame.number",
    "tcp.stream",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.lost_segment",
    "tcp.analysis.bytes_in_flight",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.zero_window",
)

# What it takes to find each packet of one capture in the other by hand.
TSHARK_MATCHING_FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "ip.id",
    "ip.src",
    "ip.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.len",
    "tcp.options.timestamp.tsval",
)


@dataclass(frozen=True)
class Program:
    """A program to measure; the paths of the captures are appended to ``before`` and followed by ``after``."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    version_command: tuple[str, ...] = ()
    install: str = ""
    once_per_capture: bool = False
    """It takes one capture at a time, and is run on one after the other."""

    def command(self, *captures: Path) -> list[str]:
        """The command line that measures ``captures``."""
        if not self.once_per_capture:
            return [*self.before, *map(str, captures), *self.after]
        before, after = shlex.join(self.before), shlex.join(self.after)
        script = f'for capture; do {before} "$capture" {after} || exit; done'
        return ["sh", "-c", script, self.name, *map(str, captures)]

    def is_installed(self) -> bool:
        """True if the program is installed."""
        return shutil.which(self.before[0]) is not None

    def version(self) -> str:
        """The first line that mentions a version; empty if the program has none."""
        if not self.version_command:
            return ""
        shown = subprocess.run(self.version_command, capture_output=True, text=True, check=False)
        lines = (shown.stdout + shown.stderr).splitlines()
        line = next((line.strip() for line in lines if any(character.isdigit() for character in line)), "")
        return line.removeprefix("Version: ").partition(" (Git")[0]

    def shown(self) -> str:
        """The command line for people."""
        return " ".join([Path(self.before[0]).name, *self.before[1:], "FILE", *self.after])


def whydrop(command: tuple[str, ...], name: str = "whydrop") -> Program:
    """``command`` takes the captures as its last arguments."""
    has_version = Path(command[0]).name == "whydrop"
    return Program(
        name=name,
        before=command,
        version_command=(command[0], "--version") if has_version else (),
        install="make setup",
    )


TSHARK = Program(
    name="tshark",
    before=("tshark", "-r"),
    after=("-T", "fields", *(word for name in TSHARK_FIELDS for word in ("-e", name))),
    version_command=("tshark", "--version"),
    install="apt-get install tshark",
)

TSHARK_MATCHING = Program(
    name="tshark",
    before=("tshark", "-r"),
    after=("-T", "fields", *(word for name in TSHARK_MATCHING_FIELDS for word in ("-e", name))),
    version_command=("tshark", "--version"),
    install="apt-get install tshark",
    once_per_capture=True,
)

# Without -n it asks the name service for every address, and waits seconds for each where there is none.
TCPTRACE = Program(
    name="tcptrace",
    before=("tcptrace", "-n", "-l", "-r", "-W"),
    version_command=("tcptrace", "-v"),
    install="apt-get install tcptrace",
)

PLAIN_READ = Program(name="cat", before=("cat",), version_command=("cat", "--version"), install="(coreutils)")
