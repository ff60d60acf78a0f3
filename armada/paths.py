"""Every file and folder name of armada, at home and on a host, in one place.

`ARMADA_HOME` moves everything at home, configuration and state; without it platformdirs decides.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: nothing to mistake when read aloud
LABELS_FILE = "labels.json"
RUN_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


class HomePaths(NamedTuple):
    """Where armada keeps things on the machine a person sits at."""

    config: Path
    state: Path

    @classmethod
    def from_environment(cls) -> HomePaths:
        if moved := os.environ.get("ARMADA_HOME"):
            base = Path(moved).expanduser().absolute()
            return cls(config=base / "config", state=base / "state")
        import platformdirs

        return cls(
            config=platformdirs.user_config_path("armada", appauthor=False),
            state=platformdirs.user_data_path("armada", appauthor=False),
        )

    @property
    def hosts_file(self) -> Path:
        return self.config / "hosts.yaml"

    @property
    def profiles(self) -> Path:
        return self.config / "profiles"

    @property
    def store(self) -> Path:
        return self.state / "armada.db"

    @property
    def price_cache(self) -> Path:
        """What hosts cost, as of the hosts.yaml that it names; may be deleted."""
        return self.state / "prices.json"

    @property
    def home_record(self) -> Path:
        """Which home this is (`armada.home`)."""
        return self.state / "home.json"

    @property
    def home_mark(self) -> Path:
        """An empty file by which the file system tells a home from its copy."""
        return self.state / "home.mark"

    @property
    def ssh(self) -> Path:
        return self.state / "ssh"

    @property
    def known_hosts(self) -> Path:
        return self.ssh / "known_hosts"

    def ssh_config(self, host: str) -> Path:
        return self.ssh / f"{host}.conf"

    @property
    def downloads(self) -> Path:
        """What home downloads for hosts that do not reach it; may be deleted."""
        return self.state / "downloads"

    @property
    def local_root(self) -> Path:
        """The root folder of the host `local`, beside the rest so that ARMADA_HOME moves it too."""
        return self.state / "local"

    def lock(self, name: str) -> Path:
        return self.state / "locks" / f"{name}.lock"

    @property
    def daemon(self) -> Path:
        """The sync daemon's own folder: its lock, its status, its log."""
        return self.state / "daemon"

    @property
    def looked_at(self) -> Path:
        """Touched every few seconds by an open dashboard: while somebody looks, so does the daemon, more often."""
        return self.daemon / "looked_at"

    @property
    def notifications_file(self) -> Path:
        return self.config / "notifications.yaml"

    def run(self, run_id: str) -> Path:
        return self.state / "runs" / run_id

    def launch_record(self, run_id: str) -> Path:
        """What home keeps of a run's launch (`armada.records`)."""
        return self.run(run_id) / "launch"

    def checkpoints(self, run_id: str) -> Path:
        return self.run(run_id) / "checkpoints"

    def labels(self, run_id: str) -> Path:
        """A copy of what the user wrote about the run: group, tags, note, star, archive."""
        return self.run(run_id) / LABELS_FILE

    def staging(self, run_id: str, digest: str) -> Path:
        return self.checkpoints(run_id) / ".staging" / digest

    def make(self) -> None:
        """Create the folders that only their owner may read; the one of runs with a new home alone: its disk may be away."""
        of_runs = () if self.store.exists() else (self.state / "runs",)
        for folder in (self.config, self.state, self.ssh, *of_runs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


class HostPaths(NamedTuple):
    """Names under a host's root; the root is absolute, as the host itself resolved it."""

    root: PurePosixPath

    def run(self, run_id: str) -> PurePosixPath:
        return self.root / "runs" / run_id

    def work(self, run_id: str) -> PurePosixPath:
        return self.run(run_id) / "work"

    def launch(self, run_id: str) -> PurePosixPath:
        return self.run(run_id) / "launch"

    def outbox(self, run_id: str, digest: str) -> PurePosixPath:
        return self.run(run_id) / "outbox" / digest

    def environment(self, key: str) -> PurePosixPath:
        return self.root / "envs" / key

    def environment_python(self, key: str) -> PurePosixPath:
        return self.environment(key) / "bin" / "python"

    @property
    def prepared(self) -> PurePosixPath:
        """Tokenised data, shared by all runs of the host."""
        return self.root / "prepared"

    @property
    def bytecode(self) -> PurePosixPath:
        """What Python keeps of the modules it has compiled, apart from content-addressed folders, which stay what their name says."""
        return self.root / "tools" / "pycache"

    def content(self, kind: str, sha: str) -> PurePosixPath:
        """A content-addressed folder; kind is `code`, `data` or `models`."""
        return self.root / kind / sha


def slug(name: str) -> str:
    """Turn free text into something safe in ids, folders and job names: at most 40 of [a-z0-9-]."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "run"


def new_run_id(name: str) -> str:
    import secrets  # with hmac and hashlib: 8 ms that a list of runs need not pay

    return f"{slug(name)}-{''.join(secrets.choice(_ID_ALPHABET) for _ in range(6))}"


def bundled(*parts: str) -> Path:
    """A file that ships with armada: inside the installed package, or at the top of a checkout.

    Args:
        parts: Path below `remote_payload`, `profiles` or `quickstart`, that name first.
    """
    package = Path(__file__).parent
    installed = package / "bundled"
    if installed.is_dir():
        return installed.joinpath(*parts)
    checkout = package.parent
    first, *rest = parts
    return checkout.joinpath(*(("examples", "quickstart") if first == "quickstart" else (first,)), *rest)
