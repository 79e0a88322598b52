"""Measures a network path, and explains why its packets drop or wait.

>>> import whydrop
>>> found = whydrop.explain("examples/policed-download.pcap.zst")
>>> found.verdicts[0].cause
'policer'

:func:`explain_pair` takes two captures of one path, :func:`match` only matches their packets. :func:`run` and
:func:`start` measure a path, :func:`open` opens recordings and stores, :func:`compare` compares recordings, and
:func:`study` asks a store. `docs/python.md` shows them at work.

Names are loaded when they are first used, so that the command line starts in a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers know it; importing typing would take as long as all the rest of this module's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whydrop._core import CaptureError, __version__
    from whydrop.api.explaining import Explanation, explain
    from whydrop.api.measuring import run, start
    from whydrop.api.recordings import compare, open
    from whydrop.api.stores import study
    from whydrop.errors import Error
    from whydrop.explaining.document import (
        Against,
        Capture,
        Cause,
        Flow,
        Model,
        Parameter,
        ThroughputLost,
        Transfer,
        Verdict,
    )
    from whydrop.explaining.matching import Matching, match
    from whydrop.explaining.pair import AfterGap, Changes, ClockInterval, LeftOut, Pair, PairFlow, Transit
    from whydrop.measure.handle import Run
    from whydrop.recording.recording import Recording
    from whydrop.store.store import Store

_HOMES = {
    "AfterGap": "whydrop.explaining.pair",
    "Against": "whydrop.explaining.document",
    "Capture": "whydrop.explaining.document",
    "CaptureError": "whydrop._core",
    "Cause": "whydrop.explaining.document",
    "Changes": "whydrop.explaining.pair",
    "ClockInterval": "whydrop.explaining.pair",
    "Error": "whydrop.errors",
    "Explanation": "whydrop.api.explaining",
    "Flow": "whydrop.explaining.document",
    "LeftOut": "whydrop.explaining.pair",
    "Matching": "whydrop.explaining.matching",
    "Model": "whydrop.explaining.document",
    "Pair": "whydrop.explaining.pair",
    "PairFlow": "whydrop.explaining.pair",
    "Parameter": "whydrop.explaining.document",
    "ThroughputLost": "whydrop.explaining.document",
    "Recording": "whydrop.recording.recording",
    "Run": "whydrop.measure.handle",
    "Store": "whydrop.store.store",
    "Transfer": "whydrop.explaining.document",
    "Transit": "whydrop.explaining.pair",
    "Verdict": "whydrop.explaining.document",
    "__version__": "whydrop._core",
    "compare": "whydrop.api.recordings",
    "explain": "whydrop.api.explaining",
    "match": "whydrop.explaining.matching",
    "open": "whydrop.api.recordings",
    "run": "whydrop.api.measuring",
    "start": "whydrop.api.measuring",
    "study": "whydrop.api.stores",
}

__all__ = [
    "AfterGap",
    "Against",
    "Capture",
    "CaptureError",
    "Cause",
    "Changes",
    "ClockInterval",
    "Error",
    "Explanation",
    "Flow",
    "LeftOut",
    "Matching",
    "Model",
    "Pair",
    "PairFlow",
    "Parameter",
    "Recording",
    "Run",
    "Store",
    "ThroughputLost",
    "Transfer",
    "Transit",
    "Verdict",
    "__version__",
    "compare",
    "explain",
    "match",
    "open",
    "run",
    "start",
    "study",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that holds it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'whydrop' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
