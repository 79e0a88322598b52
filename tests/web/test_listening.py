"""Where `whydrop web` may listen, under which names, and with which token."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from web.certificates import certificate
from whydrop.cli.commands import whydrop
from whydrop.web import tokens
from whydrop.web.listening import ListenError, Listening


def refusal(*arguments: str) -> str:
    """The words of a refusal, in one line."""
    found = CliRunner().invoke(whydrop, ["web", *arguments])
    assert found.exit_code == 2
    return " ".join(found.output.split())


@pytest.mark.parametrize(
    "value", ["8080", "localhost:8080", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:-1", ":80"]
)
def test_what_is_no_address_and_port_is_an_error_with_an_example(value: str) -> None:
    assert "such as 127.0.0.1:8080" in refusal("--listen", value)


@pytest.mark.parametrize("value", ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"])
def test_no_address_is_listened_on_in_the_clear_that_other_hosts_reach(value: str) -> None:
    said = refusal("--listen", value)
    for option in ("--tls-certificate FILE --tls-key FILE", "--behind-proxy ADDRESS", "ssh -L 8080:127.0.0.1:8080"):
        assert option in said


def test_a_certificate_comes_with_its_key(tmp_path: Path) -> None:
    assert "--tls-key FILE" in refusal("--tls-certificate", str(tmp_path / "x"))


def test_an_address_of_all_interfaces_needs_a_name(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path)
    with pytest.raises(ListenError, match="add --host-name NAME"):
        Listening("0.0.0.0", 8443, (), crt, key).check()
    Listening("0.0.0.0", 8443, ("lab.example",), crt, key).check()


def test_a_proxy_needs_a_name_and_an_address(tmp_path: Path) -> None:
    assert "--host-name NAME" in refusal("--behind-proxy", "127.0.0.1")
    assert "such as 127.0.0.1 or 10.0.0.0/24" in refusal("--behind-proxy", "proxy.example", "--host-name", "a.example")


@pytest.mark.parametrize("name", ["*", "a/b", "http://a", "a b", "", "-a", "a:b", "é.example", "a\n"])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert "expected a name or an address" in refusal("--host-name", name)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path)
    key.chmod(0o644)
    with pytest.raises(ListenError, match="chmod o="):
        Listening(certificate=crt, key=key).check()


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    crt, _ = certificate(tmp_path)
    _, other = certificate(tmp_path, "other")
    with pytest.raises(ListenError, match="not that of the certificate"):
        Listening(certificate=crt, key=other).check()


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path)
    crt.write_text("no certificate")
    with pytest.raises(ListenError, match="expected PEM files"):
        Listening(certificate=crt, key=key).check()


def test_a_key_with_a_password_is_refused_and_no_password_is_asked_for(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path)
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked],
        check=True,
        capture_output=True,
    )
    locked.chmod(0o600)
    with pytest.raises(ListenError, match="without a password"):
        Listening(certificate=crt, key=locked).check()


@pytest.mark.parametrize(
    ("listening", "port", "place"),
    [
        (Listening(), 8080, "http://127.0.0.1:8080/"),
        (Listening("::1"), 8080, "http://[::1]:8080/"),
        (Listening(proxies=("127.0.0.1",), host_names=("lab.example",)), 8080, "https://lab.example/"),
        (Listening("0.0.0.0", 0, ("lab.example:443",), Path("a"), Path("b")), 8443, "https://lab.example:443/"),
        (Listening("192.0.2.1", 0, ("lab.example",), Path("a"), Path("b")), 8443, "https://lab.example:8443/"),
    ],
)
def test_the_address_of_the_page_is_one_that_it_answers(listening: Listening, port: int, place: str) -> None:
    assert listening.place(port) == place
    assert place.partition("://")[2].rstrip("/") in listening.hosts(port)


def test_no_name_is_answered_that_was_not_given() -> None:
    hosts = Listening("192.0.2.1", 0, ("Lab.Example",), Path("a"), Path("b")).hosts(8443)
    assert "lab.example:8443" in hosts
    assert "192.0.2.1:8443" in hosts
    assert not hosts & {"evil.example", "192.0.2.1", "0.0.0.0:8443", "lab.example.evil"}


# --- tokens ---


def token_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_random_token_has_128_bits_and_is_another_each_time() -> None:
    made = {tokens.new() for _ in range(100)}
    assert len(made) == 100
    assert min(len(token) * 6 for token in made) >= 128


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    token = "0123456789abcdef" * 4
    assert tokens.from_file(token_file(tmp_path, f"{token}\n")) == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_token_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    file = token_file(tmp_path, "0123456789abcdef" * 4, mode)
    assert f"chmod 600 {file}" in refusal("--token-file", str(file))


@pytest.mark.parametrize("text", ["", "short", "a" * 100, "0123456789abcdef", "two words " * 10, "ä" * 50, "ab" * 50])
def test_a_token_that_could_be_guessed_is_refused_with_how_to_make_one(tmp_path: Path, text: str) -> None:
    assert "openssl rand -hex 32" in refusal("--token-file", str(token_file(tmp_path, text)))


def test_a_token_file_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "openssl rand -hex 32" in refusal("--token-file", str(tmp_path / "none"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "expected a file" in refusal("--token-file", str(tmp_path / "pipe"))
