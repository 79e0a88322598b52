"""Ports that newly discard too much: what is new, what goes on, what is silent, and whether bursts are why."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from whydrop.cli import study_watch
from whydrop.store.engines import open_backend
from whydrop.store.store import Store
from whydrop.studies.discards import results, watch, watch_state
from whydrop.studies.discards.parameters import Parameters, Watch
from whydrop.studies.discards.watch import Key, Look

SECOND = 1_000_000_000
NOON = 1_518_350_400 * SECOND  # 2018-02-11T12:00:00Z
AT_NOON = ("--now", "2018-02-11T12:00:00Z")
UPLINK: Key = ("dfw01", "s1.dfw01", "mlab1", "uplink", "tx")
# Ten minutes, so that few samples do.
PARAMETERS = Parameters(watch=Watch(window_s=600.0, ratio=1e-4))


def samples(
    discards: Callable[[int], float],
    *,
    minutes: tuple[int, int] = (-30, 0),
    octets: float = 125_000_000,  # 100 Mbit/s
    packets: float = 100_000,
    key: Key = UPLINK,
    counters: tuple[str, ...] = ("discards", "unicast", "octets"),
) -> pl.DataFrame:
    """Ten-second samples of the minutes before noon; ``discards`` by how many samples before noon they end."""
    site, switch, machine, port, direction = key
    rows = []
    for number in range(minutes[0] * 6 + 1, minutes[1] * 6 + 1):
        values = {"discards": discards(number), "unicast": packets, "octets": octets}
        rows += [
            {
                "end_ns": NOON + number * 10 * SECOND, "span_ns": 10 * SECOND, "metro": "dfw", "site": site,
                "switch": switch, "machine": machine, "port": port, "counter": f"{kind}.{direction}",
                "value": float(values[kind]), "quality": "ok",
            }
            for kind in counters
        ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Path]:
    def made(*frames: pl.DataFrame) -> Path:
        folder = tmp_path / "store"
        kept = Store.create(folder)
        for frame in frames:
            kept.add("counters", frame)
        return folder

    return made


def look(folder: Path, reported: dict[Key, int] | None = None, parameters: Parameters = PARAMETERS) -> Look:
    with open_backend(folder) as backend:
        found = watch.look(backend, parameters, NOON, reported)
    assert found.alerts.schema == pl.Schema(results.ALERTS)
    return found


def one(found: Look) -> dict:
    assert found.alerts.height == 1
    return found.alerts.row(0, named=True)


def last_minutes(number: int) -> float:
    """Fifty discards in each sample of the last five minutes: 250 per million packets of the ten minutes."""
    return 50.0 if number > -30 else 0.0


def test_a_port_that_begins_to_discard_is_new(store: Callable[..., Path]) -> None:
    row = one(look(store(samples(last_minutes))))
    assert tuple(row[name] for name in ("site", "switch", "machine", "port", "direction")) == UPLINK
    assert (row["state"], row["discards"], row["packets"]) == ("new", 1500.0, 6_000_000.0)
    assert (row["ratio"], row["ratio_before"]) == (2.5e-4, 0.0)
    assert row["since_ns"] == NOON - 300 * SECOND


def test_a_port_that_exceeded_in_the_window_before_goes_on(store: Callable[..., Path]) -> None:
    row = one(look(store(samples(lambda number: 50.0))))
    assert row["state"] == "ongoing"
    assert row["ratio_before"] == pytest.approx(5e-4)
    assert row["since_ns"] == NOON - 1200 * SECOND


def test_what_was_reported_is_not_new_again(store: Callable[..., Path]) -> None:
    folder = store(samples(last_minutes))
    first = look(folder, {})
    assert one(first)["state"] == "new"
    again = look(folder, first.reported)
    assert one(again)["state"] == "ongoing"
    assert one(again)["since_ns"] == one(first)["since_ns"]


def test_an_unreported_port_is_new_however_long_it_goes_on(store: Callable[..., Path]) -> None:
    assert one(look(store(samples(lambda number: 50.0)), {}))["state"] == "new"


def test_a_port_that_recovered_is_forgotten_and_may_be_new_again(store: Callable[..., Path]) -> None:
    found = look(store(samples(lambda number: 0.0)), {UPLINK: NOON - 7200 * SECOND})
    assert found.alerts.is_empty()
    assert found.reported == {}


def test_a_switch_that_fell_silent_has_not_recovered(store: Callable[..., Path]) -> None:
    found = look(store(samples(lambda number: 50.0, minutes=(-60, -20))), {UPLINK: NOON - 7200 * SECOND})
    assert found.alerts.is_empty()
    assert (found.ports, found.silent) == (0, [UPLINK])
    assert found.reported == {UPLINK: NOON - 7200 * SECOND}


def test_a_few_discards_are_no_alert_however_idle_the_port(store: Callable[..., Path]) -> None:
    few = samples(lambda number: 3.0 if number in (-2, -5, -9) else 0.0, packets=10)
    assert look(store(few)).alerts.is_empty()


def test_many_discards_of_many_more_packets_are_no_alert(store: Callable[..., Path]) -> None:
    assert look(store(samples(last_minutes, packets=1e7))).alerts.is_empty()


def test_discards_of_idle_samples_are_bursts(store: Callable[..., Path]) -> None:
    # Half of a 1 Gbit/s port is used once; all else is at a tenth.
    busy = samples(lambda number: 0.0, minutes=(-31, -30), octets=1_000_000_000)
    row = one(look(store(samples(last_minutes), busy)))
    assert (row["speed_bps"], row["speed_from"]) == (1e9, "rates")
    assert row["in_quiet_bins"] == row["discards"]
    assert row["median_utilisation_at_discards"] == pytest.approx(0.1)


def test_discards_of_a_full_port_are_no_bursts(store: Callable[..., Path]) -> None:
    row = one(look(store(samples(last_minutes, octets=1_200_000_000))))
    assert (row["speed_bps"], row["in_quiet_bins"]) == (1e9, 0.0)
    assert row["median_utilisation_at_discards"] == pytest.approx(0.96)


def test_the_ports_speed_can_be_said(store: Callable[..., Path]) -> None:
    said = Parameters(watch=Watch(window_s=600.0, port_speed_bps={"uplink": 10e9}))
    row = one(look(store(samples(last_minutes, octets=1_200_000_000)), parameters=said))
    assert (row["speed_bps"], row["speed_from"]) == (10e9, "parameters")
    assert row["in_quiet_bins"] == row["discards"]


def test_without_octets_nothing_is_said_of_bursts(store: Callable[..., Path]) -> None:
    row = one(look(store(samples(last_minutes, counters=("discards", "unicast")))))
    assert (row["in_quiet_bins"], row["median_utilisation_at_discards"], row["speed_bps"]) == (None, None, None)


def test_an_uplink_that_every_machine_polls_is_one_port(store: Callable[..., Path]) -> None:
    gaps = samples(last_minutes, minutes=(-30, -1), key=("dfw01", "s1.dfw01", "mlab1", "uplink", "tx"))
    whole = samples(last_minutes, key=("dfw01", "s1.dfw01", "mlab2", "uplink", "tx"))
    row = one(look(store(gaps, whole)))
    assert (row["machine"], row["discards"]) == ("mlab2", 1500.0)


def test_machines_own_ports_and_both_directions_are_looked_at_apart(store: Callable[..., Path]) -> None:
    keys: list[Key] = [("dfw01", "s1.dfw01", m, "local", d) for m in ("mlab1", "mlab2") for d in ("rx", "tx")]
    found = look(store(*(samples(last_minutes, key=key) for key in keys)))
    assert set(found.reported) == set(keys)
    assert found.ports == 4


def test_ports_without_site_or_machine_are_looked_at_too(store: Callable[..., Path]) -> None:
    nameless: Key = (None, "core", None, "ge-0/0/1", "rx")
    assert look(store(samples(last_minutes, key=nameless))).reported.keys() == {nameless}


def test_samples_that_lack_packets_count_for_nothing(store: Callable[..., Path]) -> None:
    assert look(store(samples(last_minutes, counters=("discards", "octets")))).alerts.is_empty()


def test_a_port_whose_packets_are_not_counted_is_named_and_has_not_recovered(store: Callable[..., Path]) -> None:
    folder = store(samples(last_minutes, counters=("discards", "octets")))
    found = look(folder, {UPLINK: NOON - 7200 * SECOND})
    assert (found.ports, found.alerts.height, found.unjudged) == (1, 0, [UPLINK])
    assert found.reported == {UPLINK: NOON - 7200 * SECOND}
    said = whydrop(folder, *WATCH, *AT_NOON).stdout
    assert "no count of packets, so that the ratio is unknown: dfw01 s1.dfw01 mlab1 uplink tx." in " ".join(
        said.split()
    )


def test_a_reset_is_no_discard(store: Callable[..., Path]) -> None:
    frame = samples(last_minutes).with_columns(
        pl.when(pl.col("counter") == "discards.tx").then(None).otherwise("value").alias("value")
    )
    assert look(store(frame)).alerts.is_empty()


def test_the_window_may_reach_over_midnight(store: Callable[..., Path]) -> None:
    midnight = NOON + 43_200 * SECOND
    frame = samples(last_minutes).with_columns(pl.col("end_ns") + midnight - NOON + 60 * SECOND)
    with open_backend(store(frame)) as backend:
        row = one(watch.look(backend, PARAMETERS, midnight + 60 * SECOND))
    assert (row["state"], row["discards"]) == ("new", 1500.0)


# --- the state ---

names = st.none() | st.text(max_size=8)
keys = st.tuples(names, names, names, names, st.sampled_from(["rx", "tx"]))


@given(st.dictionaries(keys, st.integers(0, 2**62), max_size=5))
@settings(max_examples=30, deadline=None)
def test_what_was_reported_is_read_as_it_was_kept(tmp_path_factory: pytest.TempPathFactory, reported: dict) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    watch_state.write(path, reported)
    assert watch_state.read(path, 2**62) == reported


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
@settings(max_examples=60, deadline=None)
def test_any_other_file_is_refused_by_name(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_bytes(content)
    with pytest.raises(watch_state.StateError, match=r"state.json: .*delete it"):
        watch_state.read(path, NOON)


@pytest.mark.parametrize(
    "entry",
    [
        7, {"port": ["a"], "since_ns": 1}, {"port": [1, 2, 3, 4, "tx"], "since_ns": 1},
        {"port": [None, None, None, None, "up"], "since_ns": 1},
        {"port": [None, None, None, None, "tx"], "since_ns": "1"},
    ],
)  # fmt: skip
def test_an_entry_that_is_none_is_reported_by_its_number(tmp_path: Path, entry: object) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"schema": 1, "ports": [entry]}))
    with pytest.raises(watch_state.StateError, match=r"ports\[0\]"):
        watch_state.read(path, NOON)


def test_what_was_reported_later_than_now_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    watch_state.write(path, {UPLINK: NOON + 1})
    assert watch_state.read(path, NOON) == {}


def test_without_a_file_there_was_no_earlier_look(tmp_path: Path) -> None:
    assert watch_state.read(tmp_path / "none.json", NOON) == {}


# --- the command ---

WATCH = ("--set", "watch.window_s=600")


def whydrop(*arguments: object) -> Result:
    from whydrop.cli.commands import whydrop

    return CliRunner().invoke(whydrop, ["study", "discards", "watch", *map(str, arguments)])


def test_the_exit_status_distinguishes_new_ports_from_none(store: Callable[..., Path], tmp_path: Path) -> None:
    folder, state = store(samples(last_minutes)), tmp_path / "state.json"
    first = whydrop(folder, *WATCH, *AT_NOON, "--state", state)
    assert first.exit_code == 3, first.stderr
    assert "1 port newly more than 100 per million packets in the 10 min to 2018-02-11 12:00:00 UTC" in first.stdout
    assert "dfw01 s1.dfw01 mlab1 uplink tx: 250 per million packets discarded" in first.stdout
    again = whydrop(folder, *WATCH, *AT_NOON, "--state", state)
    assert again.exit_code == 0
    assert again.stdout.startswith("No port newly discards more than")
    assert "Ongoing since 2018-02-11 11:55:00 UTC" in again.stdout


def test_json_holds_what_is_said(store: Callable[..., Path]) -> None:
    found = whydrop(store(samples(last_minutes)), *WATCH, *AT_NOON, "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == 3
    (alert,) = document["alerts"]
    assert (alert["state"], alert["ratio"], alert["port"]) == ("new", 2.5e-4, "uplink")
    assert document["now_ns"] == NOON


def test_a_look_into_history_keeps_nothing_in_the_store(store: Callable[..., Path]) -> None:
    folder = store(samples(last_minutes))
    whydrop(folder, *WATCH, *AT_NOON)
    assert not (folder / watch_state.FILE).exists()


def test_a_look_at_the_present_keeps_what_it_reported_in_the_store(store: Callable[..., Path]) -> None:
    shift = time.time_ns() - NOON
    folder = store(samples(last_minutes).with_columns(pl.col("end_ns") + shift))
    wide = ("--set", "watch.window_s=900")
    assert whydrop(folder, *wide).exit_code == 3
    assert whydrop(folder, *wide).exit_code == 0
    assert (folder / watch_state.FILE).exists()


def test_no_samples_at_all_are_an_error_and_no_good_news(store: Callable[..., Path]) -> None:
    found = whydrop(store(samples(last_minutes)), *WATCH, "--now", "2019-01-01T00:00:00Z")
    assert found.exit_code == 1
    assert found.stdout == ""
    assert "no samples of discards in the 10\xa0min to 2019-01-01 00:00:00 UTC;" in found.stderr
    assert "is `whydrop collect` running?" in found.stderr


def test_a_damaged_state_is_reported_and_alerts_come_all_the_same(store: Callable[..., Path], tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("{")
    found = whydrop(store(samples(last_minutes)), *WATCH, *AT_NOON, "--state", state)
    assert found.exit_code == 3
    assert f"{state}: not JSON" in found.stderr
    assert json.loads(state.read_text())["ports"]


def test_at_the_first_look_a_port_that_has_long_exceeded_is_new(store: Callable[..., Path], tmp_path: Path) -> None:
    folder = store(samples(lambda number: 50.0))
    first, *others = (whydrop(folder, *WATCH, *AT_NOON, "--state", tmp_path / "state.json") for _ in range(2))
    assert (first.exit_code, [other.exit_code for other in others]) == (3, [0])


def test_the_last_sample_of_a_store_that_is_not_written_any_more_is_reported(store: Callable[..., Path]) -> None:
    folder = store(samples(last_minutes))
    later, earlier = (whydrop(folder, *WATCH, "--now", day) for day in ("2019-01-01", "2017-01-01"))
    last = "the store's last one ended 2018-02-11 12:00:00 UTC"
    assert (later.exit_code, earlier.exit_code) == (1, 1)
    assert f"{last}: is `whydrop collect` running?" in later.stderr
    assert f"{last}, which is later: is this clock right, and the collector's?" in earlier.stderr


def test_a_store_without_any_samples_is_reported(store: Callable[..., Path]) -> None:
    found = whydrop(store(), *WATCH)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "and none on the store's last day: is `whydrop collect` running, and into this store?" in found.stderr


def test_names_of_switches_cannot_command_the_terminal(store: Callable[..., Path]) -> None:
    evil: Key = ("dfw01", "s1\x1b[2J", "mlab1", "uplink", "tx")
    found = whydrop(store(samples(last_minutes, key=evil)), *WATCH, *AT_NOON)
    assert found.exit_code == 3
    assert "\x1b" not in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--now", "noon"), "--now: 'noon': expected a date and time such as 2018-02-11T12:00:00Z"),
        (("--now", "9999-12-31T23:59:59Z"), "of the years 1971 to 2261"),
        (("--now", "0001-01-01"), "of the years 1971 to 2261"),
        (("--interval", "0"), "--interval: expected a time above zero"),
        (("--now", "2018-02-11", "--interval", "5min"), "--now looks once, --interval again and again"),
    ],
)
def test_wrong_usage_of_watch_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    found = whydrop(tmp_path, *arguments)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())


class EnoughError(Exception):
    """The looks that a test wanted."""


def looks(monkeypatch: pytest.MonkeyPatch, count: int, *arguments: object) -> Result:
    """Run with ``--interval`` for so many looks, each ten seconds after the one before, from noon on."""
    past = 0

    def sleep(_: float) -> None:
        nonlocal past
        past += 1
        if past == count:
            raise EnoughError

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "time_ns", lambda: NOON + past * 10 * SECOND)
    found = whydrop(*arguments)
    assert isinstance(found.exception, EnoughError)
    return found


def test_every_reports_a_port_once_where_no_state_can_be_kept(
    store: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "there is no such folder" / "state.json"
    found = looks(monkeypatch, 3, store(samples(last_minutes)), *WATCH, "--interval", "10s", "--state", state)
    assert found.stdout.count("1 port newly more than") == 1
    assert found.stdout.count("Ongoing since") == 2


def test_every_ends_when_it_has_no_reader(store: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(study_watch, "lines", gone)
    monkeypatch.setattr(study_watch.ending, "status", lambda reason: 0)
    assert whydrop(store(samples(last_minutes)), *WATCH, "--interval", "10s").exit_code == 0


@pytest.mark.slow
def test_every_goes_on_until_ctrl_c(store: Callable[..., Path], tmp_path: Path) -> None:
    folder, state = store(samples(last_minutes)), tmp_path / "state.json"
    command = [
        sys.executable,
        "-m",
        "whydrop",
        "study",
        "discards",
        "watch",
        folder,
        "--interval",
        "1s",
        "--state",
        state,
    ]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # History: at the present there are no samples, which is said at each look.
        first, second = process.stderr.readline(), process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert first.startswith("whydrop: no samples of discards")
    assert second.startswith("whydrop: no samples of discards")
    assert rest.endswith("whydrop: stopped\n")
    assert process.returncode == 130
