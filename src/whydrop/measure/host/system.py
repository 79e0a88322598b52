"""Facts about a host: its kernel, processors, clock, and the settings that TCP and queues depend on."""

from __future__ import annotations

import functools
import os
import platform
import struct
from pathlib import Path
from typing import Any

from whydrop.measure.host.items import Items, line, line_or_none, whole_number

# Settings that change what TCP does or how long packets wait, by prefix. Flent's 24 are among them.
_SYSCTLS = {
    "net.core.": """
        bpf_jit_enable busy_poll busy_read default_qdisc netdev_budget netdev_budget_usecs
        netdev_max_backlog optmem_max rmem_default rmem_max somaxconn wmem_default wmem_max
    """,
    "net.ipv4.tcp_": """
        adv_win_scale allowed_congestion_control autocorking available_congestion_control base_mss
        comp_sack_delay_ns comp_sack_nr congestion_control dsack early_retrans ecn ecn_fallback fack
        fastopen frto limit_output_bytes mem min_rtt_wlen min_tso_segs moderate_rcvbuf mtu_probing
        no_metrics_save no_ssthresh_metrics_save notsent_lowat pacing_ca_ratio pacing_ss_ratio recovery
        reordering rmem sack slow_start_after_idle syncookies thin_linear_timeouts timestamps
        tso_win_divisor window_scaling wmem
    """,
    "net.ipv4.": """
        ip_local_port_range ip_no_pmtu_disc udp_mem udp_rmem_min udp_wmem_min
    """,
}
SYSCTLS = tuple(sorted(prefix + name for prefix, names in _SYSCTLS.items() for name in names.split()))

# Modules that people build themselves, so that the kernel's release does not describe them: queueing disciplines,
# congestion control, wireless. A name with * stands for all that begin so.
MODULES = (
    "sch_*", "tcp_*", "act_*", "ath", "ath9k", "ath9k_common", "ath9k_hw", "ath10k_core", "ath11k", "cfg80211",
    "iwlwifi", "iwlmvm", "mac80211", "mt76", "ifb", "veth",
)  # fmt: skip

_BUILD_ID = 3  # NT_GNU_BUILD_ID


def gather(items: Items) -> None:
    """Everything about this host that has nothing to do with where a test goes."""
    items.add("host_name", platform.node)
    items.add("kernel", _kernel)
    items.add("distribution", _distribution)
    items.add("processors", _processors)
    items.add("memory_bytes", lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    items.add("uptime_s", lambda: float(line("/proc/uptime").split()[0]))
    items.add("load_average", lambda: list(os.getloadavg()))
    items.add("clock", _clock)
    items.add("sysctls", lambda: _sysctls(items))
    items.add("modules", _modules)
    items.add("whydrop", _whydrop)


def _kernel() -> dict[str, str]:
    system = os.uname()
    return {"name": system.sysname, "release": system.release, "version": system.version, "machine": system.machine}


def _distribution() -> dict[str, str]:
    told = platform.freedesktop_os_release()
    return {"name": told.get("NAME", ""), "version": told.get("VERSION_ID", ""), "pretty": told.get("PRETTY_NAME", "")}


def _processors() -> dict[str, Any]:
    folders = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    governors = sorted({found for folder in folders if (found := line_or_none(folder / "scaling_governor"))})
    models = [text.partition(":")[2].strip() for text in line("/proc/cpuinfo").splitlines() if _tells_model(text)]
    result: dict[str, Any] = {"count": os.cpu_count(), "usable": len(os.sched_getaffinity(0))}
    if models:
        result["model"] = models[0]
    if governors:
        result["governors"] = governors
    return result


def _tells_model(text: str) -> bool:
    return text.lower().startswith(("model name", "cpu model", "hardware"))


def _clock() -> dict[str, Any]:
    folder = Path("/sys/devices/system/clocksource/clocksource0")
    return {
        "source": line_or_none(folder / "current_clocksource"),
        "available": (line_or_none(folder / "available_clocksource") or "").split(),
    }


def _sysctls(items: Items) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    absent = []
    for name in SYSCTLS:
        value = line_or_none(Path("/proc/sys") / name.replace(".", "/"))
        if value is None:
            absent.append(name)
        else:
            found[name] = whole_number(value)
    if absent:
        items.missing.append(f"sysctls: this kernel has no {', '.join(absent)}")
    return found


def _modules() -> dict[str, str]:
    found = {}
    for name in MODULES:
        for folder in sorted(Path("/sys/module").glob(name)):
            build_id = _build_id(folder / "notes")
            # Those that are built in have a folder too, but were not loaded.
            if build_id is not None or (folder / "initstate").exists():
                found[folder.name] = build_id or "loaded"
    return found


def _build_id(notes: Path) -> str | None:
    """The build id in the notes of a module (elf(5))."""
    for path in (notes / ".note.gnu.build-id", notes / ".note.Linux"):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if len(data) >= 12:
            name_bytes, size, kind = struct.unpack_from("=3I", data)
            start = 12 + (name_bytes + 3 & ~3)
            if kind == _BUILD_ID and size <= 64:
                return data[start : start + size].hex()
    return None


def _whydrop() -> dict[str, str | None]:
    from whydrop import _core

    return {"version": _core.__version__, "revision": _revision()}


@functools.cache
def _revision() -> str | None:
    """``git describe`` of the checkout that this runs from, if it does; as of the process's first run."""
    import subprocess

    top = Path(__file__).resolve().parents[4]
    if not (top / ".git").exists():
        return None
    command = ["git", "-C", str(top), "describe", "--always", "--dirty", "--tags"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    return done.stdout.strip() or None
