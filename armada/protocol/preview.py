"""`data.show`: what a model will see of some rows, as a host's tokenizer reads them."""

from __future__ import annotations

from armada.protocol.message import EnvironmentKey, Line, Many, Message, OrMissing, Request, Size, Text

Variables = dict[str, Text]
"""Variables for access to the hub, if the plan sets them."""


class SeenPiece(Message):
    """A text of a row that is trained on, or one that is not; `of` is its column, empty in a row that is one sequence."""

    of: Text
    text: str
    trained: bool
    tokens: Size


class SeenPart(Message):
    """The rows of `train` or `eval`: their lengths in tokens, how many of these are trained on, and the first rows."""

    name: Text
    kind: Text
    lengths: Many[Size]
    trained: Many[Size]
    examples: Many[Many[SeenPiece]]


class SeenData(Message):
    """What a model will see; `problem`: why it cannot be said."""

    parts: Many[SeenPart]
    problem: Text | None
    notes: Many[Line] = ()


class GivenPart(Message):
    """Rows in their canonical form; null if the host is to read them itself."""

    name: str
    kind: str | None
    rows: Many[dict[str, object]] | None


class GivenRows(Message):
    """The rows, and the training that they are for, as in spec.json."""

    training: dict[str, object]
    parts: Many[GivenPart]
    examples: int
    most: int


class ShowData(Request[SeenData]):
    """Tokenise rows with the libraries of an environment and the trainer with this hash."""

    method = "data.show"
    answer = SeenData
    environment: EnvironmentKey
    payload: str
    rows: GivenRows
    variables: OrMissing[Variables] = None
