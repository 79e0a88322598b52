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

    def __init__(self, found: Explained, sources: Sequence[str]) -> None:
        """Of an explanation; nothing is simulated yet."""
        self._found = found
        self._sources = sources
        self._reproduced: Reproduction | None = None
        self._ranked: Prediction | None = None

    def of(self, changes: Sequence[str]) -> dict[str, Any]:
        """A prediction as HTML, and the command that makes it; without changes, the usual ones are tried.

        Raises:
            PredictionError: the captures have nothing that could be run.
            ChangeError: a change is not understood, or does not fit the path.
        """
        from whydrop.show import html, prediction

        document = prediction.document(self._predicted(changes))
        options = [word for change in changes for word in ("--change", change)]
        return {
            "html": "".join(html.fragment(part, 3) for part in document.parts),
            "command": shlex.join(["whydrop", "predict", *self._sources, *options]),
        }

    def _predicted(self, changes: Sequence[str]) -> Prediction:
        from whydrop.explaining.predicting.advising import tried_on
        from whydrop.explaining.predicting.prediction import with_changes
        from whydrop.explaining.predicting.reproducing import RUNS, reproduce
        from whydrop.explaining.predicting.running import Runs

        runs = Runs()
        if self._reproduced is None:
            self._reproduced = reproduce(self._found, None, RUNS, runs)
        if changes:
            return with_changes(self._reproduced, changes, runs)
        if self._ranked is None:
            self._ranked = tried_on(self._reproduced, runs)
        return self._ranked
