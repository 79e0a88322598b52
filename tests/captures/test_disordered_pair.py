"""Two captures with files out of the order of time are explained as ordered ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import whydrop
from captures import changed
from example_files import EXAMPLES, POLICED

FAR = EXAMPLES / "policed-download-far.pcap.zst"


@pytest.mark.slow
def test_files_out_of_order_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    def mixed(path: Path) -> Path:
        records = changed.disordered(20 * changed.MS)(changed.read(path))
        return changed.write(tmp_path / path.with_suffix(".pcap").name, records)

    found, ordered = whydrop.explain(mixed(POLICED), mixed(FAR)), whydrop.explain(POLICED, FAR)
    assert found.pair is not None
    assert ordered.pair is not None
    assert (found.pair.matched, found.pair.lost) == (ordered.pair.matched, ordered.pair.lost)
    assert found.verdicts[0].sentence == ordered.verdicts[0].sentence
    assert all("read in time order" in capture.notes[0] for capture in found.captures)
