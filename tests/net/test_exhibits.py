"""Every exhibit of the five papers, made from the simulated facility, has the values that were recorded."""

from __future__ import annotations

import pytest
from recorded import compare

from ioweather import exhibits
from ioweather.core.papers import PAPERS

IDS = sorted(exhibit.id for paper in PAPERS.values() for exhibit in paper.exhibits)


@pytest.mark.parametrize("name", IDS)
def test_exhibit(command, name: str) -> None:
    code, printed = command("show", name)
    compare("exhibits", name, {"exit": code, "json": printed})


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "csv", "tex", "html", "json"])
def test_exhibit_as_a_file(command, tmp_path, suffix: str) -> None:
    out = tmp_path / f"figure.{suffix}"
    code, _ = command("show", "pat19.fig5", "--out", out, as_json=False)
    assert code == 0
    assert out.stat().st_size > 200


def test_exhibits_are_listed(lake) -> None:
    assert {row[0] for row in exhibits(lake=lake).rows} == set(IDS)


@pytest.mark.parametrize("audience", ["director", "operator", "science"])
def test_report(command, tmp_path, audience: str) -> None:
    out = tmp_path / "report.html"
    code, _ = command("report", "--for", audience, "--out", out, as_json=False)
    assert code == 0
    assert "<h1" in out.read_text("utf-8")
