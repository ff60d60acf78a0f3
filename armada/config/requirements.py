"""Read the requirements of an experiment's environment: lines in the experiment, or a file such as requirements.txt.

The host builds the environment, so a line may name only what the host can fetch. Each refusal names the file and the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from armada.config.documents import Place, read_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.requirements import Requirement as Parsed

_COMMENT = re.compile(r"(^|\s+)#.*$")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:[\s=]+|(?<=^-[A-Za-z])|$)(.*)", re.DOTALL)
_HASHES = re.compile(r"(\s+--hash[=\s]\s*sha(?:256|384|512):[0-9a-fA-F]{64,128})+\s*$")
_SCHEMES = ("https", "git+https")
_WHERE_FROM = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host", "--index"}
)
_INCLUDED = {"-r": False, "--requirement": False, "-c": True, "--constraint": True}
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a list of requirements.

    Attributes:
        name: Of the package, normalized: `typing-extensions`.
        text: What uv is given, on one line.
        place: Where it was written.
        is_constraint: It limits a version and asks for nothing.
    """

    name: str
    text: str
    place: Place
    is_constraint: bool = False

    @property
    def parsed(self) -> Parsed:
        """The line without its hashes, as `packaging` understands it."""
        from packaging.requirements import Requirement as Parsed

        return Parsed(_HASHES.sub("", self.text))


def read_lines(lines: Sequence[tuple[str, Place]]) -> tuple[Requirement, ...]:
    """Read requirements that stand in an experiment.

    Raises:
        ConfigError: A line is no requirement that a host can fetch.
    """
    found = []
    for text, place in lines:
        if text.lstrip().startswith("-"):
            raise _refused_option(text.split()[0], place)
        found.append(read_line(text.strip(), place))
    return tuple(found)


def read_file(path: Path, project: Path) -> tuple[Requirement, ...]:
    """Read a requirements.txt, and the files that it includes by `-r` and `-c`.

    Args:
        path: The file.
        project: Included files have to be below this folder, or below that of the file.

    Raises:
        ConfigError: A file cannot be read, or a line is no requirement that a host can fetch.
    """
    tops = tuple(folder.resolve() for folder in (project, path.parent))
    return tuple(_of_file(path, tops, (), is_constraint=False))


def read_line(text: str, place: Place, *, is_constraint: bool = False) -> Requirement:
    """Read one requirement: name, extras, versions, marker or URL, and hashes.

    Raises:
        ConfigError: It is none, or the host cannot fetch it.
    """
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed
    from packaging.utils import canonicalize_name

    if not text.isprintable():
        raise place.error(f"{shown(text)} has characters that no requirement has")
    hashes = _HASHES.search(text)
    bare = text[: hashes.start()] if hashes else text
    _refuse_what_stays_here(bare, place)
    try:
        parsed = Parsed(bare)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise place.error(f"{shown(bare)} is no requirement: {reason}", "write name==1.2.3, or name>=1.2") from error
    if parsed.url is not None:
        _check_url(parsed.url, place)
    checksums = "".join(f" --hash={word}" for word in re.findall(r"sha\d+:[0-9a-fA-F]+", hashes[0])) if hashes else ""
    return Requirement(canonicalize_name(parsed.name), f"{parsed}{checksums}", place, is_constraint)


def _of_file(
    path: Path, tops: tuple[Path, ...], above: tuple[Path, ...], *, is_constraint: bool
) -> Iterator[Requirement]:
    way = (*above, path.resolve())
    for text, number in _logical_lines(read_text(path)):
        place = Place(path, number)
        option = _OPTION.fullmatch(text) if text.startswith("-") else None
        if option is None:
            yield read_line(text, place, is_constraint=is_constraint)
            continue
        word, value = option[1], option[2].strip()
        if word not in _INCLUDED:
            raise _refused_option(word, place)
        included = _included(value, path, tops, place)
        if included.resolve() in way:
            raise place.error(f"{shown(value, 500)} includes itself", "take the line out")
        if len(way) >= _DEEPEST:
            raise place.error(f"more than {_DEEPEST} files include each other")
        yield from _of_file(included, tops, way, is_constraint=is_constraint or _INCLUDED[word])


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield lines without comments, joined where one ends with a backslash, each with the number of its first."""
    joined, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            joined += line[:-1] + " "
            continue
        joined = _COMMENT.sub("", joined + line).strip()
        if joined:
            yield joined, first
        joined, first = "", 0
    if joined.strip():
        yield _COMMENT.sub("", joined).strip(), first


def _included(value: str, path: Path, tops: tuple[Path, ...], place: Place) -> Path:
    if "://" in value or not value:
        raise place.error(f"{shown(value)} is not a file of the project", "name a file below the project's folder")
    found = path.parent / value
    if not any(found.resolve().is_relative_to(top) for top in tops):
        raise place.error(f"{shown(value, 500)} is outside the project", f"copy it below {tops[0]}")
    if not found.is_file():
        raise place.error(f"there is no file {shown(str(found), 500)}")
    return found


def _refused_option(word: str, place: Place) -> Exception:
    if word in {"-e", "--editable"}:
        return place.error(
            "an editable package is a folder of this machine, which the host does not have",
            "send its code with `code:`, or write name @ git+https://HOST/PROJECT@COMMIT",
        )
    if word in _WHERE_FROM:
        return place.error(
            f"`{word}`: each host has its own sources of packages",
            "take the line out; set the index in pip's configuration on the host (~/.config/pip/pip.conf)",
        )
    if word in _INCLUDED:
        return place.error(f"`{word}` belongs to a file", "write requirements: FILE, and the line into that file")
    return place.error(f"the option `{word}` is not supported in requirements", "take it out")


def _refuse_what_stays_here(text: str, place: Place) -> None:
    """Refuse paths, bare URLs and variables, with the spelling that works."""
    word = text.strip().partition(" ")[0]
    if "${" in text:
        raise place.error(f"{shown(text)}: variables are not read here", "write the value")
    if " --" in text:
        raise place.error(f"{shown(text)}: only --hash=sha256:… may follow a requirement", "take the option out")
    if "://" in word and "@" not in text.partition("://")[0]:
        raise place.error(f"{shown(word, 200)} has no name", f"write NAME @ {word}")
    if word.startswith((".", "/", "~")) or re.fullmatch(r"[^@\[;<>=!]*(/.*|\.(whl|tar\.gz|zip))", word):
        raise place.error(
            f"{shown(word, 200)} is a path on this machine, which the host does not have",
            "name a release, or NAME @ https://… of its wheel",
        )


def _check_url(url: str, place: Place) -> None:
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        hint = "write NAME @ https://… or NAME @ git+https://…@COMMIT"
        what = f"`{scheme}:`" if "://" in url else shown(url, 200)
        raise place.error(f"{what}: a host fetches packages by https or git+https", hint)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise place.error(f"the URL of this package is none: {error}") from error
    if "@" in parts.netloc:
        # It would be in the environment's files, in the store and in messages.
        raise place.error(
            "a URL with a user name or password in it is not sent to hosts",
            "set the password in pip's configuration or ~/.netrc on the host",
        )
