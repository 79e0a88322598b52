"""Explains from TCP packet captures why packets drop or wait.

>>> import whydrop
>>> found = whydrop.explain("examples/policed-download.pcap.zst")
>>> found.verdicts[0].cause
'policer'

Names are loaded when they are first used, so that the command line starts in a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers know it; importing typing would take as long as all the rest of this module's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whydrop._core import CaptureError, __version__
    from whydrop.api import Explanation, explain
    from whydrop.document import Against, Capture, Flow, Parameter, ThroughputLost, Transfer, Verdict

_HOMES = {
    "Against": "whydrop.document",
    "Capture": "whydrop.document",
    "CaptureError": "whydrop._core",
    "Explanation": "whydrop.api",
    "Flow": "whydrop.document",
    "Parameter": "whydrop.document",
    "ThroughputLost": "whydrop.document",
    "Transfer": "whydrop.document",
    "Verdict": "whydrop.document",
    "__version__": "whydrop._core",
    "explain": "whydrop.api",
}

__all__ = [
    "Against",
    "Capture",
    "CaptureError",
    "Explanation",
    "Flow",
    "Parameter",
    "ThroughputLost",
    "Transfer",
    "Verdict",
    "__version__",
    "explain",
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
