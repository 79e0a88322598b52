"""A responder that speaks the open protocol up to one step, written from its description, without whydrop's code."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MAGIC = b"whydrop\x05"
PATTERN = b"Noise_NN_25519_ChaChaPoly_SHA256"


def mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")


def mac_of_parts(key: bytes, *parts: bytes) -> bytes:
    """A code over parts, each preceded by its length."""
    return mac(key, *(struct.pack(">Q", len(part)) + part for part in parts))


def derived(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    """Two keys (HKDF of the Noise specification, section 4.3)."""
    secret = mac(chaining_key, material)
    one = mac(secret, b"\x01")
    return one, mac(secret, one, b"\x02")


def seal(key: bytes, number: int, plain: bytes, beside: bytes = b"") -> bytes:
    return ChaCha20Poly1305(key).encrypt(bytes(4) + struct.pack("<Q", number), plain, beside)


def opened(key: bytes, number: int, sealed: bytes) -> bytes:
    return ChaCha20Poly1305(key).decrypt(bytes(4) + struct.pack("<Q", number), sealed, b"")


def number(value: int) -> bytes:
    """A number as postcard encodes it: seven bits a byte, the lowest first."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


@dataclass
class Channel:
    """A control channel after its handshake, at the responder."""

    connection: socket.socket
    of_client: bytes
    of_responder: bytes
    key_of_data: bytes
    sent: int = 0
    received: int = 0

    def send(self, payload: bytes) -> None:
        """One message, in frames of at most 65 535 bytes."""
        message = struct.pack(">I", len(payload)) + payload
        for place in range(0, len(message), 65_519):
            self.sent += 1
            sealed = seal(self.of_responder, self.sent, message[place : place + 65_519])
            self.connection.sendall(struct.pack(">H", len(sealed)) + sealed)

    def receive(self) -> bytes:
        """The next request, of one frame."""
        (length,) = struct.unpack(">H", exactly(self.connection, 2))
        self.received += 1
        return opened(self.of_client, self.received, exactly(self.connection, length))[4:]

    def accept(self) -> None:
        """Answer the plan, and await the question for a description."""
        self.receive()
        self.send(b"\x00" + number(7))
        self.receive()

    def echo(self) -> None:
        """Answer echoes, until the client asks for something else."""
        while (request := self.receive())[0] == 1:
            self.send(b"\x02" + request[1:] + number(2 * time.time_ns()))


Lie = Callable[[Channel], None]
"""The conduct of the responder on a channel; the connection stays open until it returns and the client closes it."""


def exactly(connection: socket.socket, length: int) -> bytes:
    found = connection.recv(length, socket.MSG_WAITALL)
    if len(found) < length:
        raise ConnectionError
    return found


def handshake(connection: socket.socket, hello: bytes) -> Channel:
    """Noise NN, as the responder."""
    theirs, prologue = hello[48:80], hello[:48]
    digest = hashlib.sha256(PATTERN).digest() if len(PATTERN) > 32 else PATTERN.ljust(32, b"\x00")
    chaining_key = digest
    for part in (prologue, theirs, b""):
        digest = hashlib.sha256(digest + part).digest()
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    digest = hashlib.sha256(digest + public).digest()
    chaining_key, key = derived(chaining_key, own.exchange(X25519PublicKey.from_public_bytes(theirs)))
    tag = seal(key, 0, b"", digest)
    digest = hashlib.sha256(digest + tag).digest()
    of_client, of_responder = derived(chaining_key, b"")
    connection.sendall(MAGIC + bytes(8) + public + tag)
    assert opened(of_client, 0, exactly(connection, 16)) == b""
    seed = bytes(range(32))
    connection.sendall(seal(of_responder, 0, b"\x00" + seed))
    key_of_data = mac_of_parts(seed, b"whydrop 5 data connections", digest)
    return Channel(connection, of_client, of_responder, key_of_data)


class Hostile:
    """A responder with one lie, in the hello (bytes, sent one every two seconds) or on the channel."""

    def __init__(self, lie: Lie | bytes) -> None:
        self.lie = lie
        self.key_of_data = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        # The client may leave at any time.
        with connection, contextlib.suppress(OSError):
            hello = exactly(connection, 96)
            if hello[:8] != MAGIC:
                return
            if hello[8] == 1:
                self.serve_data(connection, hello)
            elif isinstance(self.lie, bytes):
                for byte in self.lie:
                    connection.sendall(bytes([byte]))
                    time.sleep(2)
            else:
                channel = handshake(connection, hello)
                self.key_of_data = channel.key_of_data
                self.lie(channel)

    def serve_data(self, connection: socket.socket, hello: bytes) -> None:
        ours = MAGIC + bytes(56)
        connection.sendall(ours)
        exactly(connection, 32)
        connection.sendall(b"\x00" + mac_of_parts(self.key_of_data, b"whydrop 5 responder proof", hello, ours))
        until_closed(connection)


def until_closed(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


@contextmanager
def hostile(lie: Lie | bytes) -> Iterator[str]:
    """The place (for ``--to``) of a responder with one lie."""
    running = Hostile(lie)
    try:
        yield running.place
    finally:
        running.listener.close()
