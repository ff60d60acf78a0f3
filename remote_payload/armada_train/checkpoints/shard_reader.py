"""Read the shards of `torch.distributed.checkpoint` piece by piece.

Its own readers load a whole tensor beside its pieces, or a whole checkpoint. A piece here is what one rank wrote of one
tensor.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from armada_train.checkpoints.shards import MODEL
from armada_train.failure import PayloadFailure
from armada_train.records import open_file, show

_PREFIX = "model."
_CLASSES = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "pathlib": {"PosixPath", "PurePosixPath"},
    "pathlib._local": {"PosixPath", "PurePosixPath"},
}
"""What a checkpoint's metadata consists of: anything else is code that a pickle would run."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one rank wrote of a tensor, and where.

    Attributes:
        offsets: Of its first element in the whole tensor, in each dimension.
        sizes: Its own shape.
        file: The shard.
        start: Of its bytes in the shard; they are `length` long.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: Path
    start: int
    length: int

    def load(self) -> Any:
        """Read it.

        Raises:
            PayloadFailure: `merge_mismatch`: it is not what the metadata says.
        """
        try:
            with open_file(self.file) as stream:
                value = torch.load(_Window(stream, self.start, self.length), map_location="cpu", weights_only=True)
        except Exception as error:  # changed bytes make pickle and torch raise anything
            message = f"{show(self.file)} cannot be read at {self.start}: {show(error)}"
            raise PayloadFailure("merge_mismatch", message) from error
        if not torch.is_tensor(value) or tuple(value.shape) != self.sizes:
            raise PayloadFailure(
                "merge_mismatch", f"{show(self.file)} has another tensor at {self.start} than its metadata says"
            )
        return value


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in shards."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


def read_stored(checkpoint: Path) -> list[Stored]:
    """List the weights of a checkpoint, by their names in the model.

    Raises:
        PayloadFailure: `merge_mismatch`: the metadata is not what torch writes, or its pieces do not make up a tensor.
    """
    folder = checkpoint / MODEL
    try:
        with open_file(folder / ".metadata") as file:
            metadata = _Unpickler(file).load()
        return list(_read_tensors(metadata, folder))
    except Exception as error:  # changed bytes make pickle raise anything
        raise PayloadFailure("merge_mismatch", f"{folder / '.metadata'} cannot be read: {show(error)}") from error


def _read_tensors(metadata: Any, folder: Path) -> Iterator[Stored]:
    places: dict[tuple[str, tuple[int, ...]], Any] = {}
    for index, place in metadata.storage_data.items():
        if index.offset is not None:
            places[index.fqn, tuple(index.offset)] = place
    for name, entry in metadata.state_dict_metadata.items():
        if not name.startswith(_PREFIX) or not hasattr(entry, "chunks"):
            raise ValueError(f"{name!r} is no weight")
        pieces = []
        for chunk in entry.chunks:
            place = places[name, tuple(chunk.offsets)]
            file = str(place.relative_path)
            if "/" in file or file in {"", ".", ".."} or place.transform_descriptors:
                raise ValueError(f"{file!r} is no shard")
            pieces.append(
                Piece(tuple(chunk.offsets), tuple(chunk.sizes), folder / file, int(place.offset), int(place.length))
            )
        yield _checked(Stored(name.removeprefix(_PREFIX), entry.properties.dtype, tuple(entry.size), tuple(pieces)))


def _checked(stored: Stored) -> Stored:
    """Return the tensor, whose pieces lie within it, and together are as large."""
    for piece in stored.pieces:
        ends = [offset + size for offset, size in zip(piece.offsets, piece.sizes, strict=True)]
        if len(ends) != len(stored.shape) or any(end > most for end, most in zip(ends, stored.shape, strict=True)):
            raise ValueError(f"a piece of {stored.name} lies outside of it")
    if len({piece.offsets for piece in stored.pieces}) != len(stored.pieces):
        raise ValueError(f"two pieces of {stored.name} are in one place")
    if sum(_count(piece.sizes) for piece in stored.pieces) != _count(stored.shape):
        raise ValueError(f"the pieces of {stored.name} are not the whole of it")
    return stored


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _CLASSES.get(module, ()) or (
            module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        ):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong there")


class _Window(io.RawIOBase):
    """A part of a file, as a file of its own: torch.load reads only the bytes that it needs."""

    def __init__(self, stream: Any, start: int, length: int) -> None:
        super().__init__()
        self._stream, self._start, self._length, self._at = stream, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._length - self._at))
        self._stream.seek(self._start + self._at)
        count = int(self._stream.readinto(view[:wanted]))
        self._at += count
        return count
