"""A lake takes the facility file of simulated files, and never that of a stranger in a parent directory."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ioweather
from ioweather.simulate.fluid import make_calendar
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import PRESETS
from ioweather.simulate.world import DAY_SECONDS, make_jobs, make_programs
from ioweather.ui.cli.main import run


@pytest.mark.parametrize(
    ("where", "simulated", "taken"), [("data", True, True), ("data", False, False), ("", False, True)]
)
def test_a_facility_file_is_taken_by_a_lake_without_one(tmp_path, where, simulated, taken):
    out, lake = tmp_path / "out", tmp_path / "lake"
    (out / "data").mkdir(parents=True)
    text = f'name = "planted"\nzone = "UTC"\nsimulated = {str(simulated).lower()}\n'
    (out / "facility.toml").write_text(text)
    (out / "data" / "notes.txt").write_text("nothing\n")
    run(["ingest", "--lake", str(lake), str(out / where)])
    assert (lake / "facility.toml").exists() == taken
    assert not taken or (lake / "facility.toml").read_text() == text


def test_intrepid_has_the_projects_and_logs_of_its_paper():
    intrepid = PRESETS["intrepid"]
    assert len({program.account for program in make_programs(intrepid, 1)}) >= 60
    assert intrepid.without_darshan_ratio == 0.73
    assert {"HDF5", "MPI-IO", "POSIX"} == {program.interface for program in make_programs(intrepid, 1)}
    assert [each.monitored for each in intrepid.filesystems] == [True, False]


def test_a_project_of_intrepid_reads_most_and_stops_in_the_middle():
    intrepid = PRESETS["intrepid"]
    jobs = make_jobs(intrepid, make_programs(intrepid, 1), make_calendar(intrepid), 1)
    middle = intrepid.leader_days * intrepid.days * DAY_SECONDS
    read, written = ({}, {})
    for job in jobs:
        amount = read if job.program.reads else written
        late = job.submit >= middle
        amount[late] = amount.get(late, 0) + job.program.step_bytes * job.program.steps * job.instances
    share = {late: read[late] / (read[late] + written[late]) for late in (False, True)}
    assert share[False] > 0.7 > 0.5 > share[True]


def test_the_directory_of_a_simulated_facility_is_ingested_whole(tmp_path, capsys):
    out, lake = tmp_path / "out", tmp_path / "lake"
    small = replace(PRESETS["laptop"], days=1, jobs=6, osts=4, detail_day=None, scan_files=50, hdf5_ratio=1.0)
    generate(small, out, seed=2)
    assert run(["ingest", "--lake", str(lake), str(out)]) == 0
    assert "refused" not in capsys.readouterr().out
    found = ioweather.sql("SELECT count(*) FROM scans", str(lake))
    assert found.rows == ((2,),)
    assert ioweather.sql("SELECT count(*) > 0 FROM files WHERE library = 'HDF5'", str(lake)).rows == ((True,),)
