"""The runner of responsiveness against servers that are right, and servers that are wrong in one thing each."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nq_server import Faults, NqServer, configuration_of
from runner_fixtures import flow, wait_until

from example_files import Run
from web.certificates import certificate
from whydrop.measure import host_context
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Outcome, Runner
from whydrop.measure.runners.registry import runner_for
from whydrop.measure.runners.responsiveness import configuration
from whydrop.measure.runners.responsiveness.configuration import ConfigurationError
from whydrop.measure.runners.responsiveness.connection import Connection, Place, Request
from whydrop.measure.tests import resolve

WHERE = "https://127.0.0.1/.well-known/nq"


@pytest.fixture(scope="module")
def crt_and_key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("certificate"))


def planned(server_port: int, direction: str = "down", *, duration_s: float = 3.0, **options: Any) -> list[PlannedFlow]:
    """The three flows of one direction, with short intervals."""
    short = {"interval_s": 0.2, "most_connections": 2, "verify": False}
    common: dict[str, Any] = {"runner": "responsiveness", "host": "127.0.0.1", "port": server_port}
    common |= {"duration_s": duration_s, "interval_s": 0.1}
    load = flow(name="Load", kind="tcp", direction=direction, options={**short, **options}, **common)
    probes = [
        flow(name=kind, kind="http", direction="both", options={"probes_of": "Load", "probe": kind}, **common)
        for kind in ("self", "foreign")
    ]
    return [load, *probes]


def runners_of(flows: list[PlannedFlow]) -> list[Runner]:
    runners = [runner_for(one, number) for number, one in enumerate(flows)]
    for runner in runners:
        runner.meet(runners)
    assert [runner.check() for runner in runners] == [None] * len(runners)
    return runners


def measured(
    flows: list[PlannedFlow], meanwhile: Callable[[list[Runner]], None] = lambda _: None
) -> tuple[list[Outcome], dict[str, pl.DataFrame]]:
    """Run the flows of a direction to their end."""
    runners = runners_of(flows)
    for runner in runners:
        runner.start(time.monotonic_ns())
    found: dict[str, list[pl.DataFrame]] = {}

    def drain() -> bool:
        over = all(runner.done() for runner in runners)
        for runner in runners:
            for name, frame in runner.drain().items():
                found.setdefault(name, []).append(frame)
        return over

    meanwhile(runners)
    wait_until(drain)
    outcomes = [runner.finish(5) for runner in runners]
    drain()
    return outcomes, {name: pl.concat(frames) for name, frames in found.items()}


def probes(tables: dict[str, pl.DataFrame], number: int) -> pl.DataFrame:
    return tables["fetches"].filter(pl.col("flow") == number)


@pytest.mark.slow
def test_a_download_yields_goodput_and_probes_of_both_kinds(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key) as server:
        outcomes, tables = measured(planned(server.port))
    assert [outcome.status for outcome in outcomes] == ["complete"] * 3
    assert tables["intervals"]["payload_bytes"].sum() > 1_000_000
    assert tables["intervals"]["flow"].unique().to_list() == [0]
    own, foreign = probes(tables, 1), probes(tables, 2)
    assert own.height > 0
    assert own["error"].null_count() == own.height
    assert own["tcp_ns"].null_count() == own.height
    answered = foreign.filter(pl.col("error").is_null())
    assert answered.height > 0
    parts = answered.select(pl.col("tcp_ns") + pl.col("tls_ns") < pl.col("duration_ns"), pl.col("tls_round_trips") == 1)
    assert all(column.all() for column in parts)
    connections = tables["values"].filter(pl.col("key") == "connections")["value"]
    assert connections.max() == 2


@pytest.mark.slow
def test_an_upload_counts_what_the_far_end_acknowledged(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key) as server:
        outcomes, tables = measured(planned(server.port, "up"))
        assert [outcome.status for outcome in outcomes] == ["complete"] * 3
        acknowledged = tables["intervals"]["payload_bytes"].sum()
        assert acknowledged > 1_000_000
        # What came after the last interval is not counted; what is around the payload is less than a hundredth.
        assert acknowledged < 1.01 * server.uploaded_bytes + 100_000


@pytest.mark.slow
def test_probes_keep_to_the_share_of_the_goodput_that_they_may_take(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key) as server:
        _, tables = measured(planned(server.port, most_probes_per_s=10.0))
    assert tables["values"].filter(pl.col("key") == "probe_pairs_per_s")["value"].max() <= 5.0
    assert probes(tables, 1).height <= 5 * 3 + 1
    assert probes(tables, 2).height <= 5 * 3 + 1


WRONG = {
    "no JSON": ("<html>", "is no JSON"),
    "an array": ("[]", "no JSON object"),
    "another version": ('{"version": 2}', "version is 2; this client knows version 1 only"),
    "no URLs": ('{"version": 1}', "no object 'urls'"),
    "a URL is missing": (
        json.dumps(configuration_of(1, small_download_url=None)),
        "urls.small_download_url is missing",
    ),
    "twice": ('{"version": 1, "version": 1}', "'version' is there more than once"),
    "a number": (json.dumps(configuration_of(1, upload_url=7)), "urls.upload_url is '7'; expected a URL of https"),
    "no TLS": (
        json.dumps(configuration_of(1, upload_url="http://127.0.0.1/u")),
        "expected a URL of https: the test needs TLS",
    ),
    "different hosts": (
        json.dumps(configuration_of(1, upload_url="https://victim.example/u")),
        "its URLs name different hosts (127.0.0.1:1, victim.example): one is needed",
    ),
    "another endpoint": (
        json.dumps(configuration_of(1, test_endpoint="victim.example")),
        "it sends the load to another host, victim.example: if that host may be loaded, set other_host = true",
    ),
    "an odd endpoint": (json.dumps(configuration_of(1, test_endpoint="a b\n")), "expected the name of a host"),
    "a user in it": (
        json.dumps(configuration_of(1, upload_url="https://u:p@127.0.0.1:1/u")),
        "expected a URL of https",
    ),
    "a line break": (json.dumps(configuration_of(1, upload_url="https://127.0.0.1:1/\r\nX: y")), "expected a URL"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_configuration_is_refused_with_what_is_wrong_and_where(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configuration.read(text.encode(), WHERE, "127.0.0.1", other_host=False)
    assert str(caught.value).startswith(WHERE)
    assert words in str(caught.value)


def test_a_configuration_may_have_more_than_is_known_and_the_names_that_servers_had_before() -> None:
    base = "https://127.0.0.1:7"
    older = {
        "small_https_download_url": f"{base}/s",
        "large_https_download_url": f"{base}/l",
        "https_upload_url": f"{base}/u",
    }
    text = json.dumps({"version": 1, "urls": older, "more": [1]})
    found = configuration.read(text.encode(), WHERE, "127.0.0.1", other_host=False)
    assert (found.small_url, found.large_url, found.upload_url) == (f"{base}/s", f"{base}/l", f"{base}/u")
    assert (found.host, found.port, found.name) == ("127.0.0.1", 7, "127.0.0.1")


def test_another_host_is_loaded_only_if_the_user_says_so() -> None:
    text = json.dumps(configuration_of(7, test_endpoint="other.example")).encode()
    found = configuration.read(text, WHERE, "127.0.0.1", other_host=True)
    assert (found.host, found.name) == ("other.example", "127.0.0.1")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_answer_whatever_it_is_is_taken_for_a_configuration(text: bytes) -> None:
    with pytest.raises(ConfigurationError):
        configuration.read(text, WHERE, "127.0.0.1", other_host=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["version", "urls", "test_endpoint", "small_download_url", "large_download_url", "upload_url"]),
)
def test_any_value_in_any_place_is_refused_or_of_no_consequence(value: Any, place: str) -> None:
    document = configuration_of(7)
    (document["urls"] if place.endswith("_url") else document)[place] = value
    try:
        found = configuration.read(json.dumps(document).encode(), WHERE, "127.0.0.1", other_host=False)
    except ConfigurationError:
        return
    assert (found.host, found.port) == ("127.0.0.1", 7)


FAULTY: dict[str, tuple[Faults, str, str]] = {
    "no configuration": (
        Faults(statuses={"/.well-known/nq": 404}),
        "down",
        "status 404; expected 200 and a configuration",
    ),
    "bad configuration": (Faults(configuration="<html>"), "down", "the answer is no JSON"),
    "no HTTP/2": (
        Faults(protocols=("http/1.1",)),
        "down",
        "the server speaks no HTTP/2 over TLS (ALPN): it must offer h2",
    ),
    "errors": (Faults(statuses={"/large": 500}), "down", "/large broke: status 500"),
    "no uploads": (Faults(statuses={"/upload": 413}), "up", "/upload broke: status 413"),
    "early": (Faults(answers_upload_early=True), "up", "the server answered the upload before its end"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("faults", "direction", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_server_is_named_with_what_is_wrong(
    crt_and_key: tuple[Path, Path], faults: Faults, direction: str, words: str
) -> None:
    with NqServer(*crt_and_key, faults) as server:
        outcomes, _ = measured(planned(server.port, direction))
        port = server.port
    assert outcomes[0].status == "failed"
    message = outcomes[0].message or ""
    assert words in message
    assert f"127.0.0.1:{port}" in message


@pytest.mark.slow
def test_what_was_measured_before_the_load_broke_is_kept(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key, Faults(closes_after_bytes=30_000_000)) as server:
        outcomes, tables = measured(planned(server.port, duration_s=60.0))
    assert outcomes[0].status == "failed"
    assert "broke: the server closed the connection" in (outcomes[0].message or "")
    assert tables["intervals"]["payload_bytes"].sum() > 0
    assert tables["fetches"].height > 0


@pytest.mark.slow
def test_the_time_that_a_slow_server_takes_is_in_the_request_and_not_in_the_handshakes(
    crt_and_key: tuple[Path, Path],
) -> None:
    with NqServer(*crt_and_key, Faults(slow_s=0.3)) as server:
        _, tables = measured(planned(server.port))
    foreign = probes(tables, 2).filter(pl.col("error").is_null())
    assert foreign.height
    http_ms = foreign.select((pl.col("duration_ns") - pl.col("tcp_ns") - pl.col("tls_ns")) / 1e6).to_series()
    assert http_ms.min() >= 300
    assert probes(tables, 1).filter(pl.col("error").is_null())["duration_ns"].min() >= 300_000_000


@pytest.mark.slow
def test_probes_that_are_never_answered_make_their_flows_fail(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key, Faults(small_is_silent=True)) as server:
        outcomes, tables = measured(planned(server.port, duration_s=1.0))
    assert [outcome.status for outcome in outcomes] == ["complete", "no-data", "no-data"]
    assert "intervals" in tables


@pytest.mark.slow
def test_a_certificate_that_is_not_trusted_is_refused_with_the_way_out(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key) as server:
        outcomes, _ = measured(planned(server.port, verify=True))
    assert outcomes[0].status == "failed"
    assert "the certificate is not trusted; if that is known, set verify_certificate=false" in (
        outcomes[0].message or ""
    )


@pytest.mark.slow
def test_a_port_without_a_server_is_refused_with_what_to_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcomes, _ = measured(planned(port))
    assert "connection refused: is there a server?" in (outcomes[0].message or "")
    assert outcomes[1].message == "no probe was sent, since Load failed"


@pytest.mark.slow
def test_a_server_without_tls_is_refused_with_what_to_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        import threading

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        outcomes, _ = measured(planned(listener.getsockname()[1]))
    assert "the server speaks no TLS on this port" in (outcomes[0].message or "")


@pytest.mark.slow
def test_a_stop_keeps_what_was_measured_and_leaves_no_process(crt_and_key: tuple[Path, Path]) -> None:
    pids: list[int] = []

    def stop_when_measured(runners: list[Runner]) -> None:
        wait_until(lambda: runners[0]._rows().ever > 10)
        pids.extend(_workers())
        for runner in runners:
            runner.stop()

    with NqServer(*crt_and_key) as server:
        outcomes, tables = measured(planned(server.port, duration_s=60.0), stop_when_measured)
    assert [outcome.status for outcome in outcomes] == ["stopped"] * 3
    assert tables["intervals"].height
    assert pids
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.slow
def test_a_process_that_is_killed_is_said_and_ends_the_flow(crt_and_key: tuple[Path, Path]) -> None:
    def kill(runners: list[Runner]) -> None:
        wait_until(lambda: runners[0]._rows().ever > 10)
        for pid in _workers():
            os.kill(pid, signal.SIGKILL)

    with NqServer(*crt_and_key) as server:
        outcomes, _ = measured(planned(server.port, duration_s=60.0), kill)
    assert outcomes[0].status == "failed"
    assert "ended: exit status" in (outcomes[0].message or "")


def _workers() -> list[int]:
    """Those that this process has started."""
    children = " ".join(task.read_text() for task in Path("/proc/self/task").glob("*/children")).split()
    command_lines = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in children}
    return [pid for pid, file in command_lines.items() if b"responsiveness.worker" in file.read_bytes()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval_s": 0}, "interval_s"),
        ({"tolerance_percent": "x"}, "tolerance_percent"),
        ({"configuration_path": "nq"}, "configuration_path"),
        ({"after": "Nothing"}, "options.after is 'Nothing'; expected a flow of kind tcp"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(options: dict[str, Any], words: str) -> None:
    load, *_ = planned(1, **options)
    assert words in (runner_for(load, 0).check() or "")


@pytest.mark.parametrize("direction", ["down", "up", "both"])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_test_of_the_catalogue_fits_together_in_any_direction(direction: str, swapped: bool) -> None:
    plan = resolve("responsiveness", ["192.0.2.7"], {"direction": direction, "swap_directions": swapped})
    own = [one for one in plan.flows if one.runner == "responsiveness"]
    assert len(own) == (6 if direction == "both" else 3)
    assert [runner.check() for runner in host_context.runners(dict(enumerate(own)), []).values()] == [None] * len(own)
    named = {"TCP download": "down", "TCP upload": "up"}
    assert all(one.direction == named[one.name] for one in own if one.kind == "tcp")


def test_probes_without_a_load_are_refused() -> None:
    _, own, _ = planned(1)
    assert "must name a flow of kind tcp" in (runner_for(own, 0).check() or "")


@pytest.mark.slow
def test_the_command_measures_both_directions_and_shows_them(
    crt_and_key: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    settings = {"verify_certificate": False, "interval_s": 0.2, "length_s": 4, "delay_s": 0.5, "most_connections": 2}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={str(value).lower()}")]
    with NqServer(*crt_and_key) as server:
        done = run("run", "responsiveness", "--to", f"127.0.0.1:{server.port}", *words, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    [folder] = tmp_path.glob("*.recording")
    shown = run("show", folder).stdout
    assert "Responsiveness under load" in shown
    found = json.loads(run("show", folder, "--json").stdout)["responsiveness"]
    assert [(one["name"], one["direction"]) for one in found] == [("TCP download", "down"), ("TCP upload", "up")]
    assert all(one["rpm"] > 0 and one["confidence"] in ("low", "medium", "high") for one in found)
    # The second direction begins when the first has ended, and not only when it must have.
    flows = pl.read_parquet(folder / "flows.parquet").filter(pl.col("kind") == "tcp").sort("start_ns")
    assert flows["name"].to_list() == ["TCP download", "TCP upload"]
    assert flows["end_ns"][0] < flows["start_ns"][1]


@pytest.mark.slow
def test_a_direction_waits_for_the_one_before_it_when_its_time_has_come(crt_and_key: tuple[Path, Path]) -> None:
    with NqServer(*crt_and_key) as server:
        first = planned(server.port, duration_s=1.0)
        [second, *_] = planned(server.port, "up", duration_s=1.0, after="Load")
        outcomes, tables = measured([*first, dataclasses.replace(second, name="Second")])
    assert [outcome.status for outcome in (outcomes[0], outcomes[3])] == ["complete"] * 2
    first_rows, second_rows = (tables["intervals"].filter(pl.col("flow") == number) for number in (0, 3))
    assert first_rows["end_ns"].max() < second_rows["start_ns"].min()


@pytest.mark.slow
@pytest.mark.needs_program("ping")
def test_pings_beside_it_end_soon_after_the_last_direction(crt_and_key: tuple[Path, Path]) -> None:
    ping = flow(name="Ping", kind="icmp", direction="both", runner="ping", host="127.0.0.1", duration_s=600.0)
    with NqServer(*crt_and_key) as server:
        outcomes, tables = measured([*planned(server.port, duration_s=1.0), ping])
    assert [outcome.status for outcome in outcomes][:1] == ["complete"]
    assert outcomes[3].status == "stopped"
    assert tables["probes"]["rtt_ns"].null_count() < tables["probes"].height


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Bytes that a server may send: frames of HTTP/2 with any type, flags, stream and content, and others."""
    made = bytearray()
    for _ in range(draw(st.integers(1, 6))):
        content = draw(st.binary(max_size=40))
        if draw(st.booleans()):
            kind, flags, stream = draw(st.integers(0, 10)), draw(st.integers(0, 255)), draw(st.integers(0, 7))
            made += len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        made += content
    return bytes(made)


@given(frames())
def test_whatever_a_server_sends_ends_its_connection_and_not_the_process(data: bytes) -> None:
    far, near = socket.socketpair()
    said: list[str] = []

    class Owner:
        def opened(self, _: Connection) -> None: ...

        def answered(self, _: Connection, request: Request, at_ns: int, error: str | None) -> None: ...

        def failed(self, _: Connection, why: str) -> None:
            said.append(why)

    with far, near, selectors.DefaultSelector() as selector:
        near.setblocking(False)
        place = Place(socket.AF_INET, ("127.0.0.1", 1), "127.0.0.1", verify=False)
        connection = Connection(1, place, place.context(), selector, Owner())
        connection.adopt(near)
        assert connection.fetch("https://127.0.0.1/small") is not None
        far.sendall(data)
        connection.ready(selectors.EVENT_READ)
        far.close()
        if not connection.is_closed:
            connection.ready(selectors.EVENT_READ)
        assert connection.is_closed
        assert len(said) == 1
