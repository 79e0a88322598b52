"""A virtual machine with Debian's kernel over this machine's own files, started by virtme-ng.

It runs under plain emulation, so that it needs nothing of the processor, and in one of two kinds of time. In *virtual
time* (``-icount``) the guest is an ideal machine of 10^9 instructions per second: its clock counts instructions and
jumps over idleness, so what it measures does not depend on how busy this machine is. In real time a busy machine makes
a slow guest, and its timing shows it.

The guest sees the files of this machine, read-only. It keeps what it has read (``cache=loose``): every wait for a file
of the host would else be idleness to jump over, a hundred seconds of virtual time for one start of Python.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lab.network import LabError

ROOT = Path(__file__).parents[2]
VIRTME_NG = ROOT / "build/virtme-ng/bin"
"""Where ``tools/test-programs`` installs virtme-ng."""

KERNEL_VARIABLE = "WHYDROP_LAB_KERNEL"
"""Names a kernel to boot instead of Debian's installed one, as ``examples/queues/newer-kernel.sh`` leaves it."""

MEMORY = "2G"

# What costs most under emulation and protects nothing here (no5lvl: every miss of the emulated TLB walks the tables).
KERNEL_OPTIONS = "mitigations=off init_on_alloc=0 apparmor=0 audit=0 no5lvl"

# Sleep=off: time jumps over idleness instead of passing; shift=0: one instruction is 1 ns.
VIRTUAL_TIME = "-icount shift=0,sleep=off"

TAG = "whydrop"
_FILES = (
    f"-fsdev local,id={TAG},path=/,security_model=none,readonly=on,multidevs=remap "
    f"-device virtio-9p-pci,fsdev={TAG},mount_tag={TAG}"
)
# An interface with flow control, which virtual ones lack; nothing is connected to it.
_INTERFACE = "-device e1000,romfile="

# Runs in the guest first: the same files again, this time cached, and the guest's own folders over them.
_ENTER = """#!/bin/sh
set -e
new=/run/whydrop-root
mkdir -p $new
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000,access=any {tag} $new
{replace}for folder in /proc /sys /dev /run /tmp /var {folder}; do mount --rbind $folder $new$folder; done
exec chroot $new sh {script}
"""


def kernels() -> list[Path]:
    """Kernels that can be booted, the newest last: those with modules, or the one that ``KERNEL_VARIABLE`` names."""
    if given := os.environ.get(KERNEL_VARIABLE):
        return [Path(given).resolve()]
    found = [path for path in Path("/boot").glob("vmlinuz-*") if Path("/lib/modules", path.name[8:]).is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def replacements(kernel: Path) -> str:
    """Mounts that put the modules of ``kernel``, and the ``tc`` beside them, in the place of this machine's."""
    modules = kernel.parent.parent
    if kernel.parent == Path("/boot"):
        return ""
    lines = [f"mount --bind $new{shlex.quote(str(modules))} $new/usr/lib/modules"]
    # Queues that this machine's tc does not know need one of the kernel's age; a wrapper finds its libraries.
    tc = modules.parents[2] / "tc"
    if tc.exists():
        lines.append(f"mount --bind $new{shlex.quote(str(tc))} $new/usr/sbin/tc")
    return "".join(f"{line}\n" for line in lines)


def vng() -> str | None:
    """The program ``vng`` of virtme-ng."""
    own = VIRTME_NG / "vng"
    return str(own) if own.exists() else shutil.which("vng")


def missing() -> str | None:
    """The needs of the machine that this one lacks, with the packages to install; ``None`` if all is there."""
    given = os.environ.get(KERNEL_VARIABLE)
    if given and not (Path(given).is_file() and Path(given).resolve().match("usr/lib/modules/*/vmlinuz")):
        return f"{KERNEL_VARIABLE}={given}: no such kernel; expected .../usr/lib/modules/VERSION/vmlinuz"
    packages = [
        package
        for package, found in (
            ("qemu-system-x86", shutil.which("qemu-system-x86_64")),
            ("linux-image-amd64", kernels()),
            # From it virtme-ng builds the first file system of the guest; with `file` it finds the kernel's version.
            ("busybox-static", shutil.which("busybox")),
            ("file", shutil.which("file")),
        )
        if not found
    ]
    lines = [f"apt-get install {' '.join(packages)}"] if packages else []
    if not vng():
        lines.append("pip install virtme-ng")
    if not lines:
        return None
    return f"the virtual machine needs: {'; '.join(lines)} (tools/test-programs does it as root on Debian)"


# Runs the machine with our end of a pipe as its stdin; however we end, the pipe closes, and the whole group is killed.
GUARDED = """
exec 3<&0
"$@" </dev/null 3<&- &
machine=$!
(cat <&3 >/dev/null; kill -KILL 0) >/dev/null 2>&1 &
wait $machine
"""


@dataclass(frozen=True)
class Ended:
    """How a run of the machine ended.

    Attributes:
        wall_s: how long it took on this machine's clock.
        console: what its programs printed.
    """

    wall_s: float
    console: str


def _share_by_niceness(leader: int) -> None:
    """Let the niceness of a session's leader set the share of the processors that the whole session gets.

    By itself a session has as much as any other, however nice its processes are (sched(7), the autogroup feature).
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{leader}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, leader)))


class Machine:
    """One boot, in which one shell script runs with ``folder`` shared for writing.

    What belongs to the machine itself (scripts, console) is in ``name`` in there: several may share a folder.
    """

    def __init__(self, folder: Path, name: str, script: str, *, virtual_time: bool, cpus: int = 1) -> None:
        trouble = missing()
        if trouble:
            raise LabError(trouble)
        if virtual_time and cpus != 1:
            raise ValueError("virtual time has one processor: instructions are counted on one only")
        self.folder = folder.resolve()
        self.name = name
        own = self.folder / name
        own.mkdir(parents=True, exist_ok=True)
        guest = shlex.quote(str(own / "guest.sh"))
        kernel = kernels()[-1]
        enter = _ENTER.format(tag=TAG, folder=shlex.quote(str(self.folder)), script=guest, replace=replacements(kernel))
        (own / "enter.sh").write_text(enter)
        (own / "guest.sh").write_text(script)
        self._console = own / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._give_up = 0.0
        self._words = [
            vng() or "vng",
            "--disable-kvm",
            *("--run", str(kernel)),
            *("--user", "root", "--memory", MEMORY, "--cpus", str(cpus)),
            f"--rwdir={self.folder}",
            f"--qemu-opts={_FILES} {_INTERFACE}{' ' + VIRTUAL_TIME if virtual_time else ''}",
            *("--append", KERNEL_OPTIONS),
            *("--", f"sh {shlex.quote(str(own / 'enter.sh'))}"),
        ]

    def start(self, most_processor_s: float) -> None:
        """Boot; run the script; power off.

        It may take ``most_processor_s`` of this machine's processor, or ten times as long by the clock: on a busy
        machine it has to wait for others.
        """
        programs = f"{VIRTME_NG}{os.pathsep}{os.environ.get('PATH', '')}"
        self._began = time.monotonic()
        self._give_up = self._began + 10 * most_processor_s
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                ["sh", "-c", GUARDED, "sh", "prlimit", f"--cpu={most_processor_s:.0f}", "--", *self._words],
                stdin=subprocess.PIPE,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PATH": programs},
            )
        _share_by_niceness(self._process.pid)

    def ended(self) -> Ended | None:
        """How it ended, as soon as it has; one that takes too long is ended."""
        assert self._process is not None
        if self._process.poll() is None and time.monotonic() < self._give_up:
            return None
        is_late = self._process.poll() is None
        self.kill()
        wall_s = time.monotonic() - self._began
        late = f"the virtual machine did not end in {wall_s:.0f} s:\n" if is_late else ""
        return Ended(wall_s, late + self.console())

    def kill(self) -> None:
        """End it; after a good end only the guard is left to be killed."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def console(self) -> str:
        """The end of what was printed in the guest."""
        return self._console.read_text(errors="replace")[-4000:]
