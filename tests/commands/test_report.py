"""`armada report`: one file that a browser shows without asking anybody, whatever names are in it."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from pathlib import Path
from typing import Any

import pytest

from armada.compare.new_file import check_new_file
from armada.errors import UsageError
from armada.store.transitions import RESUMED
from tests.conftest import Armada
from tests.published_run import opened, record, record_losses, sft_plan
from tests.tui.browser import Page, browser, needs_chromium
from tests.waiting import pauses

HOSTILE = "\"><script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"


@pytest.fixture
def home(armada: Armada) -> Armada:
    """Two runs whose names, settings, metrics and samples are markup."""
    for run_id, rate in (("one", 1e-3), ("two", 2e-3)):
        plan = sft_plan(run_id)
        plan |= {"name": HOSTILE, "gpus": 1}
        plan["experiment"] = {"model": HOSTILE, HOSTILE: run_id, "train": {"learning_rate": rate}}
        with opened(armada.folder / "home") as (paths, database):
            record(database, run_id, plan)
            record_losses(
                database,
                run_id,
                [
                    {"kind": "train", "step": step, "loss": 1 / step + rate, f"{HOSTILE} loss": step}
                    for step in range(1, 101)
                ],
            )
            outputs = paths.run(run_id) / "outputs"
            outputs.mkdir(parents=True)
            sample = {"step": 100, "prompt": HOSTILE, "expected": "</pre>", "generated": f"{HOSTILE} by {run_id}"}
            (outputs / "samples.jsonl").write_text(json.dumps(sample) + "\n")
    return armada


def test_the_report_is_one_file_with_curves_tables_and_samples(home: Armada) -> None:
    told = home.json("report", "one", "two", "--html", "r.html", "--title", HOSTILE)
    page = (home.folder / "r.html").read_text()
    assert told["size_bytes"] == len(page.encode())
    assert told["runs"] == ["one", "two"]
    assert told["metrics"][0] == "loss"
    assert page.count("<polyline") == 4
    assert "train.learning_rate" in page
    assert "armada reproduce one --to ./one" in page
    assert "not recorded" in page
    assert page.count(" by two") == 1
    assert len(re.findall(r"<script\b", page)) == 1
    assert "<img" not in page
    assert not re.findall(r"""(?:src|href|action)\s*=\s*["']?(?:https?:|//)""", page)


def test_the_report_marks_where_nan_begins_and_where_a_run_was_resumed(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "one", sft_plan("one"))
        lines = [
            {"kind": "train", "step": step, "time": 1000.0 + step, "loss": math.nan if 60 < step < 80 else 1 / step}
            for step in range(1, 10_001)
        ]
        record_losses(database, "one", lines)
        database.connection.execute(
            "INSERT INTO transitions (run_id, time, state, message) VALUES ('one', 6000.5, 'submitted', ?)", [RESUMED]
        )
    armada.json("report", "one", "--html", "r.html", "--metrics", "loss")
    page = (armada.folder / "r.html").read_text()
    assert "<title>NaN: step 61</title>" in page, "also where only an outline of the curve is drawn"
    assert "<title>resumed: step 5,001</title>" in page
    assert page.count('<path class="mark c0"') == 2
    caption = re.search("<figcaption>.*?</figcaption>", page)
    assert caption is not None
    assert re.sub("<[^>]*>", "", caption[0]) == "loss by step ·  NaN ·  resumed"


def test_a_file_that_exists_stays_unless_forced(home: Armada) -> None:
    (home.folder / "r.html").write_text("mine")
    assert home.run("report", "one", "--html", "r.html").returncode == 8
    assert (home.folder / "r.html").read_text() == "mine"
    assert home.run("report", "one", "--html", "r.html", "--force").returncode == 0
    assert "<polyline" in (home.folder / "r.html").read_text()


def test_wrong_words_are_named_and_nothing_is_written(home: Armada) -> None:
    assert home.run("report", "one", "--html", "no/r.html").returncode == 2
    assert home.run("report", "nothing", "--html", "r.html").returncode == 7
    assert home.run("report", "one", "--html", "r.html", "--metrics", "los").returncode == 7
    assert home.run("report", "one").returncode == 2
    assert home.run("report", "--html", "r.html").returncode == 2
    assert home.run("report", "--where", "id:nothing", "--html", "r.html").returncode == 7
    assert home.run("report", "--where", "los<(", "--html", "r.html").returncode == 2
    assert home.run("report", "one", "--where", "id:two", "--html", "r.html").returncode == 2
    assert not (home.folder / "r.html").exists()


def test_a_filter_chooses_what_is_reported(home: Armada) -> None:
    assert home.json("report", "--where", "id:two", "--html", "r.html")["runs"] == ["two"]


def test_a_run_without_metrics_has_a_report(armada: Armada) -> None:
    with opened(armada.folder / "home") as (_, database):
        record(database, "bare", {"format": 1, "run_id": "bare", "name": "bare", "task": "command"})
    assert armada.run("report", "bare", "--html", "r.html").returncode == 0
    assert "no metrics" in (armada.folder / "r.html").read_text()


def run_of_hours(armada: Armada, run_id: str, first: float, last: float, *, host: str = "gpu-1", gpus: int = 0) -> None:
    """Record a run that was on its host from one hour to another, of a day two days ago."""
    plan = {"format": 1, "run_id": run_id, "name": run_id, "task": "command"}
    with opened(armada.folder / "home") as (_, database):
        record(database, run_id, plan, host=host)
        day = time.time() - 48 * 3600
        with database.transaction() as connection:
            connection.execute(
                "UPDATE runs SET created_at = ?1, started_at = ?1, ended_at = ?2, gpus = ?3, attempt = 1 WHERE run_id = ?4",
                (day + first * 3600, day + last * 3600, json.dumps(list(range(gpus))), run_id),
            )
            connection.execute("DELETE FROM transitions WHERE run_id = ?", (run_id,))


def total_of(armada: Armada, *run_ids: str) -> str:
    assert armada.run("report", *run_ids, "--html", "r.html", "--force").returncode == 0
    found = re.search("<p>Total cost: (.*?)</p>", (armada.folder / "r.html").read_text())
    return found[1] if found else ""


def test_the_total_counts_an_hour_of_a_box_once_however_many_runs_shared_it(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text(
        "hosts:\n"
        "  box: {ssh: 'me@box', price: 10 EUR}\n"
        "  other: {ssh: 'me@other', price: 1 EUR}\n"
        "  cluster: {ssh: 'me@cluster', scheduler: slurm, price: 2 EUR}\n"
        "  free: {ssh: 'me@free'}\n"
    )
    for number in range(4):  # evaluations on CPUs, side by side
        run_of_hours(armada, f"side-{number}", 0, 1, host="box")
    run_of_hours(armada, "late", 0.5, 2, host="box")
    run_of_hours(armada, "elsewhere", 0, 1, host="other")
    for number in range(2):
        run_of_hours(armada, f"job-{number}", 0, 1, host="cluster", gpus=1)
    run_of_hours(armada, "unknown", 0, 2, host="free")
    side = [f"side-{number}" for number in range(4)]
    assert total_of(armada, *side).startswith("10.00 EUR. An hour of a rented host counts once")
    assert armada.json("compare", *side)["runs"][0]["costs"] == {"EUR": 10.0}
    assert total_of(armada, *side, "late").startswith("20.00 EUR.")
    assert total_of(armada, "side-0", "elsewhere").startswith("11.00 EUR.")
    assert total_of(armada, "job-0", "job-1").startswith("4.00 EUR.")
    assert total_of(armada, "side-0", "unknown").startswith("10.00 EUR and 2 h 00 m without a price.")
    assert total_of(armada, "unknown") == ""
    assert total_of(armada, "side-0") == ""


def test_secrets_in_settings_are_not_shown(armada: Armada) -> None:
    plan = sft_plan("run")
    plan["experiment"] = {
        "name": "x",
        "command": ["train", "--token", "CANARY-1", "--lr", "1e-4"],
        "env": {"MY_API_KEY": "CANARY-2", "ADDRESS": "https://me:CANARY-3@example.org/x?sig=CANARY-4"},
        "data": {"train": [{"hub": {"id": "o/r", "revision": "0" * 40}}]},
        "secrets": ["HF_TOKEN"],
    }
    with opened(armada.folder / "home") as (_, database):
        for run_id in ("one", "two"):
            record(database, run_id, plan)
    assert armada.run("report", "one", "two", "--html", "r.html").returncode == 0
    page = (armada.folder / "r.html").read_text()
    assert "CANARY" not in page
    assert "HF_TOKEN" in page
    assert "0" * 40 in page
    assert "--lr" in page


async def _open(page: Page, path: Path) -> None:
    await page.call("Page.navigate", url=path.as_uri())
    for pause_s in pauses(lambda: "the report to be shown"):
        if await page.evaluate("document.readyState === 'complete' && !!document.querySelector('h1')"):
            return
        await asyncio.sleep(pause_s)


async def _looked_at(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with browser(folder / "chromium") as page:
        await _open(page, folder / "r.html")
        found["title"] = await page.evaluate("document.title")
        found["heading"] = await page.evaluate("document.querySelector('h1').textContent")
        found["images"] = await page.evaluate("document.querySelectorAll('img').length")
        box = await page.evaluate("document.querySelector('svg[data-curves]').getBoundingClientRect().toJSON()")
        x, y = box["left"] + box["width"] / 2, box["top"] + box["height"] / 2
        await page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        found["hover"] = await page.evaluate("document.querySelector('.values').textContent")
        found["shown"] = await page.evaluate("getComputedStyle(document.querySelector('.values')).visibility")
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await page.call("Emulation.setEmulatedMedia", features=features)
            found[scheme] = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        # A script that got in all the same is refused by the page's own policy.
        await page.evaluate(
            "{ const own = document.createElement('script'); own.textContent = 'window.late = 1'; document.body.append(own); }"
        )
        found["taken"] = await page.evaluate("[typeof window.taken, typeof window.late].join()")
        found["requested"] = page.requested
    return found


def test_a_browser_shows_it_and_asks_nobody(home: Armada) -> None:
    needs_chromium()
    assert home.run("report", "one", "two", "--html", "r.html", "--title", HOSTILE).returncode == 0
    found = asyncio.run(_looked_at(home.folder))
    assert found["title"] == found["heading"] == HOSTILE
    assert found["images"] == 0
    assert found["taken"] == "undefined,undefined"
    assert found["requested"] == [(home.folder / "r.html").as_uri()]
    assert re.fullmatch(r"(● (one|two): 0\.02\d+ at \d+\n){2}", found["hover"])
    assert found["shown"] == "visible"
    assert found["light"] != found["dark"]


@pytest.mark.parametrize("words", [("report", "one", "--html", "mine"), ("export", "one", "--csv", "mine")])
@pytest.mark.parametrize("linked", [False, True])
def test_force_keeps_the_mode_of_the_file_that_it_replaces(home: Armada, words: tuple[str, ...], linked: bool) -> None:
    file = home.folder / ("target" if linked else "mine")
    file.write_text("old")
    file.chmod(0o600)
    if linked:
        (home.folder / "mine").symlink_to("target")
    assert home.run(*words, "--force").returncode == 0
    written = home.folder / "mine"
    assert len(written.read_text()) > 100
    assert written.is_symlink() == linked
    assert file.lstat().st_mode & 0o777 == 0o600


def test_a_dash_prints_the_report(home: Armada) -> None:
    assert home.run("report", "one", "--html", "-").stdout.startswith("<!DOCTYPE html>")
    assert home.run("report", "one", "--html", "-", "--json").returncode == 2
    assert not (home.folder / "-").exists()
    assert home.run("report", "one", "--html", "./-").returncode == 0
    assert (home.folder / "-").exists()


def test_a_table_that_cannot_be_printed_is_not_written_to_a_dash(home: Armada) -> None:
    with opened(home.folder / "home") as (paths, _), pytest.raises(UsageError, match="--parquet - prints nothing"):
        check_new_file("-", "--parquet", paths, force=False)
