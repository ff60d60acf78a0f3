"""Run one check in this process: `python -m benchmarks.gpu.check ORDER`, started by the runner."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

from benchmarks.gpu.catalogue import FAILED, OOM, PASSED, SKIPPED
from benchmarks.gpu.workbench import Failed, Skipped, Workbench


def main() -> int:
    bench = Workbench.read(Path(sys.argv[1]))
    try:
        importlib.import_module(bench.module).run(bench)
        status, message = bench.verdict()
    except Skipped as why:
        status, message = SKIPPED, str(why)
    except Failed as why:
        status, message = FAILED, str(why)
    except Exception as error:  # one check that breaks says so, and the next one runs
        traceback.print_exc()
        first = str(error).strip().partition("\n")[0][:300]
        status, message = OOM if is_out_of_memory(error) else FAILED, f"{type(error).__name__}: {first}"
    (bench.folder / "end.json").write_text(json.dumps({"status": status, "message": message}), encoding="utf-8")
    return 0 if status in (PASSED, SKIPPED) else 1


def is_out_of_memory(error: BaseException) -> bool:
    """Tell by the payload's own words, without importing torch for it."""
    return type(error).__name__ in ("OutOfMemoryError", "MemoryError") or "out of memory" in str(error)


if __name__ == "__main__":
    sys.exit(main())
