"""Streams of bytes that end at damage instead of raising: plain, gzip, zstd.

All that was before the damage is given; `Stream.damage` says then where it is and what. Nothing that a file says of its
own size is believed.
"""

from __future__ import annotations

import io
import zlib
from typing import IO, Any

from whydrop.runtime import extras

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 16


class Stream:
    """Bytes in order, up to the end or the damage.

    Attributes:
        damage: of this stream, or of the one that it unpacks; known once it has ended.
    """

    damage: str | None = None

    def read(self, size: int) -> bytes:
        """Between 1 and ``size`` bytes; none at the end."""
        raise NotImplementedError


class Plain(Stream):
    """A file, or bytes, as they are."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """See :meth:`Stream.read`."""
        try:
            return self._file.read(size)
        except OSError as reason:
            self.damage = f"could not be read further: {reason.strerror or reason}"
            return b""


class Gunzip(Stream):
    """A gzip stream unpacked, all its members one after the other (RFC 1952, section 2.2)."""

    def __init__(self, source: Stream | Buffered) -> None:
        self._source = source
        self._inflate = zlib.decompressobj(wbits=31)
        self._input = b""
        self._taken = 0  # compressed bytes
        self._ended = False

    def read(self, size: int) -> bytes:
        """See :meth:`Stream.read`."""
        while not self._ended:
            if not self._input and not self._refill():
                self._end(self._source.damage or f"gzip's data end too early, after {self._taken} bytes")
                break
            out = self._step(size)
            if out:
                return out
        return b""

    def _refill(self) -> bool:
        self._input = self._source.read(_CHUNK)
        self._taken += len(self._input)
        return bool(self._input)

    def _step(self, size: int) -> bytes:
        before = self._inflate.copy()
        try:
            out = self._inflate.decompress(self._input, size)
        except zlib.error as reason:
            start = self._taken - len(self._input)
            out, used = _before_the_damage(before, self._input, size)
            what = str(reason).rpartition(": ")[2] or "not gzip's"
            self._end(f"gzip's data are damaged near byte {start + used} of what is packed: {what}")
            return out
        self._input = self._inflate.unconsumed_tail
        if self._inflate.eof:
            self._next_part(self._inflate.unused_data)
        return out

    def _next_part(self, rest: bytes) -> None:
        self._input = rest
        while not (head := self._input.lstrip(b"\0")) and self._refill():  # tapes and some writers pad with zeros
            pass
        self._input = head
        if len(head) == 1 and self._refill():
            self._input = head + self._input
        if not self._input:
            self._ended, self.damage = True, self._source.damage
        elif self._input.startswith(GZIP):
            self._inflate = zlib.decompressobj(wbits=31)
        else:
            self._end(f"something that is not gzip follows at byte {self._taken - len(self._input)}")

    def _end(self, why: str) -> None:
        self._ended, self.damage = True, why


def _before_the_damage(inflate: Any, data: bytes, size: int) -> tuple[bytes, int]:
    """The output of a step that failed: zlib drops it, so the input is fed again, byte by byte."""
    out = bytearray()
    for index in range(len(data)):
        try:
            out += inflate.decompress(data[index : index + 1], max(size - len(out), 1))
            while inflate.unconsumed_tail and len(out) < size:
                out += inflate.decompress(inflate.unconsumed_tail, size - len(out))
        except zlib.error:
            return bytes(out), index
        if inflate.eof or len(out) >= size:
            break
    return bytes(out), len(data)


class Unzstd(Stream):
    """A zstd stream unpacked (RFC 8878), all its frames.

    Blocks (up to 128 KiB unpacked) are all or nothing: the content of a damaged one is lost.
    """

    # Arrow's reader unpacks all that one read of its source gave it, and throws it all away at an error. So where one
    # occurs, the source is read again, and from just before the error on fed in morsels, and taken in bytes.
    _PATIENCE = ((_CHUNK, _CHUNK), (64, 512), (64, 1))

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._start = source.tell()
        self._given = 0
        self._attempt = 0
        self._ended = False
        self._fed = _Feeder(source, 0, _CHUNK)
        self._reader = self._opened()

    def read(self, size: int) -> bytes:
        """See :meth:`Stream.read`."""
        while not self._ended:
            try:
                out: bytes = self._reader.read(min(size, self._PATIENCE[self._attempt][1]))
            except OSError as reason:
                self._again(str(reason))
                continue
            if not out:
                self._ended = True
            self._given += len(out)
            return out
        return b""

    def _opened(self) -> Any:
        extras.need("store")
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(self._fed, mode="r"), "zstd")

    def _again(self, reason: str) -> None:
        self._attempt += 1
        if self._attempt == len(self._PATIENCE):
            self._ended = True
            what = "end too early" if "runcated" in reason else f"are damaged ({' '.join(reason.split())})"
            self.damage = f"zstd's data {what}, near byte {self._fed.taken} of what is packed"
            return
        self._source.seek(self._start)
        carefully_from = max(0, self._fed.taken - 2 * _CHUNK)
        self._fed = _Feeder(self._source, carefully_from, self._PATIENCE[self._attempt][0])
        self._reader = self._opened()
        left = self._given
        while left:
            try:
                skipped = self._reader.read(min(left, self._PATIENCE[self._attempt][1] if left < _CHUNK else _CHUNK))
            except OSError:
                return  # cannot be: these bytes were read before
            if not skipped:
                return
            left -= len(skipped)


class _Feeder(io.RawIOBase):
    """A file that gives at most a morsel a read, from some offset on."""

    def __init__(self, source: IO[bytes], carefully_from: int, morsel: int) -> None:
        self.taken = 0
        self._source, self._carefully_from, self._morsel = source, carefully_from, morsel

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        most = _CHUNK if self.taken + _CHUNK <= self._carefully_from else self._morsel
        data = self._source.read(most if size < 0 else min(size, most))
        self.taken += len(data)
        return data


class Buffered:
    """A stream that can be looked into before it is read, and that stops at a limit."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._stream = stream
        self._most = most
        self._buffer = b""
        self._damage: str | None = None
        self.offset = 0  # of the next byte

    @property
    def damage(self) -> str | None:
        """Why the stream ended, if not by itself; known once it has."""
        return self._damage or self._stream.damage

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or as many as there are, without taking them."""
        parts = [self._buffer]
        held = len(self._buffer)
        while held < size and (data := self._next(max(size - held, _CHUNK))):
            parts.append(data)
            held += len(data)
        self._buffer = b"".join(parts)
        return self._buffer[:size]

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        data = self.peek(size)
        self._buffer = self._buffer[len(data) :]
        self.offset += len(data)
        return data

    def skip(self, size: int) -> int:
        """Take ``size`` bytes without keeping them; how many there were."""
        left = size
        while left and (data := self.read(min(left, 16 * _CHUNK))):
            left -= len(data)
        return size - left

    def _next(self, size: int) -> bytes:
        if self._damage:
            return b""
        data = self._stream.read(size)
        self._most -= len(data)
        if self._most < 0:
            self._damage = "unpacks to far more than such a file can hold: the rest was not read"
        return data
