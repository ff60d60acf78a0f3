"""JSON Schemas of everything that `--json` prints, for `armada help json` and docs/schemas/output.schema.json.

A shape is written as what is printed: an object as its fields, a list as a list of one. A field's type is a JSON type; `| null` where it
may be missing knowledge. A field whose name ends in `?` is not always there. Fields that are not named may be added at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

from armada.cli.printing import FORMAT

STR, INT, NUM, BOOL, OBJ = "string", "integer", "number", "boolean", "object"
STR_, INT_, NUM_, OBJ_ = "string | null", "integer | null", "number | null", "object | null"

Shape: TypeAlias = "str | Sequence[Shape] | Mapping[str, Shape]"
Fields: TypeAlias = Mapping[str, Shape]

JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$schema": str,
        "title": str,
        "definitions": "dict[str, JsonSchema]",
        "type": "str | list[str]",
        "required": list[str],
        "properties": "dict[str, JsonSchema]",
        "items": "JsonSchema",
        "const": int,
    },
    total=False,
)
"""The words of JSON Schema (draft 7) that describe shapes."""

_FORMAT: Fields = {"format": INT}
RUN: Fields = {
    **_FORMAT,
    "run_id": STR, "name": STR, "host": STR, "task": STR, "experiment": STR_, "state": STR, "reason": STR_, "message": STR_,
    "because": STR_, "submission": INT, "attempt": INT, "gpus": [INT], "exit_code": INT_, "phase": STR_, "step": INT_,
    "total_steps": INT_, "loss": NUM_, "tokens_per_s": NUM_, "step_time_s": NUM_, "eta_s": NUM_, "created_at": NUM, "started_at": NUM_,
    "ended_at": NUM_, "observed_at": NUM_, "guessed_at": NUM_, "unreachable_since": NUM_, "unreachable_why": STR_,
    "log_size_bytes": INT, "unreadable": STR_, "unreadable_count": INT, "checkpoints_home": INT, "checkpoints_host": INT,
    "loss_not_finite": STR_, "group": STR_, "tags": [STR], "note": STR_, "noted_at": NUM_, "starred_at": NUM_, "archived_at": NUM_,
    "sweep": STR_, "cell": INT_, "follows": STR_,
}  # fmt: skip
"""A run. Times are Unix seconds; what is not known is null."""

_CELL: Fields = {
    "cell": INT_, "label": STR, "values": OBJ, "run_id": STR, "host": STR, "state": STR, "reason": STR_, "step": INT_, "value": NUM_,
    "value_step": INT_,
}  # fmt: skip
_SWEEP: Fields = {
    **_FORMAT, "sweep": STR, "title": STR, "experiment": STR_, "state": STR, "why": STR_, "created_at": NUM, "metric": STR_,
    "goal": STR, "cells": [_CELL], "costs": OBJ_, "search": OBJ_,
    "spent_budgets": [{"host": STR, "why": STR}],
}  # fmt: skip

_CHECKPOINT: Fields = {
    "run_id": STR, "digest": STR, "step": INT, "size_bytes": INT, "file_count": INT, "created_at": NUM_, "on_host": BOOL,
    "home_path": STR_, "verified_at": NUM_, "acknowledged_at": NUM_, "trouble": STR_, "pinned": BOOL,
}  # fmt: skip
_KEY: Fields = {"alias": STR, "algorithm": STR, "fingerprint": STR, "machine": STR}
_GIVEN_UP: Fields = {"step": INT, "digest": STR, "size_bytes": INT}
_PLAN: Fields = {
    "spec": OBJ, "files": OBJ, "checks": [{"code": STR, "outcome": STR, "message": STR, "hint": STR_}], "memory": OBJ_,
    "estimate": OBJ_,
}  # fmt: skip
_RANGE_ = OBJ_  # low, middle and high
_ESTIMATE: Fields = {
    "tokens_per_s": _RANGE_, "origin": STR_, "said": STR, "steps": _RANGE_, "step_s": _RANGE_, "parts_s": OBJ_, "seconds": _RANGE_,
    "cost": _RANGE_, "price_per_hour": NUM_, "currency": STR_,
    "wait_s": NUM_, "wait": STR, "disk_needed_bytes": INT_, "disk_free_bytes": INT,
}  # fmt: skip
_COMPARED: Fields = {
    "name": STR, "outcome": STR, "error": OBJ_, "exit_code": INT, "profile?": STR_, "gpus?": INT, "gpu?": STR_, "command?": [STR],
    "batch?": OBJ_, "memory?": OBJ_, "estimate?": _ESTIMATE, "queue?": OBJ_, "send?": [{"kind": STR, "sha": STR, "size_bytes": INT}],
    "send_bytes?": INT, "environment_ready?": "boolean | null",
    "checks?": [{"code": STR, "outcome": STR, "message": STR, "hint": STR_}],
}  # fmt: skip
_TRANSFER: Fields = {"method": STR, "reason": STR, "round_trip_s": NUM}
_CHECKED: Shape = [{**_FORMAT, "name": STR, "reachable": BOOL, "error?": STR, "facts?": OBJ, "transfer?": _TRANSFER}]
_TRUSTED: Fields = {**_FORMAT, "host": STR, "ssh": STR, "offered": [_KEY], "pinned_before": [_KEY], "pinned": BOOL}
_CHANGE: Fields = {"key": STR, "before": "any", "after": "any"}
_TASK: Fields = {"task": STR, "outcome?": STR, "seconds?": NUM, "about?": STR, "configured?": BOOL}
_REPORT: Fields = {"name": STR, "findings": [OBJ], "exit_code": INT}

ERROR: Fields = {**_FORMAT, "error": {"kind": STR, "message": STR, "hint": STR_, "host": STR_, "exit_code": INT}}
"""Printed by every command that fails before it has printed its own value."""

_PULLED: Fields = {**_FORMAT, "run_id": STR, "published": [STR], "home": OBJ, "copied": STR_}
_REMOVED: Fields = {
    **_FORMAT, "run_id": STR, "host": STR, "forgotten": BOOL, "had_host?": BOOL, "kept_home": [STR], "host_error": STR_,
    "deleted_host?": [_GIVEN_UP], "given_up": OBJ_,
}  # fmt: skip
_SYNCED: Fields = {
    **_FORMAT, "run_id": STR, "published": [STR], "size_bytes": INT, "pending": [STR], "outputs": [STR], "outputs_kept": [STR],
    "deleted_home": [STR], "deleted_host": [STR], "troubles": [{"cause": STR, "message": STR}], "final": BOOL,
    "lost": [{"step": INT, "digest": STR}],
}  # fmt: skip


_LABELS: Fields = {
    **_FORMAT, "run_id": STR, "group": STR_, "tags": [STR], "note": STR_, "noted_at": NUM_, "starred_at": NUM_, "archived_at": NUM_,
}  # fmt: skip


def _or_error(shape: Fields) -> Shape:
    """One of several runs: its object, or `error` where the command failed for it."""
    always = ("format", "run_id")
    fields = {name if name in always or name.endswith("?") else f"{name}?": each for name, each in shape.items()}
    return {**fields, "error?": ERROR["error"]}


SEVERAL = " RUN RUN"
"""Ends the name of a shape that a command prints for several runs."""

METRICS = " --csv, --parquet"
"""Ends the name of a shape that a command prints for tables of metrics."""

_BENCH_CELL: Fields = {
    "number": INT, "values": OBJ, "label": STR, "status": STR, "message": STR_, "steps": NUM_, "measured_s": NUM_, "cell_s": NUM_,
    "step_time_s": NUM_, "step_time_median_s": NUM_, "step_time_p05_s": NUM_, "step_time_p95_s": NUM_, "spread": NUM_,
    "tokens_per_s": NUM_, "samples_per_s": NUM_, "data_wait_s": NUM_, "peak_memory_bytes": NUM_, "mfu": NUM_, "gpus": NUM_,
    "processes": NUM_, "micro_batch_size": NUM_, "accumulation": NUM_, "global_batch_size": NUM_, "products_per_s": NUM_,
    "turns": NUM_, "turns_asked": NUM_, "machine_varied": NUM_, "spread_beside": NUM_, "scaling": NUM_,
    "cost_per_million_tokens": NUM_, "currency": STR,
}  # fmt: skip
_HOST_COST: Fields = {
    "host": STR, "since": NUM_, "until": NUM, "costs": OBJ_, "runs": OBJ_, "unused": OBJ_, "idle": OBJ_, "idle_s": NUM,
    "unknown_s": NUM, "gpu_hours": NUM, "run_hours": NUM,
}  # fmt: skip
"""Money is an object of amounts by currency; null is not known."""

_LAUNCHED: Fields = dict.fromkeys(("launch", "prepare", "merge", "resume"), RUN)
SHAPES: Fields = {
    **_LAUNCHED,
    "init": {
        **_FORMAT, "path": STR, "task": STR, "script": STR_, "data": [STR], "to_fill_in": [STR], "notes": [STR], "next": STR,
    },
    "plan": {**_FORMAT, "hosts": [_COMPARED], "fastest": STR_, "cheapest": STR_},
    "launch --dry-run": {**_FORMAT, **_PLAN},
    "prepare --dry-run": {**_FORMAT, **_PLAN},
    "merge --dry-run": {**_FORMAT, **_PLAN},
    "bench": {
        **_FORMAT, "run_id": STR, "state": STR, "cells?": [_BENCH_CELL], "best?": INT_, "as_fast?": [INT], "applied?": OBJ_,
        "verdict?": STR,
        "figures?": [{
            "name": STR, "number": INT, "value": NUM, "expected": NUM_, "share": NUM_, "slow": BOOL, "said": STR,
        }],
        "link?": OBJ_,
    },
    "bench --dry-run": {**_FORMAT, **_PLAN},
    "ps": [{**RUN, "host_disk_full_at": NUM_, "costs": OBJ_}],
    "show": {
        **RUN, "spec": OBJ, "checkpoints": [_CHECKPOINT], "quota": OBJ_, "results": OBJ, "costs": OBJ_, "per_hour": OBJ_,
        "forecast": OBJ_, "advice": STR_, "time?": {"why_not": STR_, "processes": INT, "last": OBJ_, "whole": OBJ_},
    },
    "costs": {
        **_FORMAT, "hosts": [_HOST_COST], "weeks": [_HOST_COST], "runs": [{
            "run_id": STR, "host": STR, "state": STR, "sweep": STR_, "seconds": NUM, "gpu_hours": NUM, "costs": OBJ_,
            "unknown_s": NUM, "per_hour": OBJ_, "forecast": OBJ_, "assumed": BOOL,
        }],
        "sweeps": [{"sweep": STR, "runs": INT, "gpu_hours": NUM, "costs": OBJ_}], "total": OBJ_, "week": OBJ_, "notes": [STR],
        "allowances": [{"host": STR, "hours": NUM, "unit": STR, "since": NUM_, "used": NUM, "share": NUM}],
    },
    "compare": {
        **_FORMAT, "metrics": [STR], "settings": [{"key": STR, "values": ["any"]}],
        "runs": [{
            "run_id": STR, "name": STR, "host": STR, "task": STR, "state": STR, "step": INT_, "total_steps": INT_, "tokens": INT_,
            "seconds": NUM_, "cost": NUM_, "costs": OBJ_, "gpus": STR_, "metrics": OBJ,
        }],
    },
    "diff": {
        **_FORMAT, "runs": [STR], "recorded": [BOOL], "settings": [{"key": STR, "values": ["any"]}], "projects": [OBJ_],
        "code": "array | null", "packages_from": STR_, "packages": "array | null", "data": "array | null",
    },
    "report": {**_FORMAT, "runs": [STR], "to": STR, "size_bytes": INT, "metrics": [STR]},
    "reproduce": {
        **_FORMAT, "run_id": STR, "to": STR, "recorded": BOOL, "command": [STR], "not_reproduced": [STR],
        "plan_differs": "array | null", "plan_error": OBJ_,
    },
    "sweep launch": {**_FORMAT, "sweep": STR, "taken": OBJ},
    "sweep launch --dry-run": {**_FORMAT, "cells": [{"cell": INT, "label": STR, "values": OBJ, "host": STR}], "left_out": OBJ},
    "sweep extend": {**_FORMAT, "sweep": STR, "taken": OBJ},
    "sweep extend --dry-run": {**_FORMAT, "cells": [{"cell": INT, "label": STR, "values": OBJ, "host": STR}], "left_out": OBJ},
    "sweep show": _SWEEP,
    "sweep stop": _SWEEP,
    "sweep retry": {**_FORMAT, "sweep": STR, "resumed": [STR], "left": OBJ},
    "sweep best": {**_FORMAT, "sweep": STR, "metric": STR, "goal": STR, "cells": [_CELL]},
    "stop": RUN,
    f"stop{SEVERAL}": [_or_error(RUN)],
    "pull": _PULLED,
    f"pull{SEVERAL}": [_or_error(_PULLED)],
    **dict.fromkeys(("tag", "group", "note", "star", "archive"), _LABELS),
    **{f"{name}{SEVERAL}": [_or_error(_LABELS)] for name in ("tag", "group", "star", "archive")},
    "export": {
        **_FORMAT, "run_id": STR, "step": INT, "digest": STR, "kind": STR, "base_model": STR_, "to": STR, "files": INT,
        "size_bytes": INT, "left_out": [STR], "changed": [STR],
        "gguf": STR_,
    },
    f"export{METRICS}": {**_FORMAT, "runs": [STR], "to": STR, "rows": INT},
    "logs": {**_FORMAT, "run_id": STR, "source": STR, "offset": INT, "text": STR},
    "rm": _REMOVED,
    f"rm{SEVERAL}": [_or_error(_REMOVED)],
    "why": {
        **_FORMAT, "run_id": STR, "host": STR, "state": STR, "reason": STR_, "message": STR_, "because": STR_, "engine": STR_,
        "explanation": STR_, "error": STR_, "advice": STR_,
    },
    "sync now": [_or_error(_SYNCED)],
    "sync now --dry-run": [{
        **_FORMAT, "run_id": STR, "checkpoints": [{"step": INT, "size_bytes": INT}], "outputs": [STR], "deleted_home": ["any"],
        "deleted_host": ["any"], "optimizers_home": ["any"],
    }],
    "sync ls": [{
        **_FORMAT, "run_id": STR, "host": STR, "home": INT, "waiting": [{"digest": STR, "step": INT, "trouble": STR_}],
        "last_at": NUM_, "next_due_at": NUM_, "failing_since": NUM_, "reason": STR_, "final_done": BOOL,
    }],
    "sync verify": {**_FORMAT, "checkpoints": INT, "damaged": [OBJ], "repaired": INT},
    "sync retention": [{
        **_FORMAT, "run_id": STR, "where": STR, "part": STR, "step": INT, "digest": STR, "keep": BOOL, "reason": STR,
    }],
    "wandb sync": {**_FORMAT, "run_id": STR, "home": [STR], "uploaded": [STR], "command?": [STR]},
    "code": {**_FORMAT, "host": STR, "folder": STR, "include": STR_, "alias": STR_, "command": [STR]},
    "cp": {
        **_FORMAT, "host": STR_, "path": STR, "files": INT, "size_bytes": INT, "left": [STR], "left_count": INT,
    },
    "hosts add": _CHECKED,
    "hosts add --dry-run": {**_TRUSTED, "changes?": [_CHANGE]},
    "hosts set": {
        **_FORMAT, "name": STR, "changed": BOOL, "changes": [_CHANGE], "diff": STR, "offered": [_KEY], "pinned_before": [_KEY],
    },
    "hosts import": [{
        **_FORMAT, "name": STR, "file": STR, "line": INT, "address": STR_, "port": INT_, "user": STR_, "through": [STR],
        "outcome": STR, "known_as": STR_, "error": STR_,
    }],
    "hosts check": _CHECKED,
    "hosts ls": [{**_FORMAT, "name": STR, "ssh": STR_, "local": BOOL, "profile": STR_, "scheduler": STR, "price_per_hour": NUM_,
        "prices": [OBJ],
        "costs": OBJ_, "idle_costs": OBJ_,
    }],
    "hosts rm": {**_FORMAT, "name": STR, "removed": BOOL, "runs": [STR], "only_there": INT, "needed_by": [STR]},
    "hosts provision": {
        **_FORMAT, "host": STR_, "profile?": STR, "environment?": STR, "outcome?": STR, "seconds?": NUM, "tasks": [_TASK],
    },
    "hosts trust": _TRUSTED,
    "hosts connect": {**_FORMAT, "name": STR, "connected": BOOL, "changed": BOOL},
    "hosts disconnect": {**_FORMAT, "name": STR, "connected": BOOL, "changed": BOOL},
    "hosts reap": {
        **_FORMAT, "host": STR, "more": INT, "ended": BOOL, "refused": [STR],
        "runs": [
            {
                "run_id": STR, "left": STR, "what": STR, "hint": STR_, "may_be_ended": BOOL, "count": INT,
                "processes": [{"pid": INT, "name": STR, "age_s": NUM, "gpus": [INT]}],
            }
        ],
    },
    "hosts release": {
        **_FORMAT, "host": STR, "scheduler": STR, "local": BOOL, "safe": BOOL, "items": [OBJ], "wiped": "array | null",
    },
    "hosts homes": [{
        **_FORMAT, "id": STR, "label": STR, "path": STR, "seen_at": NUM_, "this_one": BOOL,
        "runs": [{"run_id": STR, "not_fetched": INT, "settled": BOOL}],
    }],
    "hosts forget-home": {**_FORMAT, "host": STR, "forgotten": STR, "runs": INT, "not_fetched": INT},
    "doctor": {**_FORMAT, "home": OBJ_, "hosts": [_REPORT]},
    "daemon start": {**_FORMAT, "started": BOOL, "pid": INT_},
    "daemon stop": {**_FORMAT, "stopped": BOOL, "pid": INT},
    "daemon status": {
        **_FORMAT, "condition": STR, "age_s": NUM_, "pid?": INT, "hosts?": OBJ, "configuration?": [STR], "ended?": STR_,
    },
    "daemon logs": {**_FORMAT, "text": STR},
    "daemon install": {**_FORMAT, "path": STR, "commands": [STR]},
    "store check": {
        **_FORMAT, "path": STR, "condition": STR, "version": INT_, "known_version": INT, "size_bytes": INT, "checkpoints": INT,
        "findings": [OBJ],
    },
    "recover": {
        **_FORMAT, "dry_run": BOOL, "store": STR, "problems": [STR], "kept_as": STR_, "salvaged": OBJ, "hosts": [OBJ],
        "runs_from_home": [STR], "recognised": [STR], "known_before": INT, "wrong": [{"path": STR, "why": STR}],
        "unreadable": [{"path": STR, "why": STR}], "gone": [STR], "sweeps": [STR],
    },
    "data show": {
        **_FORMAT, "experiment": STR, "task": STR, "host": STR_, "unit": STR, "why": STR_, "notes": [STR], "max_length": INT,
        "long_samples": STR,
        "parts": [{
            "part": STR, "kind": STR_, "looks": STR, "rows": INT_, "sampled": INT, "shortest": INT, "median": INT, "p95": INT,
            "longest": INT, "beyond": INT_, "total": INT, "trained": INT, "untrained_rows": INT,
            "examples": [{"length": INT, "trained": INT, "pieces": [{"of": STR, "text": STR, "trained": BOOL}]}],
        }],
    },
    "profiles ls": [{
        **_FORMAT, "name": STR, "from": STR, "file?": STR, "description?": STR, "gpus?": OBJ, "peak_tflops?": NUM_,
        "precision?": STR, "error?": STR,
    }],
    "profiles show": {**_FORMAT, "name": STR, "from": STR, "file": STR, "keys": OBJ},
    "profiles validate": [{**_FORMAT, "name": STR, "valid": BOOL, "file?": STR, "error?": ERROR["error"]}],
    "profiles detect": {
        **_FORMAT, "host": STR, "configured": STR_, "gpus": [OBJ], "profile": STR, "derived": BOOL, "yaml": STR_, "notes": [STR],
        "others": [{"name": STR, "why": STR}], "saved": STR_,
    },
    "config show": {**_FORMAT, "home?": {"about": STR, "values": OBJ}, "experiment?": {"about": STR, "values": OBJ}},
    "config edit": {**_FORMAT, "difference": [STR], "to": STR_},
    "help": {**_FORMAT, "topic": STR, "text": STR},
    "help exit-codes": {**_FORMAT, "exit_codes": OBJ},
}  # fmt: skip
"""By command. Of `logs` and `daemon logs` the shape is that of each line."""


def schema_of(shape: Shape) -> JsonSchema:
    """The JSON Schema (draft 7) of one shape."""
    if isinstance(shape, Mapping):
        fields = {name.removesuffix("?"): schema_of(each) for name, each in shape.items()}
        if "format" in fields:
            fields["format"] = {"const": FORMAT}
        required = [name for name in shape if not name.endswith("?")]
        return {"type": "object", "required": required, "properties": fields}
    if not isinstance(shape, str):
        return {"type": "array", "items": schema_of(shape[0])}
    types = shape.split(" | ")
    return {} if types == ["any"] else {"type": types[0] if len(types) == 1 else types}


def all_schemas() -> JsonSchema:
    """Every shape, in one schema: `definitions` has one for each command, and `error`."""
    named = {**{command: schema_of(shape) for command, shape in SHAPES.items()}, "error": schema_of(ERROR)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"armada: what --json prints, format {FORMAT}",
        "definitions": dict(sorted(named.items())),
    }
