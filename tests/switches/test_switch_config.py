"""CONFIG.toml: every mistake has its line and key, and no secret is ever shown."""

from __future__ import annotations

import copy
import pickle
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snmp_agents import AUTH_PASSPHRASE, COMMUNITY, PRIV_PASSPHRASE, V2C, V3, Configure

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, User, load
from whydrop.monitoring.switches.readings import Counter
from whydrop.monitoring.switches.secrets import Secret, SecretError, from_environment, from_file
from whydrop.runtime.user_files.problems import FileError

SECRETS = (COMMUNITY, AUTH_PASSPHRASE, PRIV_PASSPHRASE)


def entry(*lines: str, account: str = V2C, ports: str = 'ports = "all"', name: str = "s1") -> str:
    return "\n".join(["[[switch]]", f'name = "{name}"', 'address = "192.0.2.7"', account, ports, *lines])


def complaints(path: Path) -> list[str]:
    with pytest.raises(FileError) as caught:
        load(path)
    return [line.removeprefix(f"{path.parent}/") for line in str(caught.value).splitlines()]


def test_a_switch_needs_little_and_the_rest_has_defaults(configure: Configure):
    config = load(configure(entry(), interval_s=10))
    (switch,) = config.switches
    assert (config.interval_s, config.exporter, config.disco) == (10, None, None)
    assert (switch.port, switch.timeout_s, switch.retries) == (161, 2.0, 1)
    assert (switch.site, switch.metro) == ("dfw07", "dfw")
    assert isinstance(switch.account, Community)
    assert switch.account.community.reveal() == COMMUNITY
    assert switch.counters == oids.DEFAULT


def test_the_interval_is_ten_seconds_unless_said_otherwise(tmp_path: Path, configure: Configure):
    path = configure(entry())
    path.write_text(path.read_text().replace("interval_s = 1\n", ""))
    assert load(path).interval_ns == 10_000_000_000


def test_waiting_for_a_switch_that_is_gone_takes_less_than_an_interval(configure: Configure):
    (switch,) = load(configure(entry("retries = 3"), interval_s=1)).switches
    assert switch.timeout_s * (switch.retries + 1) < 1


def test_a_user_of_v3_has_two_passphrases(configure: Configure):
    (switch,) = load(configure(entry(account=V3))).switches
    assert isinstance(switch.account, User)
    assert (switch.account.auth, switch.account.priv) == ("SHA-256", "AES-128")
    assert switch.account.auth_passphrase.reveal() == AUTH_PASSPHRASE


def test_a_switchs_own_secret_replaces_that_of_the_defaults(configure: Configure, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTHER", "of the environment")
    path = configure(entry(account=""), entry(account='community_env = "OTHER"', name="s2"))
    path.write_text(path.read_text().replace("[defaults]", f"[defaults]\n{V2C}"))
    accounts = [switch.account for switch in load(path).switches]
    assert [one.community.reveal() for one in accounts if isinstance(one, Community)] == [
        COMMUNITY,
        "of the environment",
    ]


@pytest.mark.parametrize("key", ["community", "auth_key", "priv_password", "passphrase"])
def test_a_secret_written_into_the_file_is_refused_and_not_repeated(configure: Configure, key: str):
    (line,) = complaints(configure(entry(f'{key} = "hush-hush"')))
    assert re.match(rf"switches\.toml:\d+: switch\[0\]\.{key}: a secret does not belong in this file", line)
    assert "_file" in line
    assert "hush" not in line


@pytest.mark.parametrize("key", ["context", "context_name", "contextName"])
def test_a_context_of_v3_is_refused_with_the_reason_and_what_to_do(configure: Configure, key: str):
    of_switch = configure(entry(f'{key} = "vlan-7"', account=V3))
    (line,) = complaints(of_switch)
    assert re.match(rf"switches\.toml:\d+: switch\[0\]\.{key}: contexts of SNMP v3 are not supported: .*v2c", line)
    of_switch.write_text(
        of_switch.read_text().replace(f'{key} = "vlan-7"', "").replace("[defaults]", f'[defaults]\n{key} = "x"')
    )
    assert complaints(of_switch)[0].split(": ", 2)[1] == f"defaults.{key}"


def test_a_secret_in_a_table_of_the_wrong_shape_is_not_repeated(configure: Configure):
    (line,) = complaints(configure('switch = { community = "hush-hush" }'))
    assert "hush" not in line


def test_every_mistake_is_named_with_its_line_and_key(configure: Configure):
    both = complaints(configure(entry(ports='ports = [{ alias = "a", index = 3 }]'), top='metros = "x"'))
    assert [line.split(": ")[:2] for line in both] == [
        ["switches.toml:3", "metros"],
        ["switches.toml:11", "switch[0].ports[0]"],
    ]
    assert "no such key" in both[0]
    assert both[1].endswith("has alias and index; expected exactly one of alias, ifname, index, mac, all = true")


@pytest.mark.parametrize("key", ["name", "address", "site", "community_file"])
def test_a_name_with_control_characters_is_refused_where_it_stands(configure: Configure, key: str):
    # the system takes "192.0.2.7" NUL "8" for 192.0.2.7, and other names not at all
    lines = {"name": "s1", "address": "192.0.2.7", "site": "x", "community_file": "secrets/community", key: "a\\u0000b"}
    path = configure("[[switch]]", *(f'{name} = "{value}"' for name, value in lines.items()), 'ports = "all"')
    (line,) = complaints(path)
    assert f"switch[0].{key}: 'a\\x00b': has control characters" in line


def test_mistakes_that_no_schema_knows_are_named_all_at_once(configure: Configure):
    found = complaints(configure(entry('counters = ["octetts", "discards"]', "timeout_s = 0.8"), entry()))
    assert [line.split(": ")[:2] for line in found] == [
        ["switches.toml:12", "switch[0].counters[0]"],
        ["switches.toml:13", "switch[0].timeout_s"],
        ["switches.toml:15", "switch[1].name"],
    ]
    assert "did you mean 'octets'?" in found[0]
    assert "2 tries of 0.8 s do not fit into the interval of 1 s; expected a timeout of less than 0.5 s" in found[1]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"account": ""}, "community_file: and community_env are both missing"),
        ({"account": 'community_file = "none"'}, "No such file or directory; expected a file that holds the secret"),
        ({"account": 'community_env = "WHYDROP_NONE"'}, "the environment has no variable 'WHYDROP_NONE'"),
        ({"account": f'{V2C}\nuser = "x"\nversion = "v2c"'}, 'user: belongs to version = "v3"'),
        ({"account": 'version = "v3"\nuser = "x"\nauth = "SHA-256"'}, "auth_file: and auth_env are both missing"),
        ({"account": f'{V3}\n{V2C}'}, 'community_file: belongs to version = "v2c"'),
        ({"account": 'user = "x"\nauth = "SHA-3"'}, "auth: 'SHA-3': expected 'MD5', 'SHA-1'"),
        ({"ports": ""}, 'ports: is missing; expected "all", or a list'),
        ({"ports": 'ports = "uplink"'}, "expected \"all\", or a list such as"),
        ({"ports": 'ports = [{ mac = "00:1b:21:3c:9d" }]'}, "expected a MAC address"),
        ({"ports": 'ports = [{ all = true, name = "{serial}" }]'}, "{serial}: expected {alias}, {ifname} or {index}"),
        ({"account": f"{V2C}\nport = 0"}, "port: 0: input should be greater than or equal to 1"),
        ({"account": f"{V2C}\ntimeout_s = inf"}, "timeout_s: inf"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_was_expected(configure: Configure, lines: dict[str, str], said: str):
    assert said in "\n".join(complaints(configure(entry(**lines))))


def test_counters_are_chosen_by_kind_by_name_and_by_an_identifier_of_ones_own(configure: Configure):
    custom = '[[counter]]\nname = "fcs.rx"\noid = ".1.3.6.1.2.1.10.7.2.1.3"\nbits = 32\nsuffix = ".0"'
    wanted = 'counters = ["pause", "octets.tx", "queue.3.discards.tx", "fcs.rx"]'
    (switch,) = load(configure(entry(wanted), custom)).switches
    names = [counter.name for counter in switch.counters]
    assert names == ["pause.rx", "pause.tx", "octets.tx", "queue.3.discards.tx", "fcs.rx"]
    assert oids.of_port(switch.counters[3], 512) == "1.3.6.1.4.1.2636.3.15.4.1.53.512.3"
    assert switch.counters[4] == Counter("fcs.rx", "1.3.6.1.2.1.10.7.2.1.3", 32, ".0")
    assert oids.of_port(switch.counters[4], 7) == "1.3.6.1.2.1.10.7.2.1.3.7.0"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('name = "octets.rx"\noid = "1.3.6"\nbits = 64', "is the name of a built-in counter"),
        ('name = "fcs"\noid = "1.3.6"\nbits = 64', "ending in .rx or .tx"),
        ('name = "fcs.rx"\noid = "1.3.x"\nbits = 64', "expected an object identifier in numbers"),
        ('name = "fcs.rx"\noid = "1.3.99999999999"\nbits = 64', "expected an object identifier in numbers"),
        ('name = "fcs.rx"\noid = "1.3.6"\nbits = 48', "bits: 48: expected 32 or 64"),
        ('name = "fcs.rx"\noid = "1.3.6"\nbits = 64', "no switch counts 'fcs.rx'"),
    ],
)
def test_a_counter_of_ones_own_is_checked(configure: Configure, lines: str, said: str):
    assert said in "\n".join(complaints(configure(entry(), f"[[counter]]\n{lines}")))


@pytest.mark.parametrize("content", [b"hush-hush", b"hush-hush\n", b"hush-hush\r\n\r\n", b"\xef\xbb\xbfhush-hush\r\n"])
def test_what_an_editor_puts_around_a_secret_is_no_part_of_it(tmp_path: Path, content: bytes):
    (tmp_path / "s").write_bytes(content)
    assert from_file(tmp_path / "s")[0].reveal() == "hush-hush"


def test_a_secret_that_everybody_can_read_is_warned_of(configure: Configure, secrets: Path):
    assert load(configure(entry())).warnings == []
    (secrets / "community").chmod(0o644)
    (warning,) = load(configure(entry())).warnings
    assert "switch[0].community_file" in warning
    assert "chmod o=" in warning


def test_secrets_are_in_no_text_and_no_copy_of_a_configuration(configure: Configure):
    config = load(configure(entry(), entry(account=V3, name="s2")))
    shown = f"{config!r} {config} {config.switches[1].account!r} {vars(config)}"
    assert not any(secret in shown for secret in SECRETS)
    with pytest.raises(TypeError, match="must not be pickled"):
        pickle.dumps(config.switches[0].account)
    with pytest.raises(TypeError):
        copy.deepcopy(Secret("x"))


def test_a_passphrase_that_no_agent_takes_is_refused(configure: Configure, secrets: Path):
    (secrets / "auth").write_text("short")
    (line,) = complaints(configure(entry(account=V3)))
    assert "auth_file: the passphrase has fewer than 8 characters" in line
    assert "short" not in line.replace("fewer", "")


@given(content=st.binary(max_size=1200))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_file_is_one_secret_or_a_sentence_that_does_not_quote_it(tmp_path: Path, content: bytes):
    path = tmp_path / "s"
    path.write_bytes(content)
    try:
        secret, _ = from_file(path)
    except SecretError as reason:
        said = str(reason)
    else:
        said = f"{str(path)!r} holds {secret!r}"
        assert secret.reveal() == content.decode("utf-8-sig").splitlines()[0]
    assert said.startswith(repr(str(path)))


def test_a_variable_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WHYDROP_ODD", "\udcff")
    with pytest.raises(SecretError, match="not UTF-8"):
        from_environment("WHYDROP_ODD")


def test_paths_are_beside_the_file_and_know_systemds_folder_of_credentials(
    configure: Configure, secrets: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(secrets))
    path = configure(entry(account='community_file = "$CREDENTIALS_DIRECTORY/community"'))
    assert load(path).store == path.parent / "store"
    assert load(path).switches[0].account is not None


@settings(deadline=None)
@given(st.text(max_size=40))
def test_an_object_identifier_is_read_or_refused(text: str):
    try:
        found = oids.dotted(text)
    except ValueError:
        return
    assert re.fullmatch(r"\d+(\.\d+)+", found)
    assert found == text.removeprefix(".")


def test_the_file_in_the_documentation_is_one_that_the_collector_takes(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs/switches.md"
    example = re.search(r"# switches\.toml\n(.*?)\n\n    \$ whydrop", page.read_text(), re.DOTALL)
    assert example is not None
    for name in ("community", "auth", "priv"):
        (tmp_path / name).write_text("a secret of some length")
        (tmp_path / name).chmod(0o600)
    path = tmp_path / "switches.toml"
    path.write_text(textwrap.dedent(f"    {example[1].lstrip()}").replace("/etc/whydrop", str(tmp_path)))
    config = load(path)
    assert [switch.name for switch in config.switches] == ["s1.dfw07", "s2.dfw07"]
    assert config.warnings == []


def test_every_kind_of_counter_and_every_key_is_in_the_documentation():
    from whydrop.monitoring.switches import schema

    page = (Path(__file__).parents[2] / "docs/switches.md").read_text()
    models = (schema.File, schema.SwitchEntry, schema.PortEntry, schema.CounterEntry, schema.DiscoEntry)
    keys = {key for model in models for key in model.model_fields} - {"defaults", "counter", "switch"}
    assert not [key for key in (*keys, *oids.ALL_TYPES) if not re.search(rf"\b{key}\b", page)]
