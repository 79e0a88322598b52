"""Predictions of changes to the connections of an analysis."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whydrop.explaining.explained import Explained
    from whydrop.explaining.predicting.prediction import Prediction
    from whydrop.explaining.predicting.reproducing import Reproduction


class Predictions:
    """Predictions for a reader; what was recorded is reproduced once, by the first."""

    def __init__(self, found: Explained, sources: Sequence[str], *, is_part: bool) -> None:
        """Of an explanation, or of a part of its sources; nothing is simulated yet."""
        self._found = found
        self._sources = sources
        self._is_part = is_part
        self._reproduced: Reproduction | None = None
        self._ranked: Prediction | None = None

    def of(self, changes: Sequence[str]) -> dict[str, Any]:
        """A prediction as HTML, and the command that makes it; without changes, the usual ones are tried.

        No command predicts for a part of captures; then it is empty.

        Raises:
            PredictionError: the captures have nothing that could be run.
            ChangeError: a change is not understood, or does not fit the path.
        """
        from whydrop.show import html, prediction

        document = prediction.document(self._predicted(changes))
        options = [word for change in changes for word in ("--change", change)]
        return {
            "html": "".join(html.fragment(part, 3) for part in document.parts),
            "command": "" if self._is_part else shlex.join(["whydrop", "predict", *self._sources, *options]),
        }

    def _predicted(self, changes: Sequence[str]) -> Prediction:
        from whydrop.explaining.predicting.advising import predicted
        from whydrop.explaining.predicting.reproducing import RUNS, reproduce
        from whydrop.explaining.predicting.running import Runs

        runs = Runs()
        if self._reproduced is None:
            self._reproduced = reproduce(self._found, None, RUNS, runs)
        if not changes and self._ranked is not None:
            return self._ranked
        found = predicted(self._reproduced, changes, runs)
        self._ranked = self._ranked if changes else found
        return found
