"""The headers of what is sent to a host while it is measured, captured by tcpdump where there is one."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from whydrop.runtime import process_groups

# Headers with all options, and no payload.
_SNAPLEN_BYTES = 128
_STARTS_WITHIN_S = 10.0
_ENDS_WITHIN_S = 5.0


@contextlib.contextmanager
def captured(interface: str, address: str, file: Path) -> Iterator[list[str]]:
    """Capture TCP to and from an address; what could not be done is in the list that is given, in words.

    Args:
        interface: where the packets leave.
        address: of the host.
        file: the capture; it is there at the end, or a word says why not.
    """
    problems: list[str] = []
    program = shutil.which("tcpdump", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        problems.append("no capture was made: tcpdump is not installed")
        yield problems
        return
    words = [
        program,
        "-i",
        interface,
        "-s",
        str(_SNAPLEN_BYTES),
        "-U",
        "--immediate-mode",
        "-Z",
        "root",
        "-w",
        str(file),
    ]
    process = subprocess.Popen(
        [*words, "tcp", "and", "host", address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + _STARTS_WITHIN_S
        while not file.exists() and not process_groups.has_ended(process.pid) and time.monotonic() < until:
            time.sleep(0.02)
        yield problems
    finally:
        process_groups.signal_group(process.pid, signal.SIGTERM)
        process_groups.end(process.pid, _ENDS_WITHIN_S)
        _, said = process.communicate()
        if not file.exists() or file.stat().st_size == 0:
            lines = said.decode(errors="replace").strip().splitlines()
            problems.append(f"no capture: tcpdump printed: {lines[-1] if lines else 'nothing'}")
