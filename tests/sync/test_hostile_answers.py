"""Whatever a host answers, home says a sentence, writes nothing outside its folders and does not fall over."""

from __future__ import annotations

from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import ArmadaError
from armada.paths import HomePaths
from armada.protocol.outbox import Pruned
from armada.rpc.byte_stream import Block, Stream
from armada.sync.outputs.listing import read_listing
from tests.answers import listing, outbox
from tests.sync.conftest import Place


@pytest.mark.parametrize(
    "listed",
    [
        None,
        7,
        "x",
        {},
        [None],
        [[]],
        [{"path": 7}],
        [{"path": "../x", "size_bytes": 1, "mtime": 0}],
        [{"path": "a", "size_bytes": -1, "mtime": 0}],
        [{"path": "a", "size_bytes": 1, "mtime": "now"}],
        [{"path": "a", "size_bytes": 1, "mtime": 10**400}],
        [{"path": "a\ud800", "size_bytes": 1, "mtime": 0}],
        [{"path": ".staging/x", "size_bytes": 1, "mtime": 0}],
        [{"path": ".index.json", "size_bytes": 1, "mtime": 0}],
        [{"path": ".index.json/x", "size_bytes": 1, "mtime": 0}],
        [{"path": "a\x1b[2J", "size_bytes": 1, "mtime": 0}],
    ],
)
def test_listings_out_of_shape_name_no_file(listed: Any) -> None:
    assert read_listing(listing({"outputs": listed}))[0] == []


def test_a_file_that_is_also_a_folder_is_left_there() -> None:
    listed = [{"path": path, "size_bytes": 1, "mtime": 0} for path in ("a", "a/b", "c")]
    found, skipped = read_listing(listing({"outputs": listed}))
    assert ([item.path for item in found], skipped) == (["a", "c"], ["a/b"])


@pytest.mark.parametrize(
    "change", [{"size_bytes": 10**40}, {"step": -1}, {"digest": "../x"}, {"digest": 7}, {"created_at": None}]
)
def test_outbox_entries_the_store_could_not_hold_are_left_out(change: dict[str, Any]) -> None:
    entry = {"digest": "a" * 64, "step": 1, "size_bytes": 1, "file_count": 1, "created_at": 1.0}
    assert listing({"outbox": [entry]}).outbox == tuple(outbox([entry]))
    assert listing({"outbox": [{**entry, **change}]}).outbox == ()


class Speaks:
    """A channel whose far end says these bytes and nothing else."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.nonce = ""

    def write(self, data: bytes) -> None:
        if b'"nonce": "' in data:
            self.nonce = data.split(b'"nonce": "')[1].split(b'"')[0].decode()

    def read(self) -> bytes:
        said, self._said = self._said.replace(b"NONCE", self.nonce.encode()), b""
        return said

    def close(self) -> None:
        pass

    def diagnosis(self) -> str:
        return "(ended)"


HELLO = b'noise\n@@ARMADA {"nonce": "NONCE", "hello": {}}\n'


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\n" * 100,
        b'@@ARMADA {"nonce": "NONCE", "error": 7}\n',
        HELLO,
        HELLO + b'{"id": 1, "result": {"size_bytes": 99}}\n' + b"x" * 99,
        HELLO + b'{"id": 1, "result": {"size_bytes": -1}}\n',
        HELLO + b'{"id": 1, "result": 7}\n',
        HELLO + b'{"id": 1, "error": "no"}\n',
        HELLO + b'{"id": 2, "result": {"size_bytes": 1}}\nx',
        HELLO + b'{"id": 1, "result": {"size_bytes": 5}}\nxx',
        HELLO + b"[" * 50_000,
        b"y" * (2 << 20),
    ],
)
def test_a_stream_that_says_anything_else_ends_in_an_error_of_ours(said: bytes, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("home")
    stream = Stream(Speaks(said), Host(name="local"), HomePaths(folder, folder))
    stream.ask(Block("r", "work/x", 0, 10))
    with pytest.raises(ArmadaError):
        stream.receive(lambda block, offset, data: None)


def test_an_agent_that_prunes_what_it_was_not_asked_to_is_not_believed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(keep_remote=1)
    first, second = (place.save(step, {"model": b"%d" % step}) for step in (1, 2))
    original = place.session.call

    def lying(request: Any, **options: Any) -> Any:
        if request.method == "outbox.prune":
            return Pruned.model_validate({"pruned": [second, "x", 7], "refused": {}})
        return original(request, **options)

    monkeypatch.setattr(place.session, "call", lying)
    assert place.sync().deleted_host == ()
    assert {first, second} <= place.host_digests()
