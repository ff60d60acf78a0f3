"""Runs and their states."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from armada.errors import NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.paths import RUN_ID
from armada.store.chains import relations
from armada.store.values import ValueDamaged, decode
from armada.verdicts.guesses import GUESSES, is_guess, is_waited_for, may_return
from armada.verdicts.states import ENDED, Verdict

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from armada.store.database import Database


class Run(NamedTuple):
    """One row: the run as last observed. Times are unix seconds; `observed_at` is None before the first poll."""

    run_id: str
    name: str
    host: str
    task: str
    experiment: str | None
    state: str
    reason: str | None
    message: str | None
    submission: int
    attempt: int
    seq: int
    gpus: tuple[int, ...]
    exit_code: int | None
    phase: str | None
    step: int | None
    total_steps: int | None
    loss: float | None
    tokens_per_s: float | None
    step_time_s: float | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    observed_at: float | None
    unreachable_since: float | None
    unreachable_why: str | None
    metrics_offset: int
    events_offset: int
    log_size_bytes: int
    because: str | None = None
    root_id: str | None = None
    wiped_root: str | None = None
    seen_boot: str | None = None
    seen_at_s: float | None = None
    less_boot: str | None = None
    less_since_s: float | None = None
    unreadable: str | None = None
    unreadable_count: int = 0
    group: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    noted_at: float | None = None
    starred_at: float | None = None
    archived_at: float | None = None
    sweep: str | None = None
    cell: int | None = None
    alive_at: float | None = None
    follows: str | None = None
    told_at: float | None = None
    revised_at: float | None = None
    guessed_at: float | None = None
    checkpoints_home: int = 0
    checkpoints_host: int = 0
    loss_not_finite: str | None = None
    """`NaN`, `inf` or `-inf` if the newest loss is not finite; `loss` is None then."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_archived(self) -> bool:
        """Whether lists hide it. A run that has not ended is never hidden."""
        return self.archived_at is not None and self.ended

    @property
    def is_guess(self) -> bool:
        """Whether the end is only guessed from its scheduler's silence."""
        return is_guess(self.state, self.reason)

    def is_settled(self, now: float) -> bool:
        """Whether the run ended and no news is expected. A guessed end is polled for some time."""
        return self.ended and not is_waited_for(self.state, self.reason, self.guessed_at, now)

    @property
    def is_only_told(self) -> bool:
        """Whether nobody but its batch system told its end."""
        return self.ended and self.told_at is not None

    def is_watched(self, now: float) -> bool:
        """Whether it is still polled: it is not settled, or it may run again because only its batch system told its end."""
        return not self.is_settled(now) or (self.ended and may_return(self.told_at, now))

    @property
    def loss_text(self) -> str | None:
        """The newest loss as text, including NaN and infinities; None if there is none yet."""
        return self.loss_not_finite if self.loss is None else f"{self.loss:.4g}"

    @property
    def labels_text(self) -> str:
        """Star, group and tags in one line; empty if there are none. `(archived)` says why lists hide the run."""
        parts = ["★"] if self.starred_at is not None else []
        parts += [self.group] if self.group else []
        parts += [f"#{tag}" for tag in self.tags]
        parts += ["(archived)"] if self.is_archived else []
        return sanitize_line(" ".join(parts), 300) if parts else ""

    @property
    def eta_s(self) -> float | None:
        """Seconds to the last step at the pace of the latest steps, at least 0; None if unknown, or longer than any run."""
        if not self.step or not self.total_steps or self.ended or self.step_time_s is None:
            return None
        left_s = (self.total_steps - self.step) * self.step_time_s
        return left_s if 0 <= left_s <= LONGEST_LEFT_S else None


LONGEST_LEFT_S = 100 * 366 * 86_400.0
"""A run that seems to need more seconds than these has written a wrong time of a step."""
DERIVED = ("guessed_at", "checkpoints_home", "checkpoints_host", "loss_not_finite")
"""Fields computed from other tables, which are not columns."""
_COLUMNS = ", ".join(f'r."{name}"' for name in Run._fields if name not in DERIVED)
_RUN_ID, _GPUS, _TAGS = (Run._fields.index(name) for name in ("run_id", "gpus", "tags"))
_GUESSES = " OR ".join(f"(r.state = '{state}' AND r.reason = '{reason}')" for state, reason in sorted(GUESSES))
LOSS_NOT_FINITE = """CASE WHEN r.loss IS NULL THEN (
    SELECT CASE WHEN p.value > 1.7976931348623157e308 THEN 'inf' WHEN p.value < -1.7976931348623157e308 THEN '-inf' ELSE 'NaN' END
    FROM points p WHERE p.series = (SELECT id FROM series WHERE run_id = r.run_id AND name = 'loss')
    ORDER BY p.time DESC, p.step DESC LIMIT 1
    ) END AS loss_not_finite"""
_SELECT = f"""
    SELECT {_COLUMNS},
        CASE WHEN {_GUESSES} THEN (SELECT max(t.time) FROM transitions t WHERE t.run_id = r.run_id) END AS guessed_at,
        (SELECT count(*) FROM checkpoints c
            WHERE c.run_id = r.run_id AND c.verified_at IS NOT NULL AND c.trouble IS NULL) AS checkpoints_home,
        (SELECT count(*) FROM checkpoints c WHERE c.run_id = r.run_id AND c.on_host) AS checkpoints_host,
        {LOSS_NOT_FINITE}
    FROM runs r"""  # noqa: S608  # column names are the dataclass's own


def _run(row: sqlite3.Row) -> Run:
    # In the order of the fields: by name, ten thousand runs would take a tenth of a second longer.
    return as_run([*row])


def as_run(values: list[Any]) -> Run:
    """Convert a row, its values in the order of the fields, whose lists are still JSON.

    Raises:
        ValueDamaged: A value is none that armada writes.
    """
    run_id = values[_RUN_ID]
    if not RUN_ID.fullmatch(run_id):
        raise ValueDamaged(f"{run_id!r} in runs is not a run id")
    values[_GPUS] = tuple(_list(values[_GPUS], "gpus", run_id))
    values[_TAGS] = tuple(map(str, _list(values[_TAGS], "tags", run_id)))
    return Run(*values)


def _list(stored: str, column: str, run_id: str) -> list[Any]:
    """Return a list as stored; most runs have no tags, and parsing would cost a thousand runs a millisecond."""
    return [] if stored == "[]" else decode(list, stored, f"the column {column} of {run_id}")


def insert(
    database: Database,
    *,
    run_id: str,
    name: str,
    host: str,
    task: str,
    experiment: str | None,
    spec: dict[str, Any],
    root_id: str | None = None,
) -> None:
    """Record a run before anything of it exists elsewhere."""
    now = time.time()
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO runs (run_id, name, host, task, experiment, spec, root_id, sweep, cell, follows, state, created_at)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'preparing', ?)""",
            (run_id, name, host, task, experiment, json.dumps(spec), root_id, *relations(database, spec), now),
        )
        connection.execute("INSERT INTO transitions VALUES (?, ?, 'preparing', NULL, NULL)", (run_id, now))


def find(database: Database, prefix: str) -> Run:
    """Return the run whose id equals `prefix`, or the only one whose id begins with it.

    Raises:
        NotFound: No id begins with it.
        UsageError: Several ids do, or it is empty.
    """
    if not prefix.strip():  # a shell variable that is not set must not mean the only run there is
        raise UsageError("the run's id is empty", hint="give the first characters of an id; armada ps lists them")
    if exact := database.connection.execute(f"{_SELECT} WHERE r.run_id = ?", (prefix,)).fetchone():
        return _run(exact)  # by the index; LIKE with ESCAPE reads every run
    pattern = prefix.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_") + "%"
    query = rf"{_SELECT} WHERE r.run_id LIKE ? ESCAPE '\' ORDER BY r.run_id LIMIT 6"
    rows = database.connection.execute(query, (pattern,)).fetchall()
    if not rows:
        raise NotFound(f"no run's id begins with {prefix!r}", hint="armada ps lists them")
    if len(rows) > 1:
        names = ", ".join(row["run_id"] for row in rows[:5])
        raise UsageError(f"{prefix!r} matches several run ids: {names}", hint="type more characters")
    return _run(rows[0])


def is_known(database: Database, run_id: str) -> bool:
    """Whether the store still has the run: another process may have forgotten it since it was found."""
    return database.connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None


def require(database: Database, run_id: str) -> None:
    """Fail if a run that was found before no longer exists.

    Raises:
        NotFound: It was forgotten.
    """
    if not is_known(database, run_id):
        raise NotFound(f"{run_id} was just removed by another armada", hint="armada ps lists the runs")


def spec(database: Database, run_id: str) -> dict[str, Any]:
    """Return a run's plan.

    Raises:
        NotFound: It was forgotten.
    """
    row = database.connection.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        require(database, run_id)
    return decode(dict, row["spec"], f"the column spec of {run_id}")


def launchers(database: Database, own_id: str) -> dict[str, str]:
    """Return the labels of other homes that launched runs, by run id."""
    query = """SELECT run_id, json_extract(spec, '$.home.label') AS label FROM runs
               WHERE json_type(spec, '$.home.label') = 'text' AND json_extract(spec, '$.home.id') <> ?"""
    return {row["run_id"]: sanitize_line(row["label"], 80) for row in database.connection.execute(query, (own_id,))}


def setting(database: Database, run_id: str, name: str) -> Any:
    """Return the value of one key of the run's experiment; None if it is not set."""
    query = "SELECT json_extract(spec, '$.experiment.' || ?) AS value FROM runs WHERE run_id = ?"
    row = database.connection.execute(query, (name, run_id)).fetchone()
    return row["value"] if row is not None else None


def of_sweep(database: Database, sweep: str) -> list[Run]:
    """Return the runs of a sweep by the number of their cell; a cell that moved to another host has several, the newest last."""
    query = f"{_SELECT} WHERE r.sweep = ? ORDER BY r.cell, r.created_at, r.run_id"
    return [_run(row) for row in database.connection.execute(query, (sweep,))]


def hosts(database: Database) -> set[str]:
    """The hosts of all runs."""
    return {row["host"] for row in database.connection.execute("SELECT DISTINCT host FROM runs")}


def every(
    database: Database,
    *,
    host: str | None = None,
    hosts: Collection[str] = (),
    states: Collection[str] = (),
    active: bool = False,
    watched: bool = False,
    now: float | None = None,
) -> list[Run]:
    """Return all runs, newest first.

    Args:
        database: The store.
        host: Return only this host's runs.
        hosts: Only runs of these; empty for all.
        states: Only runs in these; empty for all.
        active: Return only runs that have not ended, or whose end is a guess that may still be revised.
        watched: Return only these, and those whose end only their batch system told a short time ago.
        now: Unix time, by default the clock's.
    """
    conditions, values = ["1"], list[Any]()
    if host is not None:
        conditions.append("r.host = ?")
        values.append(host)
    for column, wanted in (("host", hosts), ("state", states)):
        if wanted:
            conditions.append(f"r.{column} IN ({', '.join('?' * len(wanted))})")
            values.extend(sorted(wanted))
    if active or watched:
        told = " OR r.told_at IS NOT NULL" if watched else ""
        conditions.append(f"(r.state NOT IN ({', '.join('?' * len(ENDED))}) OR {_GUESSES}{told})")
        values.extend(sorted(ENDED))
    query = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY r.created_at DESC, r.run_id"
    found = [_run(row) for row in database.connection.execute(query, values)]
    moment = time.time() if now is None else now
    if watched:
        return [run for run in found if run.is_watched(moment)]
    return [run for run in found if not active or not run.is_settled(moment)]


def recent(database: Database, since: float) -> list[Run]:
    """Return runs that have not ended or ended after a time, newest first. Home's clock counts too: a host's may be wrong."""
    marks = ", ".join("?" * len(ENDED))
    query = f"""{_SELECT} WHERE r.state NOT IN ({marks})
        OR max(coalesce(r.ended_at, 0), coalesce(r.observed_at, 0), r.created_at) >= ? ORDER BY r.created_at DESC"""
    return [_run(row) for row in database.connection.execute(query, (*sorted(ENDED), since))]


def unsettled(database: Database) -> list[Run]:
    """Return runs that may still have something to fetch: a handful among thousands in an old store."""
    marks = ", ".join("?" * len(ENDED))
    query = f"""{_SELECT} LEFT JOIN run_sync s USING (run_id)
        WHERE r.state NOT IN ({marks}) OR s.run_id IS NULL OR NOT s.final_done OR s.requested_at IS NOT NULL
        OR EXISTS (SELECT 1 FROM checkpoints c WHERE c.run_id = r.run_id AND c.on_host AND c.verified_at IS NULL)
        ORDER BY r.created_at DESC"""  # noqa: S608  # question marks only
    return [_run(row) for row in database.connection.execute(query, sorted(ENDED))]


def active_ids(database: Database) -> list[tuple[str, str, str]]:
    """Return (run id, host, state) of all runs that have not ended; cheap enough to call every second."""
    marks = ", ".join("?" * len(ENDED))
    query = f"SELECT run_id, host, state FROM runs WHERE state NOT IN ({marks})"  # noqa: S608  # question marks only
    return [(row["run_id"], row["host"], row["state"]) for row in database.connection.execute(query, sorted(ENDED))]


def launched_as(database: Database, key: str, *, host: str, since: float) -> list[Run]:
    """Return the runs of one launch key (see `armada.launch.reconcile`), newest first."""
    query = f"{_SELECT} WHERE json_extract(r.spec, '$.launch_key') = ? AND r.host = ? AND r.created_at >= ? ORDER BY r.created_at DESC"
    return [_run(row) for row in database.connection.execute(query, (key, host, since))]


def record(database: Database, run_id: str, verdict: Verdict, *, went_back: bool = False, **facts: Any) -> bool:
    """Record an observation, unless a newer one is already recorded; a changed state becomes a transition.

    Args:
        database: The store.
        run_id: The run.
        verdict: The state that the evidence gives.
        went_back: The observation is newer although its (submission, attempt, seq) is lower: the host shows an older
            copy of its disk.
        facts: Further columns to set with it.

    Returns:
        Whether it was recorded.
    """
    with database.transaction() as connection:
        query = "SELECT state, reason, submission, attempt, seq FROM runs WHERE run_id = ?"
        old = connection.execute(query, (run_id,)).fetchone()
        if old is None:
            return False
        seen = (facts.get("submission") or old["submission"], verdict.attempt, verdict.seq)
        if seen < (old["submission"], old["attempt"], old["seq"]) and not went_back:
            return False
        columns: dict[str, Any] = {"state": verdict.state, "reason": verdict.reason, "message": verdict.message}
        columns |= {
            "attempt": verdict.attempt,
            "seq": verdict.seq,
            "because": verdict.because,
            "told_at": None,
            **facts,
        }
        if verdict.state not in ENDED and verdict.state != "unknown":
            columns["archived_at"] = None  # it was resumed, so it belongs on every list again, also after its next end
        names = ", ".join(f"{name} = ?" for name in columns)
        connection.execute(f"UPDATE runs SET {names} WHERE run_id = ?", (*columns.values(), run_id))  # noqa: S608
        if (old["state"], old["reason"]) != (verdict.state, verdict.reason):
            moment = (run_id, facts.get("observed_at") or time.time(), verdict.state, verdict.reason, verdict.message)
            connection.execute("INSERT INTO transitions VALUES (?, ?, ?, ?, ?)", moment)
        return True


OWN_WORD = "recorded by armada itself, before the host was asked"
"""What a state is based on that home recorded without its host."""
_JUDGED = ("state", "reason", "submission", "attempt", "seq")


def set_state(
    database: Database,
    run_id: str,
    state: str,
    *,
    reason: str | None = None,
    message: str | None = None,
    judged: Run | None = None,
    over: Collection[str] | None = None,
) -> bool:
    """Record what home itself did to a run (submitted it, gave it up); the order of observations is unchanged.

    Args:
        database: The store.
        run_id: The run.
        state: Its state.
        reason: Why.
        message: One sentence for the user.
        judged: The run of which this was decided. If somebody has recorded another state or submission since, nothing
            is written.
        over: Write this only over one of these states; by default over any.

    Returns:
        Whether it was recorded.
    """
    with database.transaction() as connection:
        query = "SELECT state, reason, submission, attempt, seq, told_at FROM runs WHERE run_id = ?"
        row = connection.execute(query, (run_id,)).fetchone()
        if row is None:
            return False
        if judged is not None and any(row[name] != getattr(judged, name) for name in _JUDGED):
            return False
        if over is not None and row["state"] not in over:
            return False
        because = OWN_WORD
        told_at = row["told_at"] if row["state"] == state else None
        verdict = Verdict(state, reason, message, row["attempt"], row["seq"], because)
        return record(database, run_id, verdict, told_at=told_at)


def note_less(database: Database, run_id: str, boot: str, since_s: float) -> None:
    """Record that another machine, or the same one after a restart, shows less of a run than is known. What is known is kept."""
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET less_boot = ?, less_since_s = ? WHERE run_id = ?", (boot, since_s, run_id))


def note_unreadable(database: Database, run_id: str, count: int, first: str) -> None:
    """Add to the count of unreadable records of a run; the first problem is kept."""
    with database.transaction() as connection:
        connection.execute(
            "UPDATE runs SET unreadable_count = unreadable_count + ?, unreadable = coalesce(unreadable, ?) WHERE run_id = ?",
            (count, first, run_id),
        )


def skip_to(database: Database, run_id: str, part: Literal["metrics", "events"], offset: int) -> None:
    """Advance the offset past data that cannot be stored, so that it is not requested again."""
    column = {"metrics": "metrics_offset", "events": "events_offset"}[part]
    with database.transaction() as connection:
        connection.execute(f"UPDATE runs SET {column} = max({column}, ?) WHERE run_id = ?", (offset, run_id))  # noqa: S608


def note_saved(database: Database, run_id: str, step: int, created_at: float) -> None:
    """Raise a run's step to that of a checkpoint saved in its last attempt."""
    with database.transaction() as connection:
        connection.execute(
            "UPDATE runs SET step = max(coalesce(step, 0), ?) WHERE run_id = ? AND started_at <= ?",
            (step, run_id, created_at),
        )


def set_root(database: Database, run_id: str, root_id: str | None) -> None:
    """Record the root that a run was submitted to; None changes nothing."""
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET root_id = coalesce(?, root_id) WHERE run_id = ?", (root_id, run_id))


def mark_wiped(database: Database, host: str, root_id: str) -> None:
    """Record that this home wiped a root of a host: the runs submitted to it no longer exist there."""
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET wiped_root = root_id WHERE host = ? AND root_id = ?", (host, root_id))


def set_spec(database: Database, run_id: str, spec: dict[str, Any]) -> None:
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET spec = ? WHERE run_id = ?", (json.dumps(spec), run_id))


def mark_unreachable(database: Database, run_ids: Iterable[str], why: str) -> None:
    """Record that a poll failed; the runs' states are kept."""
    now = time.time()
    with database.transaction() as connection:
        connection.executemany(
            "UPDATE runs SET unreachable_since = coalesce(unreachable_since, ?), unreachable_why = ? WHERE run_id = ?",
            [(now, why, run_id) for run_id in run_ids],
        )


def delete(database: Database, run_id: str) -> None:
    with database.transaction() as connection:
        connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
