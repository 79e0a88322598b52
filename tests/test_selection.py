"""Choosing flows by a part of their names."""

from __future__ import annotations

import pytest

from synthetic import FLOW
from whydrop import Explanation
from whydrop.explaining.selection import matcher, only_flows

V6 = "[2001:db8::1]:443 > [2001:db8::2]:50000"


@pytest.mark.parametrize(
    ("wanted", "flow", "matches"),
    [
        ("10.0.0.1", "10.0.0.1:1 > 10.0.0.2:2", True),
        ("10.0.0.1", "10.0.0.11:1 > 10.0.0.2:2", False),
        ("0.0.1", "10.0.0.1:1 > 10.0.0.2:2", False),
        (":443", V6, True),
        (":44", V6, False),
        ("2001:db8::1", V6, True),
        ("[2001:DB8::2]:50000", V6, True),
        ("10.0.0.1:1 > 10.0.0.2", "10.0.0.1:1 > 10.0.0.2:2", True),
        ("10.0.0.2:2 > 10.0.0.1:1", "10.0.0.1:1 > 10.0.0.2:2", False),
        ("10.0.0.2 10.0.0.1", "10.0.0.1:1 > 10.0.0.2:2", True),
        ("", "10.0.0.1:1 > 10.0.0.2:2", False),
    ],
)
def test_a_filter_matches_whole_addresses_and_ports(wanted: str, flow: str, matches: bool):
    assert matcher(wanted)(flow) is matches


def test_what_is_left_keeps_its_verdict_transfers_and_rows(synthetic: Explanation):
    left = only_flows(synthetic, ":443")
    assert [flow.flow for flow in left.flows] == [FLOW]
    assert left.verdicts == synthetic.verdicts
    assert left.table("segments").height == synthetic.table("segments").height
    assert set(left.table("model")["verdict"]) == {0}


def test_a_filter_that_matches_nothing_names_the_flows_there_are(synthetic: Explanation):
    with pytest.raises(ValueError, match=r"no flow matches ':80'; the capture holds 192\.0\.2\.7:443"):
        only_flows(synthetic, ":80")
