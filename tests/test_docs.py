"""The documentation says what the code does: every command, table, source and exhibit."""

from __future__ import annotations

import importlib
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_lines import parse

import ioweather
from ioweather.core.papers import exhibits
from ioweather.core.tables import TABLES
from ioweather.ui.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


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
    assert re.search(r"Examples?:\s+ioweather ", section)


def test_every_exhibit_is_documented():
    text = (DOCS / "reference" / "papers.md").read_text()
    for entry in exhibits():
        assert entry.id in text


@pytest.mark.parametrize("name", [entry.id for entry in exhibits()])
def test_every_exhibit_has_its_equations_needs_and_command(name):
    text = (DOCS / "reference" / "exhibits.md").read_text()
    section = text.split(f"### {name}\n", 1)[1].split("\n### ", 1)[0]
    assert "\n| equation | what it is |\n" in section
    assert "\nNeeds `" in section or "\nNeeds one of `" in section
    assert f"$ ioweather show {name}\n" in section


def test_every_public_function_is_documented():
    text = (DOCS / "reference" / "api.md").read_text()
    for name in ioweather.__all__:
        if name != "__version__":
            assert f"### ioweather.{name}\n" in text
    assert "`GET /api/v1/exhibits`" in text


def anchors(page: Path) -> set[str]:
    """Of the titles, as GitHub and mkdocs make them."""
    text = _FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", _FENCE.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name} links to #{anchor} of {place.name}"


def examples(text: str) -> Iterator[str]:
    """What follows a `$` in `console` blocks, and lines of `sh`, unnamed and indented blocks that call ioweather."""
    for block in _FENCE.findall(text):
        kind, *lines = block.replace("\\\n", " ").splitlines()
        prompt = "$ " if kind == "```console" else ""
        if kind in ("```console", "```sh", "```"):
            yield from (line.removeprefix(prompt) for line in lines if line.startswith(prompt + "ioweather "))
    yield from re.findall(r"^    (ioweather .*)$", _FENCE.sub("", text), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_are_taken_by_the_command_line(page):
    for line in examples(page.read_text()):
        try:
            parse(re.split(r"\s[|>]|\s&&", line)[0])
        except click.UsageError as error:
            pytest.fail(f"{page.name}: {line}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_in_sentences_exist(page):
    for line in re.findall(r"`(ioweather [^`\n]+)`", _FENCE.sub("", page.read_text())):
        try:
            if "..." not in line and not line.endswith("--help"):
                parse(line)
        except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
            pass  # the command alone is named
        except click.UsageError as error:
            pytest.fail(f"{page.name}: {line}: {error.format_message()}")


def test_the_navigation_names_pages_that_exist():
    named = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) > 30
    assert [page for page in named if not (DOCS / page).exists()] == []


def test_every_dependency_says_why_it_is_there():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["docs"]]
    text = (DOCS / "reference" / "dependencies.md").read_text()
    for requirement in listed:
        name = re.split(r"[<>=;\s]", requirement)[0]
        assert f"`{name}`" in text
        assert "==" not in requirement


def test_functions_named_in_the_architecture_exist():
    text = (DOCS / "explanation" / "architecture.md").read_text()
    walks = text[text.index("## Three walks") : text.index("## Where to start")]
    names = [name for name in re.findall(r"`([a-z_0-9]+(?:\.[A-Za-z_0-9]+)+)`", walks) if name != "status.json"]
    assert len(names) > 30
    for name in names:
        found: object = importlib.import_module("ioweather")
        path = "ioweather"
        for part in name.split("."):
            path = f"{path}.{part}"
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)
