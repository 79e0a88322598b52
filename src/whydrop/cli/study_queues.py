"""``whydrop study queues``: which queue for which line, from recordings of the experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whydrop.cli import ending, study_run
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.studies.queues.parameters import Parameters

# Tables that only files hold: a row for each run, difference or point of a picture.
_IN_FILES = ("values", "distributions", "delays")


def run(given: dict[str, Any], wanted: Parameters) -> int:
    """Compute the study of queues, print it and write it into a folder; returns the exit status."""
    from whydrop.show import html
    from whydrop.studies import study_files
    from whydrop.studies.queues import document, figures, sentences, study

    folder, files = study_run.results_folder(given["output"], wanted.document()), 0
    with study_run.opened(given, folder) as (backend, advance):
        results = study.run(backend, wanted, advance)
        cancelling.raise_if_received()
        if folder is not None and results.facts["used"]:
            pictures = figures.figures(results)
            contents = study_files.Contents(
                {"parameters": wanted.document(), "notes": results.notes, "facts": results.facts},
                results.tables,
                pictures,
                lambda: html.page(document.document(results, pictures)),
            )
            files = len(study_files.write(contents, folder, given["formats"], study_run.writing(advance)))
    if given["as_json"]:
        tables = {name: frame for name, frame in results.tables.items() if name not in _IN_FILES}
        summary = sentences.summary(results)
        ending.write_json(study_run.as_json("queues", results, wanted.document(), summary, tables, {}))
    else:
        ending.show(document.document(results))
    study_run.say_files(folder if files else None, files, as_json=given["as_json"])
    return 0 if results.facts["used"] else ending.NOT_ANALYSED
