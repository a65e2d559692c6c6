"""Series: colours that stay with their names, and what happens when there are too many."""

from __future__ import annotations

from ioweather.ui.charts.chart_data import Series
from ioweather.ui.charts.theme import HUES, SERIES


def test_read_and_write_keep_their_colours_in_any_order() -> None:
    for names in (("read", "write"), ("write", "read"), ("total", "Write", "Read")):
        channel = Series(names).colour(None)
        colour = dict(zip((n.casefold() for n in channel["scale"]["domain"]), channel["scale"]["range"], strict=True))
        assert (colour["read"], colour["write"]) == SERIES[:2]
        assert len(set(colour.values())) == len(names)


def test_a_second_round_is_dashed() -> None:
    series = Series(tuple(f"s{i}" for i in range(HUES + 2)))
    assert len(set(series.colour(None)["scale"]["range"])) == HUES + 2
    dashes = series.dash(None)["strokeDash"]["scale"]["range"]
    assert dashes[HUES - 1] != dashes[HUES]
    assert Series(("a", "b")).dash(None) == {}


def test_too_many_are_a_bundle_without_a_legend() -> None:
    series = Series(tuple(f"OST{i}" for i in range(248)))
    assert series.bundled
    assert series.legend(600) is None
    assert series.colour(None) == {"value": SERIES[0]}


def test_without_series_there_is_no_legend() -> None:
    assert Series().legend(600) is None


def test_a_legend_has_as_many_columns_as_fit() -> None:
    wide, narrow = (Series(("read", "write", "a very long name of a series")).legend(w) for w in (700, 300))
    assert wide is not None
    assert narrow is not None
    assert wide["columns"] == 3
    assert narrow["columns"] == 1
