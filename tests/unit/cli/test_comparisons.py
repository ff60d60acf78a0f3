"""How a comparison looks on narrow and wide terminals, and that no host can draw on them."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import jsonschema
import pytest

from armada.cli.comparisons import comparison_json, say_choice, show_comparison
from armada.cli.estimates import time_text
from armada.cli.printing import with_format
from armada.cli.progress import Reporter
from armada.cli.shapes import SHAPES, schema_of
from armada.launch.comparison.choice import Choice
from armada.launch.estimates.ranges import Range
from tests.unit.launch.comparison.test_compare import B100, SFT, World, refuse
from tests.unit.launch.comparison.test_compare import world as world  # noqa: PLC0414 - a fixture
from tests.unit.launch.plans.test_plans import A100, CLUSTER, COMMAND, DESK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.launch.comparison.compare import Compared

HOSTS = (A100, B100, DESK, CLUSTER, {"name": "dead", "ssh": "d"})


def shown(found: Sequence[Compared], columns: int) -> list[str]:
    stream = io.StringIO()
    show_comparison(Reporter(stream), found, columns)
    return stream.getvalue().splitlines()


def table(lines: list[str]) -> list[str]:
    """The lines above the notes, which begin with the first host's name alone."""
    return lines[: lines.index("a100")]


@pytest.fixture
def found(world: World) -> list[Compared]:
    world.problems["dead"] = refuse
    return list(world.compare(SFT, *HOSTS).values())


@pytest.mark.parametrize(("columns", "bands"), [(60, 3), (80, 3), (120, 2), (200, 1), (20, 5)])
def test_hosts_stand_side_by_side_as_many_as_fit(found: list[Compared], columns: int, bands: int) -> None:
    lines = table(shown(found, columns))
    assert sum(line.startswith("host ") for line in lines) == bands
    if columns >= 60:
        assert max(map(len, lines)) <= columns
    text = "\n".join(lines)
    for name in ("a100", "b100", "desk", "hpc", "dead"):
        assert name in text
    assert "unreachable" in text
    assert "8 × A100-SXM4-80GB" in text
    assert "8 of 8 GPUs free" in text
    assert re.search(r"^disk +needs [0-9.]+ [GM]B of ", text, re.MULTILINE), text
    assert "16 = micro 2 × acc." in text


def test_a_cluster_shows_what_is_free_in_its_partition(world: World) -> None:
    def queue(host: Mapping[str, object]) -> str:
        lines = shown(list(world.compare(SFT, dict(host)).values()), 200)
        labels = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        start = next(number for number in labels if lines[number].startswith("queue"))
        return " ".join(" ".join(lines[start : min(number for number in labels if number > start)]).split())

    assert queue(CLUSTER) == "queue slurm: starts now, 6 of 32 GPUs free, 2 jobs of yours waiting"
    assert "3 of 16 GPUs" in queue({**CLUSTER, "slurm": {"partition": "gpu"}})
    world.queue = lambda: {"partitions": [], "error": "slurm_load_jobs\x1b[2J", "mine": {"\x1b[2J": 1}}
    assert queue(CLUSTER) == "queue slurm: starts now"


def test_the_notes_say_where_the_estimate_is_from_and_what_is_wrong(found: list[Compared]) -> None:
    text = "\n".join(shown(found, 80))
    assert "from 3% to 45% of the GPU's peak; no run was recorded on this GPU" in text
    assert "✗ nothing listens" in text
    assert "→ start it" in text
    assert "the speed of CPUs is only known from runs" in text
    assert "-m armada_train.launch" in text


def test_json_is_of_its_shape(found: list[Compared], world: World) -> None:
    hosts = comparison_json(found)
    told = json.loads(json.dumps(with_format({"hosts": hosts, "fastest": "a100", "cheapest": None}), allow_nan=False))
    jsonschema.validate(told, schema_of(SHAPES["plan"]))
    assert [each["outcome"] for each in told["hosts"]] == ["possible"] * 4 + ["unreachable"]
    assert told["hosts"][4]["error"]["exit_code"] == 4
    assert told["hosts"][1]["estimate"]["cost"]["low"] < told["hosts"][1]["estimate"]["cost"]["high"]
    assert told["hosts"][0]["send_bytes"] == sum(each["size_bytes"] for each in told["hosts"][0]["send"])
    command = comparison_json(list(world.compare(COMMAND, DESK).values()))
    jsonschema.validate(with_format({"hosts": command, "fastest": None, "cheapest": None}), schema_of(SHAPES["plan"]))


def test_names_from_hosts_cannot_draw(world: World) -> None:
    gpu = {"name": "A100-SXM4-80GB\x1b[2J\x1b]0;owned\x07[red]"}
    world.facts["a100"] = {"gpus": [*map(dict, [world_gpu(gpu, index) for index in range(8)])]}
    text = "\n".join(shown(list(world.compare(SFT, A100).values()), 80))
    assert "\x1b" not in text
    assert "\x07" not in text
    choice = Choice("a", "fast\x1b[2J", {"b": "slow\x1b[2J\n armada: done"})
    stream = io.StringIO()
    say_choice(Reporter(stream), choice)
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 2


def world_gpu(gpu: dict[str, str], index: int) -> dict[str, object]:
    from tests import host_facts

    return {**host_facts.GPU, **gpu, "index": index}


def test_times_are_ranges() -> None:
    assert time_text(Range(3600.0, 7200.0, 14_400.0)) == "2 h 00 m (1 h 00 m to 4 h 00 m)"
    assert time_text(None) == "not known"
