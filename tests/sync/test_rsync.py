"""Checkpoints by rsync: what it and the stream leave each other, what it may not reach, and what is said where it cannot be used."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.config.sync import SyncSettings
from armada.errors import LinkLost, RsyncUnusable
from armada.store import hosts as records
from armada.sync.transfer import rsync_transfer
from armada.sync.transfer.bandwidth import allowance_for
from armada.sync.transfer.block_writer import BLOCK_BYTES, BlockWriter
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from armada.sync.transfer.method import choose_transfer
from armada.sync.transfer.staging import incoming
from armada.sync.transfer.stream_transfer import Fetcher
from armada.sync.transfer.streams import Streams
from armada.transport.interface import Pull
from tests.sync.conftest import Place, leftovers, random_bytes

BY_RSYNC = pytest.mark.parametrize("place", ["rsync"], indirect=True)
BY_STREAM = pytest.mark.parametrize("place", ["stream"], indirect=True)


def before_each_pull(place: Place, monkeypatch: pytest.MonkeyPatch, act: Callable[[Pull], None]) -> None:
    original = place.session.pull

    def acting(wanted: Pull, progress: Any) -> None:
        act(wanted)
        original(wanted, progress)

    monkeypatch.setattr(place.session, "pull", acting)


@BY_RSYNC
@pytest.mark.fault(
    "a stream broken in the middle, rsync from then on",
    "rsync goes on with the beginning; a file with holes is never taken for a whole one",
)
def test_rsync_goes_on_with_what_the_stream_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    data = random_bytes(6 * BLOCK_BYTES + 5)
    digest = place.save(1, {"sub/model": data, "whole": data[:5000]})
    folder = place.home.staging(place.run_id, digest)
    (folder / "sub").mkdir(parents=True)
    with (folder / "sub/model").open("wb") as file:
        file.write(data[: 2 * BLOCK_BYTES])
        file.seek(4 * BLOCK_BYTES)
        file.write(data[4 * BLOCK_BYTES : 5 * BLOCK_BYTES])
        file.truncate(len(data))
    (folder / "whole").write_bytes(data[:5000])
    (folder.parent / f"{digest}.blocks").write_text("0 sub/model\n1 sub/model\n4 sub/model\n0 whole\n")
    seen: list[tuple[list[str], int]] = []

    def look(wanted: Pull) -> None:
        seen.append((list(wanted.files), (wanted.destination / "sub/model").stat().st_size))

    before_each_pull(place, monkeypatch, look)
    (published,) = place.sync().published
    assert (published / "sub/model").read_bytes() == data
    assert seen == [(["sub/model"], 2 * BLOCK_BYTES)]
    assert leftovers(place) == []


@BY_STREAM
@pytest.mark.fault(
    "rsync broken in the middle, the stream from then on",
    "the stream goes on with what came; what was wrong in it is fetched again",
)
@pytest.mark.parametrize("right", [True, False])
def test_the_stream_goes_on_with_what_rsync_left(place: Place, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    data = random_bytes(4 * BLOCK_BYTES)
    digest = place.save(1, {"sub/model": data, "whole": data[:5000]})
    arriving = incoming(place.home.staging(place.run_id, digest))
    (arriving / "sub").mkdir(parents=True)
    (arriving / "sub/model").write_bytes(data[: 2 * BLOCK_BYTES + 7] if right else bytes(2 * BLOCK_BYTES + 7))
    (arriving / "whole").write_bytes(data[:5000])
    resumed: list[int] = []
    original = Fetcher.fetch

    def looking(self: Fetcher, run_id: str, folder: str, writer: BlockWriter, progress: Any) -> None:
        resumed.append(writer.size_bytes - sum(writer.length(*block) for block in writer.missing))
        original(self, run_id, folder, writer, progress)

    monkeypatch.setattr(Fetcher, "fetch", looking)
    outcome = place.sync()
    assert resumed[0] == 2 * BLOCK_BYTES + 5000
    assert (outcome.published[0] / "sub/model").read_bytes() == data
    assert leftovers(place) == []


@BY_RSYNC
@pytest.mark.fault(
    "a wrong byte, a file too long and a link where rsync goes on",
    "found by the hash and fetched again; nothing is written through the link",
)
def test_what_lies_wrong_where_rsync_goes_on_comes_again(place: Place, tmp_path: Path) -> None:
    place.create()
    data = random_bytes(3_000_000)
    files = {"torn": data, "begun": data, "long": b"short", "link": data, "hard": data, "away/file": b"there"}
    digest = place.save(1, files)
    arriving = incoming(place.home.staging(place.run_id, digest))
    arriving.mkdir(parents=True)
    (arriving / "torn").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (arriving / "begun").write_bytes(bytes(1_000_000))
    (arriving / "long").write_bytes(b"much too long")
    precious, elsewhere = tmp_path / "precious", tmp_path / "elsewhere"
    precious.write_bytes(b"p")
    elsewhere.mkdir()
    (arriving / "link").symlink_to(precious)
    os.link(precious, arriving / "hard")
    (arriving / "away").symlink_to(elsewhere)
    (published,) = place.sync().published
    assert {name: (published / name).read_bytes() for name in files} == files
    assert (precious.read_bytes(), list(elsewhere.iterdir())) == (b"p", [])


@BY_RSYNC
@pytest.mark.fault(
    "a host that names files of its own to an rsync which lets it (CVE-2022-29154)",
    "nothing verified or shared is within its reach; such files are thrown away",
)
def test_rsync_reaches_nothing_that_was_verified_or_is_shared(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    shared = random_bytes(10_000)
    place.save(1, {"base": shared})
    place.sync()
    place.save(2, {"base": shared, **{f"shard-{number:03}": b"%d" % number for number in range(250)}})
    original = place.session.pull
    asked: list[set[str]] = []

    def planting(wanted: Pull, progress: Any) -> None:
        original(wanted, progress)
        asked.append(set(wanted.files))
        there = {path.name for path in wanted.destination.iterdir()}
        assert there - {"base", "planted"} == asked[-1]
        for name in {"base", "planted", "shard-000"} - asked[-1]:
            (wanted.destination / name).write_bytes(b"planted")

    monkeypatch.setattr(place.session, "pull", planting)
    (published,) = place.sync().published
    assert [len(names) for names in asked] == [200, 50]
    assert not any("base" in names for names in asked)
    assert (published / "base").read_bytes() == (place.published / "checkpoint-1" / "base").read_bytes() == shared
    assert (published / "shard-000").read_bytes() == b"0"
    assert not (published / "planted").exists()
    assert leftovers(place) == []


@BY_RSYNC
def test_what_rsync_left_counts_as_room_it_has_already(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    data = random_bytes(3_000_000)
    digest = place.save(1, {"model": data})
    arriving = incoming(place.home.staging(place.run_id, digest))
    arriving.mkdir(parents=True)
    (arriving / "model").write_bytes(data[:2_000_000])
    asked: list[int] = []
    monkeypatch.setattr(
        "armada.sync.checkpoints.download.check_space", lambda folder, what, missing, **_: asked.append(missing)
    )
    assert len(place.sync().published) == 1
    assert 900_000 < asked[0] <= 1_000_000


@BY_RSYNC
@pytest.mark.fault(
    "a host that sends more than its manifest lists",
    "broken off, said, never published",
)
def test_a_host_that_sends_more_than_it_announced_is_cut_off(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rsync_transfer, "_SLACK_BYTES", 1000)
    place.create()
    digest = place.save(1, {"model": b"ten bytes."})
    (place.remote / "outbox" / digest / "model").write_bytes(random_bytes(2_000_000))
    (trouble,) = place.sync().troubles
    assert (trouble.cause, "more than the manifest lists" in trouble.error.message) == ("source_changed", True)
    assert place.home_steps() == []


@BY_RSYNC
def test_a_folder_that_is_a_link_on_the_host_brings_nothing_but_what_was_announced(
    place: Place, tmp_path: Path
) -> None:
    place.create()
    (tmp_path / "x").write_bytes(b"y")
    digest = place.save(1, {"sub/x": b"x"})
    folder = place.remote / "outbox" / digest / "sub"
    (folder / "x").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert [trouble.cause for trouble in place.sync().troubles] == ["source_changed"]
    assert place.home_steps() == []


@pytest.mark.fault(
    "an rsync of a killed armada that still writes",
    "the stream brings the checkpoint; what that rsync writes is not touched",
)
@BY_RSYNC
def test_while_another_rsync_writes_nothing_of_its_is_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rsync_transfer, "_ENDS_S", 0.0)
    place.create()
    digest = place.save(1, {"model": b"x" * 100})
    arriving = incoming(place.home.staging(place.run_id, digest))
    arriving.mkdir(parents=True)
    (arriving / "model").write_bytes(b"y" * 100)
    with (arriving.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (trouble,) = place.sync().troubles
        assert "another rsync still writes" in trouble.error.message
        place.run_settings(transfer="stream")
        (published,) = place.sync(insist=True).published
    assert (published / "model").read_bytes() == b"x" * 100


@BY_RSYNC
@pytest.mark.fault(
    "rsync missing here, and asked for",
    "said with what to install, and that `auto` does without",
)
def test_an_rsync_that_is_asked_for_and_not_here_is_said(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    place.save(1, {"model": b"x"})
    place.session.call("sync.look", {"runs": []})
    monkeypatch.setenv("PATH", str(tmp_path))
    (trouble,) = place.sync().troubles
    assert isinstance(trouble.error, RsyncUnusable)
    assert trouble.error.exit_code == 5
    assert "no rsync on this machine" in trouble.error.message
    assert "sync.transfer: auto" in (trouble.error.hint or "")
    place.run_settings(transfer="auto")
    assert len(place.sync(insist=True).published) == 1


@pytest.fixture
def over_ssh(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ChosenTransfer]:
    """What is chosen for a host like this one, were it reached over a short link."""
    monkeypatch.setattr(Streams, "round_trip_s", 0.001)

    def choose(host_bwlimit: str | None = None, **settings: Any) -> ChosenTransfer:
        place.session.host = Host(name="box", ssh="box", bwlimit=host_bwlimit)
        chosen = SyncSettings.model_validate(settings)
        fetcher = Fetcher(place.session, streams=chosen.streams, bytes_per_s=chosen.bytes_per_s)
        return ChosenTransfer(place.database, place.session, chosen, fetcher)

    return choose


def test_rsync_that_turns_out_unusable_is_replaced_by_the_stream_for_the_whole_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Pull] = []

    def refuse(wanted: Pull, progress: Any) -> None:
        tries.append(wanted)
        raise RsyncUnusable("the host's shell prints text where rsync expects its protocol", host="box")

    monkeypatch.setattr(place.session, "pull", refuse)
    place.create()
    place.save(1, {"model": b"x" * 100})
    place.save(2, {"model": b"y" * 100})
    # As over SSH: nobody knows yet that it will not do.
    monkeypatch.setattr(
        "armada.sync.transfer.chosen_transfer.choose_transfer",
        lambda setting, **known: choose_transfer(setting, **{**known, "is_local": False}),
    )
    assert len(place.sync().published) == 2
    assert len(tries) == 1
    assert "shell prints" in (place.session.without_rsync or "")
    place.save(3, {"model": b"z" * 100})
    assert len(place.sync().published) == 1
    assert len(tries) == 1


def test_the_choice_knows_what_the_host_said_what_home_limits_and_what_went_wrong(
    place: Place, over_ssh: Callable[..., ChosenTransfer]
) -> None:
    assert over_ssh().choice.method == "rsync"
    assert "bwlimit" in over_ssh(host_bwlimit="20M", transfer="rsync").choice.reason
    assert over_ssh(bwlimit="20M").choice.method == "rsync"  # its own limit it keeps itself
    records.record_facts(place.database, "box", {"tools": {"rsync": None}})
    assert over_ssh().choice.reason == "the host has no rsync"
    records.record_facts(place.database, "box", {"tools": {"rsync": "3.2.7"}})
    assert over_ssh().choice.method == "rsync"
    place.session.without_rsync = "it broke"
    assert over_ssh().choice.reason == "it broke"


def test_the_shared_limit_is_what_the_choice_looks_at(place: Place, over_ssh: Callable[..., ChosenTransfer]) -> None:
    place.home.hosts_file.write_text("bwlimit: 20M\n")
    assert allowance_for(place.home, place.session.host, None).limits
    assert over_ssh(transfer="rsync").choice.method == "stream"


@BY_RSYNC
@pytest.mark.fault(
    "rsync's link lost again and again",
    "goes on where it broke for as long as anything comes; then the loss is said",
)
@pytest.mark.parametrize("gets_on", [True, False])
def test_a_lost_link_is_tried_again_within_the_patience(
    place: Place, gets_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    data = random_bytes(1_000_000)
    place.save(1, {"model": data})
    clock = [0.0]
    monkeypatch.setattr("armada.sync.transfer.retries.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("armada.sync.transfer.retries.time.sleep", lambda _: None)
    monkeypatch.setattr(place.session, "_patience_s", 10.0)
    original = place.session.pull
    tries = 0

    def breaking(wanted: Pull, progress: Any) -> None:
        nonlocal tries
        tries += 1
        clock[0] += 6.0
        if gets_on and tries == 8:
            original(wanted, progress)
            return
        if gets_on:
            (wanted.destination / "model").write_bytes(data[: tries * 1000])
        raise LinkLost("the transfer broke off", host="local")

    monkeypatch.setattr(place.session, "pull", breaking)
    if gets_on:
        (published,) = place.sync().published
        assert (published / "model").read_bytes() == data
    else:
        with pytest.raises(LinkLost):
            place.sync()
        assert tries == 3
