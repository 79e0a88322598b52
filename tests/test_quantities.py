"""Quantities for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.explaining import parameters
from whydrop.explaining.document import Parameter
from whydrop.text import quantities
from whydrop.text.quantities import NO_BREAK


def plain(text: str) -> str:
    return text.replace(NO_BREAK, " ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (quantities.rate(999_960), "1.00 Mbit/s"),
        (quantities.rate(20e6), "20.0 Mbit/s"),
        (quantities.rate(0), "0 bit/s"),
        (quantities.size(999.6), "1.00 kB"),
        (quantities.exact_size(1500), "1 500 B"),
        (quantities.duration(0.663), "663 ms"),
        (quantities.duration(7440), "7 440 s"),
        (quantities.count(9635), "9 635"),
        (quantities.count(-12500), "-12 500"),
        (quantities.plural(2, "loss"), "2 losses"),
        (quantities.plural(2, "copy"), "2 copies"),
        (quantities.plural(2, "delay"), "2 delays"),
        (quantities.interval(quantities.rate, 19.8e6, 20.1e6), "19.8 to 20.1 Mbit/s"),
        (quantities.interval(quantities.rate, 20.01e6, 20.02e6), "20.0 Mbit/s"),
    ],
)
def test_a_quantity_is_written_by_the_rules_of_style(text: str, wanted: str):
    assert plain(text) == wanted


def test_no_line_break_separates_a_number_from_its_unit():
    written = [quantities.rate(1e6), quantities.size(12), quantities.duration(1), quantities.percent(0.999)]
    assert not any(" " in text for text in (*written, quantities.count(1e6)))


def test_an_interval_with_an_open_end_says_so():
    written = [parameters.interval("rate_bps", Parameter(1e7, low, high)) for low, high in ((9e6, None), (None, 2e7))]
    assert [plain(text) for text in written] == ["at least 9.00 Mbit/s", "at most 20.0 Mbit/s"]
    assert parameters.interval("rate_bps", Parameter(1e7, None, None)) == "not bounded by this capture"


def test_an_interval_names_a_common_unit_once():
    assert plain(parameters.interval("limit_packets", Parameter(1000, 998, 1002))) == "998 to 1 002 packets"
    assert plain(parameters.interval("burst_bytes", Parameter(1000, 998, 1002))) == "998 B to 1.00 kB"


def test_a_parameter_this_version_does_not_know_is_written_by_its_unit():
    label, write = parameters.parameter_words("shadow_rate_bps")
    assert (label, plain(write(2e6))) == ("shadow rate", "2.00 Mbit/s")


def test_a_share_is_all_or_none_only_when_it_is():
    assert [plain(quantities.percent(part)) for part in (0.99999, 1e-9, 0.0)] == ["> 99 %", "< 0.01 %", "0 %"]
    assert [quantities.share(part) for part in (1.0, 0.0)] == ["all", "none"]


def test_a_time_that_no_calendar_holds_is_still_written():
    assert "since 1970" in quantities.instant(1e18)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_three_digits_are_within_half_a_per_cent_of_the_value(value: float):
    assert abs(float(quantities.significant(value).replace(NO_BREAK, "")) - value) <= 0.0051 * value


@given(st.floats(min_value=0, max_value=1e15))
def test_every_size_has_a_unit_and_no_exponent(value: float):
    number, _, unit = quantities.size(value).rpartition(NO_BREAK)
    assert unit in {"B", "kB", "MB", "GB"}
    assert "e" not in number
