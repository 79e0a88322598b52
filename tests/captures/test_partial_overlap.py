"""Two captures of which one covers only a part of the time."""

from __future__ import annotations

import polars as pl
import pytest

import whydrop
from captures.changed import read, write
from example_files import EXAMPLES, POLICED


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> whydrop.Explanation:
    """The example of a policer, with a second capture that began when nothing more was lost."""
    far = EXAMPLES / "policed-download-far.pcap.zst"
    crossings = whydrop.explain(POLICED, far).table("crossings")
    last_lost_ns = crossings.filter(pl.col("crossing") == "lost")["sent_ns"].cast(pl.Int64).max()
    records = [record for record in read(far) if record.time_ns > last_lost_ns + 100_000_000]
    assert records
    return whydrop.explain(POLICED, write(tmp_path_factory.mktemp("late") / "far.pcap", records))


def test_what_one_capture_alone_recorded_is_explained_by_it(late: whydrop.Explanation):
    headline = late.verdicts[0]
    assert late.pair is not None
    assert (late.pair.lost, headline.cause, headline.lost) == (0, "policer", 96)
    assert headline.parameters["rate_bps"].value == pytest.approx(20e6, rel=0.02)
    assert any(fact["code"] == "captured-at-one-point" for fact in late.document["verdicts"][0]["facts"])


def test_transfers_that_lost_packets_are_not_called_unlimited(late: whydrop.Explanation):
    assert {transfer.cause for transfer in late.transfers if transfer.lost} == {"policer"}
