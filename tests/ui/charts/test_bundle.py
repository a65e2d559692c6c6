"""Vega for the browser: built once, kept, and done without a cache where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.ui.charts import render


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts what is built, without the two seconds it takes."""
    import vl_convert

    made: list[str] = []

    def build(snippet: str) -> str:
        made.append(snippet)
        return f"/* vega */ {snippet}"

    monkeypatch.setattr(vl_convert, "javascript_bundle", build)
    return made


def test_built_once(builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = render.vega_bundle(), render.vega_bundle()
    assert first == second
    assert len(builds) == 1
    assert [p.suffix for p in (tmp_path / "ioweather").iterdir()] == [".js"]


def test_an_unwritable_cache_is_no_error(builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ioweather").write_text("a file where the directory should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "vegaEmbed" in render.vega_bundle()
    assert "vegaEmbed" in render.vega_bundle()
    assert len(builds) == 2
