"""The demands of tests on the kernel, and those that this one does not meet."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.network import LabError, Network, command

# A command that succeeds on the loopback interface of an empty namespace where the kernel has the feature.
PROBES = {
    "netem": "qdisc add dev lo root netem delay 1ms",
    "fq": "qdisc add dev lo root fq",
    "fq_codel": "qdisc add dev lo root fq_codel",
    "codel": "qdisc add dev lo root codel",
    "pie": "qdisc add dev lo root pie",
    "fq_pie": "qdisc add dev lo root fq_pie",
    "red": "qdisc add dev lo root red limit 100000 avpkt 1000 bandwidth 10mbit probability 0.1",
    "sfq": "qdisc add dev lo root sfq",
    "cake": "qdisc add dev lo root cake bandwidth 10mbit",
    "htb": "qdisc add dev lo root htb",
    "tbf": "qdisc add dev lo root tbf rate 10mbit burst 10k limit 10k",
    "pfifo": "qdisc add dev lo root pfifo limit 10",
    "bfifo": "qdisc add dev lo root bfifo limit 10000",
}
# Features that need more than one command.
ON_INGRESS = {"police": "matchall action police rate 1mbit burst 10k conform-exceed drop"}

# The family of generic netlink that reports drops; its module is loaded on request.
FAMILIES = {"drop_monitor": "NET_DM"}

# Interfaces of the machine alone: settings of a real one are not for tests to change.
DRIVERS = frozenset({"e1000"})

CONGESTION_CONTROLS = frozenset({"bbr"})
"""Beside those that every kernel has."""

FEATURES = frozenset(PROBES) | frozenset(ON_INGRESS) | frozenset(FAMILIES) | CONGESTION_CONTROLS | DRIVERS

# The modules of the features, as Debian's kernel names them.
MODULES = (
    "veth",
    *(f"sch_{kind}" for kind in PROBES if kind not in ("pfifo", "bfifo")),
    "sch_ingress",
    "act_police",
    "cls_matchall",
    "cls_u32",
    "nf_tables",
    "nft_ct",
    "tcp_bbr",
    "drop_monitor",
    *DRIVERS,
)


def may_make_namespaces() -> bool:
    """True if we have the rights to make network namespaces (root's)."""
    return os.geteuid() == 0


@functools.cache
def has(feature: str) -> bool:
    """True if this kernel has a feature; found out by asking for it in an empty namespace."""
    if feature not in FEATURES:
        raise ValueError(f"no feature {feature!r} is known; expected one of {', '.join(sorted(FEATURES))}")
    if feature in CONGESTION_CONTROLS:
        # The module of one that is not loaded is loaded by those who may, when a flow asks for it.
        known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        return feature in known or subprocess.run(["modprobe", f"tcp_{feature}"], check=False).returncode == 0
    if feature in DRIVERS:
        return "WHYDROP_LAB_INSIDE" in os.environ and bool(interfaces_of(feature))
    if feature in FAMILIES:
        shown = subprocess.run(["genl", "ctrl", "get", "name", FAMILIES[feature]], capture_output=True, check=False)
        return shown.returncode == 0
    try:
        with Network() as network:
            host = network.host("probe")
            if feature in PROBES:
                command(["tc", "-n", host.namespace, *PROBES[feature].split()])
            else:
                command(["tc", "-n", host.namespace, "qdisc", "add", "dev", "lo", "clsact"])
                rule = ON_INGRESS[feature].split()
                command(["tc", "-n", host.namespace, "filter", "add", "dev", "lo", "ingress", *rule])
    except LabError:
        # Also where `ip` is still to be installed: what wants the lab is not run before.
        return False
    return True


def interfaces_of(driver: str) -> list[str]:
    """The names of the interfaces that a driver serves."""
    links = Path("/sys/class/net").glob("*/device/driver")
    return sorted(one.parents[1].name for one in links if one.resolve().name == driver)


def lacks(features: Iterable[str]) -> list[str]:
    """Those of ``features`` that this kernel does not have."""
    return [feature for feature in features if not has(feature)]


def load_modules(others: Iterable[str] = ()) -> None:
    """Load what the features need, where the kernel keeps it in modules; ``has`` finds out what could not be."""
    for module in (*MODULES, *others):
        subprocess.run(["modprobe", "-q", module], check=False, stdin=subprocess.DEVNULL)
