"""Abilities of this host: privileges, kernel features, programs and folders, and commands that add the missing ones."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whydrop.measure.runners import registry
from whydrop.measure.runners.registry import version_of
from whydrop.runtime import extras

# linux/capability.h
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39}
# linux/netlink.h, linux/sock_diag.h
_NETLINK_SOCK_DIAG = 4

_AS_ROOT = "sudo whydrop ..."
_QUEUES = {"htb": "pace, fix", "fq_codel": "fix", "cake": "fix", "fq": "pacing of BBR and SO_MAX_PACING_RATE"}


@dataclass(frozen=True)
class Ability:
    """One thing that this host has or lacks.

    Attributes:
        group: ``privileges``, ``kernel``, ``programs``, ``extras`` or ``folders``.
        name: what it is.
        present: whether this process can use it.
        found: a version, or what was found.
        used_for: the commands that use it.
        remedy: the command that adds it; empty where it is present, or where none is known.
    """

    group: str
    name: str
    present: bool
    found: str
    used_for: str
    remedy: str


def doctor(folder: str | os.PathLike[str] = ".") -> list[Ability]:
    """Examine this host: what whydrop can do here, and how to add what is missing.

    Args:
        folder: recordings would go here.
    """
    return [*_privileges(), *_kernel(), *_programs(), *_extras(), *_folders(Path(folder))]


def _ability(group: str, name: str, present: bool, used_for: str, remedy: str = "", found: str = "") -> Ability:
    return Ability(group, name, present, found, used_for, "" if present else remedy)


def _privileges() -> Iterator[Ability]:
    held = _effective_capabilities()
    for names, used_for in (
        (("CAP_NET_ADMIN",), "pace, fix: change queues"),
        (("CAP_NET_RAW",), "roll: capture packets; fix: capture with tcpdump; run --interface before Linux 5.7"),
        (("CAP_BPF", "CAP_PERFMON"), "watch: packets that this host drops, with their reasons"),
    ):
        present = set(names) <= held or ("CAP_SYS_ADMIN" in held and "CAP_BPF" in names)
        yield _ability("privileges", " and ".join(names), present, used_for, _AS_ROOT)
    yield _ability("privileges", "root", os.geteuid() == 0, "watch: processes of other users", _AS_ROOT)


def _effective_capabilities() -> set[str]:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", _read("/proc/self/status"), re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return {name for name, bit in _CAPABILITIES.items() if bits >> bit & 1}


def _kernel() -> Iterator[Ability]:
    is_linux, release = platform.system() == "Linux", platform.release()
    yield _ability("kernel", "Linux", is_linux, "watch, pace, fix, TCP_INFO of run", found=release)
    yield _ability("kernel", "sock_diag", _has_sock_diag(), "watch", "sudo modprobe tcp_diag")
    known = _read("/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    yield _ability("kernel", "congestion controls", bool(known), "run --set cc_algos=...", found=", ".join(known))
    if "bbr" not in known:
        present = _has_module("tcp_bbr")
        # A module that is not loaded.
        yield Ability("kernel", "BBR", present, "a module" if present else "", "run, fix", "sudo modprobe tcp_bbr")
    for queue, used_for in _QUEUES.items():
        present = _has_module(f"sch_{queue}")
        found = "" if present else f"not in this kernel (CONFIG_NET_SCH_{queue.upper()})"
        yield _ability("kernel", f"qdisc {queue}", present, used_for, _modules_package(), found)
    present = Path("/sys/kernel/btf/vmlinux").exists()
    yield _ability("kernel", "BTF (eBPF programs)", present, "watch --drops program")
    present = os.access("/sys/kernel/tracing/events/skb/kfree_skb/format", os.R_OK)
    remedy = "sudo mount -t tracefs tracefs /sys/kernel/tracing"
    yield _ability("kernel", "tracepoint skb:kfree_skb", present, "watch --drops", remedy)
    yield _ability("kernel", "network namespaces", Path("/proc/self/ns/net").exists(), "the lab of the tests")


def _has_sock_diag() -> bool:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG).close()
    except (AttributeError, OSError):
        return False
    return True


def _has_module(name: str) -> bool:
    """True if a module is loaded, built in, or can be loaded."""
    if Path(f"/sys/module/{name}").exists():
        return True
    folder = Path("/lib/modules") / platform.release()
    listed = _read(folder / "modules.builtin") + _read(folder / "modules.dep")
    if listed:
        return f"/{name}.ko" in listed
    # Without lists (a container, a kernel without modules) the names of kernel symbols decide.
    wanted = name.removeprefix("sch_") + "_qdisc_ops"
    return any(line.split()[2:3] == [wanted] for line in _read("/proc/kallsyms").splitlines())


def _modules_package() -> str:
    """The command that installs more modules: Ubuntu keeps them in a package of their own."""
    release = platform.release()
    return f"sudo apt-get install linux-modules-extra-{release}" if release.endswith("-generic") else ""


def _programs() -> Iterator[Ability]:
    for one in registry.available():
        if one.support.program is not None:
            depth = f", depth --far-end {one.name}" if one.name in ("irtt", "iperf3", "nuttcp") else ""
            yield _program(one.support.program, one.version, f"run --with {one.name}{depth}", one.support.package)
    tcpdump, java = version_of("tcpdump", "--version"), version_of("java", "-version")
    yield _program("tcpdump", tcpdump, "fix: a capture of the measurement", "apt-get install tcpdump")
    yield _program("java", java, "--backend spark", "apt-get install default-jre-headless")
    yield _program("ssh", version_of("ssh", "-V"), "deploy", "apt-get install openssh-client")


def _program(name: str, version: str, used_for: str, package: str) -> Ability:
    place = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    install = re.search(r"apt-get install [\w-]+", package)
    remedy = f"sudo {install[0]}" if install is not None and place is None else ""
    return Ability("programs", name, place is not None, (version or place or "") if place else "", used_for, remedy)


def _extras() -> Iterator[Ability]:
    for extra, used_for in extras.USED_FOR.items():
        absent = extras.missing(extra)
        found = f"without {', '.join(absent)}" if absent else ""
        yield _ability("extras", extra, not absent, used_for, extras.command(extra), found)


def _folders(folder: Path) -> Iterator[Ability]:
    for place, used_for in (
        (folder.absolute(), "recordings, without --output"),
        (Path(tempfile.gettempdir()), "recordings where the disk is full"),
    ):
        present = os.access(place, os.W_OK)
        yield Ability("folders", str(place), present, "writable" if present else "", used_for, "")


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
