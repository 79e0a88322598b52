"""The arithmetic and the presentation of the benchmark; run them with ``pytest bench``."""

from __future__ import annotations

import sys
from pathlib import Path

import aims
import engine_section
import example_captures
import polars as pl
import presenting
import pytest
from engine_runs import Crowd, Punctuality, Transfer, missed_intervals
from measuring import ProgramError, Run, Series, measure_in_turns, own_peak_bytes, ratio, run_once
from presenting import Table
from programs import Program

pytestmark = pytest.mark.slow


def series(name: str, *times_s: float, peak_mb: float = 50) -> Series:
    runs = [Run(wall_s=2 * time_s, cpu_s=time_s, peak_bytes=int(peak_mb * 1e6)) for time_s in times_s]
    return Series(name, [name], runs)


def test_a_ratio_is_the_median_of_the_ratios_within_each_turn() -> None:
    # 4 / 1, 9 / 3 and 40 / 4: the medians alone would give 9 / 3
    assert ratio(series("slow", 4, 9, 40), series("fast", 1, 3, 4), wall=False) == 4


def test_runs_on_different_captures_are_compared_per_packet() -> None:
    # 6 s for 100 packets and 3 s for 1000: 60 ms against 3 ms
    assert ratio(series("slow", 5, 6, 9), series("fast", 3), wall=True, packets=(100, 1000)) == pytest.approx(20)


def test_programs_run_in_turns_after_a_warm_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write = [sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write(sys.argv[2])", str(log)]
    both = [Series(name, [*write, name]) for name in ("a", "b")]
    measure_in_turns(both, 2)
    assert log.read_text() == "ababab"
    assert [len(one.runs) for one in both] == [2, 2]


def test_a_run_reports_processor_time_and_peak_memory_of_the_child() -> None:
    # more than this process ever used, whatever tests ran in it before
    used_bytes = own_peak_bytes() + 100_000_000
    run = run_once([sys.executable, "-c", f"kept = bytearray({used_bytes}); sum(range(1_000_000))"])
    assert run.peak_bytes > used_bytes
    assert 0 < run.cpu_s <= run.wall_s * 1.5


def test_a_program_that_fails_is_an_error_with_its_last_words() -> None:
    with pytest.raises(ProgramError, match=r"status 3: no such interface"):
        run_once([sys.executable, "-c", "import sys; print('no such interface', file=sys.stderr); sys.exit(3)"])


def test_bars_compare_the_large_capture_per_packet_with_the_part_that_tshark_read() -> None:
    small = Table("small", 10, 1000, [series("whydrop", 0.02), series("tshark", 0.3)])
    part = Table("part", 100, 10_000, [series("whydrop", 0.1), series("tshark", 9)])
    large = Table("large", 1000, 100_000, [series("whydrop", 0.5, peak_mb=401), series("tcptrace", 2)])
    bars = aims.of_captures(small, part, large)
    # 0.3 / 0.02; (9 / 100) / (0.5 / 1000); 2 / 0.5; 401 MB
    assert [(bar.measured, bar.met) for bar in bars] == [
        ("15 x", True),
        ("180 x", True),
        ("4 x", False),
        ("401 MB", False),
    ]


def test_the_targets_of_matching_are_packets_of_both_captures_per_second_and_a_gigabyte() -> None:
    pair = Table("pair", 4_000_000, 1000, [series("whydrop match", 2, 2.5, 4, peak_mb=999), series("whydrop", 30)])
    # 4 million in 2.5 s
    assert [(bar.measured, bar.met) for bar in aims.of_pairs(pair)] == [("1.60 million", True), ("999 MB", True)]
    slow = Table("pair", 4_000_000, 1000, [series("whydrop match", 3, peak_mb=1000)])
    assert [(bar.measured, bar.met) for bar in aims.of_pairs(slow)] == [("1.33 million", False), ("1000 MB", False)]


def test_ratios_are_those_to_the_first_program_of_a_table() -> None:
    table = Table("pair", 100, 1000, [series("whydrop match", 2), series("tshark", 8)])
    assert table.headings()[-2:] == ["CPU: x whydrop match", "wall: x whydrop match"]
    assert [row[-2] for row in table.rows()] == ["1", "4"]


def test_a_program_that_takes_one_capture_is_run_on_each_and_stops_at_a_failure(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + ' '); sys.exit(sys.argv[2].startswith('bad'))"
    program = Program("each", (sys.executable, "-c", script, str(log)), once_per_capture=True)
    run_once(program.command(Path("a file"), Path("b")))
    assert log.read_text() == "a file b "
    with pytest.raises(ProgramError, match="status 1"):
        run_once(program.command(Path("bad"), Path("c")))
    assert log.read_text() == "a file b bad "


def test_the_far_ends_of_example_pairs_are_no_captures_of_a_sender() -> None:
    near, far = example_captures.example_pairs()[::2], example_captures.example_pairs()[1::2]
    assert len(near) == len(far) > 0
    assert set(near) <= set(example_captures.examples())
    assert not set(far) & set(example_captures.examples())


def test_only_what_stands_between_the_marks_of_the_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    (begin, end), (other_begin, other_end) = presenting.marks("pairs"), presenting.marks("captures")
    page.write_text(f"before\n{begin}\nold\n{end}\nbetween\n{other_begin}\nother\n{other_end}\nafter\n")
    presenting.write_into(page, "pairs", "new")
    expected = f"before\n{begin}\n\nnew\n\n{end}\nbetween\n{other_begin}\nother\n{other_end}\nafter\n"
    assert page.read_text() == expected
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the lines"):
        presenting.write_into(page, "pairs", "new")


def intervals(*bounds_s: tuple[float, float]) -> pl.DataFrame:
    bounds_ns = [(round(start * 1e9), round(end * 1e9)) for start, end in bounds_s]
    return pl.DataFrame(bounds_ns, schema=["start_ns", "end_ns"], orient="row")


def test_an_interval_is_missed_when_a_flow_has_no_row_of_its_own_for_it() -> None:
    every = [(0.2 * step, 0.2 * (step + 1)) for step in range(10)]
    assert missed_intervals(intervals(*every), 0.2, 2) == 0
    assert missed_intervals(intervals(*every[:4], *every[6:]), 0.2, 2) == 2
    # one row for two
    assert missed_intervals(intervals(*every[:4], (0.8, 1.2), *every[6:]), 0.2, 2) == 1
    # the end is missing
    assert missed_intervals(intervals(*every[:7]), 0.2, 2) == 3


def test_the_engine_is_compared_turn_by_turn_without_what_starting_takes() -> None:
    ours = [Transfer(98e9, 10**9, 3.1), Transfer(50e9, 10**9, 2.1)]
    theirs = [Transfer(100e9, 10**9, 2.0), Transfer(40e9, 10**9, 1.0)]
    lines, bars = engine_section.compared("up", ours, theirs, (1.1, 0.0))
    # 0.98 and 1.25; (3.1 - 1.1) / 2 and (2.1 - 1.1) / 1
    assert [(bar.measured, bar.met) for bar in bars] == [("1.11 x", True), ("1 x", True)]
    assert float(lines[2][-1]) == pytest.approx(1.825, abs=0.006)


def test_the_target_of_probes_is_the_ninety_ninth_percentile_of_errors_early_or_late() -> None:
    exact, sloppy = Punctuality([1000] * 99 + [-50_000], 0), Punctuality([100_000] * 100, 3)
    lines, bars = engine_section.punctual("idle", [(exact, sloppy, sloppy)])
    assert [bar.met for bar in bars] == [True, True]
    assert lines[-1] == ["idle: probes not sent, all turns", "0", "3", "3", "", ""]
    assert [bar.met for bar in engine_section.punctual("idle", [(exact, sloppy, exact)])[1]] == [True, False]


def test_one_probe_that_is_late_is_one_too_many() -> None:
    good = Crowd(64, 3200, 0, 20_000, 0, 0, 0.4)
    assert all(bar.met for bar in engine_section.crowded({"as root": [good, good]}, 10)[1])
    bars = engine_section.crowded({"as root": [good, Crowd(64, 3199, 1, 20_000, 0, 1, 6.0)]}, 10)[1]
    assert [(bar.measured, bar.met) for bar in bars] == [("1", False), ("1", False)]
