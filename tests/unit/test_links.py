"""Every relative link in the documentation leads to a file that is there, and its anchor to a heading or `id` on that page."""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)


def without_code_blocks(text: str) -> str:
    return re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """As GitHub makes an anchor, and `pymdownx.slugs.slugify(case="lower")` in mkdocs.yml."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    words = unicodedata.normalize("NFC", words).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    text = without_code_blocks(page.read_text("utf-8"))
    seen: dict[str, int] = {}
    found = set(re.findall(r"""<a (?:id|name)=["']([^"']+)""", text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return frozenset(found)


def broken(page: Path) -> list[str]:
    text = _CODE.sub(lambda code: " " * len(code[0]), without_code_blocks(page.read_text("utf-8")))
    problems = []
    for target in _LINK.findall(text):
        path, _, anchor = unquote(target).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            elsewhere = [str(one.relative_to(ROOT)) for one in PAGES if one.name == Path(path).name]
            problems.append(f"{target}: no such file" + (f"; it is now {elsewhere[0]}" if elsewhere else ""))
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            problems.append(f"{target}: no such heading")
    return problems


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_a_page_that_moved_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](sync.md) [y](#a-b-c) [z](#d) `[no](link.md)`\n```\n[no](code.md)\n```\n")
    assert broken(page) == ["sync.md: no such file; it is now docs/how-to/sync.md", "#d: no such heading"]
