"""What `--json` prints is of the shape that is documented, also where a command fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from armada.cli.shapes import ERROR, SHAPES, schema_of
from tests.commands.saved_run import save_and_end

if TYPE_CHECKING:
    from tests.conftest import Armada


def check(printed: Any, shape: str) -> None:
    """Validate what was printed; the shapes demand the number of their format."""
    jsonschema.validate(printed, schema_of(SHAPES[shape]))


def test_what_commands_print_has_its_shape(armada: Armada) -> None:
    planned = armada.json("launch", "--host", "local", armada.command("true"), "--dry-run")
    check(planned, "launch --dry-run")
    run_id = save_and_end(armada)
    for words in (
        "sync now --dry-run",
        "sync now",
        "sync ls",
        "ps",
        "hosts ls",
        "hosts check",
        "doctor",
        "store check",
    ):
        check(printed := armada.json(*words.split()), words)
        assert printed, words
    for words in ("show", "pull", "why", "wandb sync"):
        check(armada.json(*words.split(), run_id), words)
    for words in ("sync verify", "sync retention"):
        check(armada.json(*words.split(), run_id), words)
    for words in ("hosts release", "hosts homes"):
        check(armada.json(*words.split(), "local", rc=None), words)
    check(armada.json("daemon", "status", rc=7), "daemon status")
    check(armada.json("recover", "--dry-run"), "recover")
    check(armada.json("config", "show", "exp.yaml"), "config show")
    check(armada.json("config", "edit", "exp.yaml", "--set", "retries=1"), "config edit")
    check(armada.json("help", "exit-codes"), "help exit-codes")
    for line in armada.run("logs", run_id, "--json").stdout.splitlines():
        check(json.loads(line), "logs")
    check(armada.json("stop", run_id), "stop")
    (armada.local_runs / run_id / "work" / "scratch.tmp").unlink()  # no sync.outputs names it
    armada.json("sync", "now", run_id)
    check(armada.json("rm", run_id, "--dry-run"), "rm")
    check(armada.json("rm", run_id), "rm")


def test_the_lines_of_a_log_tell_where_they_are(armada: Armada) -> None:
    experiment = armada.command("sh", "-c", "echo one; echo two")
    run_id = armada.json("launch", "--host", "local", experiment, "--follow")["run_id"]
    (line,) = armada.run("logs", run_id, "--tail", "1", "--json").stdout.splitlines()
    assert json.loads(line) == {"format": 1, "run_id": run_id, "source": "host", "offset": 4, "text": "two\n"}


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (["show", "none"], "NotFound", 7),
        (["logs", "none"], "NotFound", 7),
        (["rm", "none"], "NotFound", 7),
        (["hosts", "check", "none"], "NotFound", 7),
        (["hosts", "trust", "local"], "UsageError", 2),
        (["launch", "missing.yaml", "--host", "local"], "ConfigError", 2),
        (["ps", "--no-such-option"], "UsageError", 2),
        (["fly"], "UsageError", 2),
    ],
)
def test_an_error_is_an_object_too(armada: Armada, words: list[str], kind: str, code: int) -> None:
    done = armada.run(*words, "--json")
    assert done.returncode == code
    told = json.loads(done.stdout)
    jsonschema.validate(told, schema_of(ERROR))
    assert (told["error"]["kind"], told["error"]["exit_code"]) == (kind, code)
    assert done.stderr.startswith(f"armada: {told['error']['message']}")


def test_a_command_that_printed_its_value_prints_no_second_one(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", armada.command("false"), "--follow", "--json")
    assert done.returncode == 6
    check(json.loads(done.stdout), "launch")
