"""A path to emulate: described by a user, or the one that explains captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop import _core
from whydrop.explaining.predicting.described import Described, PathError, of_file, of_text

if TYPE_CHECKING:
    from whydrop.explaining.explained import Explained


def of_sources(sources: Sequence[str], explain: Callable[[Sequence[Path]], Explained]) -> Described:
    """The path of a text or a file, or the one that explains captures; of nothing, a path that passes all packets.

    Args:
        sources: one text, one TOML file, or captures.
        explain: explains captures, with tables.

    Raises:
        PathError: it makes no sense.
        PredictionError: the captures have nothing that could be run.
        OSError: a file cannot be read.
    """
    if not sources:
        return Described({"elements": []})
    first = Path(sources[0])
    if len(sources) == 1 and first.suffix == ".toml":
        return of_file(first)
    if len(sources) == 1 and not first.exists() and ":" in sources[0]:
        return of_text(sources[0])
    return _fitted(explain([Path(source) for source in sources]))


def _fitted(found: Explained) -> Described:
    from whydrop.explaining.predicting.reproducing import fitted_setting
    from whydrop.explaining.predicting.running import Runs

    fitted = fitted_setting(found, Runs())
    # The link over which packets come to the path: a host here sends as fast as its processor.
    line = [] if fitted["line_bps"] is None else [{"element": "line", "rate_bps": fitted["line_bps"]}]
    return Described({"elements": [*line, *fitted["path"]["elements"]]}, fitted["round_trip_ns"] / 1e9, is_fitted=True)


def trace_of(file: Path) -> list[int]:
    """The delivery opportunities of a trace of mahimahi, in ms.

    Raises:
        PathError: a line is no time.
        OSError: the file cannot be read.
    """
    try:
        return _core.trace_times(file.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise PathError(f"{file}: {reason}") from None
