"""What a machine without network lacks: which wheels are fetched, which are not, and how they are installed there."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.gpu import environment, wheels
from benchmarks.gpu.wheels import Carrier, Target


def make_wheel(folder: Path, name: str, version: str, *requires: str, **files: str) -> Path:
    """Write a wheel of one module, as small as a wheel can be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"version = {version!r}\n")
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        for member, content in files.items():
            archive.writestr(member, content)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels in place of the package index."""
    folder = tmp_path / "index"
    make_wheel(
        folder,
        "trl",
        "1.16.0",
        "datasets>=4",
        "torch>=2.4",
        "rich>=10 ; extra == 'fancy'",
        "tomli ; python_version < '3.11'",
    )
    make_wheel(folder, "datasets", "5.2.0", "dill<1", "numpy>=2")
    make_wheel(folder, "dill", "0.4.1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(wheels, "NEEDED", ("torch", "trl"))
    monkeypatch.setattr(wheels, "HOME_NEEDS", ())
    monkeypatch.setattr(wheels, "_NICE", ())
    return folder


def carry(tmp_path: Path, packages: dict[str, str | None], most_bytes: int = 10**6, **more: list[str]) -> Carrier:
    carrier = Carrier(Target("3.12", "x86_64", (2, 28), packages, more), tmp_path / "out", most_bytes)
    carrier.carry()
    return carrier


def test_only_what_is_missing_or_does_not_fit_is_fetched(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_NICE", ("liger-kernel",))
    carrier = carry(tmp_path, {"torch": "2.11.0", "trl": "1.2.0", "dill": "0.3.9", "numpy": None})
    assert sorted(carrier.carried) == ["datasets", "trl"]
    assert carrier.kept == {"dill": "0.3.9", "numpy": None}
    assert sorted(file.name for file in (tmp_path / "out").glob("*.whl")) == [
        "datasets-5.2.0-py3-none-any.whl",
        "trl-1.16.0-py3-none-any.whl",
    ]
    assert list(carrier.left_out) == ["liger-kernel"]  # of which the folder has none, and no check depends on it
    assert carrier.problems == []


def test_what_is_kept_needs_its_own_packages_too(index: Path, tmp_path: Path) -> None:
    carrier = carry(tmp_path, {"torch": "2", "trl": "1.16.0"}, trl=["datasets", "numpy"])
    assert sorted(carrier.carried) == ["datasets", "dill"]
    assert [problem.partition(",")[0] for problem in carrier.problems] == ["numpy"]


def test_what_is_too_large_is_left_out_and_named(index: Path, tmp_path: Path) -> None:
    size = (index / "trl-1.16.0-py3-none-any.whl").stat().st_size
    carrier = carry(tmp_path, {"torch": "2.11.0", "numpy": "2.5.2"}, most_bytes=size + 10)
    assert list(carrier.carried) == ["trl"]
    assert carrier.problems == [f"datasets, which trl needs, is left out: {carrier.left_out['datasets']}"]
    assert carrier.left_out["datasets"].endswith("0.0 MB are left")


def test_every_needed_package_is_pinned_and_its_own_need_is_known() -> None:
    carrier = Carrier(Target("3.12", "x86_64", (2, 28), {}), Path("/nowhere"), 0)
    roots = [wanted.requirement for needed in (True, False) for wanted in carrier.roots(is_needed=needed)]
    assert {requirement.name for requirement in roots} >= {
        "trl",
        "transformers",
        "fabric",
        "ruamel.yaml",
        "torchao",
    }
    assert "torch" not in {requirement.name for requirement in roots}
    assert Requirement("trl==1.16.0") in roots


def test_a_description_or_a_list_of_packages_says_what_a_machine_has(tmp_path: Path) -> None:
    said = json.dumps(wheels.describe())
    target = wheels.read_target(said, "3.12", "there.json")
    assert target.packages["pydantic"] is not None
    assert any(line.startswith(("pydantic-core", "pydantic_core")) for line in target.requires["pydantic"])
    listed = wheels.read_target("# a list\nTorch==2.11.0\nhuggingface_hub==1.33.0\npandas\n\n", "3.12", "list")
    assert listed.packages == {"torch": "2.11.0", "huggingface-hub": "1.33.0", "pandas": None}
    with pytest.raises(ValueError, match=r"list:2: '-e git\+https://x' is no NAME==VERSION"):
        wheels.read_target("torch==2\n-e git+https://x\n", "3.12", "list")
    for wrong in ('{"python": "3.12"}', "{", '{"python": "3.12", "machine": "x86_64", "packages": 3, "requires": {}}'):
        with pytest.raises(ValueError, match=r"there\.json is not what"):
            wheels.read_target(wrong, "3.12", "there.json")


@pytest.mark.parametrize(
    "lie",
    [
        {"python": "3.12 --index-url http://x"},
        {"python": 3},
        {"machine": "x86_64/../.."},
        {"packages": {"torch": 2.11}},
        {"requires": {"torch": [3]}},
        {"requires": {"torch": 3}},
        {"cuda": "130; rm"},
    ],
)
def test_a_description_that_lies_is_refused(lie: dict[str, object]) -> None:
    said = {
        "python": "3.12",
        "machine": "x86_64",
        "glibc": "2.39",
        "packages": {"Torch": None},
        "requires": {},
        "cuda": 130,
    }
    assert wheels.read_target(json.dumps(said), "3.12", "x").glibc == (2, 39)
    assert wheels.read_target(json.dumps({**said, "glibc": "2.999999999"}), "3.12", "x").glibc == (2, 28)
    with pytest.raises(ValueError, match="x is not what"):
        wheels.read_target(json.dumps({**said, **lie}), "3.12", "x")


def test_libraries_for_other_gpus_are_left_out_of_a_wheel(tmp_path: Path) -> None:
    names = [f"many/lib_{each}.so" for each in ("cpu", "cuda118", "cuda130", "cuda1300", "rocm130", "xpu2025")]
    wheel = make_wheel(tmp_path, "many", "1", **dict.fromkeys(names, "x"))
    wheels.trim(wheel, "999")  # none is for it: whichever it would choose must stay
    with zipfile.ZipFile(wheel) as archive:
        assert set(names) < set(archive.namelist())
    wheels.trim(wheel, "130")
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(archive.namelist()) == [
            "many-1.dist-info/METADATA",
            "many-1.dist-info/WHEEL",
            "many/__init__.py",
            "many/lib_cpu.so",
            "many/lib_cuda130.so",
        ]
        assert archive.testzip() is None
    assert wheels.read_target("torch==2.11.0+cu130\n", "3.12", "list").cuda == "130"
    assert wheels.read_target("torch==2.11.0\n", "3.12", "list").cuda is None


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "there.txt").write_text("torch==2\n")
    assert wheels.main(["--for", str(tmp_path / "there.txt"), "--out", str(tmp_path)]) == 2
    assert "has other files than wheels" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


def test_carried_wheels_lie_on_top_of_a_python_that_is_itself_a_venv(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "theirs")], check=True)
    python = str(tmp_path / "theirs/bin/python")
    site = next((tmp_path / "theirs/lib").glob("python3*/site-packages"))
    for name, version in (("torch", "2.11.0"), ("trl", "1.2.0")):
        with zipfile.ZipFile(make_wheel(tmp_path / "installed", name, version)) as archive:
            archive.extractall(site)
    before = sorted(site.rglob("*"))
    make_wheel(
        tmp_path / "wheels",
        "trl",
        "1.16.0",
        **{"trl-1.16.0.data/scripts/trl": "", "trl-1.16.0.data/purelib/more.py": "here = 1\n"},
    )
    own = environment.make(python, tmp_path / "wheels", tmp_path / "venv")
    look = "import torch, trl, more; from importlib.metadata import version; print(torch.version, trl.version, version('trl'))"
    done = subprocess.run([own, "-B", "-c", look], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2.11.0", "1.16.0", "1.16.0"], done.stderr
    assert sorted(site.rglob("*")) == before


def test_wheels_that_cannot_be_installed_are_named(tmp_path: Path) -> None:
    with pytest.raises(environment.VenvError, match="has no wheels: `make gpu-wheels`"):
        environment.make(sys.executable, tmp_path, tmp_path / "venv")
    evil = make_wheel(tmp_path / "evil", "evil", "1", **{"../../outside.py": "print('out')"})
    with pytest.raises(environment.VenvError, match=f"{evil.name} has a file outside of itself"):
        environment.make(sys.executable, evil.parent, tmp_path / "venv")
    (tmp_path / "evil" / "evil-2-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(environment.VenvError, match="has several wheels of evil"):
        environment.make(sys.executable, evil.parent, tmp_path / "venv")
    evil.unlink()
    with pytest.raises(environment.VenvError, match=r"evil-2-py3-none-any\.whl cannot be unpacked"):
        environment.make(sys.executable, evil.parent, tmp_path / "venv")
    assert not list(tmp_path.rglob("outside.py"))
