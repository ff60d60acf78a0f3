"""Find what is lost when a run is forgotten while its host cannot be contacted, as far as home knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.store import checkpoints, run_sync
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.costs.price import Price
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class OnlyOnHost:
    """What only the host has, or may have: checkpoints, the end of the outputs, what no sync brings, a job that may still run.

    Of a checkpoint whose copy at home is damaged, or was not read, the host may have the only good one.
    """

    checkpoints: tuple[Checkpoint, ...] = ()
    outputs: str | None = None
    job: str | None = None
    work: str | None = None

    def sentences(self, host: str) -> list[str]:
        """Return one sentence for each; an empty list if everything is at home and the run has ended."""
        absent = [each for each in self.checkpoints if each.home_path is None]
        unread = [each for each in self.checkpoints if each.is_unread]
        damaged = [each for each in self.checkpoints if each not in absent and each not in unread]
        of_checkpoints = (
            _sentence(absent, f"only on {host}"),
            _sentence(damaged, f"damaged at home, so perhaps whole only on {host}"),
            _sentence(unread, f"at home, but not read there, so perhaps whole only on {host}"),
        )
        return [*filter(None, (*of_checkpoints, self.outputs, self.work, self.job))]

    @property
    def kinds(self) -> tuple[object, ...]:
        """What is lost, without the times that its sentences tell: of two findings that are equal, the same."""
        digests = tuple(sorted(each.digest for each in self.checkpoints))
        return (digests, self.outputs is not None, self.work, self.job is not None)

    def as_json(self) -> dict[str, object]:
        listed = [{"step": c.step, "digest": c.digest, "size_bytes": c.size_bytes} for c in self.checkpoints]
        return {"checkpoints": listed, "outputs": self.outputs, "work": self.work, "job": self.job}


def find_only_on_host(database: Database, run: Run, *, price: Price | None, now: float) -> OnlyOnHost:
    """Collect it from the store alone.

    Args:
        database: The store.
        run: The run as last seen.
        price: The price of its host now, if known.
        now: Unix time.
    """
    only_there = [c for c in checkpoints.of_run(database, run.run_id) if c.on_host and not c.is_good_home]
    return OnlyOnHost(tuple(only_there), _outputs(database, run, now), _job(run, price, now), _work(database, run))


def _sentence(found: Sequence[Checkpoint], where: str) -> str | None:
    if not found:
        return None
    size = amount(sum(each.size_bytes for each in found))
    steps = ", ".join(str(each.step) for each in found[-8:])
    more = "… " if len(found) > 8 else ""
    return f"{counted(len(found), 'checkpoint')} ({size}) {where}: step {more}{steps}"


def _outputs(database: Database, run: Run, now: float) -> str | None:
    synced = run_sync.find(database, run.run_id)
    if synced.final_done or not run.attempt:
        return None
    if synced.last_at is None:
        return "its log and other outputs, none of which is at home"
    return f"the log and outputs that it wrote after its last sync, {span(now - synced.last_at)} ago"


def _work(database: Database, run: Run) -> str | None:
    left = run_sync.find(database, run.run_id).left_there
    if left == 0 or not run.attempt:
        return None
    if left is None:
        return "other files that it wrote, if there are any: no sync has looked for them"
    return f"{counted(left, 'other file')} that no sync brings: no sync.outputs names them"


def _job(run: Run, price: Price | None, now: float) -> str | None:
    if run.ended and not run.is_guess:
        return None
    cost = f" and cost {price.text}" if price is not None and price.amount else ""
    seen = f"when last seen, {span(now - run.observed_at)} ago" if run.observed_at is not None else "and was never seen"
    state = f"{run.state}: {run.reason}" if run.reason else run.state
    return f"its job: it was {state} {seen}; it may still run there{cost}, and armada can no longer stop it"
