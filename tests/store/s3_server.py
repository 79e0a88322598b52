"""An object store that speaks as much of S3's protocol as pyarrow does (path style, no signatures are checked)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = "Sun, 11 Feb 2018 00:00:00 GMT"


class ObjectStore(ThreadingHTTPServer):
    """Objects in memory, by their path with the bucket in front; and the requests that were made."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        """For clients that read it from the environment."""
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, folder: Path) -> None:
        """Have the files of a folder for objects; its subfolders are the buckets."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.objects[path.relative_to(folder).as_posix()] = path.read_bytes()

    def uri(self, prefix: str) -> str:
        """For pyarrow."""
        return f"s3://bucket/{prefix}?endpoint_override=127.0.0.1:{self.server_port}&scheme=http&region=x"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A running one."""
    server = ObjectStore()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet an answer: else the client's delayed acknowledgement makes each take 40 ms.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: ObjectStore

    def handle_expect_100(self) -> bool:
        """Ask the client for its body at once: it waits for that."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests print enough."""

    def _parts(self) -> tuple[str, dict[str, list[str]]]:
        url = urlsplit(self.path)
        return unquote(url.path).strip("/"), parse_qs(url.query, keep_blank_values=True)

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.server.requests.append(f"{self.command} {self.path} {status}")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self) -> None:
        self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(self._chunks())
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # Amazon's own chunks, with a checksum behind them, are within those of HTTP.
        return _unchunked(body) if self.headers.get("Content-Encoding") == "aws-chunked" else body

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def do_HEAD(self) -> None:
        key, _ = self._parts()
        if key in self.server.objects:
            self._answer(200, Content_Length=str(len(self.server.objects[key])), Last_Modified=DATE, ETag='"x"')
        elif "/" not in key:
            self._answer(200)
        else:
            self._missing()

    def do_GET(self) -> None:
        key, query = self._parts()
        if "list-type" in query:
            self._list(key, query)
            return
        content = self.server.objects.get(key)
        if content is None:
            self._missing()
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted is None:
            self._answer(200, content, Last_Modified=DATE, ETag='"x"')
            return
        first, last = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        told = f"bytes {first}-{last}/{len(content)}"
        self._answer(206, content[first : last + 1], Content_Range=told, Last_Modified=DATE, ETag='"x"')

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        keys, folders = [], set()
        for key in sorted(name.removeprefix(f"{bucket}/") for name in self.server.objects):
            if not key.startswith(prefix):
                continue
            folder, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if found:
                folders.add(f"{prefix}{folder}{delimiter}")
            else:
                keys.append(key)
        keys = keys[: int(query.get("max-keys", ["1000"])[0])]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[f'{bucket}/{key}'])}</Size>"
            "<LastModified>2018-02-11T00:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        count = len(keys) + len(folders)
        body = f"<ListBucketResult><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{contents}{prefixes}"
        self._answer(200, f"{body}</ListBucketResult>".encode(), Content_Type="application/xml")

    def do_PUT(self) -> None:
        key, query = self._parts()
        body = self._body()
        if source := self.headers.get("x-amz-copy-source"):
            self.server.objects[key] = self.server.objects[unquote(source).strip("/")]
            self._answer(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")
            return
        if "uploadId" in query:
            self.server.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        elif "/" in key:
            self.server.objects[key] = body
        self._answer(200, ETag='"x"')

    def do_POST(self) -> None:
        key, query = self._parts()
        body = self._body().decode(errors="replace")
        if "uploads" in query:
            upload = str(len(self.server.uploads))
            self.server.uploads[upload] = {}
            self._answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
        elif "uploadId" in query:
            parts = self.server.uploads[query["uploadId"][0]]
            self.server.objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._answer(200, b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
        elif "delete" in query:
            for name in re.findall(r"<Key>(.*?)</Key>", body):
                self.server.objects.pop(f"{key}/{name}", None)
            self._answer(200, b"<DeleteResult></DeleteResult>")
        else:
            self._answer(400)

    def do_DELETE(self) -> None:
        key, _ = self._parts()
        self.server.objects.pop(key, None)
        self._answer(204)


def _unchunked(body: bytes) -> bytes:
    found, rest = [], body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            break
        found.append(rest[:length])
        rest = rest[length + 2 :]
    return b"".join(found)
