"""Data of scripts and commands, linked where they work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent.conversation import Host, Refused, spec_of

SHA = "a" * 64


def put(host: Host, *names: str) -> Path:
    content = Path(host.root) / "data" / SHA
    for name in names:
        (content / name).parent.mkdir(parents=True, exist_ok=True)
        (content / name).write_text(name)
    return content


def create(host: Host, run_id: str, *data: dict[str, Any], **job: Any) -> Path:
    spec = spec_of(run_id, "true", job={"data": list(data), **job})
    host.call("run.create", run_id=run_id, spec=spec, files={}, secrets={})
    return host.folder(run_id) / "work"


def test_files_are_linked_one_by_one_into_folders_of_the_runs_own(host: Host) -> None:
    content = put(host, "big/a.bin", "big/deep/b.bin", "c.txt")
    work = create(
        host,
        "data-1",
        {"content": f"{content}/big", "name": "sets/big"},
        {"content": f"{content}/c.txt", "name": "data/c.txt"},
    )
    assert (work / "sets" / "big" / "deep" / "b.bin").read_text() == "big/deep/b.bin"
    assert (work / "data" / "c.txt").readlink() == content / "c.txt"
    assert not (work / "sets" / "big").is_symlink()
    (work / "sets" / "big" / "mine").write_text("a cache")  # beside its data, not in the shared content
    assert not (content / "big" / "mine").exists()


def test_what_came_with_the_code_stays(this_host: Host, tmp_path: Path) -> None:
    content = put(this_host, "big/a.bin", "big/b.bin")
    code = tmp_path / "code"
    (code / "big").mkdir(parents=True)
    (code / "big" / "a.bin").write_text("of the code")
    work = create(this_host, "data-2", {"content": f"{content}/big", "name": "big"}, code=str(code))
    assert (work / "big" / "a.bin").read_text() == "of the code"
    assert (work / "big" / "b.bin").is_symlink()


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        ("{root}/data/{sha}/x", "../x", "bad_request"),
        ("{root}/data/{sha}/x", "/x", "bad_request"),
        ("{root}/data/{sha}/x", "a//x", "bad_request"),
        ("data/{sha}/x", "x", "bad_request"),
        ("/etc/passwd", "x", "bad_request"),
        ("{root}/data/../../../etc", "x", "bad_request"),
        ("{root}/data/{sha}/gone", "x", "not_found"),
    ],
)
def test_data_that_is_none_of_this_root_or_leaves_the_folder_is_refused(
    this_host: Host, content: str, name: str, kind: str
) -> None:
    put(this_host, "x")
    with pytest.raises(Refused) as refused:
        create(this_host, "data-3", {"content": content.format(root=this_host.root, sha=SHA), "name": name})
    assert refused.value.kind == kind
    assert not this_host.folder("data-3").exists()
