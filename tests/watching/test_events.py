"""``whydrop watch --events``: what TCP does inside the kernel, over loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest

from watching.traffic import WHYDROP, pair, rows, watch
from whydrop import _core
from whydrop.monitoring.sockets.events import COUNTS, Events
from whydrop.monitoring.sockets.sampler import Taken
from whydrop.monitoring.sockets.selection import wanted

pytestmark = pytest.mark.slow

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may load programs into the kernel")
SIZE = 3_000_000
# Of root's capabilities those that load programs are taken.
WITHOUT = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-sys_admin,-bpf,-perfmon")


@needs_root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_growth_of_a_window_is_counted_as_web100_did(tmp_path: Path, address: str) -> None:
    with pair(address) as connection, watch(tmp_path, "--port", connection.port, "--events", "-i", "20ms") as watching:
        connection.send(SIZE)
        status, out, err = watching.stop(signal.SIGINT)
    assert (status, err) == (0, "")
    assert "of congestion windows" in out
    samples = rows(watching.recording, "tcp_info", connection.name)
    last = samples.row(-1, named=True)
    grown = last["congestion_window_packets"] - samples["congestion_window_packets"][0]
    assert 0 < last["slow_start_increases"] + last["congestion_avoidance_increases"] <= max(grown, 1) * 100
    assert (last["fast_retransmits"], last["timeouts"], last["send_stalls"]) == (0, 0, 0)
    assert watching.recording.metadata["test"]["parameters"]["events"] is True


@needs_root
def test_events_of_other_ports_are_not_recorded(tmp_path: Path) -> None:
    with pair() as wanted, pair() as other, watch(tmp_path, "--port", wanted.port, "--events") as watching:
        other.send(SIZE)
        watching.stop(signal.SIGINT)
    recording = watching.recording
    ports = recording.table("tcp_events")["destination"].to_list()
    assert all(place.endswith(f":{wanted.port}") for place in ports)
    assert rows(recording, "tcp_info", wanted.name)["slow_start_increases"].max() == 0


@needs_root
@pytest.mark.needs_program("setpriv")
def test_without_the_capabilities_one_sentence_names_them_and_the_watch_goes_on(tmp_path: Path) -> None:
    with pair() as connection:
        words = [*WITHOUT, *WHYDROP, "watch", "--port", connection.port, "--events", "--drops", "off", "-t", "1s"]
        done = subprocess.run(
            [*map(str, words), "--json", "--output", str(tmp_path)], capture_output=True, text=True, check=True
        )
    sentences = [line for line in done.stderr.splitlines() if "events" in line]
    assert len(sentences) == 1
    assert "it needs root, or the capabilities CAP_BPF and CAP_PERFMON" in sentences[0]
    document = json.loads(done.stdout)
    assert document["events"] is None
    assert document["connections"] == 2


def test_a_sample_gets_the_counts_at_its_time_and_the_first_samples_none() -> None:
    events = Events(wanted(), 0.1, active=True)
    samples = pl.DataFrame(
        {"flow": [2, 4, 2], "time_ns": [10, 20, 30], "timeouts": [None, None, None]},
        schema_overrides={"flow": pl.Int32},
    )
    zero = [pl.lit(0).alias(name) for name in COUNTS if name != "send_stalls"]
    counts = pl.DataFrame({"flow": [2, 2], "time_ns": [15, 40], "send_stalls": [3, 5]}).with_columns(zero)
    first = events._counted(samples, counts.with_columns(pl.col("flow").cast(pl.Int32)))
    assert first["send_stalls"].to_list() == [0, 0, 3]
    assert first["timeouts"].to_list() == [0, 0, 0]
    later = samples.with_columns(time_ns=pl.col("time_ns") + 100)
    second = events._counted(later, counts.clear().with_columns(pl.col("flow").cast(pl.Int32)))
    assert second["send_stalls"].to_list() == [5, 0, 5]
    taken = Taken({"tcp_info": samples}, [], [], 0)
    assert Events(wanted(), 0.1, active=False).take(taken).is_empty()


def test_an_event_belongs_to_the_connection_that_had_its_ports_at_its_time() -> None:
    events = Events(wanted(), 0.1, active=True)
    ends = ("192.0.2.1:5", "192.0.2.2:80")
    events._flows = {ends: {2: 100, 4: 500}}
    rows = pl.DataFrame({"source": [ends[0]] * 4, "destination": [ends[1]] * 4, "time_ns": [50, 499, 500, 900]})
    assert events._with_flows(rows)["flow"].to_list() == [2, 2, 4, 4]
    other = rows.with_columns(source=pl.lit("192.0.2.9:5"))
    assert events._with_flows(other)["flow"].to_list() == [None] * 4


class Old:
    """The monitor on a kernel without one of the tracepoints."""

    def __init__(self, *_: object) -> None:
        self.stopped = False

    def standing(self) -> dict[str, object]:
        return {"missing": [("tcp_cong_state_set", "No such file or directory")]}

    def stop(self) -> None:
        self.stopped = True


def test_a_kernel_without_a_tracepoint_is_watched_without_it_and_the_sentence_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_core, "EventMonitor", Old)
    events = Events(wanted(), 0.1, active=True)
    events.start()
    assert events.noted.active
    assert events.shortfall is not None
    assert "without some tracepoints (tcp_cong_state_set: No such file or directory)" in events.shortfall
    assert events.metadata() == {"events": True, "events_shortfall": events.shortfall}


def test_a_kernel_without_type_information_is_named_and_the_watch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("this kernel has no type information in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")

    monkeypatch.setattr(_core, "EventMonitor", refused)
    events = Events(wanted(), 0.1, active=True)
    events.start()
    assert not events.noted.active
    assert events.shortfall is not None
    assert events.shortfall.startswith("TCP's events are not recorded: this kernel has no type information")
    assert events.noted.document() is None
