"""The parameters of the study of queues: which variables name a cell, and what is compared with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STRATA = ("line", "control", "scene")


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
    target_ms: float = 50.0

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "queue": self.queue, "strata": list(self.strata), "baseline": self.baseline, "target_ms": self.target_ms,
        }  # fmt: skip
