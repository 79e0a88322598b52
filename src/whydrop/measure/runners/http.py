"""Fetching a list of addresses again and again, as people's browsers do while the path is loaded."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Rows, ThreadRunner
from whydrop.measure.runners.registry import SUPPORT, bracketed
from whydrop.runtime.masking import masked
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import written_path

if TYPE_CHECKING:
    import urllib3

_TIMEOUT_S = 30.0
_MOST_WORKERS = 256
_MOST_URLS = 10_000
_LONGEST_LIST_BYTES = 10_000_000
_PIECE_BYTES = 1 << 16
# Of redirects, as urllib3 has it.
_REDIRECTS = 3

_log = logging.getLogger(__name__)


class ListError(ValueError):
    """The list of addresses is of no use; the message says why."""


class _Options(BaseModel):
    """The options of a flow; those with other names are lists of addresses."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    workers: int = 4
    reuse_connections: bool = True
    verify: bool = True
    most_bytes: int = 10**9
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("workers")
    @classmethod
    def _are_few(cls, workers: int) -> int:
        if not 1 <= workers <= _MOST_WORKERS:
            raise ValueError(f"expected 1 to {_MOST_WORKERS}, not {workers}")
        return workers


class HttpRunner(ThreadRunner):
    """Rounds of fetches: all addresses of the list, by some workers at once; a round begins each interval.

    A round that takes longer than the interval delays the next one, which then begins at once: rounds never overlap.
    Threads cannot be killed: a fetch ends with the next piece of an answer, or its time-out.
    """

    name = "http"

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self._fetches = Rows()
        self._rounds = self._failed = 0
        self._last_error = ""
        self._urls: list[str] = []

    def check(self) -> str | None:
        """Faults of the options; the list itself may be at an address, and is read when the test starts."""
        if complaint := SUPPORT["http"].complaint(self.flow):
            return complaint
        options = self.flow.options
        where = f"flow {self.flow.name!r}"
        _, mistakes = validating.validate(_Options, options)
        if mistakes:
            return f"{where}: " + "; ".join(f"{written_path(('options', *key))}: {what}" for key, what in mistakes)
        if "urls" not in options and "url_list" not in options and not self.flow.host:
            return f"{where}: give options.urls, options.url_list, or a host to fetch / of"
        try:
            if "url_list" not in options:
                self._inline_urls()
            elif not _is_address(str(options["url_list"])):
                _read_list(Path(str(options["url_list"])).read_text("utf-8"), str(options["url_list"]))
        except (ListError, UnicodeDecodeError) as reason:
            return f"{where}: {reason}"
        except OSError as reason:
            return f"{where}: options.url_list: {options['url_list']}: {reason.strerror}"
        return None

    def _told(self) -> dict[str, Any]:
        fetched = self._fetches.ever
        return {"urls": len(self._urls), "rounds": self._rounds, "fetches": fetched, "failed": self._failed}

    def _result(self) -> tuple[str, str | None]:
        fetched = self._fetches.ever
        if fetched == 0:
            return "no-data", "not one fetch ended within the test"
        if self._failed == fetched:
            return "failed", f"all {fetched} fetches failed, the last one so: {self._last_error}"
        return "complete", None

    def _rows(self) -> Rows:
        return self._fetches

    # Its threads.

    def _supervise(self) -> None:
        try:
            options = _Options.model_validate(self.flow.options)
            if not options.reuse_connections:
                options.headers.setdefault("Connection", "close")
            with _pool(self.flow, options) as pool:
                self._urls = self._all_urls(pool, options)
                self._stopping.wait(max(0.0, (self._due_ns - time.monotonic_ns()) / 1e9))
                self._run_rounds(pool, options)
        except ListError as reason:
            self._broken = masked(str(reason))
        except Exception as reason:
            _log.exception("runner http of flow %s", self.flow.name)
            self._broken = masked(f"fetching failed: {reason!r}")

    def _run_rounds(self, pool: urllib3.PoolManager, options: _Options) -> None:
        interval_ns = round(self.flow.interval_s * 1e9)
        end_ns = self._due_ns + round(self.flow.duration_s * 1e9) if self.flow.duration_s is not None else None
        next_ns = self._due_ns
        while not self._stopping.is_set() and (end_ns is None or time.monotonic_ns() < end_ns):
            self._round(pool, options, end_ns)
            self._rounds += 1
            next_ns = max(next_ns + interval_ns, time.monotonic_ns())
            wait_until_ns = next_ns if end_ns is None else min(next_ns, end_ns)
            self._stopping.wait(max(0.0, (wait_until_ns - time.monotonic_ns()) / 1e9))

    def _round(self, pool: urllib3.PoolManager, options: _Options, end_ns: int | None) -> None:
        waiting: SimpleQueue[str] = SimpleQueue()
        for url in self._urls:
            waiting.put(url)
        threads = [
            threading.Thread(target=self._work, args=(self._rounds, waiting, pool, options, end_ns), daemon=True)
            for _ in range(min(options.workers, len(self._urls)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(
        self, number: int, waiting: SimpleQueue[str], pool: urllib3.PoolManager, options: _Options, end_ns: int | None
    ) -> None:
        while not self._stopping.is_set() and (end_ns is None or time.monotonic_ns() < end_ns):
            try:
                url = waiting.get_nowait()
            except Empty:
                return
            try:
                self._fetch(number, url, pool, options)
            except Exception as reason:
                _log.exception("runner http of flow %s", self.flow.name)
                self._broken = masked(f"fetching {url} failed: {reason!r}")
                return

    def _fetch(self, number: int, url: str, pool: urllib3.PoolManager, options: _Options) -> None:
        """One address; that it fails is a measurement too."""
        import urllib3

        start_ns, began_ns = time.time_ns(), time.monotonic_ns()
        status = first_byte_ns = None
        received_bytes, error = 0, None
        try:
            response = pool.request("GET", url, preload_content=False, headers=options.headers)
            try:
                status, first_byte_ns = response.status, time.monotonic_ns() - began_ns
                received_bytes, error = self._receive(response, options, began_ns)
            finally:
                if error is None and options.reuse_connections:
                    response.drain_conn()
                    response.release_conn()
                else:
                    response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as reason:
            error = _plain(reason)
        if self._stopping.is_set() and error is not None:
            return
        if error is None and status is not None and status >= 400:
            error = f"status {status}"
        with self._lock:
            self._fetches.add(
                "fetches",
                flow=self.number,
                start_ns=start_ns,
                url=masked(url),
                duration_ns=time.monotonic_ns() - began_ns,
                first_byte_ns=first_byte_ns,
                status=status,
                payload_bytes=received_bytes,
                error=masked(error) if error is not None else None,
                round=number,
            )
            if error is not None:
                self._failed += 1
                self._last_error = masked(f"{url}: {error}")

    def _receive(self, response: urllib3.BaseHTTPResponse, options: _Options, began_ns: int) -> tuple[int, str | None]:
        """The bytes of an answer's body, as they came over the path; and why it was given up, if it was."""
        received_bytes = 0
        # read1: what has come, rather than wait until so much has
        while piece := response.read1(_PIECE_BYTES, decode_content=False):
            received_bytes += len(piece)
            if self._stopping.is_set():
                return received_bytes, "stopped"
            if received_bytes >= options.most_bytes:
                return received_bytes, f"more than {options.most_bytes} bytes (options.most_bytes)"
            if time.monotonic_ns() - began_ns > _timeout_s(self.flow) * 1e9:
                # a server that trickles never lets a single read time out
                return received_bytes, f"not complete within {_timeout_s(self.flow):g} s"
        return received_bytes, None

    def _inline_urls(self) -> list[str]:
        urls = self.flow.options.get("urls")
        if urls is None:
            port = f":{self.flow.port}" if self.flow.port is not None else ""
            return [f"http://{bracketed(self.flow.host or '')}{port}/"]
        if isinstance(urls, str):
            urls = urls.split()
        if not isinstance(urls, (list, tuple)):
            raise ListError("options.urls: expected a list of addresses")
        return _read_list("\n".join(map(str, urls)), "options.urls")

    def _all_urls(self, pool: urllib3.PoolManager, options: _Options) -> list[str]:
        import urllib3

        place = self.flow.options.get("url_list")
        if place is None:
            return self._inline_urls()
        place = str(place)
        try:
            if not _is_address(place):
                return _read_list(Path(place).read_text("utf-8", errors="replace"), place)
            response = pool.request("GET", place, preload_content=False, headers=options.headers)
            try:
                if response.status >= 400:
                    raise ListError(f"options.url_list: {place}: status {response.status}")
                text = response.read(_LONGEST_LIST_BYTES).decode("utf-8", errors="replace")
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as reason:
            raise ListError(f"options.url_list: {place}: {_plain(reason)}") from None
        return _read_list(text, place)


@contextlib.contextmanager
def _pool(flow: PlannedFlow, options: _Options) -> Iterator[urllib3.PoolManager]:
    """Connections that are used again, or not."""
    import urllib3

    timeout = urllib3.Timeout(connect=_timeout_s(flow), read=_timeout_s(flow))
    # No second attempts behind our back: they would be measured as one slow fetch.
    retries = urllib3.Retry(total=_REDIRECTS, connect=0, read=0, status=0, other=0, redirect=_REDIRECTS)
    settings: dict[str, Any] = {"timeout": timeout, "retries": retries, "maxsize": options.workers, "block": False}
    if flow.local_address is not None:
        settings["source_address"] = (flow.local_address, 0)
    if flow.interface is not None:
        binding = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, flow.interface.encode() + b"\0")
        settings["socket_options"] = [*urllib3.connection.HTTPConnection.default_socket_options, binding]
    if not options.verify:
        settings["cert_reqs"] = "CERT_NONE"
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    with urllib3.PoolManager(num_pools=256, **settings) as pool:
        yield pool


def _timeout_s(flow: PlannedFlow) -> float:
    return flow.timeout_s or _TIMEOUT_S


def _read_list(text: str, where: str) -> list[str]:
    """Addresses, one a line; empty lines and those after # are skipped.

    >>> _read_list("http://a.example/\\n\\n# a comment\\nhttps://b.example/x y", "list")
    Traceback (most recent call last):
    ...
    whydrop.measure.runners.http.ListError: list: line 4: 'https://b.example/x y' is no address such as https://example.net/
    """
    urls = []
    for number, line in enumerate(text.splitlines(), start=1):
        url = line.strip()
        if not url or url.startswith("#"):
            continue
        if not _is_address(url) or any(character.isspace() or not character.isprintable() for character in url):
            raise ListError(f"{where}: line {number}: {url[:200]!r} is no address such as https://example.net/")
        urls.append(url)
        if len(urls) > _MOST_URLS:
            raise ListError(f"{where}: more than {_MOST_URLS} addresses")
    if not urls:
        raise ListError(f"{where}: it has no addresses")
    return urls


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _plain(reason: BaseException) -> str:
    """The innermost reason, which is what a person can act on: urllib3 wraps it in several layers."""
    for _ in range(10):
        inner = getattr(reason, "reason", None) or reason.__cause__
        if not isinstance(inner, BaseException):
            break
        reason = inner
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    text = str(reason).partition(": ")[2] if "object at 0x" in str(reason) else str(reason)
    return " ".join(text.split())[:300] or type(reason).__name__
