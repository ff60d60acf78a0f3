"""`python -m armada_train --spec <run folder>/spec.json`, started by `accelerate launch` once per rank.

`python -m armada_train prepare <run folder>/spec.json` only tokenises, on CPUs. Everything that can be checked without
torch is checked before torch is imported.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from pathlib import Path

from armada_train.data.hashes import hash_source
from armada_train.data.hooks import Stream
from armada_train.data.prepared import check_once, prepared_folder
from armada_train.data.rows import Files, refuse_other_evaluation
from armada_train.failure import GENERIC, INTERRUPTED, PREEMPTED, PayloadFailure, describe, write_failure
from armada_train.leaving import end_process
from armada_train.model.files import check_model
from armada_train.model.warmstart import check_start
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder
from armada_train.specification.objectives import SFT
from armada_train.specification.parser import read_specification
from armada_train.specification.values import Training, check_world
from armada_train.training.judges import load_functions
from armada_train.training.libraries import check_libraries, configure_libraries
from armada_train.training.preemption import Preemption
from armada_train.training.scorer import load_scorer


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="armada_train", description="Train as a run's spec.json specifies.")
    parser.add_argument("step", nargs="?", choices=sorted(STEPS), default="train", help="task to carry out")
    parser.add_argument("file", nargs="?", type=Path, metavar="SPEC", help="spec.json in the run's folder")
    parser.add_argument("--spec", type=Path, help="the same")
    given = parser.parse_args(words)
    spec = given.spec or given.file
    if spec is None:
        parser.error("SPEC is missing: the run's spec.json")
    spec = spec.absolute()
    run = RunFolder.from_environment(spec.parent, os.environ)
    _put_work_folder_last()
    preemption = Preemption()
    try:
        preemption.listen()
        STEPS[given.step](spec, run, preemption)
    except PayloadFailure as error:
        failure = preemption.failure(0) if preemption.is_early else error
        print(f"armada_train: {failure.reason}: {failure.message}", file=sys.stderr, flush=True)
        write_failure(run.attempt_folder, failure.reason, failure.message, rank=run.rank_among)
        return failure.exit_code
    except Exception as error:
        if preemption.is_early or (preemption.noted and preemption.failure(0).message in str(error)):
            # A library, or Python itself while it created a class, replaced the signal's exception by its own.
            write_failure(run.attempt_folder, PREEMPTED, preemption.failure(0).message, rank=run.rank_among)
            return INTERRUPTED
        message = f"{type(error).__name__}: {error}"
        write_failure(run.attempt_folder, GENERIC, message, rank=run.rank_among, lines=describe(error))
        raise
    finally:
        _end_workers()
    return 0


def _end_workers() -> None:
    """Kill data loader workers, which ignore SIGTERM: at exit Python would send them SIGTERM and wait for ever."""
    for worker in multiprocessing.active_children():
        worker.kill()


def _train(spec: Path, run: RunFolder, preemption: Preemption) -> None:
    training = read_specification(spec)
    check_world(training, run.world_size)
    check_libraries(training)
    check_start(training)
    if training.objective.settings.get("rewards"):
        load_functions(training.objective.settings, run.attempt_folder)
    if training.evaluation.function:
        load_scorer(training.evaluation, run.attempt_folder)
    heartbeat = Heartbeat(run)
    heartbeat.beat("loading")
    reports_to_wandb = configure_libraries(training, run, os.environ)
    train_rows, eval_files = _open_data(training, run)
    if run.is_main:
        check_model(training, train_rows.kind)

    from armada_train.tasks.train import train

    train(training, run, heartbeat, preemption, train_rows, eval_files, reports_to_wandb=reports_to_wandb)


def _prepare(spec: Path, run: RunFolder, _preemption: Preemption) -> None:
    training = read_specification(spec)
    check_libraries(training, trains=False)
    heartbeat = Heartbeat(run)
    heartbeat.beat("loading")
    configure_libraries(training, run, os.environ)
    train_rows, eval_files = _open_data(training, run)
    if run.is_main:
        check_model(training, train_rows.kind)

    from armada_train.tasks.prepare import prepare_and_report

    prepare_and_report(training, run, heartbeat, train_rows, eval_files)


def _open_data(training: Training, run: RunFolder) -> tuple[Files | Stream, Files | None]:
    """Open the data. Rank 0 reads it once unless it was checked before, so that an invalid line is reported here."""
    kinds = training.objective.kinds
    train_rows = (
        Stream(training.train_data, training.schedule.seed) if training.is_stream else Files(training.train_data, kinds)
    )
    eval_files = Files(training.eval_data, kinds) if training.eval_data else None
    files = [part for part in (train_rows, eval_files) if isinstance(part, Files)]
    if run.is_main:
        of = "" if training.objective.name == SFT.name else f"-{training.objective.name}"
        hashes = [f"{hash_source(source)}{source.form.digest}{of}" for part in files for source in part.sources]

        def check() -> None:
            for part in files:
                part.check()

        check_once(prepared_folder(training, run), hashes, check)
    if eval_files:
        refuse_other_evaluation(train_rows.kind, eval_files.kind)
    return train_rows, eval_files


def _put_work_folder_last() -> None:
    """Keep a project's own `datasets.py` from hiding the library: `-m` and PYTHONPATH put its folder first."""
    here = str(Path.cwd())
    sys.path[:] = [folder for folder in sys.path if folder not in {"", here}] + [here]


STEPS = {"train": _train, "prepare": _prepare}


if __name__ == "__main__":
    end_process(main())
