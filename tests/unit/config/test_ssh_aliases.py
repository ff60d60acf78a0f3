"""The names in ssh_config files, as they are found in the wild."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.ssh_aliases import list_aliases, own_config
from armada.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("Host a\n  HostName x\nHost b c\n", ["a", "b", "c"]),
        ("host=a\nHOST = b\n\tHost\tc\r\n", ["a", "b", "c"]),
        ("Host * gpu-? !bad *.lab ok\n", ["ok"]),
        ('Host "quoted name" "x"\n', ["quoted name", "x"]),
        ("Host a # first\n# Host b\n  #Host c\n", ["a"]),
        ("Host a\nHost a\nHost b a\n", ["a", "b"]),
        ("HostName x\nHostKeyAlias y\nUser z\n", []),
        ("Match all\n  User me\nHost a\n", ["a"]),
        ("Host\nHost a", ["a"]),
    ],
)
def test_names_without_wildcards_are_listed_once(tmp_path: Path, text: str, names: list[str]) -> None:
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    assert list(list_aliases(file).names) == names


def test_each_name_has_its_line_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text('Host a\nMatch host x\nMatch user y\nHost "b\nHost c\n')
    found = list_aliases(file)
    assert [(alias.name, alias.file, alias.line) for alias in found.names.values()] == [("a", file, 1), ("c", file, 5)]
    assert found.notes == [
        "Match blocks name no hosts to list; ssh applies them to every name here",
        f"{file}:4: the quotes do not close; this line is left out",
    ]


def test_included_files_are_read_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ssh = tmp_path / ".ssh"
    (ssh / "conf.d").mkdir(parents=True)
    (ssh / "conf.d" / "1").write_text("Host one\n")
    (ssh / "conf.d" / "2").write_text("Host two\nInclude ../config\n")
    (ssh / "conf.d" / "latin").write_bytes(b"# caf\xe9\nHost three\n")
    (tmp_path / "far").write_text("Host far\n")
    (ssh / "config").write_text(f"Host a\nInclude conf.d/* ~/far missing/*\nInclude {tmp_path}/far\nHost b\n")
    found = list_aliases(own_config())
    assert list(found.names) == ["a", "one", "two", "far", "b"]
    assert found.files == {
        path.resolve() for path in (ssh / "config", *(ssh / "conf.d" / n for n in "12"), tmp_path / "far")
    }
    (note,) = found.notes
    assert "latin:1: byte 0xe9 is not UTF-8; left out" in note


def test_files_that_include_ever_more_files_end(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number}").write_text(f"Host h{number}\nInclude {tmp_path}/f{number + 1}\n")
    found = list_aliases(tmp_path / "f0")
    assert list(found.names) == [f"h{number}" for number in range(17)]
    assert "more than 16 files include each other" in found.notes[0]


def test_a_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMADA_SSH_CONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="cannot read it"):
        list_aliases(own_config())
