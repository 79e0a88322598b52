"""``whydrop study queues``: which queue for which line, from recordings of the experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whydrop.cli import study_run

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters
    from whydrop.studies.queues.study import Results

# Tables that only files hold: a row for each run, difference or point of a picture.
_IN_FILES = ("values", "distributions", "delays")


def run(given: dict[str, Any], wanted: Parameters) -> int:
    """Compute the study of queues, print it and write it into a folder; returns the exit status."""
    from whydrop.studies.queues import document, figures, study

    return study_run.reported(given, wanted, (study, figures, document), "used", _as_json)


def _as_json(results: Results) -> dict[str, Any]:
    from whydrop.studies.queues import sentences

    tables = {name: frame for name, frame in results.tables.items() if name not in _IN_FILES}
    summary = sentences.summary(results)
    return study_run.as_json("queues", results, results.parameters.document(), summary, tables, {})
