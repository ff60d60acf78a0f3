"""Differences of code, packages and data: complete, bounded, and never guessed."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from armada.compare.code import LARGEST_TEXT_BYTES, MOST_LINES, FileChange, compare_code
from armada.compare.data import DataFile, compare_data, data_of
from armada.compare.environment import compare_packages, lists_of, packages_of
from armada.records.launch_record import KeptContent, KeptEnvironment, KeptFile, LaunchRecord


def kept(path: str, data: bytes, *, executable: bool = False) -> KeptFile:
    return KeptFile(path, len(data), hashlib.sha256(data).hexdigest(), executable)


def compared(old: dict[str, bytes], new: dict[str, bytes]) -> dict[str, FileChange]:
    before, after = ({path: kept(path, data) for path, data in files.items()} for files in (old, new))
    return {each.path: each for each in compare_code(before, after, old, new)}


def test_a_diff_of_text_is_one_that_patch_applies(tmp_path: Path) -> None:
    old = {"a.py": b"one\ntwo\nthree", "gone.py": b"x\n", "same.py": b"s\n", "crlf.py": b"a\r\nb\r\n"}
    new = {"a.py": b"one\n2\nthree\n", "new.py": b"y\n", "same.py": b"s\n", "crlf.py": b"a\r\nc\r\n"}
    found = compared(old, new)
    assert {path: each.change for path, each in found.items()} == {
        "a.py": "changed", "crlf.py": "changed", "gone.py": "removed", "new.py": "added",
    }  # fmt: skip
    for name, data in old.items():
        (tmp_path / name).write_bytes(data)
    text = "".join(f"{line}\n" for each in found.values() for line in each.lines or ())
    done = subprocess.run(["git", "apply", "-"], input=text.encode(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == new


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"a\0b", b"a\0c", "binary"),
        (b"\xff\xfe", b"\xff\xfd", "binary"),
        (b"a\n", b"a" * (LARGEST_TEXT_BYTES + 1), "large"),
        (b"a\n", b"a\n" * (MOST_LINES + 1), "large"),
    ],
)
def test_binary_and_huge_files_are_named_only(old: bytes, new: bytes, why: str) -> None:
    (found,) = compared({"f": old}, {"f": new}).values()
    assert found.lines is None
    assert why in (found.why or "")


def test_a_file_whose_bytes_were_not_kept_is_named() -> None:
    one, two = kept("w.bin", b"1"), kept("w.bin", b"2")
    (found,) = compare_code({"w.bin": one}, {"w.bin": two}, {}, {"w.bin": b"2"})
    assert (found.lines, found.why) == (None, "1 B, its bytes were not kept")


def test_a_change_of_mode_alone_is_one() -> None:
    (found,) = compare_code({"a": kept("a", b"1")}, {"a": kept("a", b"1", executable=True)}, {}, {})
    assert found.change == "mode"


def test_packages_are_read_from_pip_freeze_and_requirements() -> None:
    text = (
        "Typing_Extensions==4.12\n# comment\n-e git+https://x\nflash-attn @ file:///x.whl\ntorch>=2,<3 # why\nplain\n"
    )
    assert packages_of(text) == {
        "typing-extensions": "4.12", "flash-attn": "@ file:///x.whl", "torch": ">=2,<3", "plain": "any version",
    }  # fmt: skip


def test_lines_with_markers_are_all_compared() -> None:
    old, new, same = (f"numpy=={v}; python_version < '3.12'\n" for v in ("1.26", "1.24", "1.26"))
    rest = "numpy==2.1; python_version >= '3.12'\nnumpy\n"
    (changed,) = compare_packages(packages_of(old + rest), packages_of(new + rest))
    assert (changed.name, "1.26" in str(changed.before), "1.24" in str(changed.after)) == ("numpy", True, True)
    assert packages_of("torch==2.9\ntorch\n") == {"torch": "2.9"}
    assert compare_packages(packages_of(old + rest), packages_of(rest + same)) == []
    many = "".join(f"numpy==1.{n}; python_version == '3.{n}' and platform_machine == 'x86_64'\n" for n in range(9))
    (late,) = compare_packages(packages_of(many + "numpy==9.1\n"), packages_of(many + "numpy==9.2\n"))
    assert max(len(str(late.before)), len(str(late.after))) <= 300


def test_what_is_installed_is_compared_if_both_said_it() -> None:
    one = KeptEnvironment("a", requirements="torch==2\n", installed="torch==2\nnumpy==1\n")
    two = KeptEnvironment("b", requirements="torch==3\n", installed="torch==3\n")
    source, before, after = lists_of(one, two)
    assert source == "installed"
    changes = [(each.name, each.before, each.after) for each in compare_packages(before, after)]
    assert changes == [("numpy", "1", None), ("torch", "2", "3")]
    assert lists_of(one, KeptEnvironment("c", requirements="torch==2\n"))[0] == "requirements"


def test_data_is_compared_by_name_size_and_hash() -> None:
    def record(*files: tuple[str, bytes], remote: str = "v1") -> LaunchRecord:
        content = KeptContent("data", "0" * 64, "/d", tuple(kept(*file) for file in files), len(files), 0)
        return LaunchRecord("1", contents=(content,), files=(("corpus", "hf://o/x", remote),))

    one = data_of(record(("a.jsonl", b"1"), ("b.jsonl", b"2"), ("same", b"s")))
    two = data_of(record(("a.jsonl", b"11"), ("same", b"s"), remote="v2"))
    changes = {each.name: (each.before, each.after) for each in compare_data(one, two)}
    assert set(changes) == {"a.jsonl", "b.jsonl", "corpus from hf://o/x"}
    assert changes["b.jsonl"][1] is None
    assert changes["corpus from hf://o/x"] == (DataFile(None, "v1"), DataFile(None, "v2"))


def test_two_data_files_of_one_name_are_told_apart() -> None:
    contents = tuple(KeptContent("data", str(n), f"/d{n}", (kept("train.jsonl", b"%d" % n),), 1, 1) for n in (1, 2))
    assert set(data_of(LaunchRecord("1", contents=contents))) == {"train.jsonl", "train.jsonl (2)"}
