"""Published findings and predictions as hypotheses: data, each with a measure, two sides, and the conditions.

Of 2015: T. Høiland-Jørgensen, P. Hurtig and A. Brunstrom, "The Good, the Bad and the WiFi: Modern AQMs in a residential
setting", Computer Networks 89 (2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from whydrop.studies.queues import families
from whydrop.studies.queues.measures import CONTAIN, LATENCY

PAPER = "Høiland-Jørgensen et al. 2015"
# In place of a queue's name: the one that the reader chose as baseline.
BASELINE = "baseline"


@dataclass(frozen=True)
class Hypothesis:
    """A statement about queues.

    Attributes:
        key: its name.
        title: the statement, a sentence.
        source: who states it, or predicts it.
        metric: the measure.
        queues: each of them is claimed to hold.
        against: queues; the claim holds against each of them. Empty: against ``limits``.
        comparison: ``below``: ``factor`` times the measure of one of ``queues`` is below that of each of ``against``;
            ``above``: it is above. ``within``: most runs of one of ``queues`` lie within ``limits``.
        factor: of measures that have ratios.
        limits: the least and the greatest value; ``None``: there is no such end.
        where: values of the conditions for which it is stated, by variable; others decide nothing.
    """

    key: str
    title: str
    source: str
    metric: str
    queues: tuple[str, ...]
    comparison: Literal["below", "above", "within"]
    against: tuple[str, ...] = ()
    factor: float = 1.0
    limits: tuple[float | None, float | None] = (None, None)
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_LINES_OF_2014 = ("10/1", "10/10", "100/100")
_RRUL = {"line": ("10/10",), "control": ("cubic",), "scene": ("rrul",)}
_DISTANCES = {"line": _LINES_OF_2014, "control": ("cubic",), "scene": ("distances",)}
# All flows start on an idle line, or most of them beside one.
_TRANSIENT = {"line": _LINES_OF_2014, "control": ("cubic",), "scene": ("rrul", "transient")}
_LOADED = {"control": ("cubic",), "scene": ("rrul",)}

HYPOTHESES = (
    Hypothesis(
        "good-aqm",
        "ARED, PIE and CoDel each have an induced latency at least 5 times lower than the queue without AQM.",
        PAPER, LATENCY, families.SINGLE_OF_2014, "below", (BASELINE,), 5.0, where=_RRUL,
    ),
    Hypothesis(
        "good-fq",
        "SFQ, FQ-CoDel and FQ without CoDel each have a lower induced latency than each of ARED, PIE and CoDel.",
        PAPER, LATENCY, families.FAIR_OF_2014, "below", families.SINGLE_OF_2014, where=_RRUL,
    ),
    Hypothesis(
        "bad-down",
        "Downloads with four different round-trip times: SFQ, FQ-CoDel and FQ without CoDel each have a higher "
        "Jain's index than each of ARED, PIE and CoDel.",
        PAPER, "fairness-down", families.FAIR_OF_2014, "above", families.SINGLE_OF_2014, where=_DISTANCES,
    ),
    Hypothesis(
        "bad-up",
        "Uploads with four different round-trip times: SFQ, FQ-CoDel and FQ without CoDel each have a higher "
        "Jain's index than each of ARED, PIE and CoDel.",
        PAPER, "fairness-up", families.FAIR_OF_2014, "above", families.SINGLE_OF_2014, where=_DISTANCES,
    ),
    Hypothesis(
        "ugly-aqm", "ARED, PIE and CoDel each take at least 1 s to contain induced latency after flows start.",
        PAPER, CONTAIN, families.SINGLE_OF_2014, "within", limits=(1.0, None), where=_TRANSIENT,
    ),
    Hypothesis(
        "ugly-fq",
        "SFQ, FQ-CoDel and FQ without CoDel each contain induced latency within 0.1 s after the last flow starts.",
        PAPER, CONTAIN, families.FAIR_OF_2014, "within", limits=(None, 0.1), where=_TRANSIENT,
    ),
    Hypothesis(
        "since-fq", "FQ-PIE and CAKE each have a lower induced latency than each of ARED, PIE and CoDel.",
        "the finding good-fq, for later queues", LATENCY, families.FAIR_SINCE, "below",
        families.SINGLE_OF_2014, where=_RRUL,
    ),
    Hypothesis(
        "rfc8290-flows", "FQ-CoDel gives probes, as flows of few packets, a lower induced latency than CoDel.",
        "RFC 8290, section 1.3", LATENCY, ("fq_codel",), "below", ("codel",), where=_LOADED,
    ),
    Hypothesis(
        "rfc8290-fairness",
        "Downloads with four different round-trip times: FQ-CoDel has a higher Jain's index than CoDel.",
        "RFC 8290, section 1.3", "fairness-down", ("fq_codel",), "above", ("codel",), where=_DISTANCES,
    ),
    Hypothesis(
        "rfc8033-target",
        "PIE keeps induced latency near 30 ms, its target of 15 ms in each of two directions: 15 to 60 ms "
        "(limits: ours).",
        "RFC 8033, section 4.2", LATENCY, ("pie",), "within", limits=(15.0, 60.0), where=_LOADED,
    ),
    Hypothesis(
        "rfc9332-target",
        "DualPI2 keeps induced latency of classic traffic near 30 ms, its target of 15 ms in each of two directions: "
        "15 to 60 ms (limits: ours).",
        "RFC 9332, appendix A.1", LATENCY, ("dualpi2",), "within", limits=(15.0, 60.0), where=_LOADED,
    ),
)  # fmt: skip


def hypothesis_of(key: str) -> Hypothesis:
    """The hypothesis of this name."""
    return next(one for one in HYPOTHESES if one.key == key)
