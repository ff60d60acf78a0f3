"""Requirements of an experiment's environment: what a host can fetch is taken, anything else is refused with its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from armada.config.documents import Place
from armada.config.requirements import Requirement, read_file, read_line
from armada.errors import ConfigError
from tests.unit.config.experiments import COMMAND, SFT, load, refused

HASH = f"--hash=sha256:{'a1' * 32}"


def texts(lines: tuple[Requirement, ...]) -> list[str]:
    return [line.text for line in lines]


def in_file(project: Path, text: str) -> tuple[Requirement, ...]:
    (project / "requirements.txt").write_text(text)
    return load(project, f"{COMMAND}environment: {{requirements: requirements.txt}}\n").requirement_lines


def refused_in_file(project: Path, text: str) -> ConfigError:
    (project / "requirements.txt").write_text(text)
    return refused(project, f"{COMMAND}environment: {{requirements: requirements.txt}}\n")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("einops", "einops"),
        ("Transformers [torch] >= 4.44 , <5", "Transformers[torch]<5,>=4.44"),
        ("a==1.*  # why", "a==1.*"),
        ("a>=1; python_version<'3.12'", 'a>=1; python_version < "3.12"'),
        ("a @ https://example.org/a-1.0-py3-none-any.whl", "a @ https://example.org/a-1.0-py3-none-any.whl"),
        ("a @ git+https://example.org/a@abc#subdirectory=x", "a @ git+https://example.org/a@abc#subdirectory=x"),
        (f"a==1 {HASH} \\\n  {HASH}", f"a==1 {HASH} {HASH}"),
        ("\ufeffa==1\r\n", "a==1"),
    ],
)
def test_what_a_host_can_fetch_is_taken(project: Path, text: str, read: str) -> None:
    assert texts(in_file(project, text)) == [read]


def test_a_list_in_the_experiment_keeps_its_order_and_its_lines(project: Path) -> None:
    text = f"{COMMAND}environment:\n  requirements:\n    - einops==0.8.1\n    - typing_extensions\n"
    lines = load(project, text).requirement_lines
    assert [(line.name, line.place.line) for line in lines] == [("einops", 6), ("typing-extensions", 7)]


def test_a_list_on_the_command_line_is_read_too(project: Path) -> None:
    found = load(project, COMMAND, "environment.requirements=[einops]")
    assert texts(found.requirement_lines) == ["einops"]
    with pytest.raises(ConfigError, match=r"--set environment\.requirements=\[\./x\]: './x' is a path"):
        load(project, COMMAND, "environment.requirements=[./x]")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("-e .", "an editable package is a folder of this machine", "`code:`"),
        ("--editable=git+https://x.org/a", "an editable package", "git\\+https"),
        ("--index-url https://mirror.example.org/simple", "each host has its own sources", "pip.conf"),
        ("-i https://x.org", "`-i`: each host has its own sources", "pip.conf"),
        ("--extra-index-url=https://x.org", "each host has its own sources", "pip.conf"),
        ("-f ./wheels", "each host has its own sources", "pip.conf"),
        ("--pre", "the option `--pre` is not supported", "take it out"),
        ("a==1 --config-settings=x", "only --hash=sha256:… may follow", "take the option out"),
        ("./local", "'./local' is a path on this machine", "NAME @ https"),
        ("wheels/a-1.0-py3-none-any.whl", "is a path on this machine", "NAME @ https"),
        ("a @ file:///home/me/a.whl", "`file:`: a host fetches packages by https", "NAME @ https"),
        ("a @ http://x.org/a.whl", "`http:`: a host fetches packages by https", "NAME @ https"),
        ("a @ ../a", "a host fetches packages by https", "NAME @ https"),
        ("https://x.org/a.whl", "'https://x.org/a.whl' has no name", "NAME @ https://x.org/a.whl"),
        ("a @ https://me:secret@x.org/a.whl", "a URL with a user name or password", "netrc"),
        ("a==${VERSION}", "variables are not read here", "write the value"),
        ("a = 1", "'a = 1' is no requirement", "name==1.2.3"),
        ("a==1\u2028--index-url=x", "has characters that no requirement has", None),
        ("-r https://x.org/r.txt", "is not a file of the project", "below the project"),
        ("-r", "is not a file of the project", "below the project"),
        ("-r missing.txt", "there is no file '.*missing.txt'", None),
        ("-r ../../other.txt", "is outside the project", "copy it below"),
        ("-r requirements.txt", "includes itself", "take the line out"),
    ],
)
def test_what_a_host_cannot_fetch_is_refused_with_its_line(
    project: Path, line: str, message: str, hint: str | None
) -> None:
    (project.parent.parent / "other.txt").write_text("a\n")
    with pytest.raises(ConfigError, match=message) as caught:
        in_file(project, f"einops\n# comment\n{line}\n")
    assert (caught.value.path, caught.value.line) == (project / "requirements.txt", 3)
    assert "secret" not in str(caught.value)
    if hint is not None:
        with pytest.raises(AssertionError, match=hint):
            raise AssertionError(caught.value.hint)


def test_files_include_each_other_and_their_places_are_their_own(project: Path) -> None:
    (project / "more").mkdir()
    (project / "more" / "a.txt").write_text("-r b.txt\n\na==1\n")
    (project / "more" / "b.txt").write_text("b==2\n")
    (project / "limits.txt").write_text("numpy<2\n")
    lines = in_file(project, "c\n-r more/a.txt\n--constraint=limits.txt\n")
    assert [(line.text, line.is_constraint, line.place.line) for line in lines] == [
        ("c", False, 1),
        ("b==2", False, 1),
        ("a==1", False, 3),
        ("numpy<2", True, 1),
    ]
    assert lines[1].place.path == project / "more" / "b.txt"


def test_files_that_include_each_other_in_a_circle_are_refused(project: Path) -> None:
    (project / "a.txt").write_text("-r requirements.txt\n")
    error = refused_in_file(project, "-r a.txt\n")
    assert (error.path, error.line) == (project / "a.txt", 1)
    assert "includes itself" in error.message


def test_a_file_outside_may_include_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.txt").write_text("-r b.txt\n")
    (tmp_path / "shared" / "b.txt").write_text("b\n")
    assert texts(read_file(tmp_path / "shared" / "a.txt", tmp_path / "project")) == ["b"]


@pytest.mark.parametrize(
    ("environment", "line", "message", "hint"),
    [
        ("{requirements: requirments.txt}", 4, "there is no file '.*requirments.txt'", None),
        ("{requirements: conda.yml}", 4, "a .yml file cannot be read", "requirements.txt"),
        ("{requirements: empty.txt}", 4, "names no package", "environment: profile"),
        ("{requirements: []}", 4, "must be filled", None),
        ("{requirements: 5}", 4, "must be a file, or a list of requirements, not 5", None),
        ("{requirements: [5]}", 4, r"e.yaml:4: `environment.requirements\[0\]` must be text, not 5", "quotes"),
        ("{requirements: [a], extras: [b]}", 4, "`environment.extras` belongs to a pyproject.toml", "pyproject.toml"),
        ("{packages: [a]}", 4, "unknown key `environment.packages`", "`environment.requirements`"),
        ("{}", 4, "`environment` needs one of `requirements`, `existing`, `conda` and `container`", None),
        ("{requirements: [a], conda: b}", 4, "`environment.conda` cannot stand beside `requirements`", "keep one"),
        ("{existing: venvs/mine}", 4, "must be a folder on the host, absolute or from ~/", "existing: ~/venvs/mine"),
        ("{existing: /}", 4, "must be a folder on the host", None),
        ("{conda: /opt/conda/envs/x}", 4, "must be the name of an environment of conda's", "existing: PATH"),
        ("{conda: -n}", 4, "must be the name of an environment of conda's", None),
        ("{venv: ~/x}", 4, "unknown key `environment.venv`", "`environment.existing`"),
        ("{container: --privileged}", 4, "must be the name of an image, such as nvcr.io", "REGISTRY/NAME:TAG"),
        ("{container: 'a -v /:/x'}", 4, "must be the name of an image", None),
        ('{container: "a\\nb"}', 4, "must be the name of an image", None),
        ("{container: 'docker://a'}", 4, "must be the name of an image", "no URL scheme"),
        ("{container: ''}", 4, "must not be empty", None),
        ("{container: a@sha256:12}", 4, "must be the name of an image", None),
        ("{container: a, conda: b}", 4, "`environment.container` cannot stand beside `conda`", "keep one"),
        ("{image: a}", 4, "unknown key `environment.image`", "`environment.container`"),
        ("{requirements: ['-r x.txt']}", 4, "`-r` belongs to a file", "requirements: FILE"),
        ('{requirements: ["a==1\\n--index-url=http://x"]}', 4, "characters that no requirement has", None),
    ],
)
def test_a_wrong_environment_is_told_with_its_line(
    project: Path, environment: str, line: int, message: str, hint: str | None
) -> None:
    (project / "empty.txt").write_text("# nothing\n")
    (project / "conda.yml").write_text("x\n")
    with pytest.raises(ConfigError, match=message) as caught:
        load(project, f"{COMMAND}environment: {environment}\n")
    assert caught.value.line == line
    assert hint is None or hint in (caught.value.hint or "")


def test_a_requirement_has_the_name_that_packages_are_compared_by() -> None:
    assert read_line("Typing_Extensions>=4", Place(None, 1)).name == "typing-extensions"


PROJECT = """\
[project]
name = "My_Project"
dependencies = [
  "einops>=0.8",
  "torch",
]
[project.optional-dependencies]
plot = ["matplotlib"]
all = ["my-project[plot]", "rich"]
[dependency-groups]
dev = ["pytest", {include-group = "lint"}]
lint = ["ruff"]
"""


def in_project(project: Path, more: str, text: str = PROJECT) -> tuple[Requirement, ...]:
    (project / "pyproject.toml").write_text(text)
    return load(project, f"{COMMAND}environment: {{requirements: pyproject.toml{more}}}\n").requirement_lines


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", ["einops>=0.8", "torch"]),
        (", extras: [plot]", ["einops>=0.8", "torch", "matplotlib"]),
        (", extras: [all]", ["einops>=0.8", "torch", "matplotlib", "rich"]),
        (", groups: [dev]", ["einops>=0.8", "torch", "pytest", "ruff"]),
    ],
)
def test_a_project_gives_its_dependencies_extras_and_groups(project: Path, more: str, found: list[str]) -> None:
    lines = in_project(project, more)
    assert texts(lines) == found
    assert lines[0].place.line == 4


@pytest.mark.parametrize(
    ("more", "old", "new", "line", "message", "hint"),
    [
        (", extras: [polt]", "", "", 7, "there is no extra 'polt'", "did you mean plot?"),
        (", groups: [docs]", "", "", 10, "there is no group 'docs'", "known: dev, lint"),
        ("", "einops>=0.8", "./einops", 4, "is a path on this machine", "NAME @"),
        (
            "",
            'name = "My_Project"',
            'dynamic = ["dependencies"]',
            2,
            "the dependencies are dynamic",
            "requirements.txt",
        ),
        ("", "name =", "name", 2, "not TOML", None),
        ("", '"torch"', "5", 3, "5 is no requirement", None),
        (", groups: [dev]", '"ruff"', '{include-group = "dev"}', 11, "the group 'dev' includes itself", "take one"),
        (
            "",
            "[dependency-groups]",
            "[tool.uv.sources]\neinops = {git = 'x'}\n[dependency-groups]",
            4,
            "from a git",
            "git",
        ),
    ],
)
def test_what_is_wrong_in_a_project_is_told_with_its_line(
    project: Path, more: str, old: str, new: str, line: int, message: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        in_project(project, more, PROJECT.replace(old, new, 1))
    assert caught.value.path == project / "pyproject.toml"
    assert hint is None or hint in (caught.value.hint or "")
    assert caught.value.line == line


def test_a_project_of_another_tool_is_told_what_to_name_instead(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no \[project\] table") as caught:
        in_project(project, "", "[tool.poetry]\nname = 'x'\n")
    assert "poetry export" in (caught.value.hint or "")


@pytest.mark.parametrize("key", ["existing: ~/venv", "conda: mine"])
def test_a_training_takes_no_environment_that_armada_did_not_build(project: Path, key: str) -> None:
    error = refused(project, f"{SFT}environment: {{{key}}}\n")
    assert error.line == 6
    assert "the bundled trainer needs the releases it is tested with" in error.message
    assert "requirements" in (error.hint or "")


LOCK = """\
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "idna"
version = "3.20"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "colorama"
version = "0.4.6"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "x"
version = "0"
source = { virtual = "." }
dependencies = [
    { name = "idna" },
]

[package.dev-dependencies]
dev = [
    { name = "colorama" },
]

[package.metadata]
requires-dist = [{ name = "idna" }]

[package.metadata.requires-dev]
dev = [{ name = "colorama" }]
"""
LOCKED = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = ["idna"]\n'
LOCKED += '[dependency-groups]\ndev = ["colorama"]\n'


def in_lock(project: Path, more: str = "", text: str = LOCK) -> tuple[Requirement, ...]:
    (project / "pyproject.toml").write_text(LOCKED)
    (project / "uv.lock").write_text(text)
    return load(project, f"{COMMAND}environment: {{requirements: uv.lock{more}}}\n").requirement_lines


@pytest.fixture
def with_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the tests' own uv."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))


@pytest.mark.usefixtures("with_uv")
def test_a_lock_gives_the_versions_that_it_pins(project: Path) -> None:
    lines = in_lock(project)
    assert [(line.text, line.place.line) for line in lines] == [("idna==3.20", 6)]
    assert lines[0].place.path == project / "uv.lock"
    assert texts(in_lock(project, ", groups: [dev]")) == ["colorama==0.4.6", "idna==3.20"]


@pytest.mark.usefixtures("with_uv")
@pytest.mark.parametrize(
    ("more", "old", "new", "said"),
    [
        ("", "version = 1", "version = ", "uv does not read it: .*TOML"),
        (", groups: [docs]", "", "", "uv does not read it: .*`docs`"),
        ("", 'source = { registry = "https://pypi.org/simple" }', 'source = { editable = "idna" }', "editable package"),
    ],
)
def test_a_lock_that_cannot_be_read_is_said(project: Path, more: str, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        in_lock(project, more, LOCK.replace(old, new, 1))
    assert caught.value.path == project / "uv.lock"


def test_a_lock_needs_uv(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"only uv can read a uv.lock") as caught:
        in_lock(project)
    assert "uv export" in (caught.value.hint or "")
