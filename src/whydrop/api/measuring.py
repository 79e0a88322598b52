"""Measuring a path: tests, watches, queues, batches, and the far end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whydrop.measure.handle import Run
    from whydrop.recording.recording import Recording


def start(
    test: str,
    to: str | Sequence[str] = (),
    *,
    output: str | PathLike[str] = ".",
    length_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    with_runner: str | None = None,
    secret: str | None = None,
    title: str = "",
    note: str = "",
) -> Run:
    """Start a test, and go on; several may run at once.

    Args:
        test: its name in the catalogue (``whydrop tests`` lists them), or the path of a test file.
        to: the hosts to test against, as ``host`` or ``host:port``.
        output: the folder in which the recording gets a folder of its own.
        length_s: how long the load lasts; by default as the test says.
        parameters: of the test, by name (``whydrop tests TEST`` lists them).
        with_runner: programs that measure instead of the engine, such as ``iperf3``.
        secret: that the responders ask for.
        title: distinguishes this recording from others.
        note: kept with the recording.

    Returns:
        The run: watch it by :meth:`Run.events`, end it by :meth:`Run.stop`, wait for it by :meth:`Run.recording`.

    Raises:
        ValueError: there is no such test, its file has mistakes, or hosts and parameters do not fit it. What goes wrong
            later is raised by :meth:`Run.wait`.

    >>> import whydrop
    >>> run = whydrop.start("rrul", to="server.example", length_s=10)  # doctest: +SKIP
    >>> for event in run.events():  # doctest: +SKIP
    ...     print(event.state, event.elapsed_s)
    """
    from whydrop.measure.handle import Run, prepared

    plan, settings = prepared(
        test,
        [to] if isinstance(to, str) else list(to),
        output=Path(output),
        length_s=length_s,
        parameters=parameters or {},
        with_runner=with_runner,
        secret=secret,
        title=title,
        note=note,
    )
    return Run(plan, settings)


def run(test: str, to: str | Sequence[str] = (), **options: Any) -> Recording:
    """Run a test, and return its recording; Ctrl-C ends the test, and what was measured is kept.

    Args:
        test: as for :func:`start`, and so are ``to`` and ``options``.

    Raises:
        ValueError: as of :func:`start`.
        whydrop.measure.engine.EngineError: it could not begin: a host cannot be reached, or a program is missing.
    """
    started = start(test, to, **options)
    try:
        return started.recording()
    except KeyboardInterrupt:
        started.stop()
        started.wait()
        raise
