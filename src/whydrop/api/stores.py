"""Stores: filled by a collector, and asked by studies."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.studies.discards.study import Results


def study(
    store: str | PathLike[str],
    parameters: str | PathLike[str] | None = None,
    *,
    settings: Sequence[str] = (),
    backend: str = "duckdb",
) -> Results:
    """Study the discards of a store's switches and the speeds of its clients: ``whydrop study discards``.

    Args:
        store: its folder, or a prefix of an object store.
        parameters: a TOML file (docs/discards.md); by default those that ``whydrop study discards example`` shows.
        settings: parameters as ``change.significance=0.05``, which win over the file.
        backend: the engine: ``duckdb``, ``spark``, ``spark://host:port``, ``bigquery:PROJECT``.

    Returns:
        Tables as polars frames, and notes.

    Raises:
        ValueError: the parameters have mistakes.
        whydrop.store.engines.BackendError: the store cannot be opened with this engine.
    """
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import reading
    from whydrop.studies.discards.study import run

    chosen = reading.read(None if parameters is None else Path(parameters), settings)
    with open_backend(fspath(store), backend) as opened:
        return run(opened, chosen)
