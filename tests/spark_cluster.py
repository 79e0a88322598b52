"""A real Spark cluster for tests: a master and two workers, each a process of its own on this machine.

``spark_master`` is its address. ``spark`` is a session with it that small questions are quick in; a
`whydrop.store.engines.spark.Spark` that is opened meanwhile uses the same one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

WORKERS = 2
# Only bounds a hang: a machine that does much else takes its time to start five Java machines.
PATIENCE_S = 600.0

# Java machines that live for seconds: no second compiler, no threads for garbage.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

QUICK = {
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "2",
    "spark.executor.memory": "600m",
    "spark.driver.memory": "600m",
    "spark.executor.cores": "1",
    # Tests' queries are small: what compiling code for them takes, they never get back.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.defaultJavaOptions": _QUICK_JAVA,
    "spark.executor.defaultJavaOptions": _QUICK_JAVA,
}


@pytest.fixture(scope="session")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of ``WORKERS`` workers, with one core each."""
    folder = tmp_path_factory.mktemp("spark")
    # With port 0, they and their web pages conflict with no other program.
    asked = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with _spark_process(folder, "master", "master.Master", asked) as process:
        log = folder / "master.log"
        master = _wait_for(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", process)[1]
        _wait_for(log, "New state: ALIVE", process)
        worker = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0"]
        with _workers(folder, [*worker, "--work-dir", str(folder / "work"), master]):
            yield master


@pytest.fixture(scope="session")
def spark(spark_master: str) -> Iterator[Any]:
    """A session with the cluster."""
    from whydrop.store.engines.spark import session

    started = session(spark_master, QUICK)
    yield started
    started.stop()


@contextmanager
def _workers(folder: Path, arguments: Sequence[str]) -> Iterator[None]:
    names = [f"worker-{number}" for number in range(1, WORKERS + 1)]
    running = [_spark_process(folder, name, "worker.Worker", arguments) for name in names]
    with ExitStack() as together:
        processes = [together.enter_context(one) for one in running]
        for name, process in zip(names, processes, strict=True):
            _wait_for(folder / f"{name}.log", "Successfully registered with master", process)
        yield


@contextmanager
def _spark_process(folder: Path, name: str, role: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """One of the cluster's programs, while the context lasts; what it says goes to ``name.log``."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_JAVA,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            # A killed pytest takes the cluster with it.
            ["setpriv", "--pdeathsig", "KILL", home / "bin/spark-class", f"org.apache.spark.deploy.{role}", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> re.Match[str]:
    """Wait until a program's log matches ``pattern``."""
    limit = time.monotonic() + PATIENCE_S
    while True:
        has_ended = process.poll() is not None
        said = log.read_text(errors="replace")
        if found := re.search(pattern, said):
            return found
        if has_ended:
            pytest.fail(f"{log.stem} of Spark ended with status {process.returncode}; {log} says:\n{said[-3000:]}")
        if time.monotonic() > limit:
            pytest.fail(f"{log} does not say {pattern!r} after {PATIENCE_S:.0f} s; it says:\n{said[-3000:]}")
        time.sleep(0.1)
