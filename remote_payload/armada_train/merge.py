"""`python -m armada_train.merge --spec …`: merge an adapter into its base, or join shards, on CPUs; verify the result.

Everything that can be checked without torch is checked before torch is imported.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from armada_train.checkpoints.complete import weights_bytes
from armada_train.checkpoints.shards import find_wrong_weights
from armada_train.data.rows import read_source
from armada_train.data.shapes import SHAPES, Row
from armada_train.failure import PayloadFailure, recorded
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder
from armada_train.specification.merge import DTYPES, Merge
from armada_train.specification.parser import PRECISIONS
from armada_train.specification.section import read_section
from armada_train.specification.values import Source

_MOST_ROWS = 64


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="armada_train.merge", description="Merge an adapter into its base model, or join shards."
    )
    parser.add_argument("--spec", type=Path, required=True, help="spec.json in the run's folder")
    spec = parser.parse_args().spec.absolute()
    run = RunFolder.from_environment(spec.parent, os.environ)
    return recorded(run.attempt_folder, lambda: _merge(spec, run))


def _merge(spec: Path, run: RunFolder) -> int:
    wanted = read_merge(spec)
    if wanted.sharded:
        return _join(wanted, run)
    _check(wanted)
    heartbeat = Heartbeat(run)
    heartbeat.beat("loading")
    kind, rows, findings = read_sample(wanted.rows)
    if Path(wanted.base).is_absolute():
        os.environ["HF_HUB_OFFLINE"] = "1"  # nothing has to be fetched

    from armada_train.tasks.merging import merge

    merge(wanted, run, heartbeat, kind, rows, findings)
    return 0


def _join(wanted: Merge, run: RunFolder) -> int:
    if not (wanted.adapter / "config.json").is_file():
        raise PayloadFailure(
            "env_error", f"{wanted.adapter} holds no config.json: the checkpoint may have been deleted"
        )
    if defect := find_wrong_weights(wanted.adapter):
        raise PayloadFailure("env_error", f"{wanted.adapter}: {defect}")
    heartbeat = Heartbeat(run)
    heartbeat.beat("loading")
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing has to be fetched

    from armada_train.tasks.joining import join

    join(wanted, run, heartbeat)
    return 0


def read_merge(spec: Path) -> Merge:
    """Read and check spec.json.

    Raises:
        PayloadFailure: `bad_spec`, naming the key.
    """
    section = read_section(spec, "merge")
    adapter = Path(section.text("adapter"))
    merge = Merge(
        adapter=adapter,
        base=section.optional_text("base") or str(adapter / "base_model"),
        precision=section.choice("precision", PRECISIONS),
        quantized=section.flag("quantized", default=False),
        dtype=section.choice("dtype", DTYPES, "auto"),
        step=section.integer("step", minimum=0),
        rows=tuple(Path(path) for path in section.texts("rows")),
        memory_bytes=section.optional_integer("memory_bytes", minimum=1),
        sharded=section.flag("sharded", default=False),
    )
    section.close()
    return merge


def _check(merge: Merge) -> None:
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (merge.adapter / name).is_file():
            raise PayloadFailure("env_error", f"{merge.adapter} holds no {name}: the checkpoint may have been deleted")
    base = Path(merge.base)
    if base.is_absolute() and not (base / "config.json").is_file():
        raise PayloadFailure("env_error", f"the base model {base} is not on this host")
    # For a base in 16 bits, fp32 takes twice its size, first to merge and then to compare; the written copy adds once its size.
    needed = 3 * weights_bytes(base) if base.is_absolute() else 0
    if merge.memory_bytes is not None and needed > merge.memory_bytes:
        have, need = merge.memory_bytes / 1e9, needed / 1e9
        message = (
            f"merging needs about {need:.0f} GB of memory, and there are {have:.0f}: merge on another host (--host)"
        )
        raise PayloadFailure("env_error", message)


def read_sample(paths: tuple[Path, ...]) -> tuple[str, list[Row], list[str]]:
    """Read some rows to compare the two models on.

    Returns:
        Their kind, the rows (none if no file can be read any more), and a sentence for each file that cannot.
    """
    findings = []
    for path in paths:
        try:
            kind, rows = read_source(Source(path), Counter(), tuple(SHAPES))
        except PayloadFailure as failure:
            findings.append(f"not compared on {path.name}: {failure.message}")
        else:
            return kind, rows[:_MOST_ROWS], findings
    return "", [], [*findings, "there are no rows to compare on, so random tokens are used instead"]


if __name__ == "__main__":
    sys.exit(main())
