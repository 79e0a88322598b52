"""The server for others: with TLS of its own, and behind a proxy as docs/web.md sets it up."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from patience import PATIENCE_S, wait_until
from web.certificates import certificate
from web.conftest import running

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "web.md"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef" * 4)
    file.chmod(0o600)
    return file


@dataclass(frozen=True)
class Secured:
    """A server that is reached by https."""

    root: str
    port: int
    authority: Path
    token: str
    log: Path

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(
            base_url=self.root, verify=ssl.create_default_context(cafile=str(self.authority)), timeout=60, **options
        )

    def holder(self) -> httpx.Client:
        return self.client(headers={"Authorization": f"Bearer {self.token}"})


# --- TLS of its own ---


@pytest.fixture
def own_tls(tmp_path: Path, token_file: Path) -> Iterator[Secured]:
    crt, key = certificate(tmp_path)
    folder = tmp_path / "library"
    folder.mkdir()
    arguments = (
        "--tls-certificate",
        crt,
        "--tls-key",
        key,
        "--token-file",
        token_file,
        "--listen",
        "0.0.0.0:0",
        "--host-name",
        "localhost",
    )
    with running(folder, *map(str, arguments)) as server:
        root = server.root.rstrip("/")
        yield Secured(root, int(root.rpartition(":")[2]), crt, token_file.read_text(), server.log)


def test_a_server_with_a_certificate_is_reached_by_https_only(own_tls: Secured):
    assert own_tls.root.startswith("https://localhost:")
    with own_tls.holder() as client:
        assert client.get("/api/library").status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://localhost:{own_tls.port}/health", timeout=60)
    old = ssl.create_default_context(cafile=str(own_tls.authority))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{own_tls.root}/health", verify=old, timeout=60)


def test_its_cookie_travels_by_https_only(own_tls: Secured):
    with own_tls.client() as client:
        given = client.get(f"/?token={own_tls.token}").headers["set-cookie"]
        assert given.startswith("__Host-whydrop-")
        assert "; Secure" in given
        assert "HttpOnly" in given
        # The client's jar has it now.
        assert client.get("/api/library").status_code == 200
        assert client.post("/api/analyses", json={}, headers={"Origin": own_tls.root}).status_code == 400
        in_the_clear = own_tls.root.replace("https:", "http:")
        assert client.post("/api/analyses", json={}, headers={"Origin": in_the_clear}).status_code == 403


def test_names_that_were_not_given_are_not_answered(own_tls: Secured):
    with own_tls.holder() as client:
        for host in ("evil.example", f"0.0.0.0:{own_tls.port + 1}", "192.0.2.1"):
            assert client.get("/api/library", headers={"Host": host}).status_code == 421


def test_the_token_of_a_file_is_in_no_log_and_no_list_of_processes(own_tls: Secured):
    assert own_tls.token not in own_tls.log.read_text()
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(own_tls.token.encode() in line for line in lines)


# --- behind a proxy ---


def written_nginx(folder: Path, port: int, behind: int) -> Path:
    """The configuration of nginx in docs/web.md with the ports and files of a test."""
    found = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found
    crt, key = certificate(folder)
    server = found[1]
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}", "127.0.0.1:8080": f"127.0.0.1:{behind}", "lab.example": "localhost",
        "/etc/ssl/lab.crt": str(crt), "/etc/ssl/lab.key": str(key),
    }.items():  # fmt: skip
        assert old in server
        server = server.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    written = folder / "nginx.conf"
    written.write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{server}}}\n"
    )
    return written


@pytest.fixture
def behind_nginx(tmp_path: Path, token_file: Path) -> Iterator[Secured]:
    port, behind = free_port(), free_port()
    folder = tmp_path / "library"
    folder.mkdir()
    configuration = written_nginx(tmp_path, port, behind)
    arguments = (
        "--behind-proxy",
        "127.0.0.1",
        "--host-name",
        f"localhost:{port}",
        "--token-file",
        token_file,
        "--listen",
        f"127.0.0.1:{behind}",
    )
    with running(folder, *map(str, arguments)) as server:
        assert server.root == f"https://localhost:{port}"
        proxy = subprocess.Popen(["nginx", "-c", str(configuration)], stderr=subprocess.PIPE)
        try:
            secured = Secured(server.root, behind, tmp_path / "page.crt", token_file.read_text(), server.log)

            def answers() -> bool:
                try:
                    with secured.client() as client:
                        return client.get("/health").status_code == 200
                except httpx.HTTPError:
                    return proxy.poll() is not None

            wait_until(answers, "an answer by the proxy")
            yield secured
        finally:
            proxy.terminate()
            proxy.wait(20)


@pytest.mark.needs_program("nginx")
def test_the_proxy_of_the_documentation_passes_requests_uploads_and_events(behind_nginx: Secured):
    with behind_nginx.holder() as client:
        assert client.get("/api/library").status_code == 200
        assert client.post("/api/uploads", params={"name": "x"}, content=b"no capture").status_code == 415
        with client.stream("GET", "/api/events", params={"topic": "x"}) as events:
            # It comes at once, and is not collected.
            assert next(events.iter_text()).startswith("retry:")


@pytest.mark.needs_program("nginx")
def test_only_the_proxy_is_answered_and_only_what_came_by_https(behind_nginx: Secured):
    direct = f"http://127.0.0.1:{behind_nginx.port}"
    headers = {"Authorization": f"Bearer {behind_nginx.token}", "Host": behind_nginx.root.removeprefix("https://")}
    assert httpx.get(f"{direct}/api/library", headers=headers).status_code == 400
    assert "X-Forwarded-Proto" in httpx.get(f"{direct}/api/library", headers=headers).text
    in_the_clear = {**headers, "X-Forwarded-Proto": "http"}
    assert httpx.get(f"{direct}/api/library", headers=in_the_clear).status_code == 400
    assert httpx.get(f"{direct}/api/library", headers={**headers, "X-Forwarded-Proto": "https"}).status_code == 200


@pytest.mark.needs_program("nginx")
@pytest.mark.needs_browser
def test_the_page_works_behind_the_proxy(browser: Any, behind_nginx: Secured):
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_S * 1e3)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{behind_nginx.root}/?token={behind_nginx.token}")
    page.wait_for_selector("h1")
    (cookie,) = context.cookies()
    assert cookie["secure"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert complaints == []
    context.close()
