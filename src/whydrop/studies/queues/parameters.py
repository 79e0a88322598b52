"""The parameters of the study of queues: which variables name a cell, and what is compared with what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from whydrop.errors import Mistake

STRATA = ("line", "control", "scene")
# The round-trip time of the experiment without load.
TARGET_MS = 50.0
# Columns of tables, or of what becomes a table or a picture: a condition of such a name would be a second one.
_COLUMNS = """
queue recording name run kernel repetition seed rate rate_down_bps rate_up_bps left_out metric value censored
runs  used reasons median low high method contained calm above steps above_share calm_s observed_ns calm_ns
contained_ns  first second runs_first runs_second pairs difference ratio ratio_low ratio_high effect
effect_kind effect_size p  adjusted_p conclusion by group rank mean strata floored hypothesis title source
checks supported contradicted open  missing conditions against decides runs_against median_against estimate
estimate_of claimed within p_for p_not bin  upper_ms upper_ns share samples part step step_ns median_ns time_s
median_ms len stratum block alone across text x  x2 y y2 number
"""
TAKEN = frozenset(_COLUMNS.split())
# A year: what is above is no time.
_LONGEST_MS = 3.2e10


@dataclass(frozen=True)
class Parameters:
    """The subject of a study.

    Attributes:
        queue: variable of the batch that names the queue.
        strata: variables that name the conditions; queues are compared within them.
        baseline: queue with which the published findings compare the others.
        target_ms: induced delay that counts as contained.
    """

    queue: str = "queue"
    strata: tuple[str, ...] = STRATA
    baseline: str = "pfifo_fast"
    target_ms: float = TARGET_MS

    def __post_init__(self) -> None:
        """Refuse what no study can be of."""
        # Each once: a variable is one column.
        object.__setattr__(self, "strata", tuple(dict.fromkeys(self.strata)))
        if not self.queue.strip() or not all(name.strip() for name in self.strata):
            raise Mistake("an empty name of a variable: expected such as queue, line, control, scene")
        if self.queue in self.strata:
            raise Mistake(f"stratum {self.queue!r}: the queue has the same variable")
        if taken := sorted({*self.strata} & TAKEN):
            raise Mistake(f"stratum {taken[0]!r}: tables have a column of this name; rename the variable of the batch")
        if not math.isfinite(self.target_ms) or not 0 < self.target_ms <= _LONGEST_MS:
            raise Mistake(f"target: {self.target_ms:g} ms: expected a time above zero, such as {TARGET_MS:g} ms")

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "queue": self.queue, "strata": list(self.strata), "baseline": self.baseline, "target_ms": self.target_ms,
        }  # fmt: skip
