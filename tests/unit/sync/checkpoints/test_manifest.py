from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from armada.sync.checkpoints.manifest import parse_manifest
from armada.sync.errors import ManifestRejected

GOOD = {"path": "adapter.safetensors", "size": 3, "sha256": "a" * 64}


def text(*files: Any, **changes: Any) -> str:
    return json.dumps({"format": 1, "run_id": "r", "step": 5, "files": list(files), **changes})


def parse(content: str) -> Any:
    return parse_manifest(content, hashlib.sha256(content.encode()).hexdigest())


def test_a_good_manifest_names_its_files() -> None:
    manifest = parse(text(GOOD, {**GOOD, "path": "sub/naïve 'name' $(touch x).bin", "size": 4}))
    assert manifest.step == 5
    assert manifest.size_bytes == 7


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        "",
        "a\x00b",
        "a\nb",
        "a\x1b[2J",
        "MANIFEST.json",
        "a\\b",
        "x" * 2000,
        "a\u202eb",
        7,
        None,
    ],
)
def test_a_path_that_no_honest_host_would_name_is_refused(path: Any) -> None:
    with pytest.raises(ManifestRejected):
        parse(text({**GOOD, "path": path}))


@pytest.mark.parametrize(
    "change", [{"size": -1}, {"size": 1.5}, {"size": True}, {"sha256": "zz"}, {"sha256": None}, {"mode": 0o777}]
)
def test_an_entry_with_other_values_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ManifestRejected):
        parse(text({**GOOD, **change}))


@pytest.mark.parametrize(
    "content",
    [
        text(),
        text(GOOD, GOOD),
        text(GOOD, {**GOOD, "path": "adapter.safetensors/x"}),
        text(GOOD, format=2),
        text(GOOD, step=-1),
        text(GOOD, step=None),
        "[]",
        "{",
        "null",
        "[" * 100_000,
        text({**GOOD, "path": "a\ud800"}),
    ],
    ids=[
        "no files",
        "a path twice",
        "file and folder",
        "other format",
        "negative step",
        "no step",
        "a list",
        "not JSON",
        "null",
        "nested without end",
        "half a character in a path",
    ],
)
@pytest.mark.fault(
    "manifest with a million entries, a wrong hash, or out of shape",
    "rejected before anything is fetched",
)
def test_a_manifest_out_of_shape_is_refused(content: str) -> None:
    with pytest.raises(ManifestRejected):
        parse(content)


@pytest.mark.fault(
    "manifest with a million entries, a wrong hash, or out of shape",
    "rejected before anything is fetched",
)
def test_a_million_entries_are_refused() -> None:
    entries = ",".join(['{"path":"p","size":1,"sha256":"' + "a" * 64 + '"}'] * 1_000_000)
    with pytest.raises(ManifestRejected, match="1000000 files"):
        parse('{"format":1,"step":1,"files":[' + entries + "]}")


@pytest.mark.fault(
    "manifest with a million entries, a wrong hash, or out of shape",
    "rejected before anything is fetched",
)
def test_a_manifest_that_is_not_what_its_name_says_is_refused() -> None:
    with pytest.raises(ManifestRejected, match="does not match its name"):
        parse_manifest(text(GOOD), "0" * 64)


def test_a_manifest_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(ManifestRejected, match="not text"):
        parse_manifest('{"format": 1, "x": "\ud800"}', "0" * 64)


@pytest.mark.parametrize(
    ("loss", "kept"),
    [
        (2.5, 2.5),
        (3, 3.0),
        (10**400, None),
        (-(10**400), None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("1", None),
    ],
)
def test_a_loss_that_no_float_can_hold_is_none(loss: Any, kept: float | None) -> None:
    assert parse(text(GOOD, metrics={"eval_loss": loss})).eval_loss == kept
