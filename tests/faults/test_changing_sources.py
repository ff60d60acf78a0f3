"""A host's files that change while they travel: what arrives is never taken for what was announced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armada.foundation.progress import NullProgress, TransferProgress
from armada.store import transfers
from armada.sync.transfer.block_writer import BLOCK_BYTES
from tests.sync.conftest import Place, both_ways, leftovers, random_bytes

SIZE = 3 * BLOCK_BYTES


def slow(place: Place) -> dict[str, object]:
    """Settings with which a file of this size takes a while; rsync says once a second how far it is."""
    return {"bwlimit": "10M"} if place.transfer == "rsync" else {"bwlimit": "25M", "streams": 1}


class Once(NullProgress):
    """A listener that does something when the first bytes have come."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.acted = False

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        if not self.acted and what.startswith("checkpoint") and 0 < seen.done_bytes < (seen.total_bytes or 0):
            self.acted = True
            self._act()


@both_ways
@pytest.mark.fault(
    "source rewritten during a transfer",
    "never published; comes once it is what was announced again",
)
def test_a_file_rewritten_while_it_travels_is_not_published(place: Place) -> None:
    place.create(**slow(place))
    data = random_bytes(SIZE)
    digest = place.save(2, {"model": data})
    model = place.remote / "outbox" / digest / "model"
    other = data[: SIZE // 2] + bytes(SIZE - SIZE // 2)

    def rewrite() -> None:
        with model.open("r+b") as stream:
            stream.write(other)

    listener = Once(rewrite)
    outcome = place.sync(progress=listener)
    assert listener.acted
    assert [trouble.cause for trouble in outcome.troubles] == ["source_changed"]
    assert place.home_steps() == []
    assert not (place.remote / "outbox" / f"{digest}.ack").exists()
    assert transfers.of_run(place.database, place.run_id)[digest].state == "failed"
    model.write_bytes(data)
    place.run_settings(bwlimit=None)
    (published,) = place.sync(insist=True).published
    assert (published / "model").read_bytes() == data
    assert leftovers(place) == []


@both_ways
@pytest.mark.fault(
    "source truncated or rotated away during a transfer",
    "said, never published; other checkpoints come",
)
@pytest.mark.parametrize("how", ["truncated", "rotated away"])
def test_a_file_that_goes_while_it_travels_is_said_and_the_rest_comes(place: Place, how: str) -> None:
    place.create(**slow(place))
    place.save(1, {"model": b"small"})
    data = random_bytes(SIZE)
    digest = place.save(2, {"model": data})
    folder = place.remote / "outbox" / digest

    def change() -> None:
        if how == "truncated":
            (folder / "model").write_bytes(b"short")
        else:
            folder.rename(folder.with_name(".trash-away"))

    listener = Once(change)
    outcome = place.sync(progress=listener)
    assert listener.acted
    causes = {trouble.cause for trouble in outcome.troubles}
    if how == "rotated away" and not causes:
        # The reader had the file open already: what it went on reading was all there, and what was announced.
        assert place.home_steps() == [1, 2]
        (large,) = [place_at for place_at in outcome.published if (place_at / "model").stat().st_size == SIZE]
        assert (large / "model").read_bytes() == data
        return
    assert causes == {"source_changed"}
    assert place.home_steps() == [1]
