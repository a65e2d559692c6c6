"""Derivations are made of the rows of one table and write to another one; ingest runs them."""

from __future__ import annotations

from ioweather.core.tables import TABLES
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
