"""The documentation says what the code does: every command, table, source and exhibit."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from ioweather.cli.main import COMMANDS
from ioweather.core.papers import exhibits
from ioweather.sources.catalogue import SOURCES
from ioweather.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def test_generated_pages_are_up_to_date():
    generated = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    stale = [path.name for path, text in generated.items() if not path.exists() or path.read_text() != text]
    assert not stale, f"run `python docs/generate.py`: {stale}"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_documented(name):
    assert f"## {name}\n" in (DOCS / "reference" / "tables.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_and_its_help_ends_in_an_example(name):
    text = (DOCS / "reference" / "commands.md").read_text()
    section = text.split(f"## ioweather {name}\n", 1)[1].split("\n## ", 1)[0]
    assert "Example: ioweather" in section.rstrip().removesuffix("```").rstrip().splitlines()[-1]


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_a_page_that_names_it(name):
    named = [page for page in (DOCS / "sources").glob("*.md") if f"`{name}`" in page.read_text()]
    assert named, f"no page in docs/sources names the source `{name}`"


def test_every_exhibit_is_documented():
    text = (DOCS / "reference" / "papers.md").read_text()
    for entry in exhibits():
        assert entry.id in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_dependency_says_why_it_is_there():
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    text = (DOCS / "reference" / "dependencies.md").read_text()
    for requirement in listed:
        name = re.split(r"[<>=;\s]", requirement)[0]
        assert f"`{name}`" in text
        assert "==" not in requirement
