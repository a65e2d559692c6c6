"""Tables as LaTeX and CSV: hostile text stays text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ioweather.core.papers import exhibits
from ioweather.core.results import ResultColumn, ResultTable
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import make_exhibits
from ioweather.ui.local_setup import make_demo
from ioweather.ui.publish import to_csv_text, to_latex, write_exhibit

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
    assert text.count(" \\\\\n") == 6


def test_csv_has_plain_numbers_and_no_formula() -> None:
    assert to_csv_text([TABLE, TABLE]).splitlines()[:3] == [
        "name,share,n", "50% & $x_1$ \\input{a},0.5,3", "'=1+1|<b>,,4",
    ]  # fmt: skip


def test_a_printed_column_has_one_unit_in_its_head() -> None:
    columns = ResultColumn("what", "", "text"), ResultColumn("size", "", "bytes"), ResultColumn("time", "", "seconds")
    rows = ("a", 3 << 30, 0.5), ("b", 1 << 29, 90.0), ("c" * 50, None, 120.0)
    lines = to_latex([ResultTable("t", columns, rows)], "").splitlines()
    assert any(line.startswith(r"\begin{tabular}{>{\raggedright\arraybackslash}p{") for line in lines)
    assert r"what & size (GiB) & time (min) \\" in lines
    assert r"a & 3 & 0.00833 \\" in lines
    assert f"{'c' * 50} & -- & 2 " + r"\\" in lines


def test_a_long_table_breaks_across_pages() -> None:
    rows = tuple((f"job {i}", i) for i in range(70))
    text = to_latex([ResultTable("t", (COLUMNS[0], COLUMNS[2]), rows, "Jobs")], "Site", "x.long")
    assert text.count(r"\begin{longtable}{lr}") == text.count(r"\endhead") == text.count(r"\label{tab:x.long}") == 1
    assert text.count("job ") == 70


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is missing")
def test_every_exhibit_of_the_demonstration_compiles(tmp_path: Path) -> None:
    lake = open_lake(make_demo(tmp_path / "lake"))
    made = [
        each
        for each in make_exhibits(lake, [e.id for e in exhibits() if e.id != "car11.fig11"])
        if each.tables or each.estimates
    ]
    head = (
        r"\documentclass{article}\usepackage[textwidth=174mm]{geometry}\usepackage{array,booktabs,graphicx,longtable}"
    )
    parts = []
    for exhibit in made:
        write_exhibit(exhibit, tmp_path / f"{exhibit.id}.tex", origin=exhibit.id)
        parts.append(rf"\clearpage\input{{{exhibit.id}.tex}}")
    assert len(parts) > 60
    body = "\n".join([head, r"\begin{document}", *parts, r"\end{document}"])
    (tmp_path / "all.tex").write_text(body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not [line for line in done.stdout.splitlines() if "Overfull" in line or "too large" in line]
