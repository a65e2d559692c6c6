"""Names of people and places do not leave the house with an anonymous report."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ioweather.core.results import (
    Chart,
    Exhibit,
    Finding,
    Provenance,
    Published,
    ResultColumn,
    ResultTable,
    to_jsonable,
)
from ioweather.ui.report.aliases import Aliases, aliases_of
from ioweather.ui.report.write import anonymised, front_sheets, report_html

ALIASES = Aliases(
    {"alice": "user 1", "Earth Science": "project A", "my-code": "program 1", "ior": "program 2"}, {1001: 1},
    re.compile(r"\bnid\d+\b"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice ran my-code-512-9e25.", "user 1 ran program 1-512-9e25."),
        ("malice and prior runs", "malice and prior runs"),
        ("Earth Science wrote most", "project A wrote most"),
        ("in /scratch/alice/run and 5 MiB/s, read/write", "in path 1 and 5 MiB/s, read/write"),
        ("uid 1001 on nid00012", "uid 1 on node 1"),
        ("", ""),
    ],
)
def test_words_are_replaced_and_parts_of_words_are_not(text, expected):
    aliases = Aliases(ALIASES.names, ALIASES.uids, ALIASES.nodes)
    assert aliases.text(text) == expected


def test_the_same_path_keeps_its_alias():
    aliases = Aliases({})
    assert aliases.text("/a/bc /d/ef /a/bc") == "path 1 path 2 path 1"


def test_all_places_of_an_exhibit_are_covered_and_what_papers_print_is_kept():
    table = ResultTable("t", (ResultColumn("uid"), ResultColumn("who", "of alice")), ((1001, "alice"), (None, None)))
    chart = Chart("bars", table, {"x": "who", "y": "uid"}, title="alice")
    exhibit = Exhibit(
        "car11.fig2", "alice", (table,), (chart,), findings=(Finding("alice"),), caveats=("alice",),
        published=(Published("car11.fig2", "x[alice]", 1),),
        provenance=Provenance(lake="/home/alice", params={"u": "alice"}),
    )  # fmt: skip
    made = ALIASES.hide(exhibit)
    assert "alice" not in repr(to_jsonable(replace(made, published=())))
    assert made.published == exhibit.published
    assert made.tables[0].rows == ((1, "user 1"), (None, None))


def test_no_name_of_the_lake_is_in_an_anonymous_report(small_lake, material):
    sheets = front_sheets(small_lake, material, operator=True)
    text = report_html(*anonymised(small_lake, material, sheets))
    assert small_lake.facility.name not in text
    with small_lake.snapshot() as snapshot:
        users = snapshot.query("SELECT DISTINCT user FROM jobs").fetchall()
        hosts = snapshot.query("SELECT DISTINCT host FROM responses").fetchall()
        names = {row[0] for row in [*users, *hosts] if row[0]}
        assert names <= aliases_of(snapshot).names.keys()
    assert names
    for name in names:
        assert re.search(rf"\b{re.escape(name)}\b", text) is None, name
    assert str(small_lake.root) not in text
    assert not re.findall(r"(?<![\w/.<])/(?:scratch|home|sw)/\w+", text)
