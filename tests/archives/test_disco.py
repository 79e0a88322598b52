"""DISCO's telemetry of switches, both generations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.published import published
from whydrop.formats.archives import Piece, disco
from whydrop.formats.archives.disco import pieces_of
from whydrop.formats.archives.pieces import pieces
from whydrop.store import tables

NS = 1_000_000_000
HOUR = 1_526_400_000  # 2018-05-15T16:00Z
WORD = 1 << 64


def read(content: bytes, name: str = "switch.json") -> Piece:
    (piece,) = pieces_of(content, name, name)
    assert piece.table == "counters"
    assert piece.frame.schema == tables.COUNTERS
    return piece


def metric(name: str, samples: list[Any], hostname: str = "mlab1.dfw02.measurement-lab.org") -> dict[str, Any]:
    return {
        "sample": samples,
        "metric": f"switch.{name}",
        "hostname": hostname,
        "experiment": "s1.dfw02.measurement-lab.org",
    }


def file_of(*documents: object, between: str = "\n") -> bytes:
    return between.join(json.dumps(document) for document in documents).encode()


def test_a_file_is_known_by_its_samples_whatever_it_is_called_and_however_many_they_are(tmp_path: Path) -> None:
    content = file_of(metric("octets.uplink.tx", windows([123_456_789.25 + n for n in range(3600)])))
    assert content.index(b'"metric"') > 100_000
    path = tmp_path / "telemetry.txt"
    path.write_bytes(content)
    assert sum(piece.frame.height for piece in pieces(path)) == 3600


def test_names_that_are_none_make_no_rows() -> None:
    good = metric("octets.uplink.tx", windows([1.0]))
    piece = read(file_of(good, good | {"experiment": "x" * 257}, good | {"hostname": "\ud800"}, good | {"metric": 5}))
    assert piece.frame.height == 1
    assert piece.notes[0].startswith("Objects are no metrics of a switch")
    assert ": 3 (" in piece.notes[0]


def windows(values: list[float | None], first: int = HOUR) -> list[dict[str, Any]]:
    return [{"timestamp": first + 10 * n, "value": value} for n, value in enumerate(values)]


def polls(counters: list[int], before: int | None = None, first: int = HOUR, step: int = 10) -> list[dict[str, Any]]:
    """As version 2 writes them, with its differences of 64 bits."""
    previous = counters[0] if before is None else before
    found = []
    for n, counter in enumerate(counters):
        at = first + n * step
        value = (counter - previous) % WORD
        found.append(
            {"timestamp": at, "collectstart": at * NS, "collectend": at * NS + 5, "value": value, "counter": counter}
        )
        previous = counter
    return found


def column(piece: Piece, name: str, counter: str = "octets.tx") -> list[Any]:
    return piece.frame.filter(pl.col("counter") == counter)[name].to_list()


def total(piece: Piece, counter: str, port: str = "uplink") -> float:
    return float(piece.frame.filter(pl.col("counter") == counter, pl.col("port") == port)["value"].sum())


class TestVersion1:
    def test_the_published_file_has_its_known_sums(self) -> None:
        piece = read(gzip.decompress(published("disco", "discov1*").read_bytes()), "discov1-switch.json.gz")
        frame = piece.frame
        assert piece.damage is None
        assert piece.notes == []
        series = frame.group_by("port", "counter").len()
        assert series.height == 24
        assert set(series["len"]) == {360}
        assert frame["end_ns"].min() == 1_463_072_410 * NS
        assert frame["end_ns"].max() == 1_463_076_000 * NS
        assert set(frame["span_ns"]) == {10 * NS}
        assert total(piece, "octets.tx") == 3_978_878_632
        assert frame.filter(pl.col("counter") == "octets.tx", pl.col("port") == "uplink")["value"][0] == 121_788
        assert total(piece, "unicast.tx") == 3_575_479
        assert frame.filter(pl.col("counter").str.starts_with("discards"))["value"].sum() == 0
        assert frame.select("metro", "site", "switch", "machine").unique().rows() == [
            ("svg", "svg01", "s1.svg01", "mlab3")
        ]

    def test_the_sample_at_the_end_that_the_name_gives_is_the_next_files(self) -> None:
        content = file_of(metric("octets.uplink.tx", windows([1.0, 2.0, 3.0])))
        name = "20180515T16:00:00-to-20180515T16:00:20-switch.json.gz"
        assert column(read(content, name), "value") == [1.0, 2.0]
        assert column(read(content, name.replace(":", "%3A")), "value") == [1.0, 2.0]

    def test_a_full_hour_ends_a_file_without_a_time_in_its_name(self) -> None:
        content = file_of(metric("octets.uplink.tx", windows([float(n) for n in range(361)])))
        assert len(column(read(content), "value")) == 360

    def test_a_last_sample_that_is_not_at_the_end_stays(self) -> None:
        # RRD did not know the last one: leaving out the last sample unconditionally would lose a good one.
        content = file_of(metric("octets.uplink.tx", windows([1.0, 2.0])))
        assert column(read(content, "20180515T16:00:00-to-20180515T17:00:00-switch.json"), "value") == [1.0, 2.0]

    def test_nulls_are_no_samples(self) -> None:
        piece = read(file_of(metric("octets.uplink.tx", windows([1.0, None, 3.0]))))
        assert column(piece, "value") == [1.0, 3.0]
        assert column(piece, "end_ns") == [(HOUR + 10) * NS, (HOUR + 30) * NS]

    def test_fractions_are_interpolated_values(self) -> None:
        assert column(read(file_of(metric("octets.uplink.tx", windows([1.0, 2.25])))), "quality") == [
            "ok",
            "interpolated",
        ]

    @pytest.mark.parametrize("spike", [1.8e18, -5.0, 2e11])
    def test_more_than_a_port_carries_is_a_reset_without_a_value(self, spike: float) -> None:
        piece = read(file_of(metric("octets.uplink.tx", windows([1.0, spike, 3.0]))))
        assert column(piece, "value") == [1.0, None, 3.0]
        assert column(piece, "quality") == ["ok", "reset", "ok"]
        assert f"{spike:g}" in piece.notes[0]

    def test_ten_gigabits_a_second_are_no_spike(self) -> None:
        piece = read(file_of(metric("octets.uplink.tx", windows([12.5e9]))))
        assert column(piece, "quality") == ["ok"]


class TestVersion2:
    def test_the_published_file_has_its_known_sums_and_its_octets_distinguished(self) -> None:
        piece = read(published("disco", "discov2*").read_bytes(), "discov2-switch.jsonl")
        frame = piece.frame
        series = frame.group_by("port", "counter").len()
        assert series.height == 16
        assert set(series["len"]) == {30}
        assert frame["end_ns"].min() == 1_639_449_420 * NS
        assert frame["end_ns"].max() == 1_639_449_710 * NS
        assert total(piece, "octets.tx") == 15_133_921_186
        for counter, first, frame_bytes in (("rx", 317_051_938_616_506, 1355), ("tx", 128_751_528_767_304, 1002)):
            local = frame.filter(pl.col("counter") == f"octets.{counter}", pl.col("port") == "local")
            assert local["total"][0] == first
            assert set(local["quality"]) == {"repaired"}
            packets = total(piece, f"unicast.{counter}", "local")
            assert local["value"].sum() / packets == pytest.approx(frame_bytes, abs=0.5)
        assert len(piece.notes) == 1
        assert frame["switch"].unique().to_list() == ["s1.dfw07"]
        assert frame["machine"].unique().to_list() == ["mlab2"]

    def test_the_first_sample_covers_a_time_that_is_not_known(self) -> None:
        piece = read(file_of(metric("octets.uplink.tx", polls([150, 170, 200], before=100))))
        assert column(piece, "span_ns") == [None, 10 * NS, 10 * NS]
        assert column(piece, "value") == [50.0, 20.0, 30.0]
        assert column(piece, "total") == [150, 170, 200]

    def test_a_pollers_first_poll_has_no_growth(self) -> None:
        octets = metric("octets.uplink.tx", polls([9 * 10**14, 9 * 10**14 + 7], before=0))
        errors = metric("errors.uplink.tx", polls([0, 0], before=0))
        piece = read(file_of(octets, errors))
        assert column(piece, "value") == [None, 7.0]
        assert column(piece, "value", "errors.tx") == [None, 0.0]

    def test_a_missed_poll_makes_the_next_span_longer(self) -> None:
        samples = polls([10, 20, 30, 40, 50])
        del samples[2]
        samples[2]["value"] = 20
        piece = read(file_of(metric("octets.uplink.tx", samples)))
        assert column(piece, "span_ns") == [None, 10 * NS, 20 * NS, 10 * NS]
        assert column(piece, "quality") == ["ok", "ok", "gap", "ok"]

    def test_32_bits_that_were_full_wrap(self) -> None:
        piece = read(file_of(metric("discards.uplink.tx", polls([2**32 - 5, 7]))))
        assert column(piece, "value", "discards.tx") == [0.0, 12.0]
        assert column(piece, "quality", "discards.tx") == ["ok", "wrap"]

    def test_32_bits_that_restarted_are_a_reset(self) -> None:
        # As a wrap it would be 4 million packets a second more than 100 Gb/s can carry.
        piece = read(file_of(metric("discards.uplink.tx", polls([5_000_000, 7]))))
        assert column(piece, "value", "discards.tx") == [0.0, None]
        assert column(piece, "quality", "discards.tx") == ["ok", "reset"]

    def test_32_bits_are_reset_where_64_bits_of_their_port_are(self) -> None:
        discards = metric("discards.uplink.tx", polls([2**32 - 5, 7]))
        piece = read(file_of(discards, metric("octets.uplink.tx", polls([10**12, 5]))))
        assert column(piece, "quality", "discards.tx") == ["ok", "reset"]
        other = read(file_of(discards, metric("octets.other.tx", polls([10**12, 5]))))
        assert column(other, "quality", "discards.tx") == ["ok", "wrap"]

    def test_64_bits_that_fell_are_a_reset(self) -> None:
        piece = read(file_of(metric("octets.uplink.tx", polls([10**12, 5, 9]))))
        assert column(piece, "value") == [0.0, None, 4.0]
        assert column(piece, "quality") == ["ok", "reset", "ok"]

    def test_counters_are_believed_where_their_difference_is_not_the_value(self) -> None:
        samples = polls([100, 110, 125])
        samples[1]["value"] = 999
        piece = read(file_of(metric("octets.uplink.tx", samples)))
        assert column(piece, "value") == [0.0, 10.0, 15.0]
        assert "999" in piece.notes[0]

    def test_a_clock_that_was_set_back_leaves_the_span_open(self) -> None:
        samples = polls([100, 110, 125])
        samples[2]["timestamp"] = HOUR - 3600
        piece = read(file_of(metric("octets.uplink.tx", samples)))
        assert column(piece, "span_ns") == [None, 10 * NS, None]
        assert column(piece, "value") == [0.0, 10.0, 15.0]

    def test_counters_beyond_int64_have_their_growth_but_no_total(self) -> None:
        piece = read(file_of(metric("octets.uplink.tx", polls([2**63 - 1, 2**63 + 9]))))
        assert column(piece, "total") == [2**63 - 1, None]
        assert column(piece, "value") == [0.0, 10.0]


class TestConfusedOctets:
    """Two series octets.tx and none octets.rx, as until 2022-01-11."""

    @staticmethod
    def read(rx_frame: int, tx_frame: int, rx_packets: int = 5000, tx_packets: int = 2500, **more: Any) -> Piece:
        def grown(each: int) -> list[dict[str, Any]]:
            return polls([10**13 + each * n for n in range(6)], **more)

        octets = [
            metric("octets.local.tx", grown(rx_frame * rx_packets)),
            metric("octets.local.tx", grown(tx_frame * tx_packets)),
        ]
        unicast = [metric("unicast.local.rx", grown(rx_packets)), metric("unicast.local.tx", grown(tx_packets))]
        return read(file_of(*octets, *unicast))

    def test_frames_larger_than_ethernets_show_which_is_which(self) -> None:
        piece = self.read(1400, 90)
        assert column(piece, "value", "octets.rx")[1] == 1400 * 5000
        assert column(piece, "value", "octets.tx")[1] == 90 * 2500
        assert set(column(piece, "quality", "octets.tx")) == {"repaired"}

    def test_both_are_left_out_where_both_ways_are_possible(self) -> None:
        piece = self.read(400, 300)
        assert set(piece.frame["counter"]) == {"unicast.rx", "unicast.tx"}
        assert "left out" in piece.notes[0]

    def test_both_are_left_out_where_no_order_is_possible(self) -> None:
        piece = self.read(20_000, 30_000)
        assert set(piece.frame["counter"]) == {"unicast.rx", "unicast.tx"}

    def test_jumbo_frames_are_considered_where_ordinary_ones_do_not_fit(self) -> None:
        piece = self.read(8000, 70)
        assert column(piece, "value", "octets.rx")[1] == 8000 * 5000

    def test_one_that_lost_its_fellow_is_named_by_its_frames(self) -> None:
        while_it_lasted = 1_639_449_420
        octets = metric("octets.local.tx", polls([n * 7_000_000 for n in range(4)], first=while_it_lasted))
        rx, tx = (
            metric(f"unicast.local.{direction}", polls([n * each for n in range(4)], first=while_it_lasted))
            for direction, each in (("rx", 5000), ("tx", 2500))
        )
        piece = read(file_of(octets, rx, tx))
        assert column(piece, "value", "octets.rx")[1] == 7_000_000
        assert not column(piece, "value", "octets.tx")

    def test_one_alone_is_believed_since_the_fault_was_mended(self) -> None:
        piece = read(file_of(metric("octets.local.tx", polls([0, 5, 9], first=1_700_000_000))))
        assert column(piece, "value") == [0.0, 5.0, 4.0]
        assert column(piece, "quality") == ["ok"] * 3


class TestDamage:
    def test_a_cut_file_is_read_up_to_the_damage_which_is_named(self) -> None:
        whole = file_of(metric("octets.uplink.tx", windows([1.0])), metric("unicast.uplink.tx", windows([2.0])))
        second = whole.index(b"\n") + 1
        for cut in (second + 1, second + 40, len(whole) - 1):
            piece = read(whole[:cut])
            assert piece.frame["counter"].to_list() == ["octets.tx"]
            assert piece.damage is not None
            assert f"offset {second}" in piece.damage

    def test_objects_need_not_be_one_a_line(self) -> None:
        documents = [metric(f"{kind}.uplink.tx", windows([1.0])) for kind in ("octets", "unicast", "errors")]
        for between in ("", "\n\n", "  \r\n"):
            assert read(file_of(*documents, between=between)).frame.height == 3

    def test_files_longer_than_what_is_looked_at_at_once_are_read_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        documents = [metric(f"octets.pört{n}.tx", windows([1.0, 2.0])) for n in range(20)]
        lines = [json.dumps(document, ensure_ascii=False).encode() + b"\n" for document in documents]
        whole, each = b"".join(lines), len(lines[-1])
        expected = read(whole).frame
        for most in (each, each + 1, 3 * each, len(whole) - 1):
            monkeypatch.setattr(disco, "MOST_OBJECT_BYTES", most)
            assert read(whole).damage is None
            assert read(whole).frame.equals(expected)

    def test_neither_one_object_nor_all_samples_can_take_all_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first, second = (file_of(metric(f"{kind}.uplink.tx", windows([1.0] * 9))) for kind in ("octets", "unicast"))
        monkeypatch.setattr(disco, "MOST_SAMPLES", 17)
        assert read(first + second).frame["counter"].unique().to_list() == ["octets.tx"]
        assert f"more than 17 samples: the metrics from offset {len(first)} on" in str(read(first + second).damage)
        monkeypatch.setattr(disco, "MOST_OBJECT_BYTES", 100)
        assert read(first).frame.is_empty()
        assert "offset 0: " in str(read(first).damage)

    def test_offsets_are_bytes_even_behind_other_letters(self) -> None:
        first = json.dumps(metric("octets.uplänk.tx", windows([1.0])), ensure_ascii=False).encode()
        piece = read(first + b"\n{oops")
        assert f"offset {len(first) + 2}" in str(piece.damage)

    @pytest.mark.parametrize(
        "sample",
        [None, 5, [], {}, {"timestamp": HOUR}, {"timestamp": "x", "value": 1.0}, {"timestamp": 10**30, "value": 1.0},
         {"timestamp": True, "value": 1.0}, {"timestamp": HOUR, "value": "1"}, {"timestamp": 5, "value": 1.0}],
    )  # fmt: skip
    def test_samples_that_are_none_do_not_cost_the_others(self, sample: object) -> None:
        samples = [*windows([1.0]), sample, *windows([2.0], HOUR + 50)]
        piece = read(file_of(metric("octets.uplink.tx", samples)))
        assert piece.frame.filter(pl.col("quality") == "ok")["value"].to_list() == [1.0, 2.0]

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "9" * 400])
    def test_numbers_beyond_all_measure_have_no_value(self, value: str) -> None:
        content = file_of(metric("octets.uplink.tx", windows([1.0, 77.0]))).replace(b"77.0", value.encode())
        assert column(read(content), "value") == [1.0, None]

    @pytest.mark.parametrize("content", [b"[" * 100_000, b"5", b'"x"', b"\xff\xfe", b"", b'{"sample": 1}', b"9" * 5000])
    def test_what_is_no_telemetry_gives_no_rows(self, content: bytes) -> None:
        assert read(content).frame.is_empty()

    def test_half_a_surrogate_pair_is_no_name(self) -> None:
        document = metric("octets.uplink.tx", windows([1.0])) | {"hostname": "\ud800"}
        assert read(file_of(document)).frame.is_empty()

    @given(st.binary(max_size=200), st.integers(0, 10_000))
    def test_whatever_is_in_a_file_is_read_or_named(self, noise: bytes, at: int) -> None:
        content = file_of(metric("octets.uplink.tx", polls([1, 2, 3])), metric("errors.uplink.rx", windows([1.0])))
        at %= len(content)
        piece = read(content[:at] + noise + content[at + len(noise) :])
        assert piece.frame["value"].drop_nulls().is_between(0, 1e12).all()


@given(
    st.lists(st.integers(0, 10**9), min_size=2, max_size=20),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_growth_is_had_back_whatever_the_counter_began_with(growth: list[int], start: int, is_32_bits: bool) -> None:
    word = 2**32 if is_32_bits else WORD
    counters = [start]
    for each in growth:
        counters.append((counters[-1] + each) % word)
    kind = "discards" if is_32_bits else "unicast"
    piece = read(file_of(metric(f"{kind}.uplink.tx", polls(counters, before=start))))
    assert column(piece, "value", f"{kind}.tx")[1:] == growth


def test_metrics_of_other_queues_and_ports_have_their_names() -> None:
    piece = read(
        file_of(*(metric(f"{name}.tx", polls([1, 2])) for name in ("queue.3.discards.uplink", "octets.ge-0.0/1")))
    )
    assert piece.frame.select("port", "counter").unique(maintain_order=True).rows() == [
        ("uplink", "queue.3.discards.tx"),
        ("ge-0.0/1", "octets.tx"),
    ]
