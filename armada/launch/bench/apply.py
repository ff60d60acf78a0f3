"""Write the best cell's settings of the machine into a profile of the user's."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.edited_text import with_overrides
from armada.config.profiles import NAME, list_profiles, load_profile, load_profile_file
from armada.errors import Conflict, UsageError
from armada.foundation.atomic_write import write_atomically
from armada.foundation.sanitize import sanitize_line
from armada.launch.bench.results import as_fast_as, can_tell_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.launch.bench.results import Result
    from armada.paths import HomePaths

_MOST_SAMPLES = 1_000_000
"""Of a micro batch; more is no measurement."""


def check_profile(name: str, home: HomePaths) -> None:
    """Refuse a name into which nothing can be written, before anything is measured.

    Raises:
        UsageError: It is no name.
        Conflict: It is a bundled profile.
    """
    if not NAME.fullmatch(name):
        hint = "letters, digits, `-`, `_` and `.`, and a letter or digit first, such as --apply my-gpus"
        raise UsageError(f"{sanitize_line(name, 80)!r} cannot be the name of a profile", hint=hint)
    if name in list_profiles(home) and not (home.profiles / f"{name}.yaml").is_file():
        raise Conflict(f"{name} is a bundled profile", hint=f"--apply my-{name} makes one of your own that extends it")


def choose(best: Result, results: Sequence[Result]) -> Result | None:
    """Return the cell whose settings are worth writing down: of those that are as fast as the fastest, the one that needs least memory.

    Returns:
        None if nothing was found out: the cells have several settings, and no two of them can be told apart.
    """
    equal = [best, *as_fast_as(best, results)]
    wanted = settings_of(best)
    if all(settings_of(each) == wanted for each in equal):
        return best
    if not can_tell_apart(results):
        return None
    return min(equal, key=lambda each: (each.figure("peak_memory_bytes") or float("inf"), -(each.speed or 0.0)))


def settings_of(best: Result) -> dict[str, object]:
    """Return what a profile can say of a cell."""
    found: dict[str, object] = {}
    micro = best.figure("micro_batch_size")
    if micro is not None and 1 <= micro <= _MOST_SAMPLES:
        found["micro_batch_size"] = int(micro)
    for key in ("attention", "precision", "activation_checkpointing"):
        if f"train.{key}" in best.values:
            found[key] = best.values[f"train.{key}"]
    return found


def apply_best(best: Result, name: str, base: str | None, home: HomePaths) -> tuple[Path, dict[str, object]]:
    """Write them into `train` of a profile: a new one extends the one that was measured with; of one that is there the rest stays.

    Raises:
        Conflict: It is a bundled profile.
        ConfigError: The file that is there is wrong, or a setting does not fit it; the file stays as it was.
        NotFound: There is no profile that a new one could extend.
        UsageError: The bench's profile was derived from the host's GPUs, and has no file.
    """
    check_profile(name, home)
    path = home.profiles / f"{name}.yaml"
    found = settings_of(best)
    if path.is_file():
        load_profile(name, home)  # a wrong one is said with its line
        overrides = [f"train.{key}={json.dumps(value)}" for key, value in found.items()]
        text = with_overrides(path.read_bytes().decode("utf-8-sig"), path, overrides)
    else:
        if base is None or base not in list_profiles(home):
            raise UsageError(
                f"the bench used profile {sanitize_line(base or 'none', 80)}, which has no file to extend",
                hint="armada profiles detect HOST --save NAME makes one; then --apply NAME",
            )
        load_profile(base, home)
        lines = [
            f"# Made by `armada bench`: {sanitize_line(best.label, 100)}",
            f"extends: {json.dumps(base)}",
            "train:",
        ]
        text = "\n".join([*lines, *(f"  {key}: {json.dumps(value)}" for key, value in found.items()), ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / path.name
        draft.write_text(text, encoding="utf-8")
        load_profile_file(draft, home)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    write_atomically(path.resolve(), text, mode=mode)  # a link to somebody's dotfiles stays a link
    return path, found
