"""Runs of a setting in virtual time, and how many of them have ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from whydrop import _core
from whydrop.errors import Error
from whydrop.explaining.predicting.recorded import Quantities

Json = dict[str, Any]

#: Takes the current step, the steps done, and the steps in all (``None`` where that is not known).
Advance = Callable[[str, float, float | None], None]


class PredictionError(Error):
    """No prediction can be made; the message says why."""


def quietly(step: str, done: float, total: float | None) -> None:
    """Report no progress."""


class Runs:
    """The runs of a prediction."""

    def __init__(self, advance: Advance = quietly) -> None:
        self.advance = advance
        self._ended = self._expected = 0

    def expect(self, count: int) -> None:
        """Count on so many more runs."""
        self._expected += count

    def of(self, setting: Json, seeds: Sequence[int]) -> list[Quantities]:
        """Quantities that would have been measured, for each seed.

        Raises:
            PredictionError: the path makes no sense.
        """

        def ended(done: int, _: int) -> None:
            self.advance("Simulating", self._ended + done, max(self._expected, self._ended + len(seeds)))

        try:
            outcomes = json.loads(_core.predict(json.dumps(setting), list(seeds), ended))
        except ValueError as reason:
            raise PredictionError(f"the path cannot be run: {reason}") from None
        self._ended += len(seeds)
        return [_quantities(one) for one in outcomes]


def _quantities(outcome: Json) -> Quantities:
    return Quantities(
        outcome["goodput_bps"],
        outcome["loss_rate"],
        outcome["queueing_p95_s"],
        outcome["queueing_greatest_s"],
        outcome["packets"],
    )
