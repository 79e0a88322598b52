"""Facts from senders, beside any cause: limits, congestion signals, throughput by window.

Of few flows one by one; of many these would be a table, which the document has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from whydrop.explaining.recordings.findings import Fact, Quantity, Value
from whydrop.explaining.recordings.measures.kink import WindowFit
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
        *(_signals(one) for one in scene.signals if one.flow.name in names and _has_any(one)),
        *(_fit(one) for one in scene.window_fits if one.flow.name in names),
    ]
    return tuple(found)


def of_flow(scene: Scene, name: str) -> dict[str, Any]:
    """The same of one flow, as the document has it; ``None`` where it is not known."""
    held = next((one for one in scene.limits if one.flow.name == name), None)
    signals = next((one for one in scene.signals if one.flow.name == name), None)
    fit = next((one for one in scene.window_fits if one.flow.name == name), None)
    return {
        "limits": held and {**_held(held), "shares": {key: one for key, one in held.shares.items() if one}},
        "congestion_signals": signals and _counts(signals),
        "window_fit": fit
        and {
            **{key: asdict(getattr(fit, key)) for key in _FITTED},
            "plateau_of": fit.of,
            "receive_window_bytes": fit.receive_window_bytes,
            "round_trips_below": fit.below,
            "round_trips_above": fit.above,
        },
    }


_FITTED = ("kink_bytes", "plateau_bps", "rtt_s")


def _held(limits: HeldShares) -> dict[str, Any]:
    queue_delay_s = limits.queue_delay_s if math.isfinite(limits.queue_delay_s) else None
    return {"by": limits.by, "span_s": limits.span_s, "queue_delay_s": queue_delay_s}


def _counts(signals: Signals) -> dict[str, Any]:
    counts = {"by": signals.by, "count": signals.count, **signals.kinds}
    counts |= {"undone": signals.undone, "timeouts_apart": signals.timeouts_apart}
    seen = signals.reductions
    if seen is None:
        return counts
    falls = {"falls": seen.falls, "falls_attributed": seen.attributed, "falls_attributed_share": seen.share}
    duplicates = {"duplicate_acks": seen.duplicate_acks, "duplicate_acks_of_reordering": seen.of_reordering}
    return {**counts, "other_reductions": seen.others, **falls, **duplicates}


def _has_any(signals: Signals) -> bool:
    seen = signals.reductions
    return bool(signals.count or signals.undone or (seen and (seen.others or seen.falls or seen.duplicate_acks)))


def _limited(limits: HeldShares) -> Fact:
    shares = sorted(((share, name) for name, share in limits.shares.items() if share >= 0.005), reverse=True)
    names, parts = [name for _, name in shares], [share for share, _ in shares]
    return Fact("limited-by", {"flow": limits.flow.name, **_held(limits), "limits": names, "shares": parts})


def _signals(signals: Signals) -> Fact:
    counts = {name.replace("-", "_"): count for name, count in _counts(signals).items() if name != "other_reductions"}
    others = signals.reductions.others if signals.reductions else {}
    counts |= {"others": list(others), "other_counts": list(others.values())}
    return Fact("congestion-signals", {"flow": signals.flow.name, **counts})


def _fit(fit: WindowFit) -> Fact:
    values: dict[str, Value] = {"flow": fit.flow.name, "of": fit.of, "receive_window_bytes": fit.receive_window_bytes}
    for name in _FITTED:
        fitted: Quantity = getattr(fit, name)
        values |= {name: fitted.value, f"{name}_low": fitted.low, f"{name}_high": fitted.high}
    return Fact("throughput-by-window", values)
