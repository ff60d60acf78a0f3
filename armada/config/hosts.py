"""Hosts, from the user's hosts.yaml and a project's armada.yaml.

bwlimit: 50M
hosts:
  a100-1: {ssh: "root@203.0.113.7:50022", profile: a100-80gb-8x, price_per_hour: 14.4}
  desk: {ssh: desk, root: /scratch/me/armada, bwlimit: 20M}
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PrivateAttr, model_validator

from armada.config.documents import Document, read_document, shown
from armada.config.one_name import Shadowed, joined, shadowed
from armada.config.prices import PriceSince, check_order, checked_allowance, checked_money, listed_prices, plain_prices
from armada.config.provision_tasks import ProvisionTask
from armada.config.schedulers import BatchSettings, Duration, HtcondorSettings, Line, SlurmSettings
from armada.config.settings import FilePath, FilledText, SchemaPart, Settings, problem, shaped
from armada.config.sync import Rate, bytes_per_s
from armada.config.validation import validate
from armada.costs.allowance import PATTERN as ALLOWANCE
from armada.costs.price import MOST, Price, parse_money
from armada.costs.tariff import Tariff
from armada.paths import HomePaths
from armada.units import duration_s

PROJECT_FILE = "armada.yaml"
LOCAL = "local"

HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def _host_name(name: str) -> str:
    if not HOST_NAME.fullmatch(name):
        raise problem(
            f"{shown(name)} is not a valid name of a host",
            hint="letters, digits, `_`, `.` and `-`, at most 63, a letter or digit first",
        )
    return name


def _ssh_target(target: str) -> str:
    # It ends up beside ssh's own options: `-oProxyCommand=…` as a name runs a command here (CVE-2017-1000117).
    user, at, address = target.rpartition("@")
    if target.startswith("-") or address.startswith("-") or (at and not user):
        raise problem(f"must be an alias or user@address:port, not {shown(target)}")
    if not all(character.isprintable() and not character.isspace() for character in target):
        raise problem(f"must not contain spaces or control characters: {shown(target)}")
    return target


def _root(root: str) -> str:
    if not root.startswith(("/", "~/")):
        raise problem(f"must be absolute or begin with `~/`, not {shown(root)}")
    return root


def _is_idle_time(value: str) -> str:
    if not 60 <= duration_s(value) <= 30 * 86_400:
        raise problem(f"{shown(value)} is not between 1m and 30d")
    return value


def _is_command(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise problem(
            f"{shown(text)} is not a command: {error}", hint="stop_command: vastai stop instance 123"
        ) from None
    if not words or "\0" in text or "\n" in text:
        raise problem("must be one command on one line", hint="for several: sh -c '…; …'")
    return text


class Host(Settings):
    """How to reach a host, and what it is."""

    other_names: ClassVar[dict[str, str]] = {
        "hostname": "ssh",
        "address": "ssh",
        "key": "identity",
        "identity_file": "identity",
        "prices": "price",
        "cost": "price",
        "path": "root",
        "condor": "htcondor",
        "online": "internet",
        "bandwidth": "bwlimit",
        "modules": "setup",
        "module": "setup",
        "fabfile": "provision",
        "tasks": "provision",
    }

    from_elsewhere: ClassVar[frozenset[str]] = frozenset({"name"})

    also_written: ClassVar[dict[str, SchemaPart]] = {"price": {"type": ["string", "number", "null"]}}

    name: Annotated[str, AfterValidator(_host_name), shaped(HOST_NAME)]
    ssh: Annotated[FilledText, AfterValidator(_ssh_target)] | None = None
    """What `ssh` is told: an alias of ssh_config, or user@address:port."""
    local: bool = False
    """This machine itself; the built-in host `local` has it."""
    profile: FilledText | None = None
    """The name of its profile; by default chosen by the GPUs that are found there."""
    root: Annotated[FilledText, AfterValidator(_root)] | None = None
    """armada's folder on the host; by default `~/.armada`."""
    scheduler: Literal["direct", "slurm", "htcondor"] = "direct"
    """What starts runs there: armada's own supervisor (`direct`), or a batch system."""
    slurm: SlurmSettings | None = None
    """What Slurm is told, with `scheduler: slurm`."""
    htcondor: HtcondorSettings | None = None
    """What HTCondor is told, with `scheduler: htcondor`."""
    setup: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Shell lines before anything there: `module load cuda/12.4`."""
    provision: Annotated[tuple[ProvisionTask, ...], Field(strict=False)] = ()
    """Fabric tasks that prepare the host, each once: `[fabfile.py:drivers, system-packages: [rsync]]`."""
    internet: bool | None = None
    """Whether runs reach the internet; by default yes, but not on the workers of a batch system."""
    environments_from: Annotated[str, AfterValidator(_host_name), shaped(HOST_NAME)] | None = None
    """A host that builds the environments and sends them: for one that reaches no package index."""
    quota: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    """The site's own command that says how much of an allowance is left: `[saldo, -b]`."""
    allowance: Annotated[FilledText, AfterValidator(checked_allowance)] | None = None
    """Hours that you were granted on a cluster: `5000 gpu-hours`, `800 node-hours since 2026-01-01`."""
    identity: FilePath | None = None
    """A private key to log in with; by default ssh's own choice."""
    price: Annotated[tuple[PriceSince, ...], Field(strict=False), PlainSerializer(plain_prices, return_type=Any)] = ()
    """What an hour costs: `12.40 EUR` for the box, `2.50 EUR per gpu`, or a list of `{price: …, since: 2026-06-01}`."""
    price_per_hour: Annotated[float, Field(ge=0, le=MOST)] | None = None
    """The same as one number: what an hour of the whole box costs, in dollars."""
    budget: Annotated[FilledText, AfterValidator(checked_money)] | None = None
    """What the host may cost since it is rented: `100 EUR`. Then its runs are stopped, which save before, and none begins."""
    stop_when_idle: Annotated[Duration, AfterValidator(_is_idle_time)] | None = None
    """`30m`: after so long without a run, and if nothing would be lost, the daemon runs `stop_command`."""
    stop_command: Annotated[FilledText, AfterValidator(_is_command)] | None = None
    """Your own command that stops the host, run at home without a shell: `vastai stop instance 123`."""
    transport: Literal["fabric", "openssh"] = "fabric"
    """`openssh`: one connection of armada's own, kept open by OpenSSH and used by everything."""
    reuse_only: bool = False
    """Only a person opens that connection (`armada hosts connect`): for sites that ask for a code each time."""
    bwlimit: Rate | None = None
    """Bytes a second that may come home from there, all runs and commands together."""
    origin: Path | None = Field(default=None, exclude=True, repr=False)
    """The file it stands in; None for the built-in `local`."""
    _own_file: Path | None = PrivateAttr(default=None)

    @property
    def named_by(self) -> str:
        """The file that says where the host is, as a launch records it; empty for the built-in `local`."""
        return str(self._own_file or self.origin or "")

    def owned_by(self, own: Host) -> Host:
        """Return these settings as those of a machine that the user's hosts.yaml names, too."""
        found = self.model_copy()
        found._own_file = own.origin  # noqa: SLF001  # of its own class
        return found

    @property
    def prices(self) -> tuple[Price, ...]:
        """Its prices, in the order in which they became valid; empty if none is known."""
        if self.price_per_hour is not None:
            return (Price(self.price_per_hour),)
        return tuple(each.read for each in self.price)

    def tariff(self, gpus: int | None = None) -> Tariff | None:
        """Return what it costs; None if it has no price.

        Args:
            gpus: How many GPUs it has, if that is known.
        """
        return Tariff(self.prices, gpus, is_box=self.scheduler == "direct") if self.prices else None

    @property
    def bytes_per_s(self) -> float | None:
        """The limit for this host, or None."""
        return None if self.bwlimit is None else bytes_per_s(self.bwlimit)

    @model_validator(mode="before")
    @classmethod
    def _local_needs_no_saying(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("name") == LOCAL and "local" not in data and data.get("ssh") is None:
            return {**data, "local": True}
        return data

    @model_validator(mode="before")
    @classmethod
    def _quota_is_a_command(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("quota"), str) and ALLOWANCE.fullmatch(data["quota"].strip()):
            hint = f"allowance: {data['quota'].strip()}"
            raise problem("is the site's own command, such as [saldo, -b]", key="quota", hint=hint)
        return data

    @model_validator(mode="before")
    @classmethod
    def _one_price_is_a_list(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "price" not in data:
            return data
        if data["price"] is None:
            return {key: value for key, value in data.items() if key != "price"}
        return {**data, "price": listed_prices(data["price"])}

    @model_validator(mode="after")
    def _one_price_at_a_time(self) -> Host:
        if self.price and self.price_per_hour is not None:
            raise problem("says the same as `price`: keep one of them", key="price_per_hour")
        newest = self.prices[-1].currency if self.prices else None
        if self.budget is not None and parse_money(self.budget)[1] != newest:
            other = f"; the newest is in {newest}" if newest is not None else ""
            hint = f"price: …; budget: {self.budget}"
            raise problem(f"needs a `price` in the same currency{other}", key="budget", hint=hint)
        check_order(self.price)
        return self

    @property
    def batch(self) -> BatchSettings | None:
        """The settings for its batch system; None for `direct`."""
        if self.scheduler == "slurm":
            return self.slurm or SlurmSettings()
        if self.scheduler == "htcondor":
            return self.htcondor or HtcondorSettings()
        return None

    @property
    def has_internet(self) -> bool:
        """Whether runs have internet access where they run."""
        return self.scheduler == "direct" if self.internet is None else self.internet

    @model_validator(mode="after")
    def _one_batch_system(self) -> Host:
        for kind in ("slurm", "htcondor"):
            if getattr(self, kind) is not None and self.scheduler != kind:
                raise problem(f"is for `scheduler: {kind}`; this host says {self.scheduler}", key=kind)
        if isinstance(self.htcondor, HtcondorSettings):
            container = self.htcondor.universe != "vanilla"
            if container and self.htcondor.image is None:
                raise problem(f"universe {self.htcondor.universe} needs an `image`", key="htcondor")
            if not container and self.htcondor.image is not None:
                raise problem("`image` needs `universe: docker` or `container`", key="htcondor")
        if self.allowance and self.scheduler == "direct":
            raise problem("is used on hosts with `scheduler: slurm` or `htcondor`", key="allowance")
        if self.quota and self.scheduler == "direct":
            raise problem("is used on hosts with `scheduler: slurm` or `htcondor`", key="quota")
        return self

    @model_validator(mode="after")
    def _tasks_of_its_project(self) -> Host:
        # A project's armada.yaml comes with a project, and its tasks run at home: no other code than the project's own.
        if self.origin is not None and self.origin.name == PROJECT_FILE:
            folder = self.origin.parent.resolve()
            for key in ("setup", "quota"):
                if self.local and getattr(self, key):
                    # Commands that only look, such as `plan`, would run them here.
                    hint = "if you want that, put this host into your own hosts.yaml"
                    raise problem("would run commands on this machine; a project may not", key=key, hint=hint)
            for call in self.provision:
                if call.file is not None and not call.file.resolve().is_relative_to(folder):
                    hint = f"put it into the project, or name it in your hosts.yaml: {call.file.resolve()}"
                    raise problem(f"{call.file} is outside of the project", key="provision", hint=hint)
        return self

    @model_validator(mode="after")
    def _stops_when_idle(self) -> Host:
        if (self.stop_when_idle is None) != (self.stop_command is None):
            key, other = (
                ("stop_when_idle", "stop_command") if self.stop_command is None else ("stop_command", "stop_when_idle")
            )
            raise problem(f"needs `{other}`", key=key)
        if self.stop_command is None:
            return self
        if self.origin is not None and self.origin.name == PROJECT_FILE:
            # A project's file comes with a project, and this runs at home.
            raise problem("is for your own hosts.yaml, not for a project's file", key="stop_command")
        if self.local or self.scheduler != "direct":
            raise problem("is for a box that you rent, not for this machine or a batch system", key="stop_command")
        return self

    @model_validator(mode="after")
    def _environments_of_another(self) -> Host:
        if self.environments_from == self.name:
            raise problem("names this host itself; leave it out, and the host builds its own", key="environments_from")
        return self

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Host:
        if self.name == LOCAL and not self.local:
            raise problem("is this machine; a host reached by SSH needs another name")
        if self.local == (self.ssh is not None):
            what = "both" if self.local else "neither"
            raise problem(f"needs exactly one of `ssh: …` and `local: true`; it has {what}")
        if self.local and self.identity is not None:
            raise problem("is a key for ssh; this host is local", key="identity")
        if self.local and self.transport != "fabric":
            raise problem("says how ssh reaches a host; this host is local", key="transport")
        if self.reuse_only and self.transport != "openssh":
            raise problem("needs `transport: openssh`, whose connection it reuses", key="reuse_only")
        return self


class ProjectFile(Settings):
    """A project's armada.yaml."""

    hosts: dict[str, object] | None = None
    """How to reach each host, and what it is."""


class HostsFile(ProjectFile):
    """The user's hosts.yaml."""

    other_names: ClassVar[dict[str, str]] = {"bandwidth": "bwlimit"}

    bwlimit: Rate | None = None
    """Bytes a second that may come home from all hosts together; a project has no say in that."""


def load_hosts(home: HomePaths, project: Path | None = None) -> dict[str, Host]:
    """Every configured host by name, `local` always among them.

    Args:
        home: Whose hosts.yaml is read.
        project: A folder; the hosts of its armada.yaml are added, and its settings count for machines that both files
            name. Of two machines with one name the user's own wins: a project that was cloned must not say where a host
            is to which the user sends secrets.

    Raises:
        ConfigError: One of the files is wrong.
    """
    own, theirs = (
        hosts_of(read_document(file)) if file is not None and file.exists() else {}
        for file in (home.hosts_file, project / PROJECT_FILE if project is not None else None)
    )
    return {LOCAL: Host(name=LOCAL, local=True), **joined(own, theirs)}


def find_shadowed(home: HomePaths, project: Path) -> list[Shadowed]:
    """Return the hosts that the user's hosts.yaml and a project's armada.yaml describe in different ways.

    Raises:
        ConfigError: One of the files is wrong.
    """
    if not home.hosts_file.exists() or not (project / PROJECT_FILE).exists():
        return []
    document = read_document(project / PROJECT_FILE)
    theirs = hosts_of(document)
    places = {name: str(document.key_place(("hosts", name))) for name in theirs}
    return shadowed(hosts_of(read_document(home.hosts_file)), theirs, places)


def home_bytes_per_s(home: HomePaths) -> float | None:
    """Read the bandwidth limit for all downloads from the user's hosts.yaml.

    Raises:
        ConfigError: The file is wrong.
    """
    if not home.hosts_file.exists():
        return None
    limit = validate(read_document(home.hosts_file), HostsFile).bwlimit
    return None if limit is None else bytes_per_s(limit)


def hosts_of(document: Document) -> dict[str, Host]:
    """The hosts of one file.

    Raises:
        ConfigError: The file is wrong.
    """
    model = ProjectFile if document.path.name == PROJECT_FILE else HostsFile
    entries = validate(document, model).hosts or {}
    for name, entry in entries.items():
        if entry is None:
            # `desk:` alone says nothing about how to reach it, but `local:` needs nothing.
            document.data["hosts"][name] = {}
    return {
        name: validate(
            document,
            Host,
            at=("hosts", name),
            given={"name": name, "origin": document.path},
            context={"folder": document.path.parent},
        )
        for name in entries
    }
