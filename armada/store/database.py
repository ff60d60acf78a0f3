"""Open the store: one SQLite file in WAL mode, with a versioned schema, used by several processes at once."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from armada.errors import ArmadaError, ConfigError, Conflict, StoreDamaged, StoreGone, StoreUnwritable

if TYPE_CHECKING:
    from collections.abc import Iterator

# The entry at index N migrates a store from version N to N + 1. Never edit a released entry.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL, task TEXT NOT NULL, experiment TEXT,
        spec TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, message TEXT,
        submission INTEGER NOT NULL DEFAULT 1, attempt INTEGER NOT NULL DEFAULT 0, seq INTEGER NOT NULL DEFAULT 0,
        gpus TEXT NOT NULL DEFAULT '[]', exit_code INTEGER,
        phase TEXT, step INTEGER, total_steps INTEGER, loss REAL, tokens_per_s REAL, step_time_s REAL,
        created_at REAL NOT NULL, started_at REAL, ended_at REAL, observed_at REAL,
        unreachable_since REAL, unreachable_why TEXT,
        metrics_offset INTEGER NOT NULL DEFAULT 0, events_offset INTEGER NOT NULL DEFAULT 0, log_size_bytes INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX runs_by_host ON runs (host, state);
    CREATE INDEX runs_by_time ON runs (created_at);

    CREATE TABLE transitions (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, time REAL NOT NULL, state TEXT NOT NULL, reason TEXT, message TEXT
    ) STRICT;
    CREATE INDEX transitions_by_run ON transitions (run_id, time);

    CREATE TABLE events (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, seq INTEGER NOT NULL, time REAL, kind TEXT NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (run_id, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE series (
        id INTEGER PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL, UNIQUE (run_id, name)
    ) STRICT;
    -- A NaN is a NULL value: a gap in the curve, not a missing point.
    CREATE TABLE points (
        series INTEGER NOT NULL REFERENCES series ON DELETE CASCADE, step INTEGER NOT NULL, time REAL NOT NULL, value REAL,
        PRIMARY KEY (series, step)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE checkpoints (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, digest TEXT NOT NULL, step INTEGER NOT NULL,
        size_bytes INTEGER NOT NULL, file_count INTEGER NOT NULL, created_at REAL, on_host INTEGER NOT NULL DEFAULT 1,
        home_path TEXT, verified_at REAL, acknowledged_at REAL, trouble TEXT,
        PRIMARY KEY (run_id, digest)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE hosts (
        name TEXT PRIMARY KEY, facts TEXT, observed_at REAL, unreachable_since REAL, unreachable_why TEXT
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE operations (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT, host TEXT, argv TEXT NOT NULL,
        pid INTEGER NOT NULL, start_time TEXT, boot_id TEXT,
        state TEXT NOT NULL, step TEXT, message TEXT, done_bytes INTEGER, total_bytes INTEGER, rate REAL,
        started_at REAL NOT NULL, updated_at REAL NOT NULL, ended_at REAL, exit_code INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX operations_by_state ON operations (state, started_at);

    CREATE TABLE transfers (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, digest TEXT NOT NULL, state TEXT NOT NULL,
        done_bytes INTEGER NOT NULL DEFAULT 0, total_bytes INTEGER, rate REAL, tries INTEGER NOT NULL DEFAULT 0, reason TEXT,
        next_try_at REAL, started_at REAL, updated_at REAL, ended_at REAL,
        PRIMARY KEY (run_id, digest)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE run_sync (
        run_id TEXT PRIMARY KEY REFERENCES runs ON DELETE CASCADE, last_at REAL, next_due_at REAL, requested_at REAL,
        failing_since REAL, failures INTEGER NOT NULL DEFAULT 0, reason TEXT, final_done INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;

    -- Verified files of published checkpoints: what need not travel a second time.
    CREATE TABLE files_home (
        sha256 TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (sha256, path)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE telemetry (
        host TEXT NOT NULL, gpu INTEGER NOT NULL, time REAL NOT NULL,
        utilization REAL, memory_used_bytes INTEGER, power_w REAL, temperature_c REAL,
        PRIMARY KEY (host, gpu, time)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE notifications (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL,
        created_at REAL NOT NULL, delivered_at REAL, tries INTEGER NOT NULL DEFAULT 0, next_try_at REAL, error TEXT
    ) STRICT;

    ALTER TABLE runs ADD COLUMN because TEXT;
    ALTER TABLE hosts ADD COLUMN origin TEXT;
    """,
    "ALTER TABLE hosts ADD COLUMN released_at REAL",
    """
    ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE hosts ADD COLUMN forecast TEXT
    """,
    # Every write to a run, its checkpoints or its syncs gives the run the next revision number. A reader then asks only
    # for runs above the last number it saw, not for all ten thousand. The counter has its own table because the highest
    # number among the runs disappears when its run is deleted.
    """
    ALTER TABLE runs ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX runs_by_revision ON runs (revision);
    CREATE TABLE revision (number INTEGER NOT NULL, deletions INTEGER NOT NULL) STRICT;
    INSERT INTO revision VALUES (0, 0);
    CREATE TRIGGER run_inserted AFTER INSERT ON runs BEGIN
        UPDATE revision SET number = number + 1;
        UPDATE runs SET revision = (SELECT number FROM revision) WHERE run_id = NEW.run_id;
    END;
    CREATE TRIGGER run_updated AFTER UPDATE ON runs WHEN NEW.revision = OLD.revision BEGIN
        UPDATE revision SET number = number + 1;
        UPDATE runs SET revision = (SELECT number FROM revision) WHERE run_id = NEW.run_id;
    END;
    CREATE TRIGGER run_deleted AFTER DELETE ON runs BEGIN UPDATE revision SET deletions = deletions + 1; END;
    CREATE TRIGGER checkpoint_inserted AFTER INSERT ON checkpoints BEGIN
        UPDATE runs SET revision = revision WHERE run_id = NEW.run_id;
    END;
    CREATE TRIGGER checkpoint_updated AFTER UPDATE ON checkpoints BEGIN
        UPDATE runs SET revision = revision WHERE run_id = NEW.run_id;
    END;
    CREATE TRIGGER checkpoint_deleted AFTER DELETE ON checkpoints BEGIN
        UPDATE runs SET revision = revision WHERE run_id = OLD.run_id;
    END;
    CREATE TRIGGER run_sync_inserted AFTER INSERT ON run_sync BEGIN
        UPDATE runs SET revision = revision WHERE run_id = NEW.run_id;
    END;
    CREATE TRIGGER run_sync_updated AFTER UPDATE ON run_sync BEGIN
        UPDATE runs SET revision = revision WHERE run_id = NEW.run_id;
    END
    """,
    # From here on paths are relative to the store's folder (store/places.py). All absolute ones began with the same
    # folder.
    """
    UPDATE files_home SET path = substr(path, 1 + (
        SELECT instr(home_path, '/runs/' || run_id || '/checkpoints/') FROM checkpoints WHERE home_path IS NOT NULL LIMIT 1))
        WHERE EXISTS (SELECT 1 FROM (
            SELECT substr(home_path, 1, instr(home_path, '/runs/' || run_id || '/checkpoints/')) AS home
            FROM checkpoints WHERE home_path IS NOT NULL LIMIT 1) WHERE substr(path, 1, length(home)) = home);
    DELETE FROM files_home WHERE path LIKE '/%';
    UPDATE checkpoints SET home_path = substr(home_path, 1 + instr(home_path, '/runs/' || run_id || '/checkpoints/'))
        WHERE home_path LIKE '/%';
    ALTER TABLE files_home ADD COLUMN mtime_ns INTEGER;
    ALTER TABLE files_home ADD COLUMN ctime_ns INTEGER;
    ALTER TABLE files_home ADD COLUMN inode INTEGER;
    ALTER TABLE runs ADD COLUMN root_id TEXT;
    ALTER TABLE runs ADD COLUMN seen_boot TEXT;
    ALTER TABLE runs ADD COLUMN seen_at_s REAL;
    ALTER TABLE runs ADD COLUMN less_boot TEXT;
    ALTER TABLE runs ADD COLUMN less_since_s REAL;
    ALTER TABLE runs ADD COLUMN unreadable TEXT;
    ALTER TABLE runs ADD COLUMN unreadable_count INTEGER NOT NULL DEFAULT 0
    """,
    # The last root of this run that this home wiped: what was on it is removed, not merely out of reach.
    "ALTER TABLE runs ADD COLUMN wiped_root TEXT",
    # What the user wrote about a run at home (store/labels.py). `tags` is a JSON list; times are Unix seconds.
    """
    ALTER TABLE runs ADD COLUMN "group" TEXT;
    ALTER TABLE runs ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE runs ADD COLUMN note TEXT;
    ALTER TABLE runs ADD COLUMN noted_at REAL;
    ALTER TABLE runs ADD COLUMN starred_at REAL;
    ALTER TABLE runs ADD COLUMN archived_at REAL
    """,
    # Sweeps: what was asked for, and which runs are their cells.
    """
    CREATE TABLE sweeps (
        name TEXT PRIMARY KEY, title TEXT NOT NULL, experiment TEXT, launch_key TEXT, settings TEXT NOT NULL,
        state TEXT NOT NULL, why TEXT, created_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    ALTER TABLE runs ADD COLUMN sweep TEXT;
    ALTER TABLE runs ADD COLUMN cell INTEGER;
    CREATE INDEX runs_by_sweep ON runs (sweep, cell) WHERE sweep IS NOT NULL
    """,
    # What asked for an operation: `api` or `mcp`; NULL for a command that a person typed, and for the dashboard.
    'ALTER TABLE operations ADD COLUMN "by" TEXT',
    # Costs: since when a host is known to be there, and what became of its stop command (JSON).
    """
    ALTER TABLE hosts ADD COLUMN first_seen_at REAL;
    ALTER TABLE hosts ADD COLUMN stopping TEXT;
    UPDATE hosts SET first_seen_at = (SELECT min(started_at) FROM runs WHERE runs.host = hosts.name)
    """,
    # Until when a run is known to have run: where its end was never recorded, its cost is counted until then.
    "ALTER TABLE runs ADD COLUMN alive_at REAL",
    # The run that a run follows (store/chains.py). Of earlier runs only what their plans name is known.
    """
    ALTER TABLE runs ADD COLUMN follows TEXT;
    UPDATE runs SET follows = coalesce(
        json_extract(spec, '$.experiment.start_from.run'), json_extract(spec, '$.experiment.merge.run'))
        WHERE json_valid(spec)
    """,
    # Names of metrics that a run has beyond the curves that are kept of it (store/metrics.py).
    """
    CREATE TABLE left_out (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL, PRIMARY KEY (run_id, name)
    ) STRICT, WITHOUT ROWID
    """,
    # How many things of a run its last listing showed that a sync leaves on its host. Of earlier syncs it is not known.
    "ALTER TABLE run_sync ADD COLUMN left_there INTEGER",
    # The attempt that wrote a checkpoint, by its manifest: clocks of hosts are set, and resumed runs save lower steps.
    "ALTER TABLE checkpoints ADD COLUMN attempt INTEGER",
    # Marks of folders at home (verdicts/folders.py), and how a checkpoint looked that was read at home and was wrong.
    """
    CREATE TABLE home_folders (
        path TEXT PRIMARY KEY, mark TEXT NOT NULL, run_id TEXT REFERENCES runs ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE wrong_home (
        path TEXT PRIMARY KEY, look TEXT NOT NULL, run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID
    """,
    # Since when only its batch system has told a run's end, and when such an end was last revised (verdicts/guesses.py).
    """
    ALTER TABLE runs ADD COLUMN told_at REAL;
    ALTER TABLE runs ADD COLUMN revised_at REAL;
    UPDATE runs SET told_at = observed_at
        WHERE state IN ('failed', 'cancelled') AND because LIKE '%; its supervisor wrote no end'
    """,
    # The most GPUs that a host ever showed: what it costs per GPU does not fall when nvidia-smi does not answer.
    """
    ALTER TABLE hosts ADD COLUMN most_gpus INTEGER;
    UPDATE hosts SET most_gpus = CASE WHEN json_valid(facts) THEN json_array_length(facts, '$.gpus') END
    """,
)


_OF_THE_DISK = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
)

UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a store raises. The second one: its damaged schema is not text, and SQLite quotes it in an error."""

PATIENCE_S = 30.0
"""How long a command waits for another program's lock, in seconds."""

_AGAIN_S = 0.02


class Database:
    """One connection to the store. Connections are not shared between threads: open one per thread.

    Args:
        path: The file; created if it does not exist, unless `existing`.
        existing: Something else of this program has the store open or had it: if it was deleted since, do not create an
            empty one in its place.
        patience_s: How long to wait for another process that is writing or holds a lock, in seconds.
        below: The home that stored paths are relative to; by default the store's folder. Differs for a store built
            elsewhere.
        connection: Use this connection to a copy of the file (`store/read_only.py`) instead of opening one.

    Raises:
        ConfigError: The file was written by a newer armada, or cannot be opened.
        StoreDamaged: The file is not a store, or is damaged.
        StoreGone: There is no such file, and it was to be an existing one.
        Conflict: Another program holds a lock that excludes readers too.
    """

    def __init__(
        self,
        path: Path,
        *,
        existing: bool = False,
        patience_s: float = PATIENCE_S,
        below: Path | None = None,
        connection: sqlite3.Connection | None = None,
    ) -> None:
        self.path = path
        self.below = below or path.parent
        with contextlib.ExitStack() as failed:
            try:
                if connection is None:
                    opened = _connect_existing(path, patience_s) if existing else _connect(path, patience_s)
                    connection = failed.enter_context(contextlib.closing(opened))
                self.connection = connection
                self._prepare(patience_s)
            except UNREADABLE as error:
                raise explain(error, path) or StoreDamaged(error, path=path) from error
            failed.pop_all()
        self._opened = identity_of(path)

    def _prepare(self, patience_s: float) -> None:
        self.connection.row_factory = sqlite3.Row
        self.wait_for_locks(patience_s)
        if self._version() != len(MIGRATIONS):
            self._use_wal(patience_s)
            self._migrate()
        self.connection.execute("PRAGMA foreign_keys = ON")
        # A power cut between a launch and the next poll must not lose the run. Costs 0.13 ms a commit.
        self.connection.execute("PRAGMA synchronous = FULL")

    def wait_for_locks(self, patience_s: float) -> None:
        """Set for how long a statement waits for another program's lock, in seconds."""
        self.connection.execute(f"PRAGMA busy_timeout = {1000 * patience_s:.0f}")

    @property
    def state(self) -> Literal["there", "gone", "replaced"]:
        """Whether the path still names the file that was opened. If not, nobody else sees what is written to it."""
        found = identity_of(self.path)
        if found is None:
            return "gone"
        return "there" if found == self._opened else "replaced"

    @property
    def data_version(self) -> int:
        """A number that changes when another connection has written; own writes do not change it."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def _use_wal(self, patience_s: float) -> None:
        """Switch the store to WAL. SQLite fails at once if two processes do so at the same moment, so retry until the deadline."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_S)

    def _migrate(self) -> None:
        with self.transaction():
            version = self._version()  # read again under the lock: another process may have migrated first
            if version > len(MIGRATIONS):
                raise newer(version, self.path)
            for migration in MIGRATIONS[version:]:
                for statement in _statements(migration):
                    self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit everything written inside, or nothing.

        Takes the write lock at once, so that what is read inside stays true. A nested transaction joins the outer one.
        """
        if self.connection.in_transaction:
            yield self.connection
            return
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            # Ctrl-C may come as soon as the lock is taken, or once all is committed.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Open a savepoint: a part of a transaction that can be rolled back alone when it fails."""
        with self.transaction():
            self.connection.execute("SAVEPOINT part")
            try:
                yield
            except BaseException:
                if self.connection.in_transaction:  # a full disk may have ended it
                    self.connection.execute("ROLLBACK TO part")
                    self.connection.execute("RELEASE part")
                raise
            self.connection.execute("RELEASE part")

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(path: Path, patience_s: float) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, timeout=patience_s)
    try:
        path.chmod(0o600)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_existing(path: Path, patience_s: float) -> sqlite3.Connection:
    """Open the file that is there.

    Raises:
        StoreGone: None is.
    """
    place = f"{path.absolute().as_uri()}?mode=rw"
    try:
        return sqlite3.connect(place, uri=True, isolation_level=None, timeout=patience_s)
    except sqlite3.OperationalError:
        if identity_of(path) is None:
            raise StoreGone(path=path) from None
        raise


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return the device and inode that a path names; None if there is no such file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def newer(version: int, path: Path) -> ConfigError:
    """Build the error for a store that a newer armada wrote; the store is left untouched."""
    return ConfigError(
        f"the store has version {version}, but this armada knows versions up to {len(MIGRATIONS)}",
        path=path,
        hint="update armada, or point ARMADA_HOME at another folder",
    )


def explain(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> ArmadaError | None:
    """Translate an SQLite error into one for users; None if the error is not about the file."""
    if isinstance(error, UnicodeDecodeError):
        return StoreDamaged("the names of its tables are not text", path=path)
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Conflict(
            f"another program has locked the store, {path}", hint=f"end it (fuser {path} names it), or wait"
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(error, path=path)
    if primary == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such column", "malformed")):
        return StoreDamaged(error, path=path)
    if str(error).startswith("Could not decode to UTF-8"):  # Python's own words
        return StoreDamaged(error, path=path)
    if primary in _OF_THE_DISK:
        from armada.store.room import advice

        return StoreUnwritable(f"the store cannot be used ({error})", path=path, hint=advice(path))
    return None


def _statements(script: str) -> Iterator[str]:
    """Yield the statements one by one, because `executescript` would commit in between. Triggers contain semicolons."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \n;"):
                yield statement
            statement = ""
