"""Flow control as ethtool reports it, of a device that the kernel simulates."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from whydrop.measure.host import ethtool

BUS = Path("/sys/bus/netdevsim")
NUMBER = "77"


@pytest.fixture
def simulated() -> Iterator[str]:
    subprocess.run(["modprobe", "-q", "netdevsim"], check=False)
    if not BUS.exists():
        pytest.skip("this kernel has no netdevsim")
    (BUS / "new_device").write_text(f"{NUMBER} 1")
    try:
        yield next((BUS / f"devices/netdevsim{NUMBER}/net").iterdir()).name
    finally:
        (BUS / "del_device").write_text(NUMBER)


@pytest.mark.slow
@pytest.mark.needs_kernel("fq")
def test_settings_and_pause_frames_are_those_of_ethtool(simulated: str) -> None:
    subprocess.run(["ethtool", "-A", simulated, "rx", "on", "tx", "off"], check=True)
    for direction in ("rx", "tx"):
        with contextlib.suppress(OSError):
            file = next(Path(f"/sys/kernel/debug/netdevsim/netdevsim{NUMBER}").glob("ports/*/ethtool/pause"))
            (file / f"report_stats_{direction}").write_text("1")
    told = json.loads(
        subprocess.run(["ethtool", "--json", "-I", "-a", simulated], check=True, capture_output=True).stdout
    )
    found = ethtool.flow_control(simulated)
    assert (found["receive"], found["transmit"]) == (told[0]["rx"], told[0]["tx"]) == (True, False)
    counted = told[0]["statistics"]
    assert (found[ethtool.RECEIVED], found[ethtool.SENT]) == (
        counted["rx_pause_frames"],
        counted["tx_pause_frames"],
    )


def test_an_interface_without_flow_control_says_so() -> None:
    with pytest.raises(OSError, match="not supported"):
        ethtool.flow_control("lo")
