"""The files of a simulated facility, read with other people's tools; the same seed gives the same bytes."""

from __future__ import annotations

import csv
import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import duckdb
import h5py
import numpy as np
import pytest

from ioweather.core.errors import UsageError
from ioweather.simulate.generate import generate, read_manifest
from ioweather.simulate.presets import LAPTOP, for_days, preset_named

DAY_ONE, DAY_TWO = "2026-03-02", "2026-03-03"


def truth(made, sql: str) -> list[tuple]:
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW truth AS SELECT * FROM read_parquet('{made.truth}')")
        return con.execute(sql).fetchall()


def digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip


def test_the_same_seed_gives_the_same_files_and_another_does_not(tmp_path):
    preset = replace(
        for_days(LAPTOP, 1), osts=4, detail_day=0, probe_seconds=1800, sampler_seconds=7200, scan_files=100, jobs=12
    )
    first, again, other = (
        digests(generate(preset, tmp_path / name, seed=seed).out) for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    assert first == again
    assert len(first) > 30
    assert first.keys() != other.keys() or first["truth.parquet"] != other["truth.parquet"]


def test_truth_adds_up(small_facility):
    rows = truth(small_facility, """SELECT observed_seconds - alone_seconds - incidents_seconds - others_seconds
        - own_seconds, alone_seconds, incidents_seconds, details FROM truth WHERE kind = 'run'""")  # fmt: skip
    assert len(rows) == small_facility.runs
    assert max(abs(row[0]) for row in rows) < 1e-6
    for _, _, incidents, details in rows:
        by_incident = json.loads(details)["incidents"]
        assert sum(by_incident.values()) == pytest.approx(incidents, abs=1e-6) or (not by_incident and incidents < 1e-6)
    assert truth(small_facility, "SELECT count(*) FROM truth WHERE kind = 'incident'")[0][0] >= 1


def test_plain_h5py_reads_the_series(small_facility):
    with h5py.File(small_facility.data / "servers" / f"scratch_{DAY_TWO}.hdf5") as file:
        stamps = file["datatargets/timestamps"][:]
        columns = [name.decode() for name in file["datatargets/readbytes"].attrs["columns"]]
    assert np.all(np.diff(stamps) == 60)
    assert len(stamps) == 1440
    assert columns[10] == "scratch-OST000a"
    with h5py.File(small_facility.data / "servers" / f"scratch_{DAY_ONE}.hdf5") as file:
        first = file["datatargets/readbytes"][:]
    lost = (first == 0) & np.signbit(first)
    assert 0 < lost.sum() < 0.02 * lost.size


def test_spool_scans_and_facility_are_what_they_should_be(small_facility):
    segment = next((small_facility.data / "spool").iterdir())
    header, *rows = [json.loads(line) for line in segment.read_text().splitlines()]
    assert header["ioweather_spool"] == 1
    assert {"table", "start_ns", "duration_ns", "op"} <= rows[0].keys()
    lines = (small_facility.out / "scans" / "before.txt").read_text().splitlines()
    files = [line.split(" ") for line in lines if line.startswith("f ")]
    assert len(files) == 300
    assert tomllib.loads(small_facility.facility.read_text())["simulated"] is True


def test_pydarshan_reads_every_log(small_facility):
    darshan = pytest.importorskip("darshan")
    logs = sorted(small_facility.data.rglob("*.darshan"))
    assert len(logs) == small_facility.logs
    planted = {(job, instance): (observed, moved) for job, instance, observed, moved in truth(
        small_facility, """SELECT job_id, CAST(json_extract(details, '$.instance') AS INT), observed_seconds,
        read_bytes + write_bytes FROM truth WHERE kind = 'run'""")}  # fmt: skip
    for path in logs:
        with darshan.DarshanReport(str(path), read_all=True) as report:
            job = report.metadata["job"]["jobid"]
            instance = int(path.stem.rsplit("-", 1)[1])
            moved = 0
            if "POSIX" in report.records:
                frame = report.records["POSIX"].to_df()["counters"]
                moved = int(frame["POSIX_BYTES_READ"].sum() + frame["POSIX_BYTES_WRITTEN"].sum())
        assert moved == planted[job, instance][1]


def test_the_manifest_is_read_back_and_strangers_are_refused(small_facility, tmp_path):
    assert read_manifest(small_facility.out) == small_facility
    with pytest.raises(UsageError, match="not a simulated facility"):
        read_manifest(tmp_path)
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        generate(LAPTOP, tmp_path)


def test_an_unmonitored_second_file_system_has_its_own_servers_and_runs(tmp_path):
    preset = for_days(preset_named("intrepid"), 1)
    small = {"jobs": 8, "probe_seconds": 3600, "sampler_seconds": 0, "scan_files": 50, "detail_day": None}
    preset = replace(preset, **small, beside=replace(preset.beside, **small))
    made = generate(preset, tmp_path / "two", seed=3)
    facility = tomllib.loads(made.facility.read_text())
    scratch, home = facility["filesystem"]["scratch"], facility["filesystem"]["home"]
    assert (len(scratch["servers"]), len(home["servers"])) == (16, 4)
    assert not scratch["servers"].keys() & home["servers"].keys()
    accounts = [made.data / "sacct.txt", made.data / "home" / "sacct.txt"]
    rows = [row for path in accounts for row in csv.DictReader(path.read_text().splitlines(), delimiter="|")]
    assert {row["Cluster"] for row in rows} == set(facility["clusters"])
    assert len({row["JobID"] for row in rows}) == len(rows) == 16
    assert len(list(made.data.rglob("*.darshan"))) == made.logs
    assert truth(made, "SELECT count(DISTINCT id) = count(*) FROM truth WHERE kind IN ('run', 'incident')") == [(True,)]
    assert sorted(path.name for path in (made.data / "home").iterdir()) == ["darshan", "sacct.txt"]
