"""Agents to be polled, and configurations that poll them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from snmp_agents import (
    AUTH_PASSPHRASE,
    COMMUNITY,
    PRIV_PASSPHRASE,
    Agent,
    Configure,
    net_snmp,
    simulated,
    switch_records,
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The program that these tests need is installed before the slow tests run, as `make test` does."""
    for item in items:
        here = item.path.is_relative_to(Path(__file__).parent)
        if here and {"agent", "net_snmp_agent"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def net_snmp_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """net-snmp's snmpd, for v2c and v3, which tests leave as it is."""
    with net_snmp(tmp_path_factory.mktemp("snmpd")) as running:
        yield running


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """net-snmp's snmpd, for v2c and v3, which tests may kill and start again."""
    with net_snmp(tmp_path / "snmpd") as running:
        yield running


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A switch with 48 ports and counters that all grow."""
    with simulated(tmp_path_factory.mktemp("switch"), {COMMUNITY: switch_records()}) as running:
        yield running


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder with the secrets of the agents."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    for name, text in (
        ("community", COMMUNITY),
        ("auth", AUTH_PASSPHRASE),
        ("priv", PRIV_PASSPHRASE),
        ("wrong", "hush!hush!"),
    ):
        (folder / name).write_text(f"{text}\n")
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture
def configure(tmp_path: Path, secrets: Path) -> Configure:
    """Write a CONFIG.toml: ``configure(switch_of(agent), interval_s=1)``."""

    def write(*switches: str, top: str = "", interval_s: int = 1) -> Path:
        path = tmp_path / "switches.toml"
        text = f'store = "store"\ninterval_s = {interval_s}\n{top}\n[defaults]\nsite = "dfw07"\nmetro = "dfw"\n'
        path.write_text(text + "\n".join(switches))
        return path

    return write
