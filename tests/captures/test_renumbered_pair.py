"""Two captures with a firewall between them that changes sequence numbers are explained as they are without it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

import whydrop
from captures import changed
from example_files import EXAMPLES, POLICED

FAR = EXAMPLES / "policed-download-far.pcap.zst"


def explained(tmp_path: Path, *, sack: bool) -> whydrop.Explanation:
    records = changed.read(FAR)
    flows = {changed.tcp_of(record.frame).flow for record in records}
    added = {flow: zlib.crc32(flow) for flow in flows}
    far = changed.write(tmp_path / "far.pcap", changed.renumbered(added, sack=sack)(records))
    return whydrop.explain(POLICED, far)


def without_changes(found: whydrop.Explanation) -> dict[str, Any]:
    document = dict(found.document)
    return {
        "verdicts": document["verdicts"],
        "transfers": document["transfers"],
        "pair": document["pair"] | {"changes": 0},
    }


@pytest.mark.slow
@pytest.mark.parametrize("sack", [True, False])
def test_the_explanation_is_that_of_the_pair_without_the_firewall(tmp_path: Path, sack: bool) -> None:
    found = explained(tmp_path, sack=sack)
    assert without_changes(found) == without_changes(whydrop.explain(POLICED, FAR))
    changes = found.pair.changes
    assert changes.renumbered_flows == len(found.pair.flows)
    assert (changes.sack_left_flows > 0) is not sack
