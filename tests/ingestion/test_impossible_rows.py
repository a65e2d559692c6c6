"""Rows that cannot be, through every door: left out or flagged, counted, said; and lakes that hold some already."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from store_lakes import DAY, series_frame

from ioweather.core.contracts import ReadContext
from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, MINUTE_NS, zone_named
from ioweather.ingestion.ingest import ingest
from ioweather.lake.grid import matrix
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
from ioweather.readers.darshan.writer import write_log
from ioweather.ui.cli.main import run
from ioweather.ui.doctor import examine
from ioweather.ui.web.app import create_app
from ioweather.ui.web.tokens import create_token
from planted_logs import JOB, climate_modules, write_climate
from shipments import finish_queue

SELECT = """
SELECT ns(time) AS start_ns, 60000000000 AS interval_ns, 'scratch' AS system, 'ost' AS component_kind, ost AS component,
       metric, value::DOUBLE AS value
FROM (SELECT time, ost, read AS read_bytes, written AS write_bytes FROM input)
UNPIVOT (value FOR metric IN (read_bytes, write_bytes))
"""
RESETS = (100, 700, 1300)


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def write_csv(path: Path, resets: tuple[int, ...] = ()) -> Path:
    """A day of two targets; as much is read as written, but where a home-made difference of counters fell below 0."""
    lines = ["time,ost,read,written"]
    for minute in range(1440):
        for ost in ("OST0000", "OST0001"):
            amount = 1e9 + 1e6 * (minute % 60)
            read = -9e11 if minute in resets and ost == "OST0000" else amount
            lines.append(f"{DAY // 10**9 + minute * 60},{ost},{read},{amount}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_resets_in_anybodys_csv_are_flagged_and_make_no_negative_volume(lake, tmp_path, capsys):
    sql = tmp_path / "map.sql"
    sql.write_text(SELECT)
    root = str(lake.root)
    file = str(write_csv(tmp_path / "r.csv", RESETS))
    assert run(["ingest", "--lake", root, "--as", "series", "--select", str(sql), file]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 rows in 1 files were flagged" in said
    assert "value is a negative amount (RESET) (3; first: value = -900000000000.0" in said
    with lake.snapshot() as snapshot:
        flagged = snapshot.query("SELECT value, quality FROM series WHERE quality <> 0").fetchall()
        assert flagged == [(None, int(Quality.RESET))] * 3
        ledger = snapshot.query("SELECT status, refused_count, flagged_count FROM ingests").fetchall()
    assert ledger == [("ok", 0, 3)]
    assert run(["show", "pat19.fig3", "--lake", root, "--json"]) == 0
    exhibit = json.loads(capsys.readouterr().out)
    text = json.dumps(exhibit)
    assert "3 reset" in text
    assert "-1.38" not in text
    assert run(["show", "pat19.fig3", "--lake", root]) == 0
    assert run(["lake", "--lake", root]) == 0
    assert "0 rows with impossible values were rejected; 3 were flagged." in capsys.readouterr().out
    assert any("3 rows were ingested and flagged" in check.found for check in examine(root))


def test_reads_that_equal_writes_are_led_by_neither(lake, tmp_path, capsys):
    ingest(lake, [write_csv(tmp_path / "even.csv")], select=("series", SELECT))
    assert run(["show", "pat19.fig3", "--lake", str(lake.root), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert not any("Writes lead" in found["text"] for found in findings)


def test_mapped_rows_outside_are_left_out_and_the_others_go_in(lake, tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text("id,submit,nodes\n1,1700000000,4\n2,1700000000,-4\n3,4575000000,4\n")
    sql = """SELECT 'c' AS cluster, id AS job_id, 'COMPLETED' AS state, ns(submit) AS submit_ns, nodes AS node_count
             FROM input"""
    (outcome,) = ingest(lake, [table], select=("jobs", sql)).outcomes
    assert (outcome.status, outcome.reason, outcome.refused_rows) == ("partial", "impossible_rows", 2)
    assert outcome.rows == {"jobs": 1}
    assert "2 rows of jobs left out: submit_ns is out of range (1970 to tomorrow)" in str(outcome.message)
    assert "submit_ns = 2114-12-2" in str(outcome.message)
    assert "node_count = -4 at cluster 'c', job_id '2'" in str(outcome.message)


def test_the_clock_says_what_tomorrow_is(lake, tmp_path):
    file = write_csv(tmp_path / "a.csv")
    early = ingest(lake, [file], select=("series", SELECT), clock=lambda: DAY - DAY_NS - 1)
    assert (early.outcomes[0].status, early.rows_added["series"]) == ("quarantined", 0)
    # What was refused by a clock that was wrong is tried again.
    assert ingest(lake, [file], select=("series", SELECT), clock=lambda: DAY).rows_added["series"] == 5760


SAMPLE = {"table": "series", "start_ns": DAY, "interval_ns": 10**9, "system": "n1:sda", "component_kind": "device",
          "component": "sda", "metric": "read_bytes", "value": 1.0, "quality": 0}  # fmt: skip
RESPONSE = {"table": "responses", "start_ns": DAY, "host": "n1", "target": "/s", "op": "read", "request_bytes": 4096,
            "mode": "cache", "duration_ns": 10, "system": "mount:/s", "status": "ok"}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({**SAMPLE, "value": float("inf"), "start_ns": DAY + 1}, "value = inf at start_ns 2024-10-04"),
        ({**SAMPLE, "start_ns": 4_575_000_000 * 10**9}, "start_ns = 2114-12-"),
        ({**RESPONSE, "request_bytes": -1}, "request_bytes = -1 at start_ns 2024-10-04"),
        ({**RESPONSE, "duration_ns": -1}, "duration_ns = -1"),
    ],
)
def test_a_push_of_what_cannot_be_is_refused_by_name(lake, row, named):
    header = {"ioweather_spool": 1, "host": "n1", "boot_id": "b"}
    headers = {
        "content-type": "application/octet-stream",
        "authorization": f"Bearer {create_token(lake.root, 'n1', 'n1')}",
    }
    with TestClient(create_app(lake.root, hosts=["testserver"]), raise_server_exceptions=False) as client:

        def send(name: str, *rows: object) -> tuple[int, str]:
            body = "".join(json.dumps(line) + "\n" for line in (header, *rows))
            answer = client.post(f"/api/v1/spool/n1/{name}", content=body, headers=headers)
            return answer.status_code, answer.text

        code, text = send("seg-n1-1-1.ndjson", row)
        assert code == 422
        assert named in text
        code, text = send("seg-n1-1-2.ndjson", SAMPLE, row)
        assert (code, named in text) == (422, True)
        assert send("seg-n1-1-3.ndjson", RESPONSE)[0] == 200
    finish_queue(lake.root)
    with lake.snapshot() as snapshot:
        held = snapshot.query("SELECT start_ns, value FROM series").fetchall()
        assert held == [(DAY, 1.0)]
        ledger = "SELECT status, refused_count FROM ingests ORDER BY ALL"
        assert snapshot.query(ledger).fetchall() == [("ok", 0), ("partial", 1)]
        assert snapshot.query("SELECT request_bytes FROM responses").fetchall() == [(4096,)]


def forged(path: Path, **counters: float) -> Path:
    modules, names = climate_modules()
    for name, value in counters.items():
        modules["POSIX"][name][0] = value
    write_log(path, JOB, modules, names)
    return path


@pytest.mark.parametrize(
    ("counters", "named"),
    [
        ({"POSIX_BYTES_READ": 9 * 10**18}, "read_bytes = 9000000000000000000"),
        ({"POSIX_OPENS": 1 << 62}, "open_count = 46116860184273879"),
    ],
)
def test_a_forged_log_is_quarantined_whole_and_its_neighbours_are_not(lake, tmp_path, counters, named):
    folder = tmp_path / "logs"
    folder.mkdir()
    forged(folder / "b.darshan", **counters)
    for name in ("a", "c"):
        write_climate(folder / f"{name}.darshan", job_id=ord(name))
    report = ingest(lake, [folder])
    (bad,) = report.bad
    assert (bad.path.name, bad.status, bad.reason) == ("b.darshan", "quarantined", "impossible_rows")
    assert named in str(bad.message)
    assert str(bad.message).endswith("No row of the file was added.")
    assert (len(report.good), report.rows_added["applications"], report.rows_added["job_io"]) == (2, 2, 2)
    with lake.snapshot() as snapshot:
        held = {row[0] for row in snapshot.query("SELECT DISTINCT log_digest FROM files").fetchall()}
        assert len(held) == 2


def test_absurd_figures_of_benchmarks_are_left_out(lake, tmp_path):
    file = tmp_path / "io500.txt"
    file.write_text(
        "IO500 version io500-isc24_v3 (standard)\n"
        "[RESULT]       ior-easy-write       35.280303 GiB/s : time 386.698 seconds\n"
        f"[RESULT]    mdtest-easy-write       1{'0' * 29}.0 kIOPS : time 373.799 seconds\n"
        "[SCORE ] Bandwidth 12.231263 GiB/s : IOPS 19.235513 kiops : TOTAL 15.338664\n"
    )
    context = ReadContext(zone=zone_named("UTC"), start_ns=DAY)
    (outcome,) = ingest(lake, [file], context=context).outcomes
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT count(*) FROM benchmarks WHERE ops_per_s > 1e13").fetchall() == [(0,)]
    assert (outcome.status, outcome.rows, outcome.refused_rows) == ("partial", {"benchmarks": 2}, 1)
    assert "ops_per_s = 9.999999999999999e+31" in str(outcome.message)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_lake_from_before_rows_were_checked_is_read_without_negative_values(lake, sealed):
    values = np.full((1440, 2), 5.0)
    values[10, 1] = -9e11
    lake.append("series", series_frame(values), source="mapped", checked=True)
    if sealed:
        compact(lake)
    with lake.snapshot() as snapshot:
        selection = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=MINUTE_NS,
            period_ns=(DAY, DAY + DAY_NS),
        )  # fmt: skip
        found = matrix(selection, "read_bytes").load().values
        assert np.isnan(found[10, 1])
        assert np.nansum(found) == 5.0 * 2879


@pytest.mark.slow
@pytest.mark.shared
def test_all_sample_data_goes_in_and_no_row_is_refused(shared_data, lake):
    """Samples of real machines: no limit may refuse one. One kind of machine has a clock that was never set."""
    report = ingest(lake, [shared_data], context=ReadContext(zone=zone_named("UTC")))
    assert [outcome.message for outcome in report.outcomes if outcome.refused_rows] == []
    flagged = {outcome.path.name.split("_")[1] for outcome in report.flagged}
    assert flagged >= {"mpi-io-test-ppc32-1.1.0", "mpi-io-test-ppc32-2.0.0", "mpi-io-test-ppc32-2.2.6"}
    assert all(name.startswith("mpi-io-test-ppc32-") for name in flagged)
    assert report.rows_added["series"] > 190_000
    assert report.rows_added["files"] > 60_000
