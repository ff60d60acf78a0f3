"""Checks that end in every way a check can end; the runner starts them as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu.workbench import Failed, Skipped, Workbench


def run(bench: Workbench) -> None:
    bench.tell("first", figure=1.5, nothing=float("nan"))
    STORIES[bench.name](bench)


def _hang(bench: Workbench) -> None:
    # A session of its own, as supervisors and ranks have; its variables name the check's folder.
    argv = [sys.executable, "-c", "import signal; signal.pause()"]
    child = subprocess.Popen(argv, start_new_session=True, env={**os.environ, "OUTPUT": f"{bench.folder}/out"})
    (bench.folder / "child").write_text(str(child.pid))
    signal.pause()


def _fail(_bench: Workbench) -> None:
    raise Failed("the loss is 7")


def _skip(_bench: Workbench) -> None:
    raise Skipped("flash-attn is not installed")


def _raise(_bench: Workbench) -> None:
    raise LookupError("what a library says\nin two lines")


def _run_out_of_memory(_bench: Workbench) -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def _die(_bench: Workbench) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _lie(bench: Workbench) -> None:
    (bench.folder / "cases.jsonl").open("a").write("{ cut of\n[1]\n")
    Path(bench.folder, "end.json").write_text('{"status": "splendid", "message": null}')
    os._exit(0)


def _tell_a_failure(bench: Workbench) -> None:
    bench.tell("second", "failed", "it is wrong")


STORIES = {
    "passes": lambda _bench: None,
    "hangs": _hang,
    "fails": _fail,
    "skips": _skip,
    "raises": _raise,
    "oom": _run_out_of_memory,
    "dies": _die,
    "lies": _lie,
    "tells": _tell_a_failure,
}
