"""How a script is started by a Python that armada did not choose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp

from armada.launch.plans.script import OLDER_LAUNCH
from armada.paths import bundled
from armada.provision.existing import OLDEST_PYTHON


def test_the_launcher_starts_without_the_folder_it_starts_in(tmp_path: Path) -> None:
    """The way of a Python that has no `-P`: neither runpy nor accelerate come from the project."""
    work, ours = tmp_path / "work", tmp_path / "ours"
    (ours / "armada_train").mkdir(parents=True)
    (ours / "armada_train" / "__init__.py").touch()
    (ours / "armada_train" / "launch.py").write_text(
        "import sys\nfrom importlib.util import find_spec\nprint(__name__, sys.argv[1:], find_spec('accelerate_of_project'))\n"
    )
    work.mkdir()
    for name in ("runpy", "accelerate_of_project"):
        (work / f"{name}.py").write_text("raise SystemExit('a module of the project was imported')\n")
    argv = [sys.executable, *OLDER_LAUNCH, "--script", "a.py"]
    done = subprocess.run(
        argv, cwd=work, env={"PYTHONPATH": str(ours)}, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "__main__ ['--script', 'a.py'] None\n"


def test_the_launcher_needs_no_newer_python_than_environments_are_checked_for() -> None:
    graph = grimp.build_graph("armada_train", exclude_type_checking_imports=True, cache_dir=None)
    needed = {"armada_train.launch", *graph.find_upstream_modules("armada_train.launch")}
    tree = bundled("remote_payload")
    files = [tree / f"{name.replace('.', '/')}.py" for name in sorted(needed)]
    present = [str(file) for file in files if file.is_file()]
    assert len(present) >= 4
    vermin = Path(sys.executable).with_name("vermin")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    done = subprocess.run(
        [sys.executable, str(vermin), "--no-tips", f"-t={oldest}-", "--violations", *present],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
