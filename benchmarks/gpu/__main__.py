"""Run on a machine with a GPU everything that only a GPU can show: `make gpu`.

    python -m benchmarks.gpu --python PYTHON [--only NAME …] [--again] [--budget MINUTES] [--wheels FOLDER]
    python -m benchmarks.gpu --python PYTHON --tiny      without a GPU, with tiny shapes: does the kit itself work?

Each result goes into benchmarks/gpu/results/<gpu>.json as it comes. A second call measures what has no result yet.
Only the standard library is needed here; the checks run in PYTHON. docs/how-to/gpu.md explains the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu import catalogue, environment, results_file, runner
from benchmarks.gpu.catalogue import FAILED, NOT_RUN, TIMEOUT
from benchmarks.gpu.processes import end_all_of

BUILD = runner.ROOT / "build"
_DESCRIBE_S = 300


def main(words: list[str] | None = None) -> int:
    options = _parse(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with alone(options.work) as is_alone:
            if is_alone:
                # What a kit that was killed left behind would share the GPU with us.
                end_all_of(options.work.absolute() / "kit-checks")
                return _measure(options)
    except OSError as error:
        print(f"gpu: {error}; name a folder for models and logs by --work, and a file by --results", file=sys.stderr)
        return 2
    print(
        f"gpu: another `make gpu` works in {options.work}; wait for it, or name another folder by --work",
        file=sys.stderr,
    )
    return 2


def _measure(options: argparse.Namespace) -> int:
    try:
        checks = catalogue.find(options.only)
        python = _find_python(options)
        machine = describe(python, tiny=options.tiny)
        setting = runner.Setting(
            python=python,
            home_python=_absolute(options.home_python or python),
            machine=machine,
            work=options.work.absolute(),
            results=_results_file(options, machine),
            tiny=options.tiny,
            commit=options.commit or _commit(),
        )
        _check_home(setting)
        setting.results.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(setting.results.parent, os.W_OK):
            raise RefusedError(f"{setting.results.parent} cannot be written to: name another file by --results")
        _say(f"{setting.gpu}, {python}; results go to {setting.results}")
        states = runner.Runner(setting, options.budget * 60, _say).run(checks, again=options.again)
    except (ValueError, RefusedError, environment.VenvError) as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpu: interrupted; the same command again measures the rest", file=sys.stderr)
        return 130
    finally:
        if not options.keep:
            shutil.rmtree(options.work / "kit-models", ignore_errors=True)  # models of up to 15 GB
    return _summarize(states)


@contextlib.contextmanager
def alone(work: Path) -> Iterator[bool]:
    """Hold a folder for this process; give False if another one has it."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "kit.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


class RefusedError(RuntimeError):
    """Nothing can be measured here; the message says why and what to do."""


def _parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="an existing Python with torch for CUDA")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels that it lacks; `make gpu-wheels` fetches them")
    parser.add_argument("--home-python", help="a Python with what armada at home needs (default: the same)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these checks")
    parser.add_argument("--again", action="store_true", help="measure also what has a result")
    parser.add_argument("--budget", type=float, default=25.0, metavar="MINUTES", help="for all checks (25)")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on CPUs, to try the kit itself")
    parser.add_argument("--results", type=Path, metavar="FILE", help="another file for the results")
    parser.add_argument("--work", type=Path, default=BUILD / "gpu", metavar="FOLDER", help="for models and logs")
    parser.add_argument("--keep", action="store_true", help="keep the models, for the next call")
    parser.add_argument("--commit", help="of the code, where git is missing")
    options = parser.parse_args(words)
    if not 0 < options.budget < 10_000:
        parser.error(f"--budget is a number of minutes above 0, not {options.budget}")
    return options


def _find_python(options: argparse.Namespace) -> str:
    python = _absolute(options.python)
    if options.wheels is None:
        return python
    made = environment.make(python, options.wheels.absolute(), options.work.absolute() / "kit-venv")
    _say(f"the wheels of {options.wheels} are installed on top of {python}, in {made}")
    return made


def _absolute(python: str) -> str:
    """Return the path of a program; a link stays one, because that is what makes a venv of it."""
    found = shutil.which(python)
    if found is None:
        raise RefusedError(f"{python} is no program; name a Python with torch: make gpu PYTHON=/path/to/python3")
    return str(Path(found).absolute())


def describe(python: str, *, tiny: bool) -> dict[str, Any]:
    """Ask a Python what it and the machine have.

    Raises:
        RefusedError: It does not answer, has no torch, or there is no GPU.
    """
    argv = [python, "-m", "benchmarks.gpu.machine", *(["--tiny"] if tiny else [])]
    # The index is not known yet: the machine chooses among the GPUs that the user lets it see.
    env = runner.environment({}, tiny=tiny) | {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "")}
    if not env["CUDA_VISIBLE_DEVICES"] and not tiny:
        del env["CUDA_VISIBLE_DEVICES"]
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_DESCRIBE_S, check=False)
        about: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{python} cannot be asked what it has: {error}") from error
    if said := about.get("error"):
        raise RefusedError(f"no GPU can be measured: {said}. `make gpu TINY=1` tries the kit without one")
    if about["missing"]:
        names = ", ".join(about["missing"])
        raise RefusedError(
            f"{python} lacks {names}. Where there is a network: make gpu-wheels PYTHON={python}; "
            "then here: make gpu WHEELS=build/gpu-wheels"
        )
    return about


def _check_home(setting: runner.Setting) -> None:
    if setting.home_python == setting.python and setting.machine["missing_home"]:
        names = ", ".join(setting.machine["missing_home"])
        _say(f"{setting.python} lacks {names}: the check `launch` cannot run; --home-python names another Python")


def _results_file(options: argparse.Namespace, machine: Mapping[str, Any]) -> Path:
    if options.results is not None:
        return Path(options.results).absolute()
    if options.tiny:  # it says nothing about a GPU, and is not to be committed
        return Path(options.work).absolute() / "tiny.json"
    return results_file.file_for(str(machine["gpu"]))


def _commit() -> str:
    try:
        words = ["git", "-C", str(runner.ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said or "unknown"


def _summarize(states: Mapping[str, str]) -> int:
    counts: dict[str, list[str]] = {}
    for name, state in states.items():
        counts.setdefault(state, []).append(name)
    for state, names in counts.items():
        _say(f"{len(names)} {state}: {', '.join(names)}")
    if NOT_RUN in counts:
        _say("the same command again measures what was not run")
    return 1 if FAILED in counts or TIMEOUT in counts else 0


def _say(text: str) -> None:
    """Print what may come from a driver or a library: no control character reaches the terminal."""
    print("".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text), flush=True)


if __name__ == "__main__":
    sys.exit(main())
