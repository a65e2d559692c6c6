"""All that a page shows of one job."""

from __future__ import annotations

import pytest

from ioweather.core.results import Exhibit, ResultTable, to_jsonable
from ioweather.job_io.job_page import page_exhibits
from ioweather.job_io.view import view_of_log
from planted_logs import MIB, write_climate


@pytest.fixture(scope="module")
def climate(tmp_path_factory):
    return view_of_log(write_climate(tmp_path_factory.mktemp("logs") / "a.darshan", partial=("STDIO",)), "keep")


@pytest.fixture(scope="module")
def page(climate) -> dict[str, Exhibit]:
    made = {exhibit.id: exhibit for exhibit in page_exhibits(climate, climate.log)}
    to_jsonable(tuple(made.values()))
    return made


def table(exhibit: Exhibit, name: str) -> ResultTable:
    return next(t for t in exhibit.tables if t.name == name)


def rows(exhibit: Exhibit, name: str) -> list[dict[str, object]]:
    found = table(exhibit, name)
    return [dict(zip((column.name for column in found.columns), row, strict=True)) for row in found.rows]


def test_job_log_and_modules_with_partial_flags(page):
    about = dict(table(page["job.about"], "job").rows)
    assert about["command"] == "/opt/bin/climate --grid 9"
    assert about["Darshan library"] == "3.4.6"
    assert about["log version"] == "3.41"
    assert "nodes" not in about
    modules = {
        row["module"]: (row["version"], row["records"], row["state"]) for row in rows(page["job.about"], "modules")
    }
    assert modules["POSIX"] == (4, 5, "complete")
    assert modules["STDIO"] == (2, 1, "partial: out of memory")
    assert modules["HEATMAP"][1] == 4


def test_bytes_and_bandwidth_of_each_interface(page):
    found = {row["interface"]: row for row in rows(page["job.interfaces"], "interfaces")}
    assert found["POSIX"]["bandwidth"] == pytest.approx(14 * MIB / 7.25)
    assert (found["MPI-IO"]["files"], found["MPI-IO"]["written"]) == (1, 8 * MIB)


def test_each_interface_in_full(page):
    posix = page["job.posix"]
    assert [chart.title for chart in posix.charts] == ["Access sizes", "Operations"]
    assert rows(posix, "common_sizes")[0] == {"size": MIB // 2, "bytes": MIB // 2, "count": 12}
    sizes = {(row[0], row[1]): row[2] for row in posix.charts[0].table.rows}
    assert sizes["1 MiB to 4 MiB", "written"] == 2
    assert sizes["100 KiB to 1 MiB", "read"] == 4
    assert not any("standard" in caveat.lower() for caveat in posix.caveats)
    assert any("Standard" in caveat for caveat in page["job.stdio"].caveats)


def test_largest_files(page):
    largest = rows(page["job.files"], "largest")
    assert largest[0]["file"] == "/scratch/run/state.nc"
    assert (largest[0]["of"], largest[0]["written"], largest[0]["size"], largest[0]["seconds"]) == (
        "shared, 4 processes", 8 * MIB, 8 * MIB, 16.0,
    )  # fmt: skip
    assert [row["of"] for row in largest[1:5]] == ["rank 3", "rank 2", "rank 1", "rank 0"], "ties by time"
    assert largest[-1]["file"] == "/home/ann/run.cfg"
    assert "stripes" not in largest[0]
