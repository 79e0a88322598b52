"""``whydrop.roll`` and ``whydrop roll`` with packets of this host's loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whydrop
from patience import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not any(one.name == "CAP_NET_RAW" and one.present for one in whydrop.doctor()), reason="needs CAP_NET_RAW"
    ),
]


@pytest.fixture
def port() -> Iterator[int]:
    """A port of UDP that packets can be sent to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        yield receiving.getsockname()[1]


def send(port: int, count: int = 10) -> None:
    """Send datagrams of a known size."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for _ in range(count):
            sending.sendto(bytes(1000), ("127.0.0.1", port))


def lengths(path: str) -> list[str]:
    """Ports and lengths of the packets of a file, as tshark reads them."""
    shown = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", "-e", "udp.dstport", "-e", "udp.length"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return shown.stdout.splitlines()


@pytest.mark.needs_program("tshark")
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_packets_before_and_after_a_trigger_are_kept_once_and_explained(
    tmp_path: Path, port: int, interface: str
) -> None:
    with whydrop.roll(interface, filter=f"udp and port {port}", after_s=1, output=tmp_path) as rolling:
        send(port)
        wait_until(lambda: rolling.status()["packets"] == 10, "the packets")
        assert rolling.keep()
        send(port, 5)
        # While one is being captured, another one is skipped, and that is said.
        assert not rolling.keep()
        assert "the window of another trigger is being captured" in rolling.status()["messages"][0]
        wait_until(lambda: rolling.kept and rolling.kept[0].state == "explained", "the verdict")
    (kept,) = rolling.kept
    assert lengths(kept.paths[0]) == [f"{port}\t1008"] * 15
    assert (kept.verdict, kept.problem) == (
        "The capture holds no TCP data, and nothing in it shows a failure: 2 UDP flows.", "",
    )  # fmt: skip
    assert kept.took_s is not None
    assert kept.took_s > 1
    # The ring is gone.
    assert [path.name for path in tmp_path.iterdir()] == [Path(kept.paths[0]).name]


@pytest.mark.parametrize("text", ["host 127.0.0.2", "ip6", "tcp", "port 9 or icmp", "not udp"])
def test_the_kernel_leaves_out_what_the_filter_does_not_want(tmp_path: Path, port: int, text: str) -> None:
    both = f"({text}) and port {port} or port {port} and not ip6 and host 127.0.0.1 and udp and icmp"
    with (
        whydrop.roll("lo", filter=both, output=tmp_path) as none,
        whydrop.roll("any", filter=f"not ({text}) and port {port}", output=tmp_path) as every,
    ):
        send(port)
        wait_until(lambda: every.status()["packets"] == 10, "the packets")
        assert none.status()["packets"] == 0


def test_kept_captures_are_bounded_and_the_message_says_so(tmp_path: Path, port: int) -> None:
    with whydrop.roll("lo", filter=f"port {port}", after_s=0, max_kept=1, output=tmp_path) as rolling:
        send(port)
        wait_until(lambda: rolling.status()["packets"] == 10, "the packets")
        assert rolling.keep()
        wait_until(lambda: len(rolling.kept) == 1, "the capture")
        wait_until(lambda: not rolling.status()["pending"], "its end")
        wait_until(lambda: rolling.kept[0].state == "explained", "the verdict")
        assert not rolling.keep()
        assert "as many as may be: remove some from" in rolling.status()["messages"][-1]


def test_a_window_without_packets_is_not_kept(tmp_path: Path, port: int) -> None:
    with whydrop.roll("lo", filter=f"port {port}", after_s=0, output=tmp_path) as rolling:
        rolling.keep()
        wait_until(lambda: rolling.status()["messages"], "the message")
        assert "no packet was captured" in rolling.status()["messages"][0]
    assert list(tmp_path.iterdir()) == []


def test_triggers_of_the_kernel_s_counters_fire_and_the_next_ones_are_skipped(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = listening.accept()
        with (
            client, accepted,
            whydrop.roll(
                "lo", filter=f"tcp and port {port}", delay_s=1e-6, after_s=0, output=tmp_path, on_event=messages.append
            ) as rolling,
        ):  # fmt: skip

            def has(number: int) -> bool:
                client.send(bytes(1000))
                accepted.recv(1000)
                return len(rolling.kept) >= 1 and rolling.status()["skipped"] >= number

            wait_until(lambda: has(3), "the trigger, and three more")
            assert len(rolling.kept) == 1
            assert rolling.kept[0].kind == "delay"
            assert rolling.kept[0].why.startswith("the round-trip time of 127.0.0.1:")
    # However many are skipped, it is said once.
    said = [one["message"] for one in messages if "message" in one]
    assert len(said) == 1
    assert said[0].startswith("skipped (the round-trip time of")


def test_the_command_keeps_by_a_signal_and_explains_after_ctrl_c(tmp_path: Path, port: int) -> None:
    words = [sys.executable, "-m", "whydrop", "roll", "lo", "--filter", f"port {port}", "--after", "0", "--json"]
    with subprocess.Popen([*words, "-o", str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: list(tmp_path.glob(".rolling-*")), "its start")

        def is_kept() -> bool:
            send(port)
            process.send_signal(signal.SIGUSR1)
            return bool(list(tmp_path.glob("rolled-*Z-hand.pcapng")))

        # Until the handler is there, the signal would end the process.
        handled = Path(f"/proc/{process.pid}/status")
        caught = 1 << (signal.SIGUSR1 - 1)
        wait_until(lambda: int(handled.read_text().split("SigCgt:")[1].split()[0], 16) & caught, "its handler")
        wait_until(is_kept, "the capture")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    state = json.loads(out)
    assert {one["state"] for one in state["kept"]} == {"explained"}
    assert state["dropped"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_without_the_capability_the_command_says_what_to_type(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    code = (
        "import ctypes, sys; import whydrop\n"
        # PR_CAPBSET_DROP would act on the next program only: the effective ones go with the user.
        "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: whydrop.roll('lo', output=sys.argv[1])\n"
        "except whydrop.Error as reason: print(reason)\n"
    )
    # Modules that are loaded late could not be read by that user: load all of them first.
    code = "import whydrop.monitoring.rolling.roll, whydrop.monitoring.rolling.packet_socket\n" + code
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert "lacks the capability CAP_NET_RAW" in done.stdout
    assert "sudo setcap cap_net_raw+ep /" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(whydrop.Error, match=r"there is no interface 'eth99'; there are any, .*lo"):
        whydrop.roll("eth99", output=tmp_path)
    with pytest.raises(whydrop.Error, match="seconds after a trigger"):
        whydrop.roll("lo", seconds=5, after_s=5, output=tmp_path)
