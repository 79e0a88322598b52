"""Any number of a document by the unit in its name: finite, not negative, a share of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

# What has a sign: differences of clocks and of counters, and likelihoods.
_SIGNED = ("clock_", "offset_s", "drift_ppm", "ttl_hops", "_nats")
# ... what a receiver of RTP expected less what came, below zero with duplicates (RFC 3550, section 6.4.1) ...
_SIGNED_FIELDS = (".reported.lost",)
# ... and instants, which may be before 1970.
_INSTANTS = {"first", "last", "start", "end", "from", "until", "spans", "start_s", "end_s"}
_SHARES = ("share", "_share", "confidence", "explained", "loss_probability", "limited_share")
# Nothing that is counted in a file comes near: a difference that fell below zero, or a rate over no time.
_MOST = 1e15
# No link carries more, bit/s: a rate beyond it is a size over a time that was not measured.
_FASTEST_BPS = 1e13


def found(value: Any, where: str = "document", name: str = "") -> Iterator[str]:
    """The numbers of a value that no measurement yields."""
    if isinstance(value, Mapping):
        shares = name == "shares"
        for key, part in value.items():
            inherited = "share" if shares else name if key in ("value", "low", "high") else str(key)
            yield from found(part, f"{where}.{key}", inherited)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from found(part, f"{where}[{index}]", name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _odd(value, where, name)


def _odd(value: float, where: str, name: str) -> Iterator[str]:
    if not math.isfinite(value):
        yield f"{where}: {value} is no number"
    elif abs(value) > (_FASTEST_BPS if name.endswith("_bps") else _MOST):
        yield f"{where}: {value:g} is larger than anything measured"
    elif value < 0 and not _has_sign(where, name):
        yield f"{where}: {value:g} is negative"
    elif any(name == share or name.endswith("_share") for share in _SHARES) and value > 1:
        yield f"{where}: a share of {value:g}"


def _has_sign(where: str, name: str) -> bool:
    return name in _INSTANTS or any(part in name for part in _SIGNED) or where.endswith(_SIGNED_FIELDS)
