"""The page of results: what was measured, beside what was aimed at, and nothing that breaks the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu import results_file, table

ABOUT = {"driver": "580.1", "python": "3.12.3", "packages": {"torch": "2.13.0"}, "date": "2026-11-24", "commit": "abc"}


def render(tmp_path: Path) -> str:
    return "\n\n".join(table.render(table.files(tmp_path)))


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    assert render(tmp_path) == table.NOTHING
    results_file.record(tmp_path / "gpu.json", "GPU", "facts", {"status": "not run", "message": "", "cases": []})
    assert render(tmp_path) == table.NOTHING


def test_checks_stand_in_their_order_with_their_figures_and_aims(tmp_path: Path) -> None:
    figures = {
        "tokens_per_s": 15_700.4,
        "mfu": 0.461,
        "aim_mfu": 0.45,
        "peak_reserved_bytes": 7.89e10,
        "recomputes": False,
        "x": None,
    }
    case = {"name": "lora 4096", "status": "passed", "message": "MFU 46.1%, the aim of 45% is met", "figures": figures}
    path = tmp_path / "nvidia-h200.json"
    results_file.record(
        path, "NVIDIA H200", "speed-7b", {**ABOUT, "status": "passed", "seconds": 61.2, "cases": [case]}
    )
    results_file.record(
        path, "NVIDIA H200", "qlora", {**ABOUT, "status": "skipped", "message": "it is missing", "seconds": 0.2}
    )
    results_file.record(path, "NVIDIA H200", "trl-7b", {"status": "not run", "message": "3 s are left"})
    results_file.record(path, "NVIDIA H200", "of-an-older-kit", {**ABOUT, "driver": "570.1", "status": "passed"})
    page = render(tmp_path)
    assert page.startswith("## NVIDIA H200\n\n")
    assert "driver 580.1, Python 3.12.3, torch 2.13.0: qlora, speed-7b." in page
    assert "driver 570.1, Python 3.12.3, torch 2.13.0: of-an-older-kit." in page
    rows = [line.split(" | ")[0].strip("| ") for line in page.splitlines() if line.startswith("| **")]
    assert rows == ["**qlora**", "**speed-7b**", "**trl-7b**", "**of-an-older-kit**"]
    assert "| passed | 61 s, 2026-11-24, abc |" in page
    assert "aim mfu 45.00%, mfu 46.10%, peak reserved 78.9 GB, recomputes no, tokens/s 15,700 |" in page


def test_what_a_driver_or_a_library_says_cannot_break_the_page(tmp_path: Path) -> None:
    said = "a | b\n## heading <script>`x`</script> [link](http://x) \x1b[31m"
    case = {"name": said, "status": said, "message": said, "figures": {said: said, "n": 1e400}}
    path = tmp_path / "gpu.json"
    results_file.record(
        path, said, "facts", {"status": said, "message": said, "cases": [case, 3], "packages": {said: said}}
    )
    page = render(tmp_path)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [f"## {table.plain(said)}"]
    table_lines = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table_lines} == {5}
    assert "<script>" not in page.replace("\\<", "").replace("\\>", "")
    assert "\x1b" not in page


def test_a_broken_file_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gpu.json").write_text("{")
    assert table.main([str(tmp_path / "gpu.json")]) == 2
    assert capsys.readouterr().err.startswith(f"table: {tmp_path}/gpu.json cannot be read")
    assert table.main([]) == 0
