"""Keep at home what a launch sends: the record that `armada diff`, `report` and `reproduce` read later."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from armada import __version__
from armada.foundation.sanitize import sanitize_line
from armada.records.code_archive import keep_code
from armada.records.launch_record import KeptEnvironment, LaunchRecord, keep_content, read_record, write_record
from armada.store.queries.former_runs import sent_code

if TYPE_CHECKING:
    from pathlib import Path

    from armada.foundation.progress import Progress
    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.provision.content import Content
    from armada.provision.environment import Environment
    from armada.records.launch_record import KeptContent
    from armada.store.database import Database

_LONGEST_TEXT = 1 << 20
_MOST_FORMER = 3
"""Each of them is read before its bytes are shared."""


def keep_launch(database: Database, home: HomePaths, plan: Plan, progress: Progress) -> None:
    """Record a launch at home. A disk that refuses it does not stop the launch: what is not recorded is said later."""
    record = record_of(plan)
    try:
        if record.code is not None:
            former = [run_id for run_id in sent_code(database, record.code.sha) if run_id != plan.run_id]
            keep_code(home, plan.run_id, record.code, former[:_MOST_FORMER])
        write_record(home, plan.run_id, record)
    except OSError as error:
        why = sanitize_line(error.strerror or error, 200)
        progress.stage("", f"⚠ the record of this launch could not be kept ({why}); armada reproduce will lack it")


def keep_packages(home: HomePaths, run_id: str, packages: str | None) -> None:
    """Add to the record of a launch what is installed in its environment, as the host says it."""
    record = read_record(home, run_id)
    if record is None or record.environment is None or packages is None:
        return
    environment = dataclasses.replace(record.environment, installed=packages[:_LONGEST_TEXT])
    with contextlib.suppress(OSError):  # the same disk that the launch was told about
        write_record(home, run_id, dataclasses.replace(record, environment=environment))


def share_packages(home: HomePaths, source: str, run_id: str) -> None:
    """Add to the record of a launch what is installed in its environment, which another run has too."""
    record = read_record(home, source)
    keep_packages(home, run_id, record.environment.installed if record and record.environment else None)


def record_of(plan: Plan) -> LaunchRecord:
    """Return what is recorded of a plan."""
    code = PurePosixPath(plan.spec.job.code).name if plan.spec.job.code is not None else None
    kept = [_content(content, code) for content in plan.contents]
    origin = plan.experiment.origin
    return LaunchRecord(
        armada=__version__,
        experiment=_text(origin) if origin is not None else None,
        experiment_path=str(origin) if origin is not None else None,
        contents=tuple(sorted(kept, key=lambda content: content.kind != "code")),
        environment=_environment(plan.environment) if plan.environment is not None else None,
        hub_model=(plan.hub.repo, plan.hub.commit) if plan.hub is not None else None,
        files=tuple((file.name, file.written, file.identity or "") for file in plan.job_files.found),
        gpus=tuple(gpu.name for gpu in plan.facts.hardware.gpus),
        price_per_hour=plan.host.price_per_hour,
        prices=_price(plan),
        is_box=plan.host.batch is None,
        secrets=tuple(plan.spec.job.secrets),
        sync=dict(plan.spec.sync) if plan.spec.sync is not None else None,
    )


def _content(content: Content, code: str | None) -> KeptContent:
    kind = "payload" if content.kind == "code" and content.sha != code else content.kind
    return keep_content(kind, content.sha, content.source, content.manifest)


def _environment(environment: Environment) -> KeptEnvironment:
    return KeptEnvironment(
        environment.key,
        environment.python,
        environment.requirements,
        environment.constraints,
        environment.torch_index,
        environment.optional,
    )


def _price(plan: Plan) -> tuple[str, ...]:
    tariff = plan.host.tariff()
    price = tariff.price_at(time.time()) if tariff is not None else None
    return (price.written,) if price is not None else ()


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_TEXT).decode("utf-8", "replace")
    except OSError:
        return None
