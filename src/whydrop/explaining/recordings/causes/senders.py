"""Facts from senders, beside any cause: limits, congestion signals, throughput by window.

Of few flows one by one; of many these would be a table, which the document has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from whydrop.explaining.recordings.findings import Fact, Value
from whydrop.explaining.recordings.measures.kink import Ends, WindowFit
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.measures.signals import Signals

# Of more flows than this nothing is said one by one.
_MOST_FLOWS = 4


def facts(scene: Scene, names: Sequence[str]) -> tuple[Fact, ...]:
    """Of these flows."""
    if len(names) > _MOST_FLOWS:
        return ()
    found = [
        *(_limited(one) for one in scene.limits if one.flow.name in names),
        *(_signals(one) for one in scene.signals if one.flow.name in names and (one.count or one.undone)),
        *(_fit(one) for one in scene.window_fits if one.flow.name in names),
    ]
    return tuple(found)


def of_flow(scene: Scene, name: str) -> dict[str, Any]:
    """The same of one flow, as the document has it; ``None`` where it is not known."""
    held = next((one for one in scene.limits if one.flow.name == name), None)
    signals = next((one for one in scene.signals if one.flow.name == name), None)
    fit = next((one for one in scene.window_fits if one.flow.name == name), None)
    return {
        "limits": held
        and {
            "by": held.by,
            "span_s": held.span_s,
            "queue_delay_s": _known(held.queue_delay_s),
            "shares": {key: one for key, one in held.shares.items() if one},
        },
        "congestion_signals": signals
        and {
            "by": signals.by,
            "count": signals.count,
            **signals.kinds,
            "undone": signals.undone,
            "timeouts_apart": signals.timeouts_apart,
        },
        "window_fit": fit
        and {
            "kink_bytes": _document(fit.kink_bytes),
            "plateau_bps": _document(fit.plateau_bps),
            "rtt_s": _document(fit.rtt_s),
            "plateau_of": fit.of,
            "receive_window_bytes": fit.receive_window_bytes,
            "round_trips_below": fit.below,
            "round_trips_above": fit.above,
        },
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _document(ends: Ends) -> dict[str, float]:
    return {"value": float(ends.value), "low": float(ends.low), "high": float(ends.high)}


def _limited(limits: HeldShares) -> Fact:
    shares = sorted(((share, name) for name, share in limits.shares.items() if share >= 0.005), reverse=True)
    return Fact.of(
        "limited-by",
        flow=limits.flow.name,
        by=limits.by,
        span_s=limits.span_s,
        queue_delay_s=_known(limits.queue_delay_s),
        limits=[name for _, name in shares],
        shares=[share for share, _ in shares],
    )


def _signals(signals: Signals) -> Fact:
    values: dict[str, Value] = {"flow": signals.flow.name, "by": signals.by, "count": signals.count}
    values |= {kind.replace("-", "_"): count for kind, count in signals.kinds.items()}
    return Fact.of("congestion-signals", **values, undone=signals.undone, timeouts_apart=signals.timeouts_apart)


def _fit(fit: WindowFit) -> Fact:
    values: dict[str, Value] = {"flow": fit.flow.name, "of": fit.of, "receive_window_bytes": fit.receive_window_bytes}
    for name, ends in (("kink_bytes", fit.kink_bytes), ("plateau_bps", fit.plateau_bps), ("rtt_s", fit.rtt_s)):
        values |= {name: float(ends.value), f"{name}_low": float(ends.low), f"{name}_high": float(ends.high)}
    return Fact("throughput-by-window", values)
