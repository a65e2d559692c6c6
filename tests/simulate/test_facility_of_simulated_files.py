"""A lake takes the facility file of simulated files, and never that of a stranger in a parent directory."""

from __future__ import annotations

import pytest

from ioweather.simulate.presets import PRESETS
from ioweather.simulate.world import make_programs
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
    assert [each.monitored for each in intrepid.filesystems] == [True, False]
