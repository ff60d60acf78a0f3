"""A package index made of files, for builds of environments without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def build_wheel(
    index: Path,
    name: str,
    version: str,
    scripts: dict[str, str] | None = None,
    needs: Sequence[str] = (),
    modules: dict[str, str] | None = None,
    tag: str = "py3-none-any",
) -> None:
    """Put a wheel, without any code unless it is given, on a package index made of files.

    Args:
        index: The folder of the index.
        name: Of the package.
        version: Of the wheel.
        scripts: Programs that it installs, by name.
        needs: Requirements of its own.
        modules: Its files by path, such as `tiny.py`; a `main` in the module of its name becomes a program of that name.
        tag: Of what it runs on.
    """
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {line}\n" for line in needs)
    content = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
        **(modules or {}),
        **({f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n"} if modules else {}),
        **{f"{name}-{version}.data/scripts/{script}": text for script, text in (scripts or {}).items()},
    }
    record = [f"{info}/RECORD,,"]
    wheel = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16  # pip keeps the mode
            archive.writestr(entry, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(text)}")
        archive.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in sorted(folder.glob("*.whl")))
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
