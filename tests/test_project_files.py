"""The files at the root say what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ioweather import __version__
from ioweather.core.papers import PAPERS

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def test_the_citation_names_this_version_and_the_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {__version__}\n" in text
    for paper in PAPERS.values():
        assert f'"{paper.title}"' in text
        assert f"doi: {paper.doi}\n" in text
        for author in paper.authors:
            given, family = author.rsplit(" ", 1)
            assert f"{{family-names: {family}, given-names: {given}}}" in text


def test_the_make_targets_that_are_named_exist() -> None:
    named = set()
    for page in ("CONTRIBUTING.md", "RELEASING.md", ".github/pull_request_template.md"):
        named |= set(re.findall(r"`make ([\w-]+)`", (ROOT / page).read_text("utf-8")))
    named |= set(re.findall(r"run: make ([\w-]+)$", WORKFLOW.read_text("utf-8"), re.MULTILINE))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named >= {"run", "quick", "test", "test-real", "test-slow", "lint", "bench", "coverage", "build"}
    assert named <= targets


def test_what_is_promised_to_work_is_tested_on_each_change() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    (matrix,) = re.findall(r"python: \[(.*)\]", WORKFLOW.read_text("utf-8"))
    assert re.findall(r"[\d.]+", matrix) == promised
    assert project["requires-python"] == f">={promised[0]}"


def test_actions_of_others_are_pinned_to_a_major_version() -> None:
    used = re.findall(r"uses: (\S+)", WORKFLOW.read_text("utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"actions/[\w-]+@v\d+", action)] == []


def test_the_quick_tests_are_there() -> None:
    (quick,) = re.findall(r"^QUICK := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert [path for path in quick.split() if not (ROOT / path).exists()] == []


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
