from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.sft import Sft
from armada.errors import ConfigError
from armada.launch.training.hook import check_hooks

MODULE = """\
try:
    import numpy as np
except ImportError:
    np = None
    def fallback(index, rng): ...
if True:
    made = lambda index, rng: {}
def sample(index, rng):
    inner = 1
    return {}
"""
FILES = ["gen.py", "pkg/__init__.py", "pkg/rows.py", "open.py"]


def load(project: Path, hook: str) -> Sft:
    for name, text in (
        ("gen.py", MODULE),
        ("pkg/__init__.py", "from pkg.rows import row\n"),
        ("pkg/rows.py", "def row(): ...\n"),
    ):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    (project / "open.py").write_text("from elsewhere import *\n")
    (project / "ignored.py").write_text(MODULE)
    (project / "e.yaml").write_text(
        "name: h\ntask: sft\nmodel: {tiny: {}}\ncode: .\ntrain: {global_batch_size: 1, max_steps: 1}\n"
        f'data: {{train: [{{hook: "{hook}"}}]}}\n'
    )
    found = load_experiment(project / "e.yaml")
    assert isinstance(found, Sft)
    return found


@pytest.mark.parametrize(
    "hook",
    [
        "gen:sample",
        "gen:made",
        "gen:fallback",
        "gen:np",
        "pkg:row",
        "pkg.rows:row",
        "open:anything",
        "torchvision.rows:f",
    ],
)
def test_what_is_there_or_may_be_is_taken(tmp_path: Path, hook: str) -> None:
    check_hooks(load(tmp_path, hook), FILES)


@pytest.mark.parametrize(
    ("hook", "said", "hint"),
    [
        ("gen:smaple", "gen.py has no smaple", "did you mean gen:sample?"),
        ("gen:inner", "gen.py has no inner", None),
        ("gne:sample", "the code has no gne.py", "did you mean gen?"),
        ("pkg.zzzzzz:row", "the code has no pkg/zzzzzz.py", None),
        ("ignored:sample", "ignored.py is not sent: git ignores it", "remove it from .gitignore"),
    ],
)
def test_a_hook_that_is_not_there_is_refused_with_its_line(
    tmp_path: Path, hook: str, said: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_hooks(load(tmp_path, hook), FILES)
    assert f"e.yaml:6: `data.train[0].hook` is {hook}: {said}" in refused.value.message
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("judge", "said", "hint"),
    [
        ("'gen:smple'", "`grpo.rewards[1]` is gen:smple: gen.py has no smple", "did you mean gen:sample?"),
        ("{function: 'gone:f'}", "`grpo.rewards[1]` is gone:f", None),
        ("'torchvision.rows:f'", None, None),
    ],
)
def test_who_judges_is_looked_for_as_hooks_are(tmp_path: Path, judge: str, said: str | None, hint: str | None) -> None:
    load(tmp_path, "gen:sample")
    (tmp_path / "gone").mkdir()
    (tmp_path / "g.yaml").write_text(
        "name: g\ntask: grpo\nmodel: {tiny: {}}\ncode: .\ntrain: {global_batch_size: 8, max_steps: 1}\n"
        f"data: {{train: [{{path: e.yaml}}]}}\ngrpo:\n  rewards:\n    - gen:sample\n    - {judge}\n"
    )
    found = load_experiment(tmp_path / "g.yaml")
    assert isinstance(found, BundledTraining)
    files = [*FILES, "gone/__init__.py"]
    if said is None:
        check_hooks(found, files)
        return
    (tmp_path / "gone" / "__init__.py").write_text("")
    with pytest.raises(ConfigError, match="rewards") as caught:
        check_hooks(found, files)
    assert said in caught.value.message
    assert caught.value.message.startswith(str(tmp_path / "g.yaml") + ":10")
    assert hint is None or hint in str(caught.value.hint)
