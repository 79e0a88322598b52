"""The analysis in a thread of its own, so that Ctrl-C is received and progress shown while it runs."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from whydrop.explaining.explained import Analysis
    from whydrop.runtime.long_calls import Call


def analysed(sources: Sequence[str | PathLike[str]], **options: Any) -> Analysis:
    """Analyse the sources of an explanation; on a terminal with progress, where it takes long.

    ``options`` are those of :func:`whydrop.explaining.sources.analyse`.

    In ``tcpdump -w - | whydrop explain -`` Ctrl-C reaches both programs: tcpdump ends, and with it the input. So where
    standard input is read, the first Ctrl-C lets the rest of it be read and explained.

    Raises:
        whydrop.Error: the input could not be analysed.
        KeyboardInterrupt: the analysis was not finished; its thread still runs, so the process must end by
            ``os._exit``.
    """
    from whydrop.explaining.sources import analyse

    return _watched(sources, lambda **watch: analyse(sources, **options, **watch))


def match_pair(
    paths: Sequence[str | PathLike[str]], *, tables: bool, hints: Mapping[str, Any] | None = None
) -> Analysis:
    """Match two captures of one path, as :func:`analysed` analyses."""
    from whydrop import _core

    def call(**watch: Any) -> Analysis:
        return _core.match_pair(paths, tables=tables, hints=hints, **watch)

    return _watched(paths, call, "Aligning clocks")


def _watched(
    paths: Sequence[str | PathLike[str]], call: Callable[..., Analysis], afterwards: str = "Weighing causes"
) -> Analysis:
    patient = "-" in map(str, paths)
    if not sys.stderr.isatty():
        return _result(_started(call), patient)

    from whydrop.cli.progress import PATIENCE_S, metered

    with metered(afterwards) as meter:
        running = _started(lambda: call(progress=meter.advance))
        running.wait(PATIENCE_S)
        if not running.is_over:
            meter.show()
        return _result(running, patient)


def _started(call: Callable[..., Analysis]) -> Call:
    from whydrop.runtime.long_calls import Call

    running = Call(call)
    running.start()
    return running


def _result(running: Call, patient: bool) -> Analysis:
    try:
        analysis: Analysis = running.result()
    except KeyboardInterrupt as reason:
        from whydrop.runtime.cancelling import Terminated

        if not patient or isinstance(reason, Terminated):
            raise
        sys.stderr.write("\nwhydrop: explaining what has been captured; Ctrl-C once more stops\n")
        analysis = running.result()
    return analysis
