"""Where `whydrop web` may listen."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from whydrop.cli.commands import whydrop


@pytest.mark.parametrize(
    "value", ["8080", "localhost:8080", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:-1", ":80"]
)
def test_what_is_no_address_and_port_is_an_error_with_an_example(value: str) -> None:
    found = CliRunner().invoke(whydrop, ["web", "--listen", value])
    assert found.exit_code == 2
    assert "such as 127.0.0.1:8080" in " ".join(found.output.split())


@pytest.mark.parametrize("value", ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"])
def test_no_address_is_listened_on_that_other_hosts_reach(value: str) -> None:
    found = CliRunner().invoke(whydrop, ["web", "--listen", value])
    assert found.exit_code == 2
    assert "loopback addresses only" in " ".join(found.output.split())
    assert "ssh -L 8080:127.0.0.1:8080" in " ".join(found.output.split())
