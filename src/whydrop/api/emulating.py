"""Paths made real on this machine, from Python: see ``whydrop.emulate``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any


def emulate(
    *sources: str | PathLike[str],
    command: Sequence[str],
    rtt_s: float | None = None,
    mtu_bytes: int | None = None,
    trace: str | PathLike[str] | None = None,
    reverse: bool = False,
    far: Sequence[str] = (),
    seed: int = 1,
) -> dict[str, Any]:
    """Run a program in a host that reaches another one over an emulated path (docs/emulation.md).

    Args:
        sources: a path such as ``"policer:rate=20M,burst=80kB"``, a TOML file with one, or captures that one is fitted
            to.
        command: the program and its arguments; it writes to stderr.
        rtt_s: delay on the return path; by default that of the file or of the captures, else 0.
        mtu_bytes: largest IP packet; by default that of the file, else 1500.
        trace: a trace of mahimahi, for a link behind the path; without sources it is the path.
        reverse: the path is for packets from the far host to the near one.
        far: lines for a shell of the far host, which runs each meanwhile.
        seed: of the path's random numbers.

    Returns:
        The document of ``whydrop emulate --json``: ``status`` of the program, and for each direction the packets that
        arrived, were delivered, dropped and marked, and how late the emulator sent them, in ns.

    Raises:
        whydrop.PathError: the path makes no sense.
        whydrop.EmulationError: it cannot be run here.
        whydrop.PredictionError: the captures have nothing that could be run.
        whydrop.CaptureError: a capture could not be analysed.
        OSError: a file cannot be read.

    >>> import whydrop
    >>> path = "fifo:rate=50M,limit=90kB"
    >>> found = whydrop.emulate(path, command=["sh", "-c", "ping -c 3 $WHYDROP_FAR"])  # doctest: +SKIP
    >>> found["near_to_far"]["delivered"]  # doctest: +SKIP
    3
    """
    from whydrop.api.explaining import explain
    from whydrop.emulating.emulation import Emulation
    from whydrop.emulating.setting import of_sources, trace_of

    setting = of_sources([str(source) for source in sources], lambda captures: explain(*captures))
    return Emulation(
        setting.path,
        command,
        far=far,
        trace_ms=[] if trace is None else trace_of(Path(trace)),
        is_reverse=reverse,
        round_trip_ns=round((setting.rtt_s or 0.0 if rtt_s is None else rtt_s) * 1e9),
        mtu_bytes=mtu_bytes or setting.mtu_bytes or 1500,
        seed=seed,
        is_quiet=True,
    ).run()
