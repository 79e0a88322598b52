"""Quantities for people."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whydrop import units
from whydrop.explaining import parameters
from whydrop.explaining.document import Parameter


def test_a_rate_just_below_a_unit_is_not_written_as_a_thousand_of_the_smaller_one():
    assert units.rate(999_960) == "1.00 Mbit/s"


def test_an_interval_with_an_open_end_says_so():
    assert parameters.interval("rate_bps", Parameter(1e7, 9e6, None)) == "at least 9.00 Mbit/s"
    assert parameters.interval("rate_bps", Parameter(1e7, None, 2e7)) == "at most 20.0 Mbit/s"
    assert parameters.interval("rate_bps", Parameter(1e7, None, None)) == "not bounded by this capture"


def test_an_interval_names_a_common_unit_once():
    assert parameters.interval("limit_packets", Parameter(1000, 998, 1002)) == "998 to 1 002 packets"
    assert parameters.interval("burst_bytes", Parameter(1000, 998, 1002)) == "998 B to 1.00 kB"


def test_a_parameter_this_version_does_not_know_is_written_by_its_unit():
    label, write = parameters.parameter_words("shadow_rate_bps")
    assert (label, write(2e6)) == ("shadow rate", "2.00 Mbit/s")


def test_a_share_is_rounded_to_all_or_nothing_only_when_it_is():
    assert units.percent(0.99999) == ">99 %"
    assert units.percent(1e-9) == "<1 %"
    assert units.percent(0.0) == "0 %"


def test_a_time_that_no_calendar_holds_is_still_written():
    assert "since 1970" in units.instant(1e18)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_three_digits_are_within_half_a_per_cent_of_the_value(value: float):
    assert abs(float(units.significant(value)) - value) <= 0.0051 * value


@given(st.floats(min_value=0, max_value=1e15))
def test_every_size_has_a_unit_and_no_exponent(value: float):
    written = units.size(value)
    assert written.split()[-1] in {"B", "kB", "MB", "GB"}
    assert "e" not in written.split()[0]
