"""Which pages of a run may be opened: what a host printed is not trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.tui.web_pages import ENDS_BYTES, pages, valid


@pytest.mark.parametrize(
    ("url", "is_valid"),
    [
        ("https://wandb.ai/me/arc/runs/a-aaaaaa", True),
        ("http://127.0.0.1:8080/me/arc/runs/a-aaaaaa", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("https://wandb.ai@evil.example/runs/a", False),
        ("https://user:word@wandb.ai/runs/a", False),
        ("https:///runs/a", False),
        ("https://wandb.ai:99999999/runs/a", False),
        ("https://[::1/runs/a", False),
        ("https://wandb.ai/\x1b]52;c;x\x07/runs/a", False),
        ("https://wandb.ai/a b/runs/a", False),
        ("https://wändb.ai/runs/a", False),
        ("https://wandb.ai/" + "x" * 600, False),
        ("-https://wandb.ai/", False),
    ],
)
def test_only_plain_http_is_opened(url: str, is_valid: bool) -> None:
    assert (valid(url) is not None) == is_valid


def test_the_page_that_the_log_names_comes_first_then_the_hub(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    other = b"wandb: View run x at: https://wandb.ai/me/arc/runs/other\n"
    mine = b"wandb: View run at: \x1b[34mhttps://wandb.ai/me/arc/runs/a-aaaaaa\x1b[0m\n"
    log.write_bytes(other + mine + b"x\n" * ENDS_BYTES + b"see file:///etc/runs/a and https://u@h/runs/a-aaaaaa\n")
    spec = {
        "experiment": {"model": "Qwen/Qwen2.5-0.5B", "data": {"train": {"hub": "me/data"}, "eval": {"hub": "../x y"}}}
    }
    assert [page.url for page in pages("a-aaaaaa", log, spec)] == [
        "https://wandb.ai/me/arc/runs/a-aaaaaa",
        "https://huggingface.co/Qwen/Qwen2.5-0.5B",
        "https://huggingface.co/datasets/me/data",
    ]


def test_each_dataset_of_the_hub_is_linked_once() -> None:
    train = [{"hub": "me/data"}, {"hub": "me/more"}, {"path": "own.jsonl"}, "not a source"]
    found = pages("a-aaaaaa", None, {"experiment": {"data": {"train": train, "eval": [{"hub": "me/data"}]}}})
    assert [page.url for page in found] == [f"https://huggingface.co/datasets/me/{name}" for name in ("data", "more")]


def test_of_other_names_at_wandb_the_last_printed_is_taken(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"https://wandb.ai/me/arc/runs/first\nhttps://wandb.ai/me/arc/runs/last?x=1\n")
    assert [page.url for page in pages("a-aaaaaa", log, None)] == ["https://wandb.ai/me/arc/runs/last"]


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"experiment": 7},
        {"experiment": {"model": {"tiny": {}}, "data": 3}},
        {"experiment": {"model": "/folder"}},
    ],
)
def test_a_run_without_pages_has_none(spec: dict[str, object] | None, tmp_path: Path) -> None:
    assert pages("a-aaaaaa", tmp_path / "missing.log", spec) == []
