"""OpenSSH itself answers here: these tests run the real `ssh -G`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from armada.errors import ConfigError
from armada.transport.ssh.resolve import Destination, HostSpec, parse_destination, resolve

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")


@dataclass(frozen=True)
class Configured:
    name: str
    ssh: str | None
    local: bool = False
    root: str | None = None
    identity: Path | None = None
    transport: str = "fabric"
    reuse_only: bool = False


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ssh_config"
    path.write_text("")
    monkeypatch.setenv("ARMADA_SSH_CONFIG", str(path))
    return path


def resolved(ssh: str, name: str = "box", identity: Path | None = None) -> HostSpec:
    return resolve(Configured(name, ssh, identity=identity))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a100", Destination("a100")),
        ("root@10.0.0.1", Destination("10.0.0.1", "root")),
        ("root@10.0.0.1:50022", Destination("10.0.0.1", "root", 50022)),
        ("box:22", Destination("box", None, 22)),
        ("me@[2001:db8::1]:2222", Destination("2001:db8::1", "me", 2222)),
        ("[::1]", Destination("::1")),
        ("me@fe80::1%eth0", Destination("fe80::1%eth0", "me")),
        ("ssh://me@box:7/", Destination("box", "me", 7)),
        ("me@corp.example@box", Destination("box", "me@corp.example")),
    ],
)
def test_addresses_are_taken_apart(text: str, expected: Destination) -> None:
    assert parse_destination(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "-oProxyCommand=touch x", "me@-oProxyCommand=x", "-l@box", "a b", "a\nb", "a\tb", "me@box\x1b", "box:0",
        "box:65536", "box:x", "[::1", "a\"b", "me@", "ssh://", "box:22:33", "a\u2028b",
    ],
)  # fmt: skip
def test_what_could_be_an_option_or_end_a_line_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        resolved(text)


@pytest.mark.parametrize("name", ["a';touch x;'", "a$(x)", "a`x`", "a|b", "a&b", "a>b", "a\\b", "a;b", "a*"])
def test_an_address_that_a_shell_would_take_apart_is_refused(name: str, config: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be a host name|contains a space|OpenSSH rejects"):
        resolved(name)
    config.write_text(f"Host inner\n  ProxyJump gate\nHost gate\n  HostName {name.replace(' ', '')}\n")
    with pytest.raises(ConfigError, match=r"cannot be a host name|OpenSSH rejects"):
        resolved("inner")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "../x", "a\n", "ü", "a+hop1", "*"])
def test_a_host_name_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a host's name"):
        resolved("box", name=name)


def test_a_host_without_an_address_says_how_to_give_it_one() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(Configured("box", None))
    assert "ssh:" in str(caught.value.hint)


def test_user_and_port_of_the_address_count() -> None:
    spec = resolved("root@127.0.0.2:50022")
    assert (spec.hostname, spec.port, spec.user, spec.hops) == ("127.0.0.2", 50022, "root", ())
    assert spec.alias == "armada-box"
    assert spec.target == "root@127.0.0.2:50022"
    assert resolved("me@[::1]:7").target == "me@[::1]:7"


def test_include_and_match_are_openssh_s_business(config: Path, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host a100\n  HostName %h.example.org\n  User ml\n")
    config.write_text(f'Include "{tmp_path}/more"\nMatch host *.example.org\n  Port 2200\n  IdentitiesOnly yes\n')
    spec = resolved("a100")
    assert (spec.hostname, spec.port, spec.user) == ("a100.example.org", 2200, "ml")
    assert spec.identities_only


def test_tokens_in_the_paths_of_keys_are_expanded(config: Path) -> None:
    config.write_text(
        'Host *\n  User ml\n  IdentityFile ~/.ssh/%n_%r_%p\n  IdentityFile "/keys/lab key 100%%"\n'
        "  IdentityAgent ~/agent.sock\n  AddressFamily inet\n  CertificateFile /c.pub\n"
    )
    spec = resolved("a100")
    assert spec.identity_files == (Path("~/.ssh/a100_ml_22").expanduser(), Path("/keys/lab key 100%"))
    assert spec.identity_agent == str(Path("~/agent.sock").expanduser())
    assert spec.certificate_files == (Path("/c.pub"),)
    assert spec.address_family == "inet"
    config.write_text("Host *\n  IdentityAgent none\n")
    assert resolved("a100").identity_agent == "none"


def test_an_identity_of_the_host_is_the_only_key_offered(tmp_path: Path, config: Path) -> None:
    config.write_text("Host *\n  IdentityFile /elsewhere\n")
    spec = resolved("box", identity=tmp_path / "key")
    assert spec.identity_files == (tmp_path / "key",)
    assert spec.identities_only


def test_every_hop_has_its_own_user_port_and_key(config: Path) -> None:
    config.write_text(
        "Host inner\n  ProxyJump ops@gate:2201,mid\n"
        "Host gate\n  HostName 127.0.0.9\n  IdentityFile /keys/gate\n"
        "Host mid\n  HostName 127.0.0.8\n  User carol\n  Port 2202\n  ProxyJump ignored\n"
    )
    spec = resolved("inner")
    assert [hop.target for hop in spec.hops] == ["ops@127.0.0.9:2201", "carol@127.0.0.8:2202"]
    assert [hop.alias for hop in spec.hops] == ["armada-box+hop1", "armada-box+hop2"]
    assert spec.hops[0].identity_files == (Path("/keys/gate"),)
    assert all(hop.hops == () for hop in spec.hops)


def test_the_nearest_hop_s_own_jump_counts(config: Path) -> None:
    config.write_text("Host inner\n  ProxyJump mid\nHost mid\n  ProxyJump gate\n")
    assert [hop.hostname for hop in resolved("inner").hops] == ["gate", "mid"]


def test_proxy_jump_none_is_no_host_name(config: Path) -> None:
    config.write_text("Host inner\n  ProxyJump none\nHost *\n  ProxyJump gate\n")
    assert resolved("inner").hops == ()


def test_jumps_in_a_circle_are_refused(config: Path) -> None:
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(ConfigError, match="loop"):
        resolved("a")


def test_what_openssh_rejects_is_passed_on(config: Path) -> None:
    config.write_text("Host *\n  NoSuchThing yes\n")
    with pytest.raises(ConfigError, match=r"(?i)nosuchthing"):
        resolved("a")


def test_a_proxy_command_is_refused_in_a_sentence(config: Path) -> None:
    config.write_text("Host a\n  ProxyCommand nc %h %p\n")
    with pytest.raises(ConfigError, match="ProxyCommand"):
        resolved("a")
