"""An emulator of the service BigQuery (bqemulator), in an environment of its own under ``build``.

It needs a later sqlglot than Ibis does. It computes with DuckDB: what a query means in BigQuery is `google_sql`'s
matter; here the client, its protocol and the types of its answers are tested.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from running.responders import free_port

FOLDER = Path(__file__).parents[1] / "build" / "bqemulator-venv"
#: As in ``tools/test-programs``. It does not say that it needs numpy, and does not know DuckDB 2.
PACKAGES = ("bqemulator==1.4.0", "duckdb<2", "numpy")
# It would fetch DuckDB's extension for maps from the network, which no query here needs.
_START = """
import sys
from bqemulator.storage.engine import DuckDBEngine
DuckDBEngine._load_spatial = lambda self: None
from bqemulator.cli import main
main()
"""


def _python() -> Path:
    """The environment's Python. Where it cannot be made the test is skipped, and fails in CI."""
    python = FOLDER / "bin" / "python"
    FOLDER.parent.mkdir(exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (FOLDER / "bin" / "bqemulator").exists():
            try:
                subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, capture_output=True)
                pip = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
                subprocess.run(pip, check=True, capture_output=True, timeout=600)
            except (subprocess.SubprocessError, OSError) as reason:
                words = f"bqemulator cannot be installed into {FOLDER} (is the package index reachable?): {reason}"
                if os.environ.get("CI"):
                    pytest.fail(words, pytrace=False)
                pytest.skip(words)
    return python


@contextmanager
def running(log: Path) -> Iterator[str]:
    """The URL of an emulator without tables."""
    rest, grpc = free_port(), free_port()
    url = f"http://127.0.0.1:{rest}"
    ports = ["--rest-port", str(rest), "--grpc-port", str(grpc), "--log-level", "error"]
    with log.open("wb") as said:
        process = subprocess.Popen([_python(), "-c", _START, "start", *ports], stdout=said, stderr=said)
    try:
        while not _answers(url):
            assert process.poll() is None, f"the emulator ended: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/bigquery/v2/projects/p/datasets", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def fill(url: str, schemas: str, rows: Mapping[str, Iterable[dict[str, Any]]]) -> None:
    """Make tables of the project measurement-lab, with rows."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    client = bigquery.Client(
        project="measurement-lab", credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
    )
    for dataset in {name.split(".")[1] for name in rows}:
        client.create_dataset(dataset)
    for statement in filter(str.strip, schemas.split(";")):
        client.query(statement).result()
    for name, given in rows.items():
        assert client.insert_rows_json(name, list(given)) == []
    client.close()
