"""Reports of a responder about refused connections: lines while an attack lasts, and a file for Prometheus."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from running.responders import Program, free_port, wait_until

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]


def counts(file: Path) -> dict[str, float]:
    """The values of a file of metrics, by reason or name."""
    families = text_string_to_metric_families(file.read_text())
    return {one.labels.get("reason", one.name): one.value for family in families for one in family.samples}


def test_refused_connections_are_reported_while_they_arrive_and_counted_in_the_file(
    program: Program, tmp_path: Path
) -> None:
    port, metrics, said = free_port(), tmp_path / "whydrop.prom", tmp_path / "said"
    words = [*program, "--open", "--listen", "127.0.0.1", "--port", str(port), "--metrics", str(metrics)]
    with said.open("w") as errors, subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors) as process:
        try:
            wait_until(metrics.exists)
            assert counts(metrics)["other_protocol"] == 0
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    # The responder closes it before it has read everything.
                    with contextlib.suppress(ConnectionResetError):
                        connection.recv(1)
            wait_until(lambda: "of another protocol" in said.read_text())
            wait_until(lambda: counts(metrics)["other_protocol"] == 5)
        finally:
            process.terminate()
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".new"] == []


def test_metrics_that_cannot_be_written_are_named_at_the_start(run: Run, tmp_path: Path) -> None:
    done = run("responder", "--open", "--port", "0", "--metrics", tmp_path / "none" / "whydrop.prom")
    assert done.returncode == 1
    assert done.stderr.startswith("whydrop: cannot write the metrics:")
    assert "Traceback" not in done.stderr
