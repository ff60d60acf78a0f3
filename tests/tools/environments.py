"""Create the environments of the tests and of the documentation, unless they are up to date.

    environments.py .venv             armada itself, editable, with everything in its extra `dev`
    environments.py .venv-payload     the environment of a host without GPUs from profiles/cpu.yaml: torch and its
    family
    environments.py .venv-docs        MkDocs with its theme and plug-ins, and armada, from whose models reference pages
    are generated
    environments.py --key FOLDER      only print a hash of what the environment would contain

This tool uses only the standard library and the agent's own parser of pip's configuration: uv installs with a fifth of
pip's CPU time, and must use the same package indexes. If uv is not available, pip installs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
HOME, PAYLOAD, DOCS = ".venv", ".venv-payload", ".venv-docs"
_MADE_OF = "made-of"
_LISTS = """
from pathlib import Path
from armada.config.profiles import load_profile
from armada.paths import HomePaths
from armada.provision.environment_key import requirements_text
print(requirements_text(load_profile("cpu", HomePaths(Path("/nowhere"), Path("/nowhere")))))
"""
_IMPORTS = {
    DOCS: "mkdocs.commands.build material pymdownx.superfences",
    HOME: "armada.* fabric paramiko pydantic textual.widgets ruamel.yaml hypothesis pytest"
    " pytest_timeout xdist.remote execnet.gateway_base xdist.dsession apprise aiohttp.web textual_serve.server jsonschema",
    PAYLOAD: "torch._dynamo torch.distributed.elastic.multiprocessing.errors transformers.trainer trl.trainer.sft_trainer"
    " peft accelerate.commands.launch datasets transformers.models.qwen2.modeling_qwen2 transformers.models.auto.tokenization_auto"
    " transformers.models.qwen2.tokenization_qwen2",
}
"""Modules that nearly every process imports. Runs write no bytecode, so these are compiled here, once: torch and its family take 13 s."""
_IMPORT = """
import contextlib, importlib, pkgutil, sys
for name in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)
"""


def main(arguments: list[str]) -> int:
    """Create one environment, or print its key."""
    folder = ROOT / arguments[-1]
    if folder.name not in {HOME, PAYLOAD, DOCS}:
        print(__doc__)
        return 2
    if arguments[0] == "--key":
        print(_key(folder))
        return 0
    with (ROOT / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two `make` processes in one folder build it once
        key = _key(folder)
        with contextlib.suppress(OSError):
            if (folder / _MADE_OF).read_text() == key and _works(str(folder / "bin/python"), "-c", ""):
                return 0
        print(f"building {folder.name}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _build(folder)
        (folder / _MADE_OF).write_text(key)
    return 0


def _key(folder: Path) -> str:
    """Hash what the environment is made of, without comments and the settings of tools."""
    made_of: dict[str, object] = {"python": sys.version, "place": str(folder)}
    if folder.name in {HOME, DOCS}:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        made_of |= {"build": project["build-system"], "packages": project["tool"]["hatch"]["build"]["targets"]["wheel"]}
        made_of |= {name: project["project"].get(name) for name in ("dependencies", "optional-dependencies", "scripts")}
    else:
        lists = [ROOT / "profiles/cpu.yaml", *sorted((ROOT / "profiles/requirements").glob("*.txt"))]
        made_of["lists"] = [path.read_text() for path in lists]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def _build(folder: Path) -> None:
    wanted, index = _wanted(folder)
    uv = _find_uv()
    if uv is None:
        print("uv cannot be installed here; pip builds the environment, which takes longer", flush=True)
        _build_with_pip(folder, wanted, index)
    else:
        environment = _environment(index)
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], environment)
        install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python")]
        _run([*install, "pip", *wanted], environment)
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    importing = [str(folder / "bin/python"), "-c", _IMPORT, *_IMPORTS[folder.name].split()]
    if subprocess.run(importing, cwd=ROOT, stdin=subprocess.DEVNULL, env=writing, check=False).returncode < 0:
        # The kernel killed it, as it does where memory runs out. The other steps of CI want less of it by and by.
        print(f"{folder.name}: compiling its modules was killed; trying once more", flush=True)
        _run(importing, writing)


def _wanted(folder: Path) -> tuple[list[str], str | None]:
    """Return the installer's arguments, and the index of torch for machines without a configured index."""
    if folder.name in {HOME, DOCS}:
        return ["-e", f"{ROOT}[{'dev' if folder.name == HOME else 'docs'}]"], None
    home = str(ROOT / HOME / "bin/python")
    said = subprocess.run([home, "-c", _LISTS], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    listed = ROOT / f"{folder.name}.txt"
    listed.write_text(said)
    index = (ROOT / "profiles/cpu.yaml").read_text().partition("torch_index:")[2].split()[0]
    return ["-r", str(listed)], index


def _environment(index: str | None) -> dict[str, str]:
    """Return this machine's package indexes as uv's variables, as a host of armada reads its own."""
    sys.path.insert(0, str(ROOT / "remote_payload"))
    sys.dont_write_bytecode = True
    from armada_agent.provision.environment import compose_environment

    environment = compose_environment(str(TOOLS), os.environ, sys.prefix, index)
    if "UV_CACHE_DIR" not in os.environ:
        del environment["UV_CACHE_DIR"]  # the user's own cache: its files are linked, not copied
    return environment


def _find_uv() -> str | None:
    """Return a uv that works: the machine's, or one installed from its package index."""
    own = [TOOLS / "uv/bin/uv", TOOLS / "venv/bin/uv"]
    for candidate in filter(None, (shutil.which("uv"), *map(str, own))):
        if _works(candidate, "--version"):
            return candidate
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "uv>=0.5"]
    if _works(sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(TOOLS / "uv"), *quiet):
        return str(own[0])
    python = str(TOOLS / "venv/bin/python")
    if _works(sys.executable, "-m", "venv", str(TOOLS / "venv")) and _works(python, "-m", "pip", "install", *quiet):
        return str(own[1])
    return None


def _build_with_pip(folder: Path, wanted: list[str], index: str | None) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], dict(os.environ))
    pip = [str(folder / "bin/python"), "-m", "pip"]
    configured = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    own_sources = any(word in configured for word in ("index-url", "find-links", "no-index"))
    extra = ["--extra-index-url", index] if index and not own_sources else []
    _run([*pip, "install", "--quiet", "--disable-pip-version-check", *extra, *wanted], dict(os.environ))


def _works(*argv: str) -> bool:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _run(argv: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{argv[0]} failed ({done.returncode}); what it said stands above")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["--help"]))
