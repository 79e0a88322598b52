"""Measures a network path, and explains why its packets drop or wait.

>>> import whydrop
>>> found = whydrop.explain("examples/policed-download.pcap.zst")
>>> found.verdicts[0].cause
'policer'

:func:`explain_pair` takes two captures of one path, :func:`match` only matches their packets.

Names are loaded when they are first used, so that the command line starts in a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers know it; importing typing would take as long as all the rest of this module's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whydrop._core import CaptureError, __version__
    from whydrop.api import Explanation, explain, explain_pair, explain_recording
    from whydrop.document import Against, Capture, Flow, Model, Parameter, ThroughputLost, Transfer, Verdict
    from whydrop.matching import Matching, match
    from whydrop.pair import AfterGap, Changes, ClockStretch, LeftOut, Pair, PairFlow, Transit

_HOMES = {
    "AfterGap": "whydrop.pair",
    "Against": "whydrop.document",
    "Capture": "whydrop.document",
    "CaptureError": "whydrop._core",
    "Changes": "whydrop.pair",
    "ClockStretch": "whydrop.pair",
    "Explanation": "whydrop.api",
    "Flow": "whydrop.document",
    "LeftOut": "whydrop.pair",
    "Matching": "whydrop.matching",
    "Model": "whydrop.document",
    "Pair": "whydrop.pair",
    "PairFlow": "whydrop.pair",
    "Parameter": "whydrop.document",
    "ThroughputLost": "whydrop.document",
    "Transfer": "whydrop.document",
    "Transit": "whydrop.pair",
    "Verdict": "whydrop.document",
    "__version__": "whydrop._core",
    "explain": "whydrop.api",
    "explain_pair": "whydrop.api",
    "explain_recording": "whydrop.api",
    "match": "whydrop.matching",
}

__all__ = [
    "AfterGap",
    "Against",
    "Capture",
    "CaptureError",
    "Changes",
    "ClockStretch",
    "Explanation",
    "Flow",
    "LeftOut",
    "Matching",
    "Model",
    "Pair",
    "PairFlow",
    "Parameter",
    "ThroughputLost",
    "Transfer",
    "Transit",
    "Verdict",
    "__version__",
    "explain",
    "explain_pair",
    "explain_recording",
    "match",
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
