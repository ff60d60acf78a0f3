"""`data.show` runs the trainer of this host in an environment of this host, or says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conversation import Host, Refused

KEY, SHA = "cpu-test", "a" * 64
ROWS: dict[str, Any] = {"training": {}, "parts": [], "examples": 1, "most": 1}


def ask(host: Host, **changes: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"environment": KEY, "payload": SHA, "rows": ROWS, "variables": {}}
    return host.call("data.show", **(asked | changes))


def give_environment(root: Path, program: str) -> None:
    folder = root / "envs" / KEY
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text(program)
    (folder / "bin" / "python").chmod(0o755)
    (folder / "READY").write_text(json.dumps({"key": KEY}))


def test_what_is_missing_is_named(this_host: Host, root: Path) -> None:
    with pytest.raises(Refused, match="environment cpu-test is not ready"):
        ask(this_host)
    give_environment(root, "#!/bin/sh\nexit 0\n")
    with pytest.raises(Refused, match="the trainer is not on this host yet"):
        ask(this_host)
    with pytest.raises(Refused, match="hash"):
        ask(this_host, payload="../..")


def test_the_trainer_reads_the_rows_and_its_last_words_are_told(this_host: Host, root: Path) -> None:
    answer: dict[str, Any] = {"parts": [], "problem": None, "notes": []}
    fails = """case "$(cat)" in *fail*) echo "no such tokenizer" >&2; exit 3;; esac"""
    says = f"""echo '@@ {json.dumps(answer)}'; test "$PYTHONPATH" = "{root}/code/{SHA}" && test -z "$CUDA_VISIBLE_DEVICES" """
    give_environment(root, f"#!/bin/sh\n{fails}\n{says}\n")
    (root / "code" / SHA).mkdir(parents=True)
    assert ask(this_host) == answer
    with pytest.raises(Refused, match="exit code 3:\nno such tokenizer"):
        ask(this_host, rows=ROWS | {"training": {"model": "fail"}})
