"""A responder that is copied to a far host by ssh, answers there, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import IO

from whydrop.errors import Error

PROGRAM = "whydrop-responder"
SSH = ("ssh",)

# A host that does not answer, or that vanishes, is noticed after some seconds. They follow the user's options: of an
# option that ssh gets twice, the first counts.
_SSH_DEFAULTS = ("-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=10")
# Ctrl-C on a terminal reaches ssh too, but the far end must stay until the test has ended. To ask for a password, ssh
# must be in the process group of the terminal.
_IGNORING_INTERRUPT = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
_PREFIX = "whydrop-deploy: "
_FAILED = f"{_PREFIX}failed "
_PORT = re.compile(r"whydrop responder: TCP and UDP port (\d+)")
# Of `e_machine` in the header of an ELF file, as `uname -m` names it.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_CHUNK_BYTES = 1 << 16
# What a login shell may print before the script begins.
_MOST_LINES = 1000
_LONGEST_LINE_BYTES = 4096
_MERCY_S = 15.0
_OF_SSH = 255
_STDERR = 2

#: Takes the bytes that are copied, and the bytes in all.
Copied = Callable[[int, int], None]


class DeployError(Error):
    """The responder could not be started on the far host; the message says why, and what to try."""


class Deployed:
    """A responder that runs on a far host until :meth:`stop`; a context that ends with it.

    Attributes:
        place: where it answers, as ``HOST:PORT``, for :func:`whydrop.run`.
        secret: that its clients must know.
    """

    def __init__(self, place: str, secret: str, connection: _Connection) -> None:
        self.place = place
        self.secret = secret
        self._connection = connection

    @property
    def running(self) -> bool:
        """True while the connection of ssh lives, and with it the responder."""
        return self._connection.process.poll() is None

    def stop(self) -> None:
        """Stop the responder; a second call changes nothing. Its file was removed when it had started.

        Raises:
            DeployError: the connection of ssh had ended before, and the responder with it.
        """
        if self._connection.is_closed:
            return
        if not self.running:
            raise self._connection.failure("the responder ended before it was stopped")
        self._connection.close()

    def __enter__(self) -> Deployed:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self._connection.close()

    def __repr__(self) -> str:
        return f"<whydrop.Deployed: {self.place if self.running else 'stopped'}>"


def deploy(
    host: str,
    *,
    secret: str,
    ssh: Sequence[str] = SSH,
    program: Path | None = None,
    address: str | None = None,
    port: int = 17370,
    progress: Copied | None = None,
) -> Deployed:
    """Copy the responder to a host and start it; :func:`whydrop.deploy` describes the arguments."""
    if host.startswith("-") or not host.isprintable():
        raise DeployError(f"{host!r}: not a host name; expected a host of ssh, such as root@server.example")
    if "\n" in secret:
        raise DeployError("the secret has several lines; expected one. Make one with: whydrop secret")
    if shutil.which(ssh[0]) is None:
        raise DeployError(
            f"{ssh[0]}: program not found; it is needed to connect to {host}. Install it, or name it with --ssh"
        )
    path = _program() if program is None else program
    content = path.read_bytes()
    place = _place(address or _address(host, ssh), port)
    connection = _Connection(host, ssh)
    try:
        _check_machine(connection.answer("system"), content, path, host)
        connection.send(f"{len(content)} {port} {secret}\n".encode())
        connection.answer("send")
        connection.copy(content, progress)
        connection.wait_for_port()
        connection.send(b"\n")
    except BaseException:
        connection.close()
        raise
    return Deployed(place, secret, connection)


class _Connection:
    """ssh, with the script at its far end."""

    def __init__(self, host: str, ssh: Sequence[str]) -> None:
        self._host, self._ssh = host, ssh
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the connection)
        try:
            self.process = subprocess.Popen(
                [*_IGNORING_INTERRUPT, *ssh, *_SSH_DEFAULTS, "-T", "--", host, _remote_command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if _has_terminal() else self._complaints,
            )
        except OSError:
            self._complaints.close()
            raise
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        self._last: list[str] = []
        self._connected = False
        self.send(_script())

    def send(self, data: bytes) -> None:
        """Write; what a far end that is gone had to say is read later."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(data)
            self._input.flush()

    def copy(self, content: bytes, copied: Copied | None) -> None:
        """Send the program."""
        for begin in range(0, len(content), _CHUNK_BYTES):
            self.send(content[begin : begin + _CHUNK_BYTES])
            if copied is not None:
                copied(min(begin + _CHUNK_BYTES, len(content)), len(content))

    def answer(self, word: str) -> str:
        """Read up to the line of the script with this word; return what follows the word.

        Raises:
            DeployError: the script says why it ends, or ssh ended.
        """
        for line in self._lines():
            if line.startswith(_PREFIX + word):
                self._connected = True
                return line.removeprefix(_PREFIX + word).strip()
        raise self.failure("the responder was not started")

    def wait_for_port(self) -> None:
        """Read until the responder listens; then read on in a thread, so that it never waits for its reader."""
        for line in self._lines():
            if _PORT.match(line):
                self._last = []
                threading.Thread(target=_drain, args=(self._output,), daemon=True).start()
                return
        raise self.failure("the responder did not start")

    @property
    def is_closed(self) -> bool:
        """True after :meth:`close`."""
        return self._complaints.closed

    def close(self) -> None:
        """End the input, which ends the responder, and then ssh."""
        with contextlib.suppress(OSError):
            self._input.close()
        if not self._connected:
            # It may ask for a password.
            self.process.terminate()
        for end in (self.process.terminate, self.process.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_MERCY_S)
                break
            end()
        self.process.wait()
        self._complaints.close()

    def failure(self, what: str) -> DeployError:
        """The error for an end that was not asked for, with the last lines of the far end and of ssh."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Its output has ended, so it will.
            self.process.wait(_MERCY_S)
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").splitlines()
        self.close()
        reasons = [line.strip().rstrip(".") for line in (*self._last[-1:], *said[-2:]) if line.strip()]
        status = self.process.returncode
        # Of ssh itself; any other is that of the script or of the program.
        lost = status == _OF_SSH
        reason = "; ".join(reasons) or ("ssh refused or lost the connection" if lost else f"exit status {status}")
        advice = f". Try: {shlex.join([*self._ssh, self._host, 'true'])}" if lost else ""
        return DeployError(f"{self._host}: {what}: {reason}{advice}")

    def _lines(self) -> Iterator[str]:
        """Lines of the far end, as many as can be expected.

        Raises:
            DeployError: the script says why it ends.
        """
        for _ in range(_MOST_LINES):
            line = self._output.readline(_LONGEST_LINE_BYTES)
            if not line:
                return
            text = line.decode(errors="replace").strip()
            if text.startswith(_FAILED):
                raise DeployError(f"{self._host}: {text.removeprefix(_FAILED)}")
            if not text.startswith(_PREFIX):
                self._last = [text]
            yield text


def _drain(stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while stream.read(_CHUNK_BYTES):
            pass


def _script() -> bytes:
    return resources.files("whydrop.measure").joinpath("far_host.sh").read_bytes()


def _remote_command() -> str:
    """A command that reads the script, and not a byte more, and runs it; the login shell may be any."""
    return f"exec /bin/sh -c 'eval \"$(dd bs=1 count={len(_script())} 2>/dev/null)\"'"


def _program() -> Path:
    """The responder that is installed beside this Python, or in the search path of programs.

    Raises:
        DeployError: there is none.
    """
    beside = os.fspath(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=beside) or shutil.which(PROGRAM)
    if found is None:
        raise DeployError(f"{PROGRAM}: not installed here. Run: pip install {PROGRAM}; or name its file with --program")
    return Path(found)


def _check_machine(system: str, content: bytes, path: Path, host: str) -> None:
    """Refuse a program that the far host cannot run, before it is copied."""
    if content[:4] != b"\x7fELF":
        raise DeployError(f"{path}: not a Linux program (ELF); expected a static {PROGRAM}")
    machine = int.from_bytes(content[18:20], "little")
    built_for = _MACHINES.get(machine, f"ELF machine {machine}")
    if system.split() != ["Linux", built_for]:
        raise DeployError(
            f"{host} runs {system or 'an unknown system'}, but {path} is for Linux {built_for}. Name the file for that "
            "host with --program, or install whydrop there and run: whydrop responder"
        )


def _has_terminal() -> bool:
    """True if ssh can show its prompts, such as to touch a security key, on this standard error."""
    with contextlib.suppress(OSError):
        return os.isatty(_STDERR)
    return False


def _address(host: str, ssh: Sequence[str]) -> str:
    """The host name that ssh connects to: ``host`` may be an alias of its configuration."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run(
            [*ssh, "-G", "--", host],
            check=False,
            capture_output=True,
            text=True,
            timeout=_MERCY_S,
            stdin=subprocess.DEVNULL,
        )
        if found := re.search(r"^hostname (\S+)$", asked.stdout, re.MULTILINE):
            return found[1]
    return host.rpartition("@")[2]


def _place(address: str, port: int) -> str:
    address = address.removeprefix("[").removesuffix("]")
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
