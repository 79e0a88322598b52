"""The analysis in a thread of its own, so that Ctrl-C is received and progress shown while it runs."""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from whydrop.explaining.explained import Analysis


def analysed(
    sources: Sequence[str | PathLike[str]],
    *,
    sequence: bool = False,
    switch_port: tuple[str, str] | None = None,
    tables: bool,
) -> Analysis:
    """Analyse the sources of an explanation; on a terminal with progress, where it takes long.

    In ``tcpdump -w - | whydrop explain -`` Ctrl-C reaches both programs: tcpdump ends, and with it the input. So where
    standard input is read, the first Ctrl-C lets the rest of it be read and explained.

    Raises:
        whydrop.Error: the input could not be analysed.
        KeyboardInterrupt: the analysis was not finished; its thread still runs, so the process must end by
            ``os._exit``.
    """
    from whydrop.explaining.sources import analyse

    return _watched(
        sources,
        lambda **watch: analyse(sources, sequence=sequence, switch_port=switch_port, tables=tables, **watch),
    )


def match_pair(paths: Sequence[str | PathLike[str]], *, tables: bool) -> Analysis:
    """Match two captures of one path, as :func:`analysed` analyses."""
    from whydrop import _core

    return _watched(paths, lambda **watch: _core.match_pair(paths, tables=tables, **watch), "Aligning clocks")


def _watched(
    paths: Sequence[str | PathLike[str]], call: Callable[..., Analysis], afterwards: str = "Weighing causes"
) -> Analysis:
    patient = "-" in map(str, paths)
    if not sys.stderr.isatty():
        return _finish(_start(call), patient)

    from whydrop.cli.progress import PATIENCE_S, metered

    with metered(afterwards) as meter:
        work = _start(lambda: call(progress=meter.advance))
        return _finish(work, patient, wait_s=PATIENCE_S, when_long=meter.show)


class _Work:
    """Work in another thread. Waiting for it is interrupted by Ctrl-C, as waiting for a silent pipe is not."""

    def __init__(self) -> None:
        self.result: Analysis | None = None
        self.failure: BaseException | None = None
        # _thread and not threading, which takes several times as long to import as a small capture to explain.
        self.running = _thread.allocate_lock()
        self.running.acquire()


def _start(call: Callable[[], Analysis]) -> _Work:
    work = _Work()

    def body() -> None:
        try:
            work.result = call()
        except BaseException as reason:
            work.failure = reason
        finally:
            work.running.release()

    _thread.start_new_thread(body, ())
    return work


def _finish(work: _Work, patient: bool, *, wait_s: float = -1, when_long: Callable[[], None] | None = None) -> Analysis:
    try:
        if not work.running.acquire(timeout=wait_s) and when_long is not None:
            when_long()
            work.running.acquire()
    except KeyboardInterrupt:
        if not patient:
            raise
        sys.stderr.write("\nwhydrop: explaining what has been captured; Ctrl-C once more stops\n")
        work.running.acquire()
    if work.failure is not None:
        raise work.failure
    assert work.result is not None
    return work.result
