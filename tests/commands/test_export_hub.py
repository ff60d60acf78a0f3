"""`armada export --to hf://owner/name`: private unless asked otherwise, one commit, compared with home, the token nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.conftest import Armada
from tests.hub_uploads import Uploads, taking_uploads
from tests.published_run import BASE, ON_HOST, adapter, opened, publish, record, sft_plan

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (pip install -e .[dev])")

RUN, REPO = "my-adapter-1", "owner/name"


@pytest.fixture
def hub() -> Iterator[Uploads]:
    with taking_uploads() as found:
        yield found


@pytest.fixture
def exporting(armada: Armada, hub: Uploads) -> Armada:
    with opened(armada.folder / "home") as (home, database):
        record(database, RUN, sft_plan(RUN))
        publish(database, home, RUN, 10, adapter(ON_HOST))
    armada.env.update({
        "HF_ENDPOINT": hub.address, "HF_TOKEN": hub.token, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(armada.folder / "hf"),
    })  # fmt: skip
    return armada


def uploaded(hub: Uploads) -> dict[str, bytes]:
    return {name: content for name, content in hub.repos[REPO].items() if name != ".gitattributes"}


def test_an_export_becomes_a_private_repository_in_one_commit(exporting: Armada, hub: Uploads) -> None:
    told = exporting.json("export", RUN, "--to", f"hf://{REPO}")
    assert (told["to"], told["changed"]) == (f"{hub.address}/{REPO}", ["adapter_config.json"])
    files = uploaded(hub)
    assert sorted(files) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    assert files["adapter_model.safetensors"] == b"w" * 3000
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == BASE
    assert f'PeftModel.from_pretrained(base, "{REPO}")'.encode() in files["README.md"]
    assert (hub.private[REPO], hub.commits) == (True, 1)


def test_public_is_asked_for_by_name(exporting: Armada, hub: Uploads) -> None:
    assert exporting.run("export", RUN, "--to", f"hf://{REPO}", "--public").returncode == 0
    assert hub.private[REPO] is False
    answer = exporting.run("export", RUN, "--to", "model", "--public")
    assert answer.returncode == 2
    assert not (exporting.folder / "model").exists()


def test_the_same_export_again_finds_it_done(exporting: Armada, hub: Uploads) -> None:
    for _ in range(2):
        assert exporting.run("export", RUN, "--to", f"hf://{REPO}").returncode == 0
    assert hub.commits == 1


def test_a_repository_with_other_files_is_left_alone(exporting: Armada, hub: Uploads) -> None:
    hub.create(REPO, private=True, **{"theirs\x1b[31m.txt": b"theirs"})
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}")
    assert answer.returncode == 8
    assert "has other files (theirs" in answer.stderr
    assert "\x1b" not in answer.stderr
    assert list(uploaded(hub).values()) == [b"theirs"]


@pytest.mark.parametrize(("private", "more"), [(False, []), (True, ["--public"])])
def test_an_empty_repository_that_others_may_read_or_not_is_never_a_surprise(
    exporting: Armada, hub: Uploads, private: bool, more: list[str]
) -> None:
    hub.create(REPO, private=private)
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}", *more)
    assert answer.returncode == 8
    assert ("is private" if private else "is public") in answer.stderr
    assert uploaded(hub) == {}
    assert exporting.run("export", RUN, "--to", f"hf://{REPO}", *([] if more else ["--public"])).returncode == 0


@pytest.mark.parametrize("first", [[], ["--public"]])
def test_the_same_files_under_the_other_visibility_are_no_export(
    exporting: Armada, hub: Uploads, first: list[str]
) -> None:
    assert exporting.run("export", RUN, "--to", f"hf://{REPO}", *first).returncode == 0
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}", *([] if first else ["--public"]))
    said = "public, and you export without" if first else "private, and you export with"
    assert (answer.returncode, f"exists already and is {said} --public" in answer.stderr) == (8, True), answer.stderr
    assert hub.commits == 1


@pytest.mark.parametrize(
    ("token", "refused", "code", "sentence"),
    [
        (None, {}, 2, "there is no token for the hub"),
        ("hf_a-wrong-token", {}, 2, "refuses the token"),
        ("", {"POST /api/repos/create": 403}, 2, "the token may not write to owner/name"),
        ("", {"POST .*/commit/": 403}, 2, "the token may not write to owner/name"),
        ("", {"POST .*/commit/": 400}, 9, "broke off"),
        ("", {"GET /api/models": 418}, 4, "does not answer as a hub"),
    ],
)
def test_a_refusal_of_the_hub_is_a_sentence_and_shows_no_token(
    exporting: Armada, hub: Uploads, token: str | None, refused: dict[str, int], code: int, sentence: str
) -> None:
    if token is None:
        del exporting.env["HF_TOKEN"]
    elif token:
        exporting.env["HF_TOKEN"] = token
    hub.refused = refused
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}", "--json")
    assert (answer.returncode, sentence in answer.stderr) == (code, True), answer.stderr
    assert json.loads(answer.stdout)["error"]["exit_code"] == code
    for shown in (answer.stdout, answer.stderr):
        assert "Traceback" not in shown
        assert "hf_a-wrong-token" not in shown
        assert hub.token not in shown
    assert hub.commits == 0


def test_a_hub_that_is_not_there_is_said(exporting: Armada) -> None:
    exporting.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}")
    assert answer.returncode == 4, answer.stderr
    assert "http://127.0.0.1:9 does not answer as a hub" in answer.stderr


@pytest.mark.parametrize("word", ["hf://", "hf://name", "hf://owner/name/more", "hf://owner/../x", "hf://-x/y"])
def test_what_names_no_repository_is_refused(exporting: Armada, hub: Uploads, word: str) -> None:
    answer = exporting.run("export", RUN, "--to", word)
    assert answer.returncode == 2
    assert "--to hf://owner/name" in answer.stderr
    assert hub.asked == []


@pytest.mark.fault("a byte of a checkpoint at home changes, and it is uploaded", "refused; nothing is uploaded")
def test_a_checkpoint_damaged_at_home_is_not_uploaded(exporting: Armada, hub: Uploads) -> None:
    folder = exporting.folder / "home" / "state" / "runs" / RUN / "checkpoints" / "checkpoint-10"
    (folder / "adapter_model.safetensors").chmod(0o644)
    (folder / "adapter_model.safetensors").write_bytes(b"W" * 3000)
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}")
    assert answer.returncode == 1
    assert "adapter_model.safetensors is not as it came" in answer.stderr
    assert hub.repos == {}


@pytest.mark.fault("somebody commits to the repository during an upload", "refused; theirs stays")
def test_a_commit_of_somebody_else_meanwhile_is_not_built_upon(exporting: Armada, hub: Uploads) -> None:
    def commit() -> None:
        hub.repos[REPO]["theirs.txt"] = b"theirs"
        hub.commits += 1

    hub.before_commit = commit
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}")
    assert answer.returncode == 8, answer.stderr
    assert list(uploaded(hub)) == ["theirs.txt"]


@pytest.mark.fault("the hub has other bytes than were sent", "said; exit code 1")
@pytest.mark.parametrize("corrupt", [".safetensors", "tokenizer.json", "README.md"])
def test_other_bytes_at_the_hub_are_noticed(exporting: Armada, hub: Uploads, corrupt: str) -> None:
    hub.corrupt = corrupt
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}")
    assert answer.returncode == 1
    assert "does not have the same bytes as home" in answer.stderr


def test_without_the_client_the_command_that_installs_it_is_named(exporting: Armada, hub: Uploads) -> None:
    broken = exporting.folder / "no" / "huggingface_hub"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('none here')\n")
    exporting.env["PYTHONPATH"] = str(broken.parent)
    answer = exporting.run("export", RUN, "--to", f"hf://{REPO}", process=True)
    assert answer.returncode == 2
    assert "armada-gpu[hub]" in answer.stderr
    assert hub.asked == []
