"""The study as files: whole, harmless, and legible without a network or scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from plain_text import plain
from studies.made_results import results
from whydrop.show import html
from whydrop.show.html import SCRIPTS, asset
from whydrop.studies.discards import document, figures, sentences
from whydrop.studies.discards.results import TABLES

pytestmark = pytest.mark.slow

HOSTILE = '<script>alert(1)</script>"&\x1b[2J\0]]>'


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "report"
    document.write(results(), folder, ["html", "parquet", "csv"])
    return folder


def only(*tables: str, **more: Any) -> Any:
    """Results of which these tables alone have rows."""
    return results(**{name: [] for name in TABLES if name not in tables}, **more)


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "report.html").read_text(encoding="utf-8")


class _Seen(HTMLParser):
    """The elements of a page, and its text outside of styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] != "style":
            self.text += data


@pytest.mark.exhaustive
def test_every_figure_is_there_in_every_format(tmp_path: Path) -> None:
    document.write(results(), tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{name}.{kind}" for name in figures.specs("corrected") for kind in ("png", "svg", "pdf")
    }


def test_every_table_is_there_in_both_formats(written: Path) -> None:
    assert {path.name for path in (written / "tables").iterdir()} == {
        f"{name}.{kind}" for name in (*TABLES, "plot") for kind in ("parquet", "csv")
    }
    assert pl.read_parquet(written / "tables" / "plot.parquet").equals(figures.plot_frame(results()))
    assert pl.read_csv(written / "tables" / "discard_ratio.csv")["ratio"].to_list() == [2e-4, 0.0, None]


def test_the_parameters_are_kept_beside_the_figures(written: Path) -> None:
    document = json.loads((written / "study.json").read_text())
    assert document["parameters"]["metros"] == ["dfw", "lga"]
    assert document["notes"] == ["The store holds no telemetry of lga."]


def test_only_what_was_asked_for_is_written_and_named(tmp_path: Path) -> None:
    made = document.write(only("contact_days"), tmp_path, ["svg", "csv"])
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(made)
    assert {path.suffix for path in made} == {".svg", ".csv", ".json"}


def test_a_format_that_is_not_known_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no format 'docx': expected some of png, svg"):
        document.write(results(), tmp_path / "new", ["csv", "docx"])
    assert not (tmp_path / "new").exists()


def test_tables_are_kept_when_a_picture_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whydrop.show.writing.rendered", full)
    with pytest.raises(OSError, match="No space"):
        document.write(only("contact_days"), tmp_path, ["parquet", "html", "png"])
    assert (tmp_path / "tables" / "contact_days.parquet").exists()
    assert (tmp_path / "report.html").exists()
    assert not list(tmp_path.rglob("*.part"))


def test_the_summary_comes_first_and_is_whole(text: str) -> None:
    seen = _Seen(text).text
    first, *rest = sentences.summary(results())
    assert seen.index(first) < seen.index("Figure 1")
    for line in rest:
        assert line in seen


def test_every_figure_has_a_caption_with_its_definition_and_what_is_left_out(text: str) -> None:
    seen = _Seen(text).text
    for name, figure in figures.facets(results()).items():
        for words_ in (figure.title, figures.specs("corrected")[name].caption, figure.footnotes()[0]):
            assert words_ in seen


def test_conclusions_coverage_and_parameters_are_in_the_page(text: str) -> None:
    seen = plain(_Seen(text).text)
    for words_ in ("undecided", "0.900 to 1.20", "200 ppm", "< 0.0001", "90 %", "6 %", "4 %", "tests.most_duration_s"):
        assert words_ in seen


def test_a_page_loads_nothing_and_runs_nothing_but_its_own_scripts(text: str) -> None:
    seen = _Seen(text)
    assert not [tag for tag, _ in seen.elements if tag in ("iframe", "object", "embed", "img", "form")]
    assert [tag for tag, _ in seen.elements].count("script") == len(SCRIPTS) + 1
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith("default-src 'none';")
    for script in SCRIPTS:
        digest = base64.b64encode(hashlib.sha256(asset(script).encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy, script
    for tag, attributes in seen.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href"):
                assert (value or "").startswith(("#", "data:")), (tag, value)
    identifiers = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_names_from_a_store_are_text_and_never_markup(tmp_path: Path) -> None:
    made = only("client_speeds", "comparisons", "discard_changes", "utilisation", site=HOSTILE)
    made.notes.append(HOSTILE)
    hostile = html.page(document.page(made, figures.facets(made)))
    assert [tag for tag, _ in _Seen(hostile).elements].count("script") == len(SCRIPTS) + 1
    assert "<script>alert" not in hostile
    assert "\x1b" not in hostile
    assert "&lt;script&gt;" in hostile


def test_a_figure_without_rows_has_no_picture_and_says_why(tmp_path: Path) -> None:
    empty = only("contact_days")
    empty.facts["missing"] = {"utilisation": "the store holds no counters"}
    made = document.write(empty, tmp_path, ["svg", "html"])
    assert [path.name for path in made if path.suffix == ".svg"] == ["contact_days.svg"]
    assert "no picture, because the store holds no counters." in _Seen((tmp_path / "report.html").read_text()).text


def test_a_study_of_nothing_is_a_page_too() -> None:
    nothing = only()
    seen = _Seen(html.page(document.page(nothing, figures.facets(nothing)))).text
    assert seen.count("no picture, because") == 11


def test_shares_of_classes_are_of_all_tests_of_a_site() -> None:
    (row,) = document.coverage(results().tables).filter(pl.col("site") == "dfw01").to_dicts()
    assert (row["zero"], row["non-zero"], row["unknown"]) == (0.9, 0.06, 0.04)
    assert row["coverage"] == 0.875
    assert (row["days"], row["ratio_days"], row["tests"]) == (2, 2, 100)


@pytest.mark.needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_browser_shows_every_figure_with_nothing_to_complain_of(
    written: Path, browser: Any, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    opened = context.new_page()
    trouble: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: trouble.append(message.text))
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    address = (written / "report.html").as_uri()
    opened.goto(address)
    shown = opened.locator(".figure .panels")
    boxes = [shown.nth(number).bounding_box() for number in range(shown.count())]
    wide = opened.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert trouble == []
    assert requests == [address]
    assert len(boxes) == 11
    for box in boxes:
        assert box["width"] <= width
        assert box["height"] > 100
    assert wide <= width
