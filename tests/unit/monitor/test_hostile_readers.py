"""Each reader of home, with whatever a host or a job may have written: it takes it or refuses it in a sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.compare.report.samples import Sample, read_history, read_samples
from armada.foundation.sanitize import OutputText
from armada.launch.bench import results
from armada.protocol.files import Event, read_event
from armada.store import adopted, metrics, runs
from armada.store.database import Database
from armada.sync.checkpoints.manifest import Manifest, parse_manifest
from armada.sync.errors import ManifestRejected
from armada.sync.outputs.listing import read_listing
from tests import hostile
from tests.answers import listing
from tests.chance import dice

FILES = [{"path": name, "size": 3, "sha256": "a" * 64} for name in ("adapter.safetensors", "sub/optimizer.pt")]
MANIFEST = {"format": 1, "run_id": "r", "step": 5, "kind": "periodic", "created_at": 1.0, "metrics": {"eval_loss": 1.0}}
OUTPUTS = [{"path": name, "size_bytes": 3, "mtime": 1.0} for name in ("output.log", "out/result.txt")]
FAILURE = {
    "seq": 1, "time": 1.0, "attempt": 1, "kind": "failure", "submission": 1, "reason": "oom", "message": "no memory", "rank": 1,
    "lines": ["Traceback", "no memory"], "others": [{"rank": 0, "message": "lost"}], "exit_code": 1, "signal": None,
}  # fmt: skip
SAMPLE = {"step": 5, "prompt": [{"role": "user", "content": "a"}], "expected": "b", "generated": "c"}
ROW = {"kind": "bench", "step": 1, "status": "oom", "message": "a GPU's memory ran out"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "armada.db") as opened:
        for run_id in ("hostile", "innocent"):
            runs.insert(opened, run_id=run_id, name="r", host="box", task="command", experiment=None, spec={})
        yield opened


def is_inside(path: str) -> bool:
    return path.isprintable() and not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


def test_a_manifest_is_taken_or_refused_and_names_no_file_elsewhere() -> None:
    chance, right, refused = dice(561), json.dumps({**MANIFEST, "files": FILES}).encode(), 0
    for _ in range(hostile.CASES):
        text = hostile.content(chance, right).decode("utf-8", chance.choice(["replace", "surrogateescape"]))
        try:
            found: Manifest | None = parse_manifest(
                text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            )
        except ManifestRejected:
            refused += 1
            continue
        assert found is not None
        assert all(is_inside(file.path) and file.size >= 0 and len(file.sha256) == 64 for file in found.files)
    assert 0 < refused < hostile.CASES


def test_a_listing_names_only_files_that_can_be_at_home_and_says_which_it_leaves_out() -> None:
    chance, right = dice(562), json.dumps(OUTPUTS).encode()
    innocent = read_listing(listing({"outputs": OUTPUTS}))
    skipped_any = 0
    for _ in range(hostile.CASES):
        bent = [json.loads(right), json.loads(right)[0]]
        for entry in bent[0]:
            entry[chance.choice(list(entry))] = hostile.value(chance)
            entry["path"] = chance.choice(
                [entry["path"], "../x", "/etc/passwd", ".staging/x", ".index.json", "a\x00", "a/" * 600, "out"]
            )
        found, skipped = read_listing(listing({"outputs": [*bent[0], *OUTPUTS, hostile.value(chance)]}))
        skipped_any += bool(skipped)
        assert all(is_inside(each.path) and not each.path.startswith(".staging") for each in found)
    assert skipped_any
    assert read_listing(listing({"outputs": OUTPUTS})) == innocent


def test_events_are_stored_and_shown_whatever_they_hold(database: Database) -> None:
    chance, right = dice(563), json.dumps(FAILURE).encode()
    metrics.record_events(database, "innocent", [dict(FAILURE)], offset=0, next_offset=1)
    lines = []
    for number in range(hostile.CASES):
        try:
            bent: Any = json.loads(hostile.content(chance, right).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(bent, dict):
            lines.append({str(key): value for key, value in bent.items()} | {"seq": number + 1})
            if number % 2:
                lines[-1] |= {"kind": "state", "state": hostile.value(chance)}
    metrics.record_events(database, "hostile", lines, offset=0, next_offset=1)
    kept = metrics.events(database, "hostile")
    assert len(kept) == len(lines)
    assert all(isinstance(read_event(text), Event) for text in kept)
    adopted.retell(database, "hostile")
    (shown,) = map(read_event, metrics.events(database, "innocent"))
    assert shown.model_dump(include={"reason", "lines"}) == {"reason": "oom", "lines": ("Traceback", "no memory")}


def test_samples_and_rows_of_a_bench_are_read_beside_whatever_else_is_there(tmp_path: Path) -> None:
    chance = dice(564)
    file = tmp_path / "lines.jsonl"
    for _ in range(0, hostile.CASES, 20):
        thrown = [hostile.line(chance).encode("utf-8", "surrogatepass") for _ in range(10)]
        thrown += [
            hostile.content(chance, json.dumps(chance.choice([SAMPLE, ROW])).encode())[:100_000] for _ in range(10)
        ]
        right = [
            json.dumps({**SAMPLE, "step": 1 << 50, "prompt": "mine"}).encode(),
            json.dumps({**ROW, "step": 77}).encode(),
        ]
        chance.shuffle(thrown)
        file.write_bytes(b"\n".join([*right, *thrown, b""]))
        assert read_samples(file)["mine"] == Sample(1 << 50, "mine", "b", "c")
        assert read_history(file)["mine"]
        assert results._messages(file)[77] == ROW["message"]  # noqa: SLF001


def test_whatever_a_job_prints_is_shown_without_what_a_terminal_obeys() -> None:
    chance = dice(565)
    for _ in range(0, hostile.CASES, 10):
        shown = OutputText(colours=chance.random() < 0.5)
        text = "".join(
            chance.choice(
                [hostile.line(chance), "\x1b]52;c;x\x07", "\x1b[31m", "\r", "\n", "\x9b2J", "\u202e", "\x1b["]
            )
            for _ in range(10)
        )
        told = "".join(shown.take(text[at : at + 7]) for at in range(0, min(len(text), 3000), 7))
        assert not set(told) & set("\x07\x9b\u202e\x00\ud800"), repr(text[:100])
        assert all(each[:1] == "[" for each in told.split("\x1b")[1:])
