"""An environment on its way between two roots of this machine, with real agents: what arrives, what is refused, what continues."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import ArmadaError, HostUnreachable, PreflightRefused, ProvisionFailed
from armada.foundation.progress import NullProgress, TransferProgress
from armada.paths import HomePaths
from armada.protocol.environment import AskEnvironments
from armada.protocol.facts import AskFacts, Facts, Gpu
from armada.protocol.packing import PackEnvironment
from armada.provision import relay, sent_environment
from armada.provision.environment import EnsuredEnvironment, Environment
from armada.provision.sent_environment import refuse_misfit, refuse_old_driver, refuse_other_machine, send_environment
from armada.rpc.session import HostSession
from tests import standalone_python

KEY = "cpu-1"
ENVIRONMENT = Environment(KEY, "3.11", "tiny\n", None, ready=False)
MINOR = "python{}.{}".format(*sys.version_info[:2])
SITE = f"lib/{MINOR}/site-packages"
BASE = standalone_python.PROGRAM
TINY = "import sys\n\n\ndef main():\n    print('tiny of', sys.prefix)\n"
LARGE = bytes(range(256)) * 4000


@dataclass
class Watched(NullProgress):
    """Receives progress, and does something at each piece of the transfer."""

    seen: list[TransferProgress] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    then: Callable[[], None] = lambda: None

    def stage(self, name: str, message: str) -> None:
        self.stages.append(f"{name} {message}")

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        self.seen.append(seen)
        self.then()

    @property
    def sent_bytes(self) -> int:
        return self.seen[-1].done_bytes - self.seen[0].done_bytes if self.seen else 0


@dataclass
class Pair:
    """Two hosts, and the environment on the first of them."""

    source: HostSession
    target: HostSession
    folder: Path
    here: Path = field(init=False)
    there: Path = field(init=False)
    staging: Path = field(init=False)

    def __post_init__(self) -> None:
        self.here = self.folder / "source/envs" / KEY
        self.there = self.folder / "target root/envs" / KEY
        self.staging = self.there.with_name(f".new-{KEY}")

    def send(self, progress: Watched | None = None, facts: Facts | None = None) -> tuple[bool, tuple[str, ...]]:
        """Send it; whether it was unpacked, and what it goes without."""
        facts = facts or self.target.call(AskFacts())
        sent = send_environment(self.source, self.target, ENVIRONMENT, facts, progress or Watched())
        return sent.was_built, sent.left_out

    def state(self) -> str:
        return self.target.call(AskEnvironments(keys=(KEY,))).root[KEY]

    def package(self, name: str, files: dict[str, str | bytes], tag: str = "py3-none-any", **more: str) -> None:
        """Install a package by hand: its files below site-packages, and what installers write about it."""
        info = f"{name}-1.0.dist-info"
        texts = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}
        texts |= {f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n"}
        texts |= {f"{info}/{path}": text for path, text in more.items()}
        rows = []
        for path, text in {**files, **texts}.items():
            location = self.here / SITE / path
            location.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode() if isinstance(text, str) else text
            location.write_bytes(content)
            rows.append([path, hash_of(content), str(len(content))])
        (self.here / SITE / info / "RECORD").write_text("".join(",".join(row) + "\n" for row in rows))


def hash_of(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    roots = {"a": tmp_path / "source", "b": tmp_path / "target root"}
    hosts = [Host(name=name, local=True, root=str(root)) for name, root in roots.items()]
    with contextlib.ExitStack() as closing:
        sessions = [closing.enter_context(HostSession(host, home, patience_s=30.0)) for host in hosts]
        made = Pair(sessions[0], sessions[1], tmp_path)
        build(made)
        yield made


def build(pair: Pair, base: Path = BASE) -> None:
    """Make the environment as uv makes it."""
    here = pair.here
    (here / "bin").mkdir(parents=True)
    for name, target in (("python", str(base)), ("python3", "python"), (MINOR, "python")):
        (here / "bin" / name).symlink_to(target)
    (here / "lib64").symlink_to("lib")
    (here / "pyvenv.cfg").write_text(f"home = {base.parent}\nuv = 0.13.9\ninclude-system-site-packages = false\n")
    (here / "requirements.txt").write_text("# a comment\ntiny==1.0\n")
    (here / "bin/activate").write_text(f"VIRTUAL_ENV='{here}'\nOTHER='{here}23/bin'\n")
    (here / "bin/tiny").write_text(f"#!{here}/bin/python\nimport tiny\ntiny.main()\n")
    (here / "bin/tiny").chmod(0o755)
    pair.package("tiny", {"tiny.py": TINY, "data.bin": LARGE, "own.pth": f"{here}/{SITE}/more\n"})
    record = here / SITE / "tiny-1.0.dist-info/RECORD"
    record.write_text(record.read_text() + f"../../../bin/tiny,{hash_of((here / 'bin/tiny').read_bytes())},1\n")
    (here / SITE / "__pycache__").mkdir()
    (here / SITE / "__pycache__/tiny.cpython-311.pyc").write_bytes(b"compiled here")
    ready = {"key": KEY, "python": platform.python_version(), "time": 1.0, "freeze": "tiny==1.0", "notes": ["a note"]}
    (here / "READY").write_text(json.dumps(ready))


def test_what_arrives_works_in_its_new_place_without_the_old_one(pair: Pair) -> None:
    progress = Watched()
    assert (*pair.send(progress), pair.state()) == (True, (), "ready")
    assert not (pair.there / SITE / "__pycache__").exists()
    shutil.rmtree(pair.folder / "source")
    said = subprocess.run([pair.there / "bin/tiny"], capture_output=True, text=True, check=True)
    assert said.stdout == f"tiny of {pair.there}\n"  # in a folder with a blank in its name
    assert (pair.there / "bin/activate").read_text() == f"VIRTUAL_ENV='{pair.there}'\nOTHER='{pair.here}23/bin'\n"
    assert (pair.there / SITE / "own.pth").read_text() == f"{pair.there}/{SITE}/more\n"
    assert (pair.there / SITE / "data.bin").read_bytes() == LARGE
    assert [str((pair.there / "bin" / name).readlink()) for name in ("python3", MINOR)] == ["python", "python"]
    assert (pair.there / "lib64").readlink() == Path("lib")
    ready = json.loads((pair.there / "READY").read_text())
    assert {name: ready[name] for name in ("key", "freeze", "notes")} == {
        "key": KEY, "freeze": "tiny==1.0", "notes": ["a note"],
    }  # fmt: skip
    assert ready["origin"] == platform.node()
    assert f"home = {BASE.parent}\n" in (pair.there / "pyvenv.cfg").read_text()
    assert not pair.staging.exists()
    assert any("every file verified" in stage for stage in progress.stages)


def test_the_records_of_packages_have_the_hashes_of_the_changed_files(pair: Pair) -> None:
    pair.send()
    rows = list(csv.reader((pair.there / SITE / "tiny-1.0.dist-info/RECORD").read_text().splitlines()))
    for path, digest, size in rows:
        content = (pair.there / SITE / path).read_bytes()
        assert (digest, size) == (hash_of(content), str(len(content))), path


def test_an_environment_that_is_there_is_neither_built_nor_sent(pair: Pair) -> None:
    assert pair.send()[0]
    shutil.rmtree(pair.here)
    assert pair.send() == (False, ())
    assert not pair.here.exists()


def test_what_arrived_before_is_not_sent_again_and_damage_is_repaired(pair: Pair) -> None:
    stay = pair.target.call
    packed = pair.source.call(PackEnvironment(key=KEY))
    content, listed = relay.read_list(pair.source, KEY, packed)
    relay.carry(pair.source, pair.target, KEY, packed, content, listed, lambda _: None)
    data = pair.staging / "env" / SITE / "data.bin"
    data.write_bytes(LARGE[:700_001])
    (pair.staging / "env/bin/activate").write_text("x" * (pair.here / "bin/activate").stat().st_size)
    (pair.staging / "env/stranger").write_text("of an older list\n")
    progress = Watched()
    assert pair.send(progress)[0]
    assert progress.sent_bytes < len(LARGE) - 700_001 + 5000
    assert (pair.there / SITE / "data.bin").read_bytes() == LARGE
    assert (pair.there / "bin/activate").read_text().startswith(f"VIRTUAL_ENV='{pair.there}'")
    assert not (pair.there / "stranger").exists()
    assert stay(AskEnvironments(keys=(KEY,))).root[KEY] == "ready"


@pytest.mark.parametrize("whose", ["source", "target"])
def test_a_link_that_breaks_midway_is_opened_again(pair: Pair, whose: str) -> None:
    (pair.here / SITE / "more.bin").write_bytes(LARGE * 8)
    session: HostSession = getattr(pair, whose)
    broken: list[bool] = []

    def break_once() -> None:
        if not broken:
            broken.append(True)
            for stream in list(session._streams):  # noqa: SLF001  # nobody else can break one at this moment
                stream._connection._channel._process.kill()  # type: ignore[attr-defined]  # noqa: SLF001

    assert pair.send(Watched(then=break_once))[0]
    assert broken
    assert (pair.there / SITE / "more.bin").read_bytes() == LARGE * 8


def test_a_link_that_stays_down_leaves_what_arrived_and_nothing_that_looks_ready(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> None:
        raise HostUnreachable("the cable is out", host="a")

    with pytest.raises(HostUnreachable, match="the cable is out"):
        pair.send(Watched(then=down))
    assert pair.state() == "absent"
    assert (pair.staging / "packed.json").exists()
    monkeypatch.undo()
    assert pair.send()[0]


def test_two_who_send_it_at_once_make_it_once(pair: Pair) -> None:
    home = pair.source.home
    second = Pair(HostSession(pair.source.host, home), HostSession(pair.target.host, home), pair.folder)
    done: list[bool] = []
    threads = [threading.Thread(target=lambda each=each: done.append(each.send()[0])) for each in (pair, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.source.close()
    second.target.close()
    assert sorted(done) == [False, True]
    assert pair.state() == "ready"
    assert sorted(path.name for path in pair.there.parent.iterdir()) == [KEY, f"{KEY}.lock"]


def test_packages_that_cannot_be_imported_there_make_no_environment(pair: Pair) -> None:
    picky = (
        "import sys\nif 'target' in sys.prefix:\n    raise ImportError('libGL.so.1: cannot open shared object file')\n"
    )
    pair.package("picky", {"picky.py": picky})
    (pair.here / "requirements.txt").write_text("tiny\npicky\n")
    with pytest.raises(ProvisionFailed, match=r"picky \(ImportError: libGL.so.1") as refused:
        pair.send()
    assert f"what was sent is kept in {pair.staging}" in (refused.value.hint or "")
    assert pair.state() == "absent"
    (pair.here / SITE / "picky.py").write_text("")
    assert pair.send()[0]


def test_what_fails_on_the_source_too_or_needs_a_driver_is_said_and_sent(pair: Pair) -> None:
    picky = "import sys\nif 'target' in sys.prefix:\n    raise ImportError('libcuda.so.1: cannot open shared object file')\n"
    pair.package("picky", {"picky.py": picky})
    pair.package("broken", {"broken.py": "raise RuntimeError('\\033[31mno')\n"})
    (pair.here / "requirements.txt").write_text("picky\nbroken\n")
    progress = Watched()
    assert pair.send(progress)[0]
    (said,) = [stage for stage in progress.stages if "⚠" in stage]
    assert "broken cannot be imported on a either: RuntimeError: " in said
    assert "\033" not in said
    if shutil.which("nvidia-smi") is None:
        notes = json.loads((pair.there / "READY").read_text())["notes"]
        assert "not imported, because this machine has no GPU driver: picky" in notes


def test_a_package_that_crashes_python_is_named_by_its_exit_code(pair: Pair) -> None:
    crash = "import os, sys\nif 'target' in sys.prefix:\n    os.abort()\n"
    pair.package("crash", {"crash.py": crash})
    (pair.here / "requirements.txt").write_text("crash\n")
    with pytest.raises(ProvisionFailed, match="ended with exit code -6 while it imported packages"):
        pair.send()
    assert pair.state() == "absent"


def test_sources_that_would_stay_behind_are_named(pair: Pair) -> None:
    (pair.here / SITE / "tiny-1.0.dist-info/direct_url.json").write_text(
        json.dumps({"url": "file:///home/me/tiny", "dir_info": {"editable": True}})
    )
    with pytest.raises(
        ProvisionFailed, match=r"tiny-1.0 is installed from file:///home/me/tiny as an editable package"
    ):
        pair.send()
    (pair.here / SITE / "tiny-1.0.dist-info/direct_url.json").unlink()
    (pair.here / SITE / "far.pth").write_text("/home/me/far\n")
    with pytest.raises(ProvisionFailed, match=r"far\.pth adds /home/me/far to the modules"):
        pair.send()
    (pair.here / SITE / "far.pth").unlink()
    (pair.here / "share").symlink_to(pair.folder)
    with pytest.raises(ProvisionFailed, match="outside of the environment"):
        pair.send()
    assert not pair.staging.exists()


def test_files_that_are_links_into_uvs_cache_arrive_as_files(pair: Pair) -> None:
    (pair.folder / "cached.py").write_text("kept = 1\n")
    (pair.here / SITE / "cached.py").symlink_to(pair.folder / "cached.py")
    pair.send()
    assert not (pair.there / SITE / "cached.py").is_symlink()
    assert (pair.there / SITE / "cached.py").read_text() == "kept = 1\n"


def test_a_file_that_changes_between_listing_and_sending_is_never_trusted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = relay.read_list

    def then_change(*words: Any) -> Any:
        found = listing(*words)
        (pair.here / SITE / "tiny.py").write_text("import sys  # another one\n")
        return found

    monkeypatch.setattr(sent_environment, "read_list", then_change)
    with pytest.raises(ArmadaError, match=r"1 files of the environment are wrong: env/.*tiny\.py has another"):
        pair.send()
    assert pair.state() == "absent"
    monkeypatch.undo()
    assert pair.send()[0]


def facts_of(pair: Pair, **changes: Any) -> Facts:
    return pair.target.call(AskFacts()).model_copy(update=changes)


def test_a_c_library_that_is_older_than_the_wheels_is_refused_before_anything_is_sent(pair: Pair) -> None:
    pair.package("compiled", {"compiled.py": ""}, tag="cp311-cp311-manylinux_2_28_x86_64.manylinux_2_34_x86_64")
    pair.package("old", {"old.py": ""}, tag="cp311-cp311-manylinux2014_x86_64")
    with pytest.raises(PreflightRefused, match=r"packages of the environment of a need glibc 2\.28; b has 2\.17"):
        pair.send(facts=facts_of(pair, glibc="2.17"))
    with pytest.raises(PreflightRefused, match=r"b has .* with another C library"):
        pair.send(facts=facts_of(pair, glibc=None))
    assert not pair.staging.exists()
    assert pair.send(facts=facts_of(pair, glibc="2.28"))[0]


def test_a_package_compiled_on_the_source_needs_what_its_libraries_name(pair: Pair) -> None:
    library = b"\x7fELF\0" + b"\0GLIBC_2.31\0" + b"." * 4_194_290 + b"\0GLIBC_2.34\0GLIBC_PRIVATE\0"
    pair.package("built", {"built.so": library, "built.py": ""}, tag="cp311-cp311-linux_x86_64")
    with pytest.raises(PreflightRefused, match=r"need glibc 2\.34; b has 2\.33"):
        pair.send(facts=facts_of(pair, glibc="2.33"))


def test_another_processor_is_refused_before_the_source_builds(pair: Pair) -> None:
    shutil.rmtree(pair.here)
    with pytest.raises(PreflightRefused, match=r"does not run on b .linux on aarch64.") as refused:
        pair.send(facts=facts_of(pair, machine="aarch64"))
    assert "send it from a host with the same kind of processor" in (refused.value.hint or "")
    assert not pair.here.exists()


def test_a_driver_that_does_not_know_the_cuda_is_refused(pair: Pair) -> None:
    def with_driver(version: str) -> Facts:
        return facts_of(pair, gpus=(Gpu.model_construct(name="A100", driver_version=version),))

    with pytest.raises(PreflightRefused, match=r"is for CUDA 13, which needs driver 580 or newer; b has 570.12"):
        refuse_old_driver("cu130-1", with_driver("570.12"), "a", "b")
    for key, version in (
        ("cu130-1", "580.1"),
        ("cu126-1", "570.12"),
        ("cpu-1", "1"),
        ("cu990-1", "1"),
        ("cu130-1", "?"),
    ):
        refuse_old_driver(key, with_driver(version), "a", "b")


def test_what_fits_is_not_refused(pair: Pair) -> None:
    facts = facts_of(pair)
    refuse_other_machine(facts, facts, "a", "b")
    packed = pair.source.call(PackEnvironment(key=KEY))
    _, listed = relay.read_list(pair.source, KEY, packed)
    assert listed.glibc is None
    refuse_misfit(listed, facts, "a", "b")


def test_a_python_that_uv_downloaded_travels_with_its_environment(pair: Pair) -> None:
    shutil.rmtree(pair.here)
    name = standalone_python.NAME
    base = pair.folder / "source/tools/python" / name
    standalone_python.copy(base)
    build(pair, base / "bin" / MINOR)
    pair.send()
    shutil.rmtree(pair.folder / "source")
    own = pair.there.parents[1] / "tools/python" / name
    said = subprocess.run([pair.there / "bin/tiny"], capture_output=True, text=True, check=True)
    assert said.stdout == f"tiny of {pair.there}\n"
    assert (pair.there / "bin/python").resolve() == own / "bin" / MINOR
    assert (own / "bin/config").read_text() == f"#!/bin/sh\necho {own}\n"
    assert not (pair.there.parents[1] / "tools/python" / "bin").exists()


def test_a_host_without_that_python_gets_one_with_an_environment_that_is_built_once_more(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(pair.here)
    odd, name = pair.folder / "odd", standalone_python.NAME
    standalone_python.copy(odd)
    base = pair.folder / "source/tools/python" / name
    shutil.copytree(odd, base, symlinks=True)
    (settings,) = (odd / "lib" / MINOR).glob("_sysconfigdata*.py")
    settings.write_text(settings.read_text() + "build_time_vars['SOABI'] = 'cpython-odd'\n")
    build(pair, odd / "bin" / MINOR)
    with_uvs_python: list[bool] = []

    def ensure(_session: Any, wanted: Environment, _progress: Any, *, uvs_python: bool = False) -> Any:
        with_uvs_python.append(uvs_python)
        if uvs_python:
            portable = Pair(pair.source, pair.target, pair.folder)
            portable.here = pair.here.with_name(wanted.key)
            build(portable, base / "bin" / MINOR)
        return EnsuredEnvironment(True, 0.0, (), None)

    monkeypatch.setattr(sent_environment, "ensure_environment", ensure)
    progress = Watched()
    assert pair.send(progress)[0]
    assert with_uvs_python == [False, True]
    assert any("b has no Python for it" in stage for stage in progress.stages)
    assert (pair.there / "bin/python").resolve() == pair.there.parents[1] / "tools/python" / name / "bin" / MINOR
    assert json.loads((pair.there / "READY").read_text())["key"] == KEY
