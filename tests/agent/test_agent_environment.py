"""Environments: built by uv from the host's own sources of packages, once, whatever pip is told there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.foundation import durability
from armada_agent.foundation.session import Call, Session
from armada_agent.provision import environment, pip_configuration, uv

from tests.agent.conversation import Conversation, Host, Refused
from tests.package_index import build_wheel
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

UV = Path(sys.executable).with_name("uv")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package index that has a uv, which is ours in disguise, and two packages."""
    folder = tmp_path_factory.mktemp("index")
    build_wheel(folder, "uv", "0.13.8", {"uv": f'#!/bin/sh\nexec "{UV}" "$@"\n'})
    build_wheel(folder, "tiny", "1.0")
    build_wheel(folder, "small", "1.0")
    return folder


@pytest.fixture
def surroundings(tmp_path: Path, index: Path) -> dict[str, str]:
    """The environment of a host that has no uv, and a user who has configured pip in every awkward way."""
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(
        f"[global]\nindex-url = file://{index}\nfind-links = /no/such/folder\n[install]\nuser = true\n"
    )
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for name in ("pip", "venv", "ensurepip"):
        (foreign / f"{name}.py").write_text("raise SystemExit('a foreign module was imported')\n")
    return {
        "HOME": str(home),
        "PATH": SYSTEM_PATH,
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PYTHONPATH": str(foreign),
        "VIRTUAL_ENV": "/no/such/venv",
    }


@pytest.fixture
def with_uv(surroundings: dict[str, str]) -> dict[str, str]:
    local = Path(surroundings["HOME"]) / ".local/bin"
    local.mkdir(parents=True)
    (local / "uv").symlink_to(UV)
    return surroundings


def ensure(host: Host, key: str = "cpu-1", requirements: str = "tiny==1.0\n") -> dict[str, Any]:
    return host.call(
        "environment.ensure", key=key, requirements=requirements, python=sys.base_prefix + "/bin/python3"
    )  # fmt: skip


def test_an_environment_is_built_by_a_uv_from_the_hosts_own_index(
    surroundings: dict[str, str], converse: Callable[..., Conversation], python: str
) -> None:
    base = subprocess.run(
        [python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    )
    own = next(Path(base.stdout.strip(), "bin").glob("python3*[0-9]"))  # a virtual environment's may have no pip
    host = Host(converse(str(own), environment=surroundings))
    answer = ensure(host)
    assert answer["outcome"] == "built"
    assert answer["freeze"] == "tiny==1.0"
    assert answer["path"] == str(host.root / "envs/cpu-1")
    assert subprocess.run([answer["python"], "-c", "import sys"], check=False).returncode == 0
    assert (host.root / "tools/uv/bin/uv").exists()
    assert not [path for path in (host.root / "tools").iterdir() if path.name.startswith(".uv.") and path.is_dir()]
    ready = json.loads((host.root / "envs/cpu-1/READY").read_text())
    assert ready["key"] == "cpu-1"
    said = [entry["message"] for entry in host.conversation.progress]
    assert any("tiny==1.0" in line for line in said)
    assert ensure(host)["outcome"] == "ready"
    assert not (Path(surroundings["HOME"]) / ".local/lib").exists()


def test_the_status_says_what_is_there(with_uv: dict[str, str], converse: Callable[..., Conversation]) -> None:
    host = Host(converse(environment=with_uv))
    ensure(host)
    (host.root / "envs/half-1/bin").mkdir(parents=True)
    answer = host.call("environment.status", keys=["cpu-1", "half-1", "none-1"])
    assert answer == {"cpu-1": "ready", "half-1": "partial", "none-1": "absent"}
    assert host.call("host.facts")["environments"] == {"cpu-1": "ready", "half-1": "partial"}
    (host.root / "envs/cpu-1/bin/python").unlink()
    assert host.call("environment.status", keys=["cpu-1"]) == {"cpu-1": "partial"}


@pytest.mark.parametrize("ready", [None, "", "{", "[]"])
def test_a_half_built_environment_is_built_anew(
    with_uv: dict[str, str], converse: Callable[..., Conversation], ready: str | None
) -> None:
    host = Host(converse(environment=with_uv))
    folder = host.root / "envs/cpu-1"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    (folder / "stale").touch()
    if ready is not None:
        (folder / "READY").write_text(ready)
    assert ensure(host)["outcome"] == "built"
    assert not (folder / "stale").exists()


def test_two_who_want_the_same_environment_build_it_once(
    with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    hosts = [Host(converse(environment=with_uv)) for _ in range(2)]
    params = {"key": "cpu-1", "requirements": "tiny==1.0\n", "python": sys.base_prefix + "/bin/python3"}
    asked = [(host, host.conversation.ask("environment.ensure", params)) for host in hosts * 2]
    outcomes = sorted(host.conversation.answer(number)["outcome"] for host, number in asked)
    assert outcomes == ["built", "ready", "ready", "ready"]


def test_what_uv_said_explains_a_failure(with_uv: dict[str, str], converse: Callable[..., Conversation]) -> None:
    host = Host(converse(environment=with_uv))
    with pytest.raises(Refused, match="tiny") as refused:
        ensure(host, requirements="tiny==9.9\n")
    assert refused.value.kind == "environment"
    assert host.call("environment.status", keys=["cpu-1"]) == {"cpu-1": "partial"}
    assert ensure(host)["outcome"] == "built"


def test_constraints_hold_for_what_is_pulled_in_and_ask_for_nothing(
    with_uv: dict[str, str], converse: Callable[..., Conversation], index: Path, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0", "3.0"):
        build_wheel(tmp_path / "index", "base", version)
        build_wheel(tmp_path / "index", "other", version)
    build_wheel(tmp_path / "index", "top", "1.0", needs=["base", "other"])
    (tmp_path / "limits.txt").write_text("other<3\n")
    given = {"PIP_INDEX_URL": f"file://{tmp_path}/index", "PIP_CONSTRAINT": f"{tmp_path}/limits.txt"}
    host = Host(converse(environment={**with_uv, **given}))
    python = sys.base_prefix + "/bin/python3"
    held: dict[str, Any] = {"requirements": "top\n", "constraints": "base==1.0\ntiny==9\n", "python": python}
    assert host.call("environment.ensure", key="own-1", **held)["freeze"] == "base==1.0\nother==2.0\ntop==1.0"


def test_requirements_that_exclude_each_other_are_told_in_uvs_words(
    with_uv: dict[str, str], converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    build_wheel(tmp_path / "index", "torch", "2.13.0")
    build_wheel(tmp_path / "index", "torch", "2.4.0")
    build_wheel(tmp_path / "index", "old", "1.0", needs=["torch<2.5"])
    host = Host(converse(environment={**with_uv, "PIP_INDEX_URL": f"file://{tmp_path}/index"}))
    python = sys.base_prefix + "/bin/python3"
    held: dict[str, Any] = {"requirements": "old\n", "constraints": "torch==2.13.0\n", "python": python}
    with pytest.raises(Refused, match=r"(?s)No solution found.*old.*torch") as refused:
        host.call("environment.ensure", key="own-1", **held)
    assert "change a requirement that uv names" in (refused.value.hint or "")
    assert host.call("environment.status", keys=["own-1"]) == {"own-1": "partial"}


def test_a_disk_that_is_full_midway_is_said_and_the_next_build_begins_anew(
    with_uv: dict[str, str], converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    program, full = Path(with_uv["HOME"]) / ".local/bin/uv", tmp_path / "full"
    program.unlink()
    refuses = f'[ -e {full} ] && [ "$1 $2" = "pip install" ] && echo "error: No space left on device (os error 28)" >&2 && exit 2'
    program.write_text(f'#!/bin/sh\n{refuses}\nexec "{UV}" "$@"\n')
    program.chmod(0o755)
    full.touch()
    host = Host(converse(environment=with_uv))
    wanted: dict[str, Any] = {"requirements": "tiny\n", "constraints": "tiny==1.0\n"}
    wanted["python"] = sys.base_prefix + "/bin/python3"
    with pytest.raises(Refused, match="No space left on device") as refused:
        host.call("environment.ensure", key="own-1", **wanted)
    assert refused.value.kind == "disk_full"
    assert "free space" in (refused.value.hint or "")
    assert host.call("environment.status", keys=["own-1"]) == {"own-1": "partial"}
    full.unlink()
    assert host.call("environment.ensure", key="own-1", **wanted)["freeze"] == "tiny==1.0"


@pytest.mark.fault("a host's disk fails right after an environment was built", "it does not count as ready")
@pytest.mark.parametrize("has_syncfs", [True, False])
def test_an_environment_is_on_the_disk_before_it_counts_as_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_syncfs: bool
) -> None:
    call = Call(Session(str(tmp_path / "armada"), "", 1, sys.stdin.buffer, 0), 1)
    monkeypatch.setattr(call, "progress", lambda *_: None)
    folder, flushed = Path(call.root, "envs", "own-1"), []

    def do(_build: object, _argv: object, aloud: bool = True) -> list[str]:
        folder.mkdir(parents=True, exist_ok=True)
        return ["3.11.1"] if not aloud else []

    def flush(what: object) -> None:
        flushed.append(what)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(uv, "obtain", lambda *_: "uv")
    monkeypatch.setattr("armada_agent.provision.environment._Build._do", do)
    if has_syncfs:
        monkeypatch.setattr(durability, "_syncfs", flush)
    else:
        monkeypatch.setattr(durability, "_syncfs", lambda _descriptor: False)
        monkeypatch.setattr(durability, "fsync_tree", flush)
    with pytest.raises(OSError, match="Input/output error"):
        environment.ensure(call, {"key": "own-1", "requirements": "tiny\n", "python": "python3"})
    assert len(flushed) == 1
    assert (folder.is_dir(), (folder / "READY").exists()) == (True, False)


def test_a_whole_disk_is_flushed_at_once_where_the_kernel_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    durability.fsync_disk(str(tmp_path))  # for real, in whichever way is possible here
    flushed: list[str] = []

    def flush(descriptor: int) -> bool:
        flushed.append(os.path.realpath(f"/dev/fd/{descriptor}"))
        return True

    monkeypatch.setattr(durability, "_syncfs", flush)
    monkeypatch.setattr("armada_agent.foundation.files.fsync_folder", flushed.append)
    durability.fsync_disk(str(tmp_path))
    assert flushed == [str(tmp_path)]


def test_without_such_a_call_each_file_and_folder_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_text("x")
    flushed: list[str] = []
    monkeypatch.setattr(durability, "_syncfs", lambda _descriptor: False)
    monkeypatch.setattr("armada_agent.foundation.files.fsync_folder", flushed.append)
    durability.fsync_disk(str(tmp_path))
    assert sorted(flushed) == [str(tmp_path), str(tmp_path / "below"), str(tmp_path / "below" / "file")]


def test_extra_indexes_mean_what_they_mean_to_pip(
    with_uv: dict[str, str], converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    build_wheel(tmp_path / "extra", "tiny", "2.0")
    build_wheel(tmp_path / "links", "small", "3.0")
    given = {"PIP_EXTRA_INDEX_URL": f"file://{tmp_path}/extra", "PIP_FIND_LINKS": f"{tmp_path}/links/small /no/such"}
    host = Host(converse(environment={**with_uv, **given}))
    assert ensure(host, requirements="tiny\nsmall\n")["freeze"] == "small==3.0\ntiny==2.0"


@pytest.fixture
def slow_uv(with_uv: dict[str, str], tmp_path: Path) -> Path:
    """A uv that hangs while it makes an environment; returns the file that it writes its pid to."""
    program = Path(with_uv["HOME"]) / ".local/bin/uv"
    program.unlink()
    pid = tmp_path / "pid"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "uv 0.13.8" && exit\necho $$ > {pid}\nexec sleep 1000\n'
    )
    program.chmod(0o755)
    return pid


def test_a_build_ends_with_the_home_that_wanted_it(
    slow_uv: Path, with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    host = Host(converse(environment=with_uv))
    host.conversation.ask("environment.ensure", {"key": "cpu-1", "requirements": "", "python": "3.11"})
    pid = int(eventually(lambda: slow_uv.exists() and slow_uv.read_text()) or 0)
    assert host.conversation.hang_up() == 0
    eventually(lambda: not Path(f"/proc/{pid}/cwd").exists())


def test_nobody_builds_beside_a_build_that_outlived_its_agent(
    slow_uv: Path, with_uv: dict[str, str], converse: Callable[..., Conversation]
) -> None:
    host = Host(converse(environment=with_uv))
    params = {"key": "cpu-1", "requirements": "", "python": "3.11"}
    host.conversation.ask("environment.ensure", params)
    pid = int(eventually(lambda: slow_uv.exists() and slow_uv.read_text()) or 0)
    host.conversation.process.kill()
    host.conversation.process.wait()
    later = Host(converse(environment=with_uv))
    assert later.call("environment.status", keys=["cpu-1"]) == {"cpu-1": "building"}
    assert later.call("host.facts")["environments"] == {"cpu-1": "building"}
    later.conversation.ask("environment.ensure", params)
    eventually(lambda: later.conversation.progress)
    assert later.conversation.progress[0]["message"] == "another build is running"
    os.kill(pid, 9)


def test_a_host_with_neither_pip_nor_venv_is_told_what_to_install(
    surroundings: dict[str, str], converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    (site,) = bare.glob("lib/python3*/site-packages")
    (site / "bare.pth").write_text("import sys; sys.modules['venv'] = None\n")
    host = Host(converse(str(bare / "bin/python"), environment={**surroundings, "PATH": "/nowhere"}))
    with pytest.raises(Refused, match="No module named pip") as refused:
        ensure(host)
    assert refused.value.kind == "environment"
    assert "python3-pip" in (refused.value.hint or "")


@pytest.mark.parametrize("key", ["", "../x", "a/b", ".hidden", "a.lock", 7, "a" * 129])
def test_a_key_that_is_none_is_refused(shared_host: Host, key: Any) -> None:
    ensuring = {"key": key, "requirements": "", "python": "3.11"}
    for method, params in (("environment.status", {"keys": [key]}), ("environment.ensure", ensuring)):
        with pytest.raises(Refused) as refused:
            shared_host.call(method, **params)
        assert refused.value.kind == "bad_request"


@pytest.mark.parametrize("python", ["--help", "", "-p", "$(x)", "3.11\n"])
def test_a_python_that_is_an_option_is_refused(shared_host: Host, python: str) -> None:
    with pytest.raises(Refused) as refused:
        shared_host.call("environment.ensure", key="cpu-1", requirements="", python=python)
    assert refused.value.kind == "bad_request"


def options(files: dict[str, str], **variables: str) -> dict[str, str]:
    given = {"HOME": "/home/u", **variables}
    return pip_configuration.read(given, "/venv", lambda path: files.get(path, ""))


def test_later_files_win_and_the_commands_section_wins_over_global() -> None:
    files = {
        "/etc/xdg/pip/pip.conf": "[global]\nindex-url = xdg\ntimeout = 1\n",
        "/etc/pip.conf": "[global]\nindex_url = etc\n[install]\nextra-index-url = i1\n  i2\n",
        "/home/u/.pip/pip.conf": "[global]\nindex-url = old\ncert = c\n",
        "/home/u/.config/pip/pip.conf": "[global]\nindex-url = user\nextra-index-url = g\n",
        "/venv/pip.conf": "[global]\nindex-url = site\n",
    }
    assert options(files) == {"index-url": "site", "timeout": "1", "cert": "c", "extra-index-url": "i1\ni2"}
    assert options(files, PIP_INDEX_URL="variable", PIP_NO_INDEX="")["index-url"] == "variable"
    assert options({**files, "/named": "[global]\nindex-url = named\n"}, PIP_CONFIG_FILE="/named") == {
        "index-url": "named", "timeout": "1", "extra-index-url": "i1\ni2",
    }  # fmt: skip
    assert options(files, PIP_CONFIG_FILE=os.devnull) == {}
    assert options(files, XDG_CONFIG_HOME="/x")["index-url"] == "site"


def test_a_damaged_pip_conf_says_nothing() -> None:
    assert options({"/etc/pip.conf": "index-url = no section\n"}) == {}
    assert options({"/etc/pip.conf": "[global]\nindex-url = 100%\n"}) == {"index-url": "100%"}


def test_pips_options_in_uvs_words() -> None:
    given = {
        "index-url": "https://u:p@index/simple",
        "extra-index-url": "https://one https://two",
        "find-links": "/wheels /missing https://links",
        "trusted-host": "a b:8080",
        "cert": "/ca.pem",
        "client-cert": "/me.pem",
        "default-timeout": "180",
        "proxy": "proxy:3128",
        "constraint": "/c.txt",
    }
    assert pip_configuration.translate(given, {}, lambda path: path == "/wheels") == {
        "UV_DEFAULT_INDEX": "https://u:p@index/simple",
        "UV_INDEX": "https://one https://two",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,https://links",
        "UV_INSECURE_HOST": "a b:8080",
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "UV_HTTP_TIMEOUT": "180",
        "UV_CONSTRAINT": "/c.txt",
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "ALL_PROXY": "http://proxy:3128",
    }
    assert pip_configuration.translate({}, {}, os.path.exists) == {}
    assert pip_configuration.translate({}, {"REQUESTS_CA_BUNDLE": "/r"}, os.path.exists) == {"SSL_CERT_FILE": "/r"}
    assert pip_configuration.translate({}, {"REQUESTS_CA_BUNDLE": "/r", "SSL_CERT_FILE": "/s"}, os.path.exists) == {}
    assert pip_configuration.translate({"no-index": "true"}, {}, os.path.exists) == {"UV_NO_INDEX": "1"}


def read_if_there(path: str) -> str:
    return Path(path).read_text() if Path(path).is_file() else ""


def test_pip_itself_reads_the_same() -> None:
    base = Path(sys.base_prefix) / "bin/python3"
    listed = subprocess.run([base, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this Python has no pip")
    ours = pip_configuration.read(os.environ, sys.base_prefix, read_if_there)
    seen = dict(line.split("=", 1) for line in listed.stdout.splitlines())
    for key in ("index-url", "extra-index-url", "find-links", "cert"):
        theirs = seen.get(f":env:.{key}") or seen.get(f"install.{key}") or seen.get(f"global.{key}")
        assert (theirs and theirs.strip("'").replace("\\n", "\n")) == ours.get(key)


def test_passwords_are_hidden() -> None:
    assert pip_configuration.hide_passwords("at https://u:p@host/simple/x") == "at https://****@host/simple/x"


def test_uvs_environment_is_the_roots_unless_the_host_says_otherwise() -> None:
    made = environment.compose_environment("/root", {"HOME": "/none", "PYTHONPATH": "x"}, "/none")
    assert made["UV_CACHE_DIR"] == "/root/tools/uv-cache"
    assert made["UV_NO_CONFIG"] == "1"
    assert "PYTHONPATH" not in made
    theirs = environment.compose_environment(
        "/root", {"UV_CACHE_DIR": "/c", "UV_INDEX": "i", "PIP_EXTRA_INDEX_URL": "e"}, "/none"
    )
    assert (theirs["UV_CACHE_DIR"], theirs["UV_INDEX"]) == ("/c", "i")


def test_a_uv_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    own = tmp_path / "root/tools/uv/bin/uv"
    own.parent.mkdir(parents=True)
    for text, found in (
        ("echo uv 0.4.30", None),
        ("exit 1", None),
        ("echo uv 0.5.1", str(own)),
        ("echo uv 1.0.0", str(own)),
    ):
        own.write_text(f"#!/bin/sh\n{text}\n")
        own.chmod(0o755)
        assert uv.find(str(tmp_path / "root")) == found
    assert shutil.which("uv") is None


def test_settings_of_pip_that_are_linked_from_elsewhere_count(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("[global]\nindex-url = https://mirror.example/simple\n")
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").symlink_to(tmp_path / "dotfiles")
    made = environment.compose_environment("/root", {"HOME": str(tmp_path)}, "/none")
    assert "https://mirror.example/simple" in made.values()
    os.mkfifo(tmp_path / "pipe")  # would be waited for for ever
    (tmp_path / ".config/pip/pip.conf").unlink()
    (tmp_path / ".config/pip/pip.conf").symlink_to(tmp_path / "pipe")
    made = environment.compose_environment("/root", {"HOME": str(tmp_path)}, "/none")
    assert "https://mirror.example/simple" not in made.values()
