"""docs/plots.md says what the schema says."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.recording.metrics.reducing import REDUCERS
from whydrop.show.plots import COMBINERS
from whydrop.show.plots.schema import KINDS, PanelSpec, PlotSpec, SeriesSpec

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "plots.md").read_text()


@pytest.mark.parametrize("model", [PlotSpec, PanelSpec, SeriesSpec])
def test_every_key_is_documented_in_the_words_of_the_schema(model: type) -> None:
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        assert f"| `{name}` | {field.description} |" in DOCUMENT


@pytest.mark.parametrize("name", [*KINDS, *COMBINERS, *(name for name in REDUCERS if "seq-" not in name)])
def test_every_kind_combiner_and_reducer_is_documented(name: str) -> None:
    assert f"`{name}`" in DOCUMENT or name in ("fairness-mean",)
