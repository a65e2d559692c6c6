"""The files at the root say what is so."""

from __future__ import annotations

import re
from pathlib import Path

from ioweather import __version__
from ioweather.core.papers import PAPERS

ROOT = Path(__file__).resolve().parents[1]


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
    named = set(re.findall(r"`make ([\w-]+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named >= {"run", "test", "test-real", "test-slow", "lint", "bench"}
    assert named <= targets


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
