"""The table of what follows from new rows names tables that there are, and is what ingest does."""

from __future__ import annotations

from types import SimpleNamespace

from ioweather.core.tables import TABLES
from ioweather.ingestion import derivations as what_follows
from ioweather.ingestion.derivations import FOLLOWS_MAPPING, FOLLOWS_ROWS, FollowsMapping, FollowsRows
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake


def test_both_sides_are_tables():
    for each in (*FOLLOWS_ROWS, *FOLLOWS_MAPPING):
        assert {each.table, each.makes} <= set(TABLES)
        assert each.table != each.makes


def test_a_line_of_the_table_is_all_that_is_needed(tmp_path, monkeypatch):
    seen = []

    def of_rows(lake, written):
        seen.append(("rows", written.rows))
        return 7

    def of_mapping(lake):
        seen.append(("mapping", None))
        return 5

    monkeypatch.setattr(what_follows, "FOLLOWS_ROWS", (FollowsRows("series", "scans", of_rows),))
    monkeypatch.setattr(what_follows, "FOLLOWS_MAPPING", (FollowsMapping("series", "scan_bins", of_mapping),))
    (tmp_path / "some.csv").write_text("t,v\n1700000000,5\n1700000060,6\n")
    sql = """SELECT ns(t) AS start_ns, 60000000000 AS interval_ns, 'scratch' AS system, 'ost' AS component_kind,
             'OST0' AS component, 'read_bytes' AS metric, v AS value FROM input"""
    lake = open_lake(tmp_path / "lake", create=True)
    report = ingest(lake, [tmp_path / "some.csv"], select=("series", sql))
    assert report.bad == []
    assert (report.rows_added["scans"], report.rows_added["scan_bins"]) == (7, 5)
    ingest(lake, [tmp_path / "some.csv"], select=("series", sql))
    assert seen == [("rows", 2), ("mapping", None), ("mapping", None)]


def test_what_runs_meet_is_learned_only_beside_series(tmp_path, monkeypatch):
    """Neither of logs alone nor of series alone: there is nothing to compare, and what compares is not loaded."""
    from ioweather.diagnosis import blame_query

    learned = []
    monkeypatch.setattr(blame_query, "learn_slowness", lambda lake, since_ns, seconds: learned.append(since_ns))
    lake = open_lake(tmp_path / "lake", create=True)
    (learn,) = (each for each in what_follows.FOLLOWS_ARRIVAL if each.make is what_follows._learn_slowness)
    for tables, calls in ((set(), 0), ({"series"}, 0), ({"job_io"}, 0), ({"series", "job_io"}, 1)):
        pinned = {name: SimpleNamespace(uris=["file"] if name in tables else []) for name in ("series", "job_io")}
        monkeypatch.setattr(type(lake), "pinned", lambda self, pinned=pinned: pinned)
        assert learn.make(lake, 5, 60.0) == 0
        assert learned == [5] * calls
