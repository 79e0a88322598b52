"""``whydrop collect`` as an operator meets it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from gufo.snmp.sync import SnmpSession
from snmp_agents import (
    AUTH_PASSPHRASE,
    COMMUNITY,
    PRIV_PASSPHRASE,
    UP_TIME,
    V2C,
    V3,
    Agent,
    Configure,
    free_port,
    switch_of,
)

from patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

SECRETS = (AUTH_PASSPHRASE, PRIV_PASSPHRASE)
Run = Callable[..., subprocess.CompletedProcess[str]]
# For a switch that is there: on a busy machine its answers are long in coming.
PATIENT = "timeout_s = 20"


def table(store: Path, name: str) -> pl.DataFrame:
    """All rows of a store's table."""
    return pl.read_parquet(store / name / "**" / "*.parquet", hive_partitioning=False)


def test_check_says_which_ports_it_found(run: Run, configure: Configure, switch: Agent):
    ports = '[{ alias = "uplink*", name = "uplink" }, { alias = "mlab[12]", name = "local", machine = "{alias}" }]'
    done = run("collect", "check", configure(switch_of(switch, ports=ports, more=PATIENT), interval_s=60))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[2] == ["local", "mlab1", "501", "1.00", "Gbit/s", "14", "mlab1"]
    assert lines[4][:6] == ["uplink", "–", "548", "10.0", "Gbit/s", "14"]
    assert done.stdout.splitlines()[-1].startswith("1 of 1 switches are as ")


def test_check_names_ports_that_are_not_there_and_fails(run: Run, configure: Configure, switch: Agent):
    done = run(
        "collect", "check", configure(switch_of(switch, ports='[{ alias = "nowhere" }]', more=PATIENT), interval_s=60)
    )
    assert done.returncode == 1
    assert "no port has an alias (ifAlias) that matches 'nowhere'; there are mlab1, mlab2" in " ".join(
        done.stdout.split()
    )


def test_check_keeps_nothing(run: Run, configure: Configure, switch: Agent):
    path = configure(switch_of(switch))
    run("collect", "check", path)
    assert not (path.parent / "store").exists()


def test_once_prints_what_a_poll_saw_by_both_versions(run: Run, configure: Configure, net_snmp_agent: Agent):
    entries = [
        switch_of(net_snmp_agent, name, account=account, more=PATIENT)
        for name, account in (("two", V2C), ("three", V3))
    ]
    done = run("collect", "once", configure(*entries, interval_s=60))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^  lo +– +octets +[\d ]+", done.stdout, re.MULTILINE)) == 2


def test_a_wrong_community_and_a_wrong_key_are_one_line_each(
    run: Run, configure: Configure, net_snmp_agent: Agent, secrets: Path
):
    wrong = 'community_file = "secrets/wrong"'
    entries = (
        switch_of(net_snmp_agent, "community", account=wrong, more="timeout_s = 0.4"),
        switch_of(net_snmp_agent, "key", account=V3.replace("secrets/auth", "secrets/wrong"), more=PATIENT),
        switch_of(net_snmp_agent, "good", more=PATIENT),
    )
    done = run("collect", "check", configure(*entries, interval_s=60))
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert len(lines) == 2
    assert re.match(
        r"whydrop: community: 127\.0\.0\.1:\d+: no answer in 2 tries of .* the community is wrong", lines[0]
    )
    assert re.match(r"whydrop: key: 127\.0\.0\.1:\d+: refuses user 'watcher'", lines[1])
    assert not any(
        secret in done.stdout + done.stderr for secret in (*SECRETS, (secrets / "wrong").read_text().strip())
    )
    assert "1 of 3 switches are as" in done.stdout


def test_mistakes_in_the_file_are_lines_on_stderr_and_status_2(run: Run, configure: Configure):
    done = run("collect", configure('[[switch]]\nname = "s1"\naddress = "x"\ncommunity = "hush-hush"'))
    assert done.returncode == 2
    assert "switch[0].community: a secret does not belong in this file" in done.stderr
    assert "hush" not in done.stderr + done.stdout


def polls_told(said: str) -> dict[str, int]:
    """By status, how many polls there were, as the collector says in the end. On a busy machine some come late."""
    told = re.search(r"stopped; polls: ([^;]+)", said)
    assert told is not None, said
    return {status: int(count) for count, status in re.findall(r"(\d+) (\w+)", told[1])}


def test_a_store_gets_every_poll_and_every_counter(run: Run, configure: Configure, switch: Agent):
    path = configure(switch_of(switch, ports='[{ alias = "uplink*", name = "uplink" }]'))
    done = run("collect", path, "--duration", "3.5s")
    assert done.returncode == 0, done.stderr
    polls, counters = table(path.parent / "store", "polls"), table(path.parent / "store", "counters")
    assert polls.height == sum(polls_told(done.stdout).values())
    made = polls.filter(status="ok").height
    assert made == polls_told(done.stdout)["ok"] >= 1
    assert (polls["due_ns"] % 1_000_000_000 == 0).all()
    assert set(counters["site"]) == {"dfw07"}
    assert counters["counter"].n_unique() == 14
    assert counters.height == made * 14
    assert re.search(r"; delay of their start: median .* p99 .* worst", done.stdout)


@pytest.fixture
def collector(configure: Configure) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the program, and end it with the test."""

    begun: list[subprocess.Popen[str]] = []

    def begin(path: Path) -> subprocess.Popen[str]:
        # as in the background of a script: a shell starts such jobs with SIGINT ignored
        background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
        words = [*background, sys.executable, "-m", "whydrop", "collect", str(path)]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    """Read a collector's stderr up to a line with these words."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    return pytest.fail(f"it ended without saying {words!r}: {said}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_keeps_everything(collector: Callable[..., subprocess.Popen[str]], configure: Configure,
                                           switch: Agent, number: signal.Signals):  # fmt: skip
    path = configure(switch_of(switch, ports="[{ index = 501 }]"))
    process = collector(path)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("polling 1 switch every second into")
    wait_for(process, "answers with")
    process.send_signal(number)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert polls_told(said)["ok"] >= 1
    assert table(path.parent / "store", "polls").height == sum(polls_told(said).values())


def test_growth_goes_on_across_a_restart_of_the_collector(
    collector: Callable[..., subprocess.Popen[str]], configure: Configure, net_snmp_agent: Agent
):
    path = configure(switch_of(net_snmp_agent, more="timeout_s = 0.45"))
    # An agent that has just started may have restarted meanwhile.
    with SnmpSession(net_snmp_agent.address, net_snmp_agent.port, community=COMMUNITY) as session:
        while session.get(UP_TIME) < 300:  # hundredths of a second
            time.sleep(0.1)
    for _ in range(2):
        process = collector(path)
        assert process.stderr is not None
        assert any("answers with" in line for line in process.stderr)
        process.terminate()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    rows = table(path.parent / "store", "counters").filter(
        (pl.col("port") == "lo") & (pl.col("counter") == "octets.rx")
    )
    rows = rows.sort("end_ns")
    # Of the first poll of all the growth is not known; and of no other.
    assert rows["value"].null_count() == 1
    assert rows["value"].sum() == rows["total"][-1] - rows["total"][0]
    assert rows["span_ns"].sum() == pytest.approx(rows["end_ns"][-1] - rows["end_ns"][0], rel=0.01)


def test_what_it_could_not_keep_is_said_and_its_status_is_1(
    collector: Callable[..., subprocess.Popen[str]], configure: Configure, switch: Agent
):
    path = configure(switch_of(switch, ports="[{ index = 501 }]"))
    for _ in range(5):
        minute = time.time() // 60
        process = collector(path)
        wait_for(process, "answers with")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda pid=process.pid: is_stopped(pid))
        if time.time() // 60 == minute:
            break
        # What was read is on the disk when a minute is over: it must wait in memory.
        process.kill()
        process.wait()
    shutil.rmtree(path.parent / "store")
    (path.parent / "store").write_text("in its place")
    process.terminate()
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert re.search(r"samples and polls that waited in memory are lost", errors)


def is_stopped(pid: int) -> bool:
    """True if all threads of a process are stopped."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def test_sighup_says_that_the_file_is_not_read_again(
    collector: Callable[..., subprocess.Popen[str]], configure: Configure, switch: Agent
):
    process = collector(configure(switch_of(switch, ports="[{ index = 501 }]")))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    wait_for(process, "the configuration is not read again; restart the collector")
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_journal_has_a_line_for_a_state_that_changes_and_none_for_each_poll(
    collector: Callable[..., subprocess.Popen[str]], configure: Configure, agent: Agent
):
    gone = f'[[switch]]\nname = "gone"\naddress = "127.0.0.1"\nport = {free_port()}\n{V2C}\nports = "all"\n'
    process = collector(configure(switch_of(agent, "here", more="timeout_s = 0.45"), gone))
    # One that says nothing must not be waited for.
    patience = threading.Timer(PATIENCE_S, process.kill)
    patience.start()
    try:
        said = wait_for(process, "here: answers with")
        agent.kill()
        said += wait_for(process, "here: refused")
        time.sleep(2)
        agent.start()
        said += wait_for(process, "here: answers again")
        process.terminate()
        said += process.communicate(timeout=120)[1]
    finally:
        patience.cancel()
    lines = said.splitlines()
    assert re.search(r"here: answers again; \d+ polls? failed", said)
    for name in ("here", "gone"):
        # A poll each second, and a line for each change only; on a busy machine some are late.
        about = [line for line in lines if f"whydrop: {name}: " in line and "no port has" not in line]
        assert any("no SNMP agent listens there (connection refused)" in line for line in about), said
        assert all(one != other for one, other in pairwise(about)), said


def test_secrets_are_in_nothing_that_it_prints_or_writes(
    run: Run, configure: Configure, net_snmp_agent: Agent, secrets: Path, tmp_path: Path
):
    unique = "community-Zq83"
    (secrets / "wrong").write_text(unique)
    top = f'disco = {{ folder = "disco" }}\nexporter = {{ port = {free_port()} }}'
    entries = (
        switch_of(net_snmp_agent, "good", account=V3),
        switch_of(net_snmp_agent, "bad", account='community_file = "secrets/wrong"'),
    )
    done = run("collect", configure(*entries, top=top), "--duration", "3s")
    assert done.returncode == 0, done.stderr
    written = b"".join(
        path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and secrets not in path.parents and "snmpd" not in str(path)
    )
    shown = (done.stdout + done.stderr).encode() + written
    assert len(written) > 1000
    for secret in (*SECRETS, unique):
        assert secret.encode() not in shown


def test_names_from_a_switch_do_not_command_the_terminal(run: Run, configure: Configure, tmp_path_factory):
    from snmp_agents import IFX, simulated, switch_records

    records = {**switch_records(1), f"{IFX}.18.501": "4x|1b5b324a6576696c"}
    with simulated(tmp_path_factory.mktemp("evil"), {COMMUNITY: records}) as agent:
        done = run("collect", "once", configure(switch_of(agent, ports='[{ index = 501, name = "{alias}" }]')))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[2Jevil" in done.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['whydrop', 'collect', '--help']\nfrom whydrop.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert "CONFIG" in done.stdout
    assert {"polars", "pydantic", "gufo.snmp", "rich"}.isdisjoint(done.stderr.split())
