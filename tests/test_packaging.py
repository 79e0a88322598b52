"""The service files: systemd understands them, and they ask for little."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parent.parent / "packaging"
UNIT = PACKAGING / "whydrop-responder.service"
STATIC = PACKAGING / "whydrop-responder-static.service"
OPENWRT = PACKAGING / "openwrt" / "whydrop-responder.init"
COLLECT = PACKAGING / "whydrop-collect.service"
DEFAULT_PORT = "17370"

needs_systemd = pytest.mark.needs_program("systemd-analyze")


class _Repeating(dict):
    """Keeps what a unit says more than once as several lines."""

    def __setitem__(self, key: str, value: object) -> None:
        if isinstance(value, list) and key in self and isinstance(self[key], list):
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def section(unit: Path) -> configparser.SectionProxy:
    """The service section of a unit."""
    parser = configparser.RawConfigParser(strict=False, dict_type=_Repeating, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser["Service"]


@pytest.fixture(scope="module")
def service() -> configparser.SectionProxy:
    return section(UNIT)


@pytest.fixture(params=[UNIT, STATIC, COLLECT], ids=lambda unit: unit.stem)
def startable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit with a program that exists here, or systemd complains of nothing but that."""
    text = re.sub(r"/usr/local/bin/[\w-]+", shutil.which("true") or "/bin/true", request.param.read_text())
    copy = tmp_path / request.param.name
    copy.write_text(text)
    return copy


@needs_systemd
def test_systemd_understands_every_line(startable: Path) -> None:
    words = ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", str(startable)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if startable.stem in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
def test_its_exposure_is_low_by_systemds_own_measure(startable: Path) -> None:
    # 100 is 10.0, "dangerous"; below 20 systemd says "OK", and no service that uses the network comes much lower.
    words = ["systemd-analyze", "security", "--offline=yes", "--threshold=15", "--no-pager", str(startable)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_it_is_started_with_options_that_the_responder_has(service: configparser.SectionProxy) -> None:
    from whydrop.cli.responder import command

    words = service["ExecStart"].split()
    assert words[1] == command.name
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_static_program_gets_the_same_options_and_permissions_as_the_command() -> None:
    command, program = section(UNIT), section(STATIC)
    assert program["ExecStart"] == command["ExecStart"].replace("/whydrop responder ", "/whydrop-responder ")
    assert {key: value for key, value in program.items() if key != "ExecStart"} == {
        key: value for key, value in command.items() if key != "ExecStart"
    }


def test_the_init_script_is_one_and_uses_options_that_the_responder_has() -> None:
    from whydrop.cli.responder import command

    subprocess.run(["sh", "-n", OPENWRT], check=True)
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", OPENWRT.read_text())) <= known


def test_the_collector_is_started_as_it_can_be_and_listens_only_where_its_exporter_does() -> None:
    from whydrop.cli.collect import command
    from whydrop.monitoring.switches.schema import ExporterEntry

    collector = section(COLLECT)
    words = collector["ExecStart"].split()
    assert words[1:] == [command.name, "/etc/whydrop/switches.toml"]
    assert collector["SocketBindDeny"] == "any"
    assert collector["SocketBindAllow"] == f"tcp:{ExporterEntry().port}"


def test_the_collector_has_no_capabilities_secrets_that_root_alone_reads_and_bounds() -> None:
    collector = section(COLLECT)
    assert collector["CapabilityBoundingSet"] == collector["AmbientCapabilities"] == ""
    assert collector["NoNewPrivileges"] == collector["DynamicUser"] == "yes"
    assert collector["LoadCredential"].startswith("community:")
    assert f"/var/lib/{collector['StateDirectory']}/store" in COLLECT.read_text()
    for limit in ("MemoryMax", "TasksMax", "LimitNOFILE"):
        assert re.fullmatch(r"\d+[KMG]?", collector[limit])


def test_what_it_may_bind_is_its_port_option(service: configparser.SectionProxy) -> None:
    port = re.search(r"--port (\d+)", service["ExecStart"])
    assert port is not None
    assert port[1] == DEFAULT_PORT
    assert service["SocketBindAllow"].split() == [f"tcp:{port[1]}", f"udp:{port[1]}"]
    assert service["SocketBindDeny"] == "any"


def test_it_has_no_capabilities_and_a_secret_that_root_alone_reads(service: configparser.SectionProxy) -> None:
    assert service["CapabilityBoundingSet"] == ""
    assert service["AmbientCapabilities"] == ""
    assert service["NoNewPrivileges"] == "yes"
    assert service["DynamicUser"] == "yes"
    assert service["LoadCredential"].partition(":")[0] == "secret"
    assert "--secret-file %d/secret" in service["ExecStart"]


def test_what_it_takes_is_bounded(service: configparser.SectionProxy) -> None:
    for limit in ("MemoryMax", "TasksMax", "LimitNOFILE"):
        assert re.fullmatch(r"\d+[KMG]?", service[limit])
    assert service["Restart"] == "on-failure"


def test_every_setting_that_the_readme_changes_is_one_of_systemds_or_in_the_unit() -> None:
    readme = (UNIT.parent / "README.md").read_text()
    unit = UNIT.read_text()
    for name in ("ExecStart", "SocketBindAllow", "LoadCredential", "MemoryMax", "TasksMax", "RestrictRealtime"):
        assert f"{name}=" in readme
        assert f"\n{name}=" in unit
