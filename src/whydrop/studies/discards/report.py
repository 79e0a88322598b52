"""The study as files: figures, one page that needs neither a network nor scripts, and all tables."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.show import html
from whydrop.studies import study_files
from whydrop.studies.discards import document, figures
from whydrop.studies.study_files import FORMATS, Progress, write_table

if TYPE_CHECKING:
    from whydrop.studies.discards.study import Results
    from whydrop.studies.study_files import Folder

__all__ = ["FORMATS", "write", "write_table"]


def write(
    results: Results, folder: Path | Folder, formats: Collection[str] = FORMATS, progress: Progress | None = None
) -> list[Path]:
    """Write the study into a folder (`study_files.write`); what all figures draw is the table ``plot``.

    Of a figure without any row there is no picture; the page says why.
    """
    laid_out = figures.facets(results)
    contents = study_files.Contents(
        {"parameters": results.parameters.model_dump(mode="json"), "notes": results.notes, "facts": results.facts},
        {**results.tables, "plot": figures.plot_frame(results)},
        {name: figure for name, figure in laid_out.items() if figures.rows(figure)},
        lambda: html.page(document.page(results, laid_out)),
    )
    return study_files.write(contents, folder, formats, progress)
