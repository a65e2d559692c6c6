"""Tables and small pictures in 80 columns."""

from __future__ import annotations

import pytest

from ioweather.core.results import Answer, Chart, Fact, FactGroup, ResultColumn, ResultTable
from ioweather.ui.cli.terminal import chart_lines, print_answer, print_rows


def _chart(kind: str, encoding: dict[str, str], columns: dict[str, str], rows: list[tuple[object, ...]]) -> Chart:
    table = ResultTable("t", tuple(ResultColumn(n, "", unit) for n, unit in columns.items()), tuple(rows))  # type: ignore[arg-type]
    return Chart(kind, table, encoding)  # type: ignore[arg-type]


def test_columns_that_do_not_fit_are_named_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("processes", *"abcdefgh"), [("2 to 63", *["1234567890"] * 8)], "text")
    printed = capsys.readouterr().out
    assert "Not shown: f, g, h" in printed
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize("width", [78, 40])
def test_bars_leave_room_for_their_values(width: int) -> None:
    chart = _chart("bars", {"x": "x", "y": "y"}, {"x": "text", "y": "mib_per_s_per_node"}, [("A", 94.6), ("B", 571.0)])
    assert max(map(len, chart_lines(chart, width))) <= width


def test_quantiles_that_do_not_fit_are_fewer_not_cut() -> None:
    rows = [(1e9 + i * 1e7, (i + 1) / 100) for i in range(100)]
    chart = _chart("cdf", {"x": "x", "y": "y"}, {"x": "bytes_per_s", "y": "ratio"}, rows)
    (line,) = chart_lines(chart, 60)
    assert line.endswith("GiB/s")
    assert "99% ≤" in line
    assert len(line) <= 60


def test_what_goes_into_a_pipe_has_no_blanks_at_line_ends(capsys):
    print_rows(("name", "n"), [("a long name", 1), ("b", 20_000)], "text")
    print_answer(Answer("What?", "A headline.", facts=(FactGroup("g", "Group", (Fact("f", "fact", 1.0, "s"),)),)))
    printed = capsys.readouterr().out
    assert "a long name" in printed
    assert "Group" in printed
    assert not [line for line in printed.split("\n") if line != line.rstrip()]
