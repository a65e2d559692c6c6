"""Tables as LaTeX, Markdown and CSV: hostile text stays text."""

from __future__ import annotations

from ioweather.core.results import ResultColumn, ResultTable
from ioweather.ui.publish import FORMS, to_latex

COLUMNS = (ResultColumn("name", "", "text"), ResultColumn("share", "of all", "ratio"), ResultColumn("n", "", "count"))
TABLE = ResultTable("t", COLUMNS, (("50% & $x_1$ \\input{a}", 0.5, 3), ("=1+1|<b>", None, 4)), "A title")


def test_latex_has_a_row_per_row_and_escapes() -> None:
    text = to_latex([TABLE, TABLE], "Site, car11.table4", "car11.table4")
    assert r"\caption{A title. Data: Site, car11.table4.}" in text
    assert r"\label{tab:car11.table4}" in text
    assert r"\label{tab:car11.table4-t}" in text
    assert r"name & of all (\%) & n \\" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert r"\begin{tabular}{lrr}" in text
    assert r"50\% \& \$x\_1\$ \textbackslash{}input\{a\} & 50 & 3 \\" in text
    assert text.count(r" \\") == 6


def test_markdown_keeps_its_columns() -> None:
    lines = FORMS[".md"]([TABLE], "Site").splitlines()
    assert lines[0] == "Site"
    rows = [line for line in lines if line.startswith("|")]
    assert rows[1] == "| --- | ---: | ---: |"
    assert rows[3] == r"| =1+1\|\<b> | – | 4 |"


def test_csv_has_plain_numbers_and_no_formula() -> None:
    assert FORMS[".csv"]([TABLE, TABLE], "").splitlines()[:3] == [
        "name,share,n", "50% & $x_1$ \\input{a},0.5,3", "'=1+1|<b>,,4",
    ]  # fmt: skip


def test_a_printed_column_has_one_unit_in_its_head() -> None:
    columns = ResultColumn("what", "", "text"), ResultColumn("size", "", "bytes"), ResultColumn("time", "", "seconds")
    rows = ("a", 3 << 30, 0.5), ("b", 1 << 29, 90.0), ("c" * 50, None, 120.0)
    lines = to_latex([ResultTable("t", columns, rows)], "").splitlines()
    assert r"\begin{tabular}{p{0.3\linewidth}rr}" in lines
    assert r"what & size (GiB) & time (min) \\" in lines
    assert r"a & 3 & 0.00833 \\" in lines
    assert f"{'c' * 50} & -- & 2 " + r"\\" in lines
