"""What is drawn as numbers: everything that a picture shows, before it was thinned for the pixels."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Any

from whydrop.show.plots.picture import Picture


def csv_text(picture: Picture) -> str:
    """One row a mark. Columns: panel, recording, series, units, mark, then its places and numbers."""
    text = io.StringIO()
    frame = picture.frame()
    if frame.width:
        frame.write_csv(text)
    return text.getvalue()


def json_text(picture: Picture) -> str:
    """A document: the words of the picture, what is left out, and each trace with its columns."""
    document = {
        "plot": picture.key,
        "title": picture.title,
        "subtitle": picture.subtitle,
        "notes": picture.footnotes(),
        "left_out": {**asdict(picture.left_out), "share": picture.left_out.share},
        "panels": [
            {
                "title": panel.title,
                "x": panel.x_title,
                "y": panel.y_title,
                "x_categories": [word for _, word in panel.x_words],
                "y_categories": [word for _, word in panel.y_words],
                "traces": [_trace(trace) for trace in panel.traces if not trace.helper],
            }
            for panel in picture.panels
        ],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _trace(trace: Any) -> dict[str, Any]:
    return {
        "recording": trace.recording,
        "series": trace.series,
        "units": trace.units,
        "mark": trace.mark,
        "columns": {
            name: [None if isinstance(value, float) and value != value else value for value in column]
            for name, column in trace.data.to_dict(as_series=False).items()
        },
    }
