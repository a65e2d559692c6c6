"""Derivations are made of the rows of one table and write to another one; ingest runs them."""

from __future__ import annotations

from types import SimpleNamespace

from ioweather.core.tables import TABLES
from ioweather.diagnosis import blame_query
from ioweather.ingestion import derivations
from ioweather.ingestion.derivations import MAPPED_DERIVATIONS, ROW_DERIVATIONS
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake


def test_derivations_name_two_tables():
    for table, (target, _) in (*ROW_DERIVATIONS.items(), *MAPPED_DERIVATIONS.items()):
        assert {table, target} <= set(TABLES)
        assert table != target


def test_a_registered_derivation_runs_after_each_ingest(tmp_path, monkeypatch):
    seen = []

    def of_rows(lake, written):
        seen.append(("rows", written.rows))
        return 7

    def of_mapping(lake):
        seen.append(("mapping", None))
        return 5

    monkeypatch.setattr(derivations, "ROW_DERIVATIONS", {"series": ("scans", of_rows)})
    monkeypatch.setattr(derivations, "MAPPED_DERIVATIONS", {"series": ("scan_bins", of_mapping)})
    (tmp_path / "some.csv").write_text("t,v\n1700000000,5\n1700000060,6\n")
    sql = """SELECT ns(t) AS start_ns, 60000000000 AS interval_ns, 'scratch' AS system, 'ost' AS component_kind,
             'OST0' AS component, 'read_bytes' AS metric, v AS value FROM input"""
    lake = open_lake(tmp_path / "lake", create=True)
    report = ingest(lake, [tmp_path / "some.csv"], select=("series", sql))
    assert report.bad == []
    assert (report.rows_added["scans"], report.rows_added["scan_bins"]) == (7, 5)
    ingest(lake, [tmp_path / "some.csv"], select=("series", sql))
    assert seen == [("rows", 2), ("mapping", None), ("mapping", None)]


def test_slowness_is_compared_only_where_runs_and_series_are_known(tmp_path, monkeypatch):
    learned = []
    monkeypatch.setattr(blame_query, "learn_slowness", lambda lake, since_ns, seconds: learned.append(since_ns))
    lake = open_lake(tmp_path / "lake", create=True)
    search = next(each for each in derivations.SEARCHES if "slow runs" in each.name)
    for tables, calls in ((set(), 0), ({"series"}, 0), ({"job_io"}, 0), ({"series", "job_io"}, 1)):
        pinned = {name: SimpleNamespace(uris=["file"] if name in tables else []) for name in ("series", "job_io")}
        monkeypatch.setattr(type(lake), "pinned", lambda self, pinned=pinned: pinned)
        assert search.run(lake, 5, 60.0) == 0
        assert learned == [5] * calls
