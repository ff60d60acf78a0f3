"""An environment on top of an existing Python: what it has, and wheels that were carried here, without network and pip."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

_PLACES = "import json, sysconfig; print(json.dumps([sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]))"
_NAME = "existing-python.pth"
_LIBRARIES = ("purelib", "platlib")


class VenvError(RuntimeError):
    """The environment cannot be made; the message says what failed."""


def make(python: str, wheels: Path, folder: Path) -> str:
    """Make the environment anew and return its Python.

    A venv made from another venv sees the packages of the Python below both, not of the first: a .pth file names them.

    Args:
        python: The existing Python; it stays as it is.
        wheels: A folder of wheels.
        folder: Where the environment goes.

    Raises:
        VenvError: There are no wheels, two of one package, a broken one, or venv fails.
    """
    files = sorted(wheels.glob("*.whl"))
    if not files:
        raise VenvError(f"{wheels} has no wheels: `make gpu-wheels` fetches them where there is a network")
    names = [file.name.split("-")[0].lower() for file in files]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise VenvError(f"{wheels} has several wheels of {', '.join(doubled)}: leave one of each")
    shutil.rmtree(folder, ignore_errors=True)
    # Without pip: Debian's Python has no ensurepip, and wheels of modules need no more than to be unpacked.
    _run([python, "-m", "venv", "--system-site-packages", "--without-pip", str(folder)])
    own = str(folder / "bin" / "python")
    places = list(dict.fromkeys(json.loads(_run([python, "-c", _PLACES]))))
    site = Path(json.loads(_run([own, "-c", _PLACES]))[0])
    lines = [f"import site; site.addsitedir({place!r})" for place in places]
    (site / _NAME).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file in files:
        _unpack(file, site)
    return own


def _unpack(wheel: Path, site: Path) -> None:
    """Unpack a wheel's modules and metadata; its programs and headers are not needed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                target = _target(member.filename, wheel)
                if target is None or member.is_dir():
                    continue
                path = site / target
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, path.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
    except (OSError, zipfile.BadZipFile) as error:
        raise VenvError(f"{wheel} cannot be unpacked: {error}") from error


def _target(name: str, wheel: Path) -> PurePosixPath | None:
    """Say where a member goes, below site-packages; None for what is not unpacked."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise VenvError(f"{wheel} has a file outside of itself: {name!r}")
    if path.parts and path.parts[0].endswith(".data"):
        return PurePosixPath(*path.parts[2:]) if len(path.parts) > 2 and path.parts[1] in _LIBRARIES else None
    return path


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise VenvError(f"{argv[0]} does not start: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise VenvError(f"{' '.join(argv[:3])} failed: {said[-1] if said else done.returncode}")
    return done.stdout
