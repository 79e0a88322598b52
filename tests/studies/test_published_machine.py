"""As published only one machine's rows count: of sites without it, that is said, and what to do about it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from small_stores import Row, download, series, write
from whydrop.store.engines import open_backend
from whydrop.studies.discards import study
from whydrop.studies.discards.parameters import Days, Exposure, Parameters

DAY = date(2018, 2, 11)


def results(folder: Path, counters: list[Row], ndt: list[Row], definitions: str = "published") -> study.Results:
    asked = Parameters.model_validate(
        {
            "definitions": definitions, "days": Days(first=DAY, last=DAY), "metros": ("dfw",), "change": None,
            "contact": Exposure(metros=("dfw",)),
        }
    )  # fmt: skip
    with open_backend(write(folder / "store", counters, ndt)) as backend:
        return study.run(backend, asked, only=("utilisation", "contacts"))


def notes(found: study.Results) -> list[str]:
    return [note for note in found.notes if note.startswith("As published, only")]


def both(**more: object) -> list[Row]:
    """Octets, packets and no discards of a minute."""
    kinds = {"octets.tx": 1e6, "unicast.tx": 1e3, "discards.tx": 0.0}
    return [row for counter, value in kinds.items() for row in series(counter, [value] * 6, **more)]


@pytest.mark.slow
def test_samples_that_name_no_machine_are_said_to_be_missing(tmp_path: Path) -> None:
    found = results(tmp_path, both(machine=None), [download()])
    assert notes(found) == [
        "As published, only machine 'mlab1' counts, of which dfw01 has no samples (its rows name no machine): figures "
        "1 and 3 leave it out, and figure 7 counts its tests as not exposed. To see them, leave out --as-published: "
        "the corrected definitions take every machine's."
    ]
    assert found.facts["missing"]["utilisation"] == (
        "the store holds no counters of switches of machine 'mlab1', the only one that counts as published (its rows "
        "name no machine)"
    )


def test_of_some_sites_the_others_machines_are_named(tmp_path: Path) -> None:
    rows = both() + both(site="dfw02", switch="s1.dfw02", machine="mlab2")
    rows += both(site="dfw03", switch="s1.dfw03", machine="mlab3")
    found = results(tmp_path, rows, [download()])
    [note] = notes(found)
    assert "dfw02 and dfw03 have no samples (there are those of 'mlab2' and 'mlab3'): figures 1 and 3 leave" in note
    assert "--set published_machine=mlab2" in note
    assert "utilisation" not in found.facts["missing"]


@pytest.mark.slow
def test_tests_of_other_machines_are_why_figure_7_is_empty(tmp_path: Path) -> None:
    found = results(tmp_path, both(), [download(machine=None)])
    assert "NDT tests of machine 'mlab1', the only one that counts as published" in found.facts["missing"]["contacts"]
    [note] = notes(found)
    assert "dfw01 has no tests (its rows name no machine): figure 7 leaves it out." in note


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "definitions"), [("mlab1", "published"), (None, "corrected")])
def test_where_every_site_counts_nothing_is_said(tmp_path: Path, machine: str | None, definitions: str) -> None:
    assert notes(results(tmp_path, both(machine=machine), [download(machine=machine)], definitions)) == []
