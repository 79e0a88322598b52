"""The congestion control of a sender by name, or ``unknown``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.control.laws import LAWS
from whydrop.explaining.predicting.control.model_based import has_gain_cycle, is_bbr
from whydrop.explaining.predicting.control.observed import Sender, sender
from whydrop.explaining.predicting.control.replay import Fall, Fit, falls, is_steady, replay

UNKNOWN = "unknown"

# Comparisons of windows that a name rests on at least.
_LEAST_COUNT = 10
# Acknowledgments that are replayed: a long flow must not take long.
_MOST_ACKS = 20_000
# Part of the comparisons in which a law is near the observed window, for it to explain them. The others are times at
# which something else limited the sender, or in which the capture misses packets. More is needed without reductions,
# which contradict most laws; for a law that explains them by chance; and where the flight is not steady.
_LEAST_NEAR = 0.75
_LEAST_NEAR_UNCERTAIN = 0.9
# Nats by which a law must be ahead of the next: more than one comparison can cost.
_AHEAD = 6.0
_CLOSE = 12.0
# If the best law is near in all comparisons, the variance of the windows is measured, as a part of what the costs
# assume, and less is enough; but no less than this part.
_LEAST_NOISE = 0.2
# Laws that are a simpler one until their own rule applies. Where the error of that one is the same in each comparison,
# within so many standard deviations of a window, it has not applied.
_SIMPLER = {"lp": "reno", "cdg": "reno", "vegas": "reno", "yeah": "scalable"}
_EQUAL = 1.0
# A law that is near in more of them contradicts BBR: marks at regular times make a cycle too.
_CONTRADICTS_BBR = 0.85
# Packets of a sender without data, which do not show whether it marks data as ECN-capable.
_MOST_WITHOUT_DATA = 4
# A sender that something else limits for this share of its time does not show its window.
_LIMITED_SHARE = 0.3


@dataclass(frozen=True)
class Control:
    """The congestion control of a sender.

    Attributes:
        name: its name in Linux, or ``unknown``. ``reno`` means windows of Reno: LP and CDG that did not reduce by
            delay, Vegas without a queue and DCTCP without marks have the same. ``scalable`` means windows of Scalable:
            YeAH that saw a short queue only has the same.
        candidates: the laws that explain the windows about as well as the best, best first; for ``reno`` and
            ``scalable`` also those controls that have the same windows here.
        why: why it is unknown; empty if it is known.
        fits: the distance of each law from the observed windows, the best first.
    """

    name: str
    candidates: tuple[str, ...]
    why: str = ""
    fits: tuple[Fit, ...] = ()


def control_of(found: Explained, flow: int) -> Control:
    """The congestion control of the sender of a flow (a row of the table ``flows``)."""
    seen = sender(found, flow)
    if seen is None:
        return Control(UNKNOWN, (), "no data with acknowledgments")
    return named(replace(seen, acks=seen.acks[:_MOST_ACKS]))


def named(seen: Sender) -> Control:
    """The congestion control of a sender."""
    if _is_l4s(seen.row):
        return Control(UNKNOWN, (), "its packets are ECT(1): L4S controls such as Prague have no law here")
    limiter = _limiter(seen.row)
    # BBR often sends less than its window allows, as an application does.
    if limiter and not (limiter == "application" and has_gain_cycle(seen)):
        return Control(UNKNOWN, (), f"limited by {limiter}")
    reductions = falls(seen.acks)
    fits = _fits(seen, reductions)
    contradicts = fits[0].count >= _LEAST_COUNT and max(fit.near for fit in fits) > _CONTRADICTS_BBR
    if not contradicts and is_bbr(seen):
        return Control("bbr", ("bbr",), fits=tuple(fits))
    if limiter:
        return Control(UNKNOWN, (), f"limited by {limiter}", tuple(fits))
    return _decided(fits, is_steady(seen, reductions), _may_be_dctcp(seen))


def _is_l4s(row: dict[str, Any]) -> bool:
    """True if most packets say that an L4S congestion control sends them (RFC 9331, section 4.1)."""
    return bool(2 * row.get("ect1", 0) > row["packets"])


def _limiter(row: dict[str, Any]) -> str | None:
    """A limit other than the congestion window that the connection met for much of the time."""
    shares = row.get("limits") or {}
    for name in ("application", "peer-application", "receive-window", "send-buffer"):
        if (shares.get(name) or 0.0) > _LIMITED_SHARE:
            return name
    return None


def _fits(seen: Sender, reductions: list[Fall]) -> list[Fit]:
    needs_ecn = _needs_ecn(seen.row)
    best: dict[str, Fit] = {}
    for law in LAWS:
        if needs_ecn is not None and needs_ecn != (law.name == "dctcp"):
            continue
        fit = replay(seen, law(seen.segment_bytes), reductions)
        if law.name not in best or fit.cost < best[law.name].cost:
            best[law.name] = fit
    return sorted(best.values(), key=lambda fit: fit.cost)


def _needs_ecn(row: dict[str, Any]) -> bool | None:
    """True if the sender marks retransmissions as ECN-capable too; ``None`` if that is not known.

    RFC 3168, section 6.1.5 forbids it; DCTCP does it (RFC 8257).
    """
    again = sum((row.get("retransmitted_by_kind") or {}).values())
    if row.get("ecn") == "off":
        return False
    if again <= _MOST_WITHOUT_DATA:
        return None
    # Packets of the handshake and of its end are not ECN-capable either.
    return bool(row["packets"] - row["ect0"] - row["ce_marked"] < again)


def _may_be_dctcp(seen: Sender) -> bool:
    """True if a sender with windows of Reno may have DCTCP: no marks, and no packets that show another one."""
    if any(ack.is_echo for ack in seen.acks):
        return False
    return seen.row.get("ecn") == "off" or _needs_ecn(seen.row) is not False


def _decided(fits: list[Fit], shows_window: bool, may_be_dctcp: bool) -> Control:
    simpler = {fit.name: fit for fit in fits if fit.name in _SIMPLER.values()}
    # CDG without reductions of its own is Reno.
    fits = [fit for fit in fits if fit.name != "cdg" or fit.chances or _has_windows_of("reno", fit, simpler)]
    best = fits[0]
    noise = _noise(best)
    leads = [(_lead(best, fit, noise), fit) for fit in fits]
    rivals = tuple(fit.name for lead, fit in leads if lead < _CLOSE)
    if best.count < _LEAST_COUNT:
        return Control(UNKNOWN, rivals, f"{best.count} comparisons of windows", tuple(fits))
    is_certain = shows_window and not best.chances and (best.reductions or best.falls)
    if best.near < (_LEAST_NEAR if is_certain else _LEAST_NEAR_UNCERTAIN):
        return Control(UNKNOWN, (), "no law explains the windows", tuple(fits))
    close = [fit for lead, fit in leads if lead < _AHEAD]
    names = tuple(fit.name for fit in close)
    for name in simpler:
        if name in names and all(_has_windows_of(name, fit, simpler) for fit in close):
            same = ("dctcp",) if name == "reno" and may_be_dctcp else ()
            return Control(name, (*names, *same), fits=tuple(fits))
    if len(close) > 1:
        return Control(UNKNOWN, names, "several laws explain the windows", tuple(fits))
    return Control(best.name, names, fits=tuple(fits))


def _has_windows_of(name: str, fit: Fit, simpler: dict[str, Fit]) -> bool:
    """True if a law is the simpler one, or was it all the time."""
    if fit.name == name:
        return True
    other = simpler.get(name)
    if other is None or _SIMPLER.get(fit.name) != name or len(fit.costs) != len(other.costs):
        return False
    pairs = zip(fit.costs, other.costs, strict=True)
    return all(abs(_deviations(one) - _deviations(two)) <= _EQUAL for one, two in pairs)


def _deviations(cost: float) -> float:
    """The error of a window in standard deviations, from its cost in nats."""
    return math.sqrt(2 * cost)


def _lead(best: Fit, fit: Fit, noise: float) -> float:
    """Nats by which the best law is ahead of another; chance in a law is no noise of the windows."""
    return (sum(fit.costs) - sum(best.costs)) / noise + fit.surprise - best.surprise


def _noise(best: Fit) -> float:
    if best.near < 1 or best.name == "cdg":
        return 1.0
    return min(1.0, max(_LEAST_NOISE, 2 * best.cost / max(1, best.count)))
