"""Fetch the wheels that a Python with torch lacks for the GPU kit, for a machine without network: `make gpu-wheels`.

    python -m benchmarks.gpu.wheels --python PYTHON         for a Python of this machine
    python -m benchmarks.gpu.wheels --describe > there.json  on the other machine; needs nothing but Python
    python -m benchmarks.gpu.wheels --for there.json         here, for that one (or a list as `pip freeze` prints)

What is needed is what the payload's list pins (profiles/requirements/train.txt) and what armada itself needs. A package
that is there is kept where its version is allowed. torch and CUDA's libraries are never carried.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.machine import HOME_NEEDS, NEEDED

if TYPE_CHECKING:
    from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
_LISTS = ROOT / "profiles/requirements"
_NEVER = ("torch", "triton", "pytorch-triton")
_NICE = ("liger-kernel", "bitsandbytes", "torchao")
"""Checks skip themselves without these."""
_TRIED = {"torchao": "0.18.0"}
"""Versions of what no list pins."""
_ONE_OF_MANY = re.compile(r"_(cuda|rocm|xpu)(\d+)\.so$")
_MOST_MB = 60
_GLIBC = (2, 28)
"""Of a machine that does not say; manylinux_2_28 is what most projects build for."""
_PYTHON, _MACHINE, _GLIBC_VERSION = (
    re.compile(r"3\.\d{1,2}"),
    re.compile(r"[a-z0-9_]{1,20}"),
    re.compile(r"(2)\.(\d{1,2})"),
)


@dataclass(frozen=True)
class Target:
    """A Python on some machine.

    Attributes:
        python: `3.12`.
        machine: `x86_64`.
        glibc: Its version.
        packages: What it has; None where the version is not known.
        requires: What these require, as far as it is known.
        cuda: That its torch is for, such as `130`; None where it is not known.
    """

    python: str
    machine: str
    glibc: tuple[int, int]
    packages: dict[str, str | None]
    requires: dict[str, list[str]] = field(default_factory=dict)
    cuda: str | None = None

    @property
    def markers(self) -> dict[str, str]:
        """The environment in which markers are judged."""
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "platform_machine": self.machine,
            "platform_system": "Linux",
            "sys_platform": "linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "extra": "",
        }


def canonical(name: str) -> str:
    """Return a package's name as the index compares it."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def describe() -> dict[str, Any]:
    """Describe this Python, with the standard library alone."""
    from importlib.metadata import distributions

    packages, requires = {}, {}
    for each in distributions():
        name = canonical(each.metadata["Name"] or "")
        if name and name not in packages:  # the first one found is the one that is imported
            packages[name] = each.version
            requires[name] = list(each.requires or [])
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "packages": packages,
        "requires": requires,
        "cuda": _find_cuda(),
    }


def _find_cuda() -> str | None:
    """Read which CUDA torch is for, without importing it."""
    from importlib.util import find_spec

    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"](\d+)\.(\d+)", text, re.MULTILINE)
    return found[1] + found[2] if found else None


def read_target(text: str, python: str, where: str) -> Target:
    """Read what `--describe` or `pip freeze` printed.

    Args:
        text: The one or the other.
        python: The version of Python, for a list.
        where: Names it in messages.

    Raises:
        ValueError: It is neither.
    """
    if not text.lstrip().startswith("{"):
        packages: dict[str, str | None] = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, _, version = line.partition("#")[0].strip().partition("==")
            if name and not all(letter.isalnum() or letter in "-_." for letter in name):
                raise ValueError(f"{where}:{number}: {line.strip()!r} is no NAME==VERSION, as `pip freeze` prints")
            if name:
                packages[canonical(name)] = version.strip() or None
        built = re.search(r"\+cu(\d+)", packages.get("torch") or "")
        return Target(python, "x86_64", _GLIBC, packages, cuda=built[1] if built else None)
    try:
        return _checked(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where} is not what `python -m benchmarks.gpu.wheels --describe` prints: {error}") from error


def _checked(said: dict[str, Any]) -> Target:
    """Take a description from another machine, as far as it can be true."""
    packages, requires, cuda = said["packages"], said["requires"], said.get("cuda")
    glibc = _GLIBC_VERSION.fullmatch(str(said.get("glibc") or ""))
    if not _PYTHON.fullmatch(said["python"]) or not _MACHINE.fullmatch(said["machine"]):
        raise ValueError(f"python {said['python']!r}, machine {said['machine']!r}")
    if not all(version is None or isinstance(version, str) for version in packages.values()):
        raise ValueError("`packages` has versions that are no texts")
    if not all(isinstance(line, str) for lines in requires.values() for line in lines):
        raise ValueError("`requires` has requirements that are no texts")
    if cuda is not None and not str(cuda).isdigit():
        raise ValueError(f"cuda {cuda!r}")
    return Target(
        said["python"],
        said["machine"],
        (int(glibc[1]), int(glibc[2])) if glibc else _GLIBC,
        {canonical(name): version for name, version in packages.items()},
        {canonical(name): list(lines) for name, lines in requires.items()},
        None if cuda is None else str(cuda),
    )


@dataclass(frozen=True)
class Wanted:
    """A requirement, and who has it."""

    requirement: Requirement
    source: str
    is_needed: bool


class Carrier:
    """Finds out what is missing, and fetches it.

    Args:
        target: For which Python.
        folder: Where wheels go.
        most_bytes: Of all wheels.
    """

    def __init__(self, target: Target, folder: Path, most_bytes: int) -> None:
        self._target = target
        self._folder = folder
        self._left = most_bytes
        self._pins = dict(_read_pins())
        self.carried: dict[str, Path] = {}
        self.kept: dict[str, str | None] = {}
        self.left_out: dict[str, str] = {}
        self.problems: list[str] = []

    def carry(self) -> None:
        """Fetch everything that is missing, what is needed first."""
        for is_needed in (True, False):
            waiting = list(self.roots(is_needed=is_needed))
            while waiting:
                waiting += self._take(waiting.pop(0))

    def roots(self, *, is_needed: bool) -> Iterator[Wanted]:
        from packaging.requirements import Requirement

        if not is_needed:
            for name in _NICE:
                version = self._pins.get(name) or _TRIED[name]
                yield Wanted(Requirement(f"{name}=={version}"), "the kit", is_needed=False)
            return
        for name in NEEDED:
            if name not in _NEVER:
                yield Wanted(Requirement(f"{name}=={self._pins[name]}"), "train.txt", is_needed=True)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for line in project["dependencies"]:
            requirement = Requirement(line)
            if canonical(requirement.name) in map(canonical, HOME_NEEDS):
                yield Wanted(requirement, "pyproject.toml", is_needed=True)

    def _take(self, wanted: Wanted) -> list[Wanted]:
        """Keep or fetch one package, and return what it needs itself."""
        requirement, name = wanted.requirement, canonical(wanted.requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate(self._target.markers):
            return []
        if name in _NEVER or name.startswith("nvidia-") or name in self.left_out:
            return []
        if name in self.carried:
            version = self.carried[name].name.split("-")[1]
            if not requirement.specifier.contains(version, prereleases=True):
                self.problems.append(f"{wanted.source} wants {requirement}, and {version} is carried")
            return []
        if name in self._target.packages and name not in self.kept:
            had = self._target.packages[name]
            if had is None or requirement.specifier.contains(had, prereleases=True):
                self.kept[name] = had
                return self._needs(self._target.requires.get(name, []), name, wanted)
        elif name in self.kept:
            had = self.kept[name]
            if had is None or requirement.specifier.contains(had, prereleases=True):
                return []
            del self.kept[name]
        return self._fetch(wanted, name)

    def _fetch(self, wanted: Wanted, name: str) -> list[Wanted]:
        specifier = wanted.requirement.specifier
        pin = self._pins.get(name)
        exact = f"=={pin}" if pin and specifier.contains(pin, prereleases=True) else str(specifier)
        part = self._folder / ".part"
        part.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [*_pip(), *self._tags(), "--dest", str(part), f"{name}{exact}"], capture_output=True, text=True, check=False
        )
        files = list(part.glob("*.whl"))
        if done.returncode or len(files) != 1:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip gave no wheel"]
            self._leave_out(wanted, name, lines[-1].removeprefix("ERROR: "))
            return []
        if self._target.cuda is not None:
            trim(files[0], self._target.cuda)
        size = files[0].stat().st_size
        if size > self._left:
            files[0].unlink()
            self._leave_out(wanted, name, f"its wheel has {size / 1e6:.1f} MB, and {self._left / 1e6:.1f} MB are left")
            return []
        self._left -= size
        self.carried[name] = files[0].rename(self._folder / files[0].name)
        return self._needs(read_requires(self.carried[name]), name, wanted)

    def _leave_out(self, wanted: Wanted, name: str, why: str) -> None:
        self.left_out[name] = why
        if wanted.is_needed:
            self.problems.append(f"{name}, which {wanted.source} needs, is left out: {why}")

    def _needs(self, lines: list[str], name: str, wanted: Wanted) -> list[Wanted]:
        from packaging.requirements import InvalidRequirement, Requirement

        found = []
        for line in lines:
            try:
                found.append(Wanted(Requirement(line), name, wanted.is_needed))
            except InvalidRequirement:
                self.problems.append(f"{name} has a requirement that cannot be read: {line[:100]!r}")
        return found

    def _tags(self) -> list[str]:
        """Return pip's options for the target: every manylinux that its C library runs."""
        machine, (major, minor) = self._target.machine, self._target.glibc
        tags = [f"manylinux_{major}_{number}_{machine}" for number in range(minor, 4, -1)]
        tags += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1")]
        chosen = ["--python-version", self._target.python, "--implementation", "cp"]
        return chosen + [word for tag in tags for word in ("--platform", tag)]


def trim(wheel: Path, cuda: str) -> None:
    """Leave out of a wheel the libraries for other versions of CUDA and for other makers' GPUs.

    bitsandbytes brings one for each: 43 MB, of which a machine uses 3.
    """
    with zipfile.ZipFile(wheel) as archive:
        others = {
            name
            for name in archive.namelist()
            if (found := _ONE_OF_MANY.search(name)) and (found[1], found[2]) != ("cuda", cuda)
        }
        if not others or len(others) == len([name for name in archive.namelist() if _ONE_OF_MANY.search(name)]):
            return  # none would be left
        part = wheel.with_name(f".{wheel.name}.part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as smaller:
            for name in archive.namelist():
                if name not in others:
                    smaller.writestr(archive.getinfo(name), archive.read(name), zipfile.ZIP_DEFLATED)
    part.replace(wheel)


def read_requires(wheel: Path) -> list[str]:
    """Return the requirements of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(
            each for each in archive.namelist() if each.endswith(".dist-info/METADATA") and each.count("/") == 1
        )
        return HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace")).get_all("Requires-Dist") or []


def _read_pins() -> Iterator[tuple[str, str]]:
    for file in ("train.txt", "gpu.txt"):
        for line in (_LISTS / file).read_text(encoding="utf-8").splitlines():
            name, _, version = line.partition("#")[0].partition(";")[0].strip().partition("==")
            if version:
                yield canonical(name), version


def _pip() -> list[str]:
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    return [sys.executable, "-m", "pip", *words]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.wheels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", default=sys.executable, help="for this Python")
    parser.add_argument("--for", dest="described", type=Path, metavar="FILE", help="for a Python of another machine")
    parser.add_argument("--python-version", default="3.12", help="of a list of packages (3.12)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/gpu-wheels", metavar="FOLDER")
    parser.add_argument("--most", type=float, default=_MOST_MB, metavar="MB", help=f"of all wheels ({_MOST_MB})")
    parser.add_argument("--describe", action="store_true", help="only print what this Python has")
    options = parser.parse_args(words)
    if options.describe:
        print(json.dumps(describe()))
        return 0
    try:
        target = _find_target(options)
        _empty(options.out)
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        print(f"gpu-wheels: {error}", file=sys.stderr)
        return 2
    carrier = Carrier(target, options.out, int(options.most * 1e6))
    carrier.carry()
    part = options.out / ".part"
    if part.exists():
        part.rmdir()
    return _tell(carrier, target, options.out)


def _find_target(options: argparse.Namespace) -> Target:
    if options.described is not None:
        text = options.described.read_text(encoding="utf-8")
        return read_target(text, options.python_version, str(options.described))
    done = subprocess.run(
        [options.python, "-c", _DESCRIBE, str(ROOT)], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise ValueError(f"{options.python} cannot be asked what it has: {said}")
    return read_target(done.stdout, options.python_version, options.python)


_DESCRIBE = """
import json, sys
sys.path.append(sys.argv[1])
from benchmarks.gpu.wheels import describe
print(json.dumps(describe()))
"""


def _empty(folder: Path) -> None:
    """Remove the wheels of an earlier call.

    Raises:
        ValueError: The folder has other files in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in folder.iterdir() if entry.name != ".part"]
    if other := [entry.name for entry in entries if entry.suffix != ".whl"]:
        raise ValueError(f"{folder} has other files than wheels ({other[0]}): name an empty folder by --out")
    for entry in [*entries, *folder.glob(".part/*")]:
        entry.unlink()


def _tell(carrier: Carrier, target: Target, folder: Path) -> int:
    total = sum(file.stat().st_size for file in carrier.carried.values())
    if "torch" not in target.packages:
        carrier.problems.append("it has no torch, which is never carried: install one for its CUDA")
    for file in sorted(carrier.carried.values()):
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")
    print(
        f"{total / 1e6:6.1f} MB  {len(carrier.carried)} wheels in {folder}; {len(carrier.kept)} packages are there already"
    )
    if unknown := sorted(name for name, version in carrier.kept.items() if version is None):
        print(f"of an unknown version, taken as fitting: {', '.join(unknown)}")
    for name, why in carrier.left_out.items():
        print(f"left out: {name}: {why}")
    for problem in carrier.problems:
        print(f"problem: {problem}", file=sys.stderr)
    if not carrier.problems:
        print(f"there: make gpu PYTHON=… WHEELS={folder}")
    return 1 if carrier.problems else 0


if __name__ == "__main__":
    sys.exit(main())
