"""Jobs, and the supervisors that see to them: the real supervisor's steps, one at a time instead of in threads."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from armada_agent.foundation import files
from armada_agent.outbox.finishing import Outbox
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.supervisor.job import StartError
from armada_agent.supervisor.supervise import StoppedError, Supervisor
from armada_agent.verdicts.doubt import OUTLIVED_S

from tests.simulation import folders
from tests.simulation.breaking import Killed

if TYPE_CHECKING:
    from tests.simulation.host import SimHost

_pids = itertools.count(1000)

METRICS: tuple[dict[str, Any], ...] = (
    {}, {"eval_loss": 0.5}, {"eval_loss": 0.25}, {"eval_loss": 0.75},
    {"eval_loss": "low"}, {"eval_loss": 1e999}, {"best_step": 1}, {"best_step": "first"}, {"best_step": 2},
)  # fmt: skip
"""What checkpoints say of themselves; random stories use the first four."""


def new_pid() -> int:
    return next(_pids)


class Job:
    """A training that saves when the story says so. `script`: it announces nothing, and clears its folder on a fresh start."""

    def __init__(self, host: SimHost, run_id: str, argv: list[str], environment: dict[str, str]) -> None:
        self.host, self.run_id, self.argv, self.environment = host, run_id, argv, environment
        self.pid = next(_pids)
        self.status: int | None = None
        self.script = argv[0] == "script"
        self.resumed_from = int(argv[argv.index("--resume") + 1]) if "--resume" in argv else None
        self.origin = argv[argv.index("--resume") + 2] if "--resume" in argv else None
        """The checkpoint that it goes on from."""
        starting = [one for one in host.supervisions if one.run_id == run_id and one.child is None]
        self.submission = max((one.submission for one in starting), default=0)
        self.step = self.resumed_from or 0
        if argv[0] == "trainer":  # it finds its newest checkpoint itself
            self.step = max((s.step for s in host.world.all_saved if s.run_id == run_id), default=0)
        self.log()
        if self.script and self.resumed_from is None:
            shutil.rmtree(self.folder / "work" / "out", ignore_errors=True)

    @property
    def alive(self) -> bool:
        return self.status is None

    @property
    def folder(self) -> Path:
        """Its open files stay on the disk that they were opened on."""
        return next((at for at in self.host.folders(self.run_id) if at.exists()), self.host.run_folder(self.run_id))

    def die(self, status: int) -> None:
        if self.alive:
            self.status = status

    def end(self, status: int) -> None:
        """End by itself, with a last word; a training that did well announces its final checkpoint first."""
        if status == 0 and not self.script:
            self.save("final")
        self.log()
        self.die(status)

    def save(self, kind: str = "periodic", measured: int = 0) -> None:
        """Write the next checkpoint, whole; its content is like no other's. `measured`: which of `METRICS` it has."""
        self.step += 1
        content = self._content()
        if self.script:
            self._write(self.folder / "work" / "out" / f"checkpoint-{self.step}", content)
        elif self.folder.exists():
            part = self.folder / "outbox" / f".part-{self.step}"
            self._write(part, content)
            size = sum(map(len, content.values()))
            metrics = METRICS[measured % len(METRICS)]
            told = {
                "step": self.step,
                "kind": kind,
                "time": self.host.now(),
                "size_bytes": size,
                "metrics": metrics,
            }
            # JSON has no infinity, but some writers have numbers that are too large for a reader.
            (part / ".announce.json").write_text(json.dumps(told).replace("Infinity", "1e999"))
            if metrics:
                line = {"kind": "eval", "step": self.step, "time": told["time"], **metrics}
                write_line(self.folder / "metrics.jsonl", json.dumps(line), self.host.world.clock)
            part.rename(self.folder / "outbox" / f".new-{self.step}-{self.pid}")
        else:
            return
        self.host.world.saved(self, content)

    def save_again(self) -> None:
        """Write the last checkpoint of a script once more, with the same bytes into new files."""
        self._write(self.folder / "work" / "out" / f"checkpoint-{self.step}", self._content())

    def overwrite(self) -> None:
        """Begin to write the last checkpoint of a script anew, into the same file."""
        model = self.folder / "work" / "out" / f"checkpoint-{self.step}" / "model.bin"
        model.write_bytes(b"half")
        now = self.host.world.clock + self.host.clock_offset
        os.utime(model, (now, now))

    def _content(self) -> dict[str, bytes]:
        content = {
            "model.bin": b"%s %d %d" % (self.run_id.encode(), self.step, self.pid),
            "config.json": folders.CONFIG,
        }
        if self.run_id in self.host.world.with_optimizer:
            content["optimizer.pt"] = folders.optimizer(content["model.bin"])
        return content

    def log(self) -> None:
        if self.folder.exists():
            now = self.host.world.clock + self.host.clock_offset
            write_line(self.folder / "output.log", self.host.world.work_files.next_line(self), now)

    def _write(self, folder: Path, content: dict[str, bytes]) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # one that it had written before, or half
        folder.mkdir(parents=True)
        long_ago = self.host.world.clock + self.host.clock_offset - 3600
        for name, data in content.items():
            (folder / name).write_bytes(data)
            os.utime(folder / name, (long_ago, long_ago))

    # What a supervisor uses of a Popen.

    def poll(self) -> int | None:
        return self.status

    def wait(self) -> int | None:
        return self.status

    def terminate(self) -> None:
        self.die(-15)


def write_line(path: Path, line: str, now: float) -> None:
    """Append to a file at the world's time."""
    with path.open("a") as stream:
        stream.write(line + "\n")
    os.utime(path, (now, now))


class Supervision:
    """One living supervisor; what kills it kills its guardian too."""

    def __init__(
        self, host: SimHost, paths: RunPaths, submission: int, spec: dict[str, Any], pid: int, real: Any = None
    ) -> None:
        self.host, self.paths, self.pid, self.run_id, self.submission = host, paths, pid, paths.run_id, submission
        self._real: Any = real or Supervisor(paths, submission, spec)
        self._spec = spec
        self._outbox: Outbox | None = None
        self.child: Any = None

    @classmethod
    def begin(cls, host: SimHost, paths: RunPaths, submission: int) -> Self | None:
        """As `armada_agent.supervisor.supervise.supervise`, up to the job's start."""
        spec = files.read_json(paths.spec)
        record = paths.submission(submission, "job.json")
        if spec is None or any(one.run_id == paths.run_id for one in host.supervisions) or Path(record).exists():
            return None
        pid = next(_pids)
        taken = {
            "submission": submission,
            "scheduler": "direct",
            "supervisor": host.identify(pid),
            "time": host.world.now(),
        }
        if not files.link_json(record, taken):
            return None
        host.world.supervisor_pid = pid
        made = cls(host, paths, submission, spec, pid)
        host.supervisions.append(made)
        try:
            made._start()
        except Killed:
            made.die()
            raise
        return made

    @property
    def attempt(self) -> int:
        """The number of its attempt; 0 before it began one."""
        number: int = self._real._attempt  # noqa: SLF001
        return number

    def _start(self) -> None:
        real = self._real
        real._journal.update()  # noqa: SLF001
        try:
            real._refuse_if_stopped()  # noqa: SLF001
            real._end_former_attempts()  # noqa: SLF001
            self.child = real._start()  # noqa: SLF001
        except StoppedError:
            real._conclude(real._stopped_ending())  # noqa: SLF001
            self.leave()
            return
        except StartError as error:
            real._conclude(Ending("failed", error.reason, error.message))  # noqa: SLF001
            self.leave()
            return
        except OSError as error:  # then the run fails, and says so
            self.host.world.hold(not self.host.mounted, f"{self.run_id} could not be started: {error}")
            raise
        for clock in (real._limit, real._budget):  # noqa: SLF001
            clock._clock = lambda: self.host.world.clock  # noqa: SLF001
            clock.start()
        self._outbox = Outbox(self.paths, self._spec["outbox"], real._journal, real._checkpoint_watch)  # noqa: SLF001

    def step(self) -> None:
        """One turn of its loops: the stop request, the job's end, the outbox."""
        real, outbox = self._real, self._outbox
        if outbox is None or not Path(self.paths.folder).is_dir():
            return
        self.note_telemetry()
        if self.child.poll() is not None:
            real._journal.note_status(self.child.poll())  # noqa: SLF001
            ending = real._judge(self.child.poll())  # noqa: SLF001
        elif real._stop_request() is not None:  # noqa: SLF001
            self.child.terminate()
            ending = real._stopped_ending().with_status(self.child.wait())  # noqa: SLF001
        else:
            outbox._reap(is_last=False)  # noqa: SLF001
            outbox.look()
            return
        outbox.note_end()
        real._sweep(0.0)  # noqa: SLF001
        outbox._is_trusted = ending.exit_code == 0  # noqa: SLF001
        outbox._reap(is_last=True)  # noqa: SLF001
        outbox.look()
        real._conclude(ending)  # noqa: SLF001
        self.leave()

    def note_telemetry(self) -> None:
        if Path(self.paths.folder).is_dir():
            write_line(Path(self.paths.telemetry), "{}", self.host.world.clock + self.host.clock_offset)

    def leave(self) -> None:
        self.host.supervisions.remove(self)

    def die(self) -> None:
        """kill -9: the job goes on, for longer than armada needs to know that it outlived its supervisor."""
        self.leave()
        if self.child is not None and not self.child.alive:
            self.host.world.unseen.add(self.run_id)
        self.host.world.clock += 2 * OUTLIVED_S
