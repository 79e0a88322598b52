"""Logs of `ss` in local time, across the hour that comes twice and the one that does not come."""

from __future__ import annotations

from itertools import pairwise

import pytest

from whydrop.formats.archives import ss_log

SECOND_NS = 10**9


def log(*stamps: str) -> bytes:
    socket = "ESTAB 0 0 10.0.0.1:443 192.0.2.9:51000\n\t cubic rto:240 rtt:40.5/2.1 mss:1448 cwnd:10 bytes_acked:{}\n"
    return "".join(f"{stamp}\n{socket.format(1000 * number)}" for number, stamp in enumerate(stamps, 1)).encode()


def seconds(*stamps: str) -> list[int]:
    found = ss_log.read(log(*stamps), "ss.log", None)
    assert found.damage is None
    times = found.tcp[0]["time_ns"].to_list()
    return [(after - before) // SECOND_NS for before, after in pairwise(times)]


ENDS = {
    "Europe": ["Sun Oct 25 02:59:58 CEST 2026", "Sun Oct 25 02:59:59 CEST 2026", "Sun Oct 25 02:00:00 CET 2026"],
    "New York": ["Sun Nov  1 01:59:58 EDT 2026", "Sun Nov  1 01:59:59 EDT 2026", "Sun Nov  1 01:00:00 EST 2026"],
    "London": ["Sun Oct 25 01:59:58 BST 2026", "Sun Oct 25 01:59:59 BST 2026", "Sun Oct 25 01:00:00 GMT 2026"],
    "American clock": [
        "Sun Nov  1 01:59:58 AM EDT 2026",
        "Sun Nov  1 01:59:59 AM EDT 2026",
        "Sun Nov  1 01:00:00 AM EST 2026",
    ],
    "no zone": ["2026-10-25 02:59:58", "2026-10-25 02:59:59", "2026-10-25 02:00:00"],
    "an unknown zone": ["Sun Oct 25 02:59:58 XST 2026", "Sun Oct 25 02:59:59 XST 2026", "Sun Oct 25 02:00:00 XT 2026"],
    "offsets": ["2026-10-25T02:59:58+02:00", "2026-10-25T02:59:59+02:00", "2026-10-25T02:00:00+01:00"],
}
BEGINS = {
    "Europe": ["Sun Mar 29 01:59:58 CET 2026", "Sun Mar 29 01:59:59 CET 2026", "Sun Mar 29 03:00:00 CEST 2026"],
    "New York": ["Sun Mar  8 01:59:58 EST 2026", "Sun Mar  8 01:59:59 EST 2026", "Sun Mar  8 03:00:00 EDT 2026"],
    "London": ["Sun Mar 29 00:59:58 GMT 2026", "Sun Mar 29 00:59:59 GMT 2026", "Sun Mar 29 02:00:00 BST 2026"],
}


@pytest.mark.parametrize("place", ENDS)
def test_the_end_of_summer_time_is_no_hour_back(place: str) -> None:
    assert seconds(*ENDS[place]) == [1, 1]


@pytest.mark.parametrize("place", BEGINS)
def test_the_beginning_of_summer_time_is_no_hour_without_samples(place: str) -> None:
    assert seconds(*BEGINS[place]) == [1, 1]


def test_a_log_of_a_sample_an_hour_goes_on_too() -> None:
    assert seconds(
        "Sun Oct 25 01:30:00 CEST 2026", "Sun Oct 25 02:30:00 CEST 2026", "Sun Oct 25 02:30:00 CET 2026"
    ) == [
        3600,
        3600,
    ]


def test_a_pause_of_an_hour_stays_one() -> None:
    assert seconds("2026-10-25 01:00:00", "2026-10-25 02:00:01") == [3601]
    assert seconds("Sun Oct 25 05:00:00 CET 2026", "Sun Oct 25 06:00:00 CET 2026") == [3600]


def test_the_change_is_noted() -> None:
    found = ss_log.read(log(*ENDS["Europe"]), "ss.log", None)
    assert any("Summer time" in note for note in found.notes)
