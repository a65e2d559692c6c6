"""Runs before and after a change, and the paper's own case: 728 s, 25 s and 17 s for 40 GiB."""

from __future__ import annotations

from typing import Any

import pytest
from planted_jobs import GIB, MIB, cells, estimate, exhibits, planted, words

from ioweather.core.errors import UsageError
from ioweather.core.results import to_jsonable
from ioweather.core.tables import TABLES
from ioweather.job_io.compare import STUDY, comparison, headline, side_by_side
from ioweather.job_io.view import JobView

NO_FILES = TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
BEFORE = {"nprocs": 64, "written": 40 * GIB, "io": 728.0, "write_count": 16_384, "fs_write_count": 16_384,
          "fs_write_bytes": 40 * GIB, "files": 64, "unique_file_count": 64, "meta_seconds": 98.0,
          "write_seconds": 2.0}  # fmt: skip
AFTER = BEFORE | {"io": 26.0, "meta_seconds": 20.0, "write_seconds": 80.0}


def row(**job: Any) -> dict[str, Any]:
    frames = planted([job])
    return JobView("x", frames["applications"], NO_FILES, frames["job_io"]).row()


def rows(*jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return [row(**job) for job in jobs]


def test_the_sentence_in_the_manner_of_the_paper():
    assert headline(rows(BEFORE, AFTER), ["A old", "B new"]) == (
        "B new is 28 times as fast as A old: 40 GiB in 26 s against 40 GiB in 12.1 min; metadata takes 20% of the I/O "
        "time (was 98%)."
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"write_count": 40 * 1024}, "a write moves 1 MiB (was 2.50 MiB)"),
        ({"fs_write_count": 4096}, "writes at the file system went from 16,384 to 4,096"),
        ({"files": 1, "unique_file_count": 0, "shared_file_count": 1}, "files went from 64 to 1 (1 shared by all)"),
        ({"interfaces": "MPI-IO", "collective_count": 16_384}, "100% of accesses are collective (was 0%)"),
        ({"interfaces": "MPI-IO"}, "interfaces went from POSIX to MPI-IO"),
        ({"sequential_count": 16_384}, "100% of accesses are sequential (was 0%)"),
        ({}, "same I/O pattern"),
    ],
)
def test_what_changed_is_said(change, text):
    # Equally fast, so that the headline names no reasons.
    made = comparison(rows(BEFORE, BEFORE | change), ["a.darshan", "b.darshan"])
    assert text in " ".join(finding.text for finding in made.findings)


def test_metrics_side_by_side_with_ratios():
    table = side_by_side(rows(BEFORE, AFTER | {"read": 64 * 1024}))
    lines = {line[0]: line[1:] for line in table.rows}
    assert lines["I/O time"] == ("12.1 min", "26 s", "÷28")
    assert lines["speed"] == ("56.3 MiB/s", "1.54 GiB/s", "×28")
    assert lines["files"] == ("64", "64", "=")
    assert lines["metadata share of I/O time"] == ("98%", "20%", "÷4.9")
    assert lines["bytes read"] == ("0 B", "64 KiB", "")
    assert "nodes" not in lines
    assert "files shared by all" not in lines


def test_the_exhibit_of_the_paper_is_in_the_answer():
    answer = comparison(rows(BEFORE, AFTER), ["before.darshan", "after.darshan"])
    to_jsonable(answer)
    figure = next(exhibit for exhibit in answer.exhibits if exhibit.id == "car11.fig11")
    assert figure.charts[0].table.column("rate") == pytest.approx((40 * 1024 / 728, 40 * 1024 / 26))
    runs = figure.tables[0]
    assert runs.column("improvement") == pytest.approx((1.0, 28.0))
    assert runs.column("write_size") == (2.5 * MIB, 2.5 * MIB)
    assert [fact.label for fact in answer.facts[0].facts] == ["A", "B"]
    assert "before.darshan: app, 64 processes" in answer.facts[0].facts[0].note


CASE = [
    {"nprocs": 8192, "written": 40 * GIB, "io": 728.0, "metadata_ratio": 0.98, "write_count": 16_388, "files": 16_384,
     "fs_write_count": 16_388, "fs_write_bytes": 40 * GIB},
    {"nprocs": 8192, "written": 40 * GIB, "io": 25.0, "metadata_ratio": 0.2, "write_count": 16_388, "files": 16_384,
     "fs_write_count": 16_388, "fs_write_bytes": 40 * GIB},
    {"nprocs": 8192, "written": 40 * GIB, "io": 17.0, "metadata_ratio": 0.1, "write_count": 16_388, "files": 2,
     "fs_write_count": 4096, "fs_write_bytes": 64 * GIB, "interfaces": "MPI-IO"},
]  # fmt: skip
LOGS = "00000000,00000001,00000002"


def test_improvement_and_what_changed() -> None:
    made = exhibits("tuning", planted(CASE), processes_per_node=1, logs=LOGS)["car11.fig11"]
    assert estimate(made, "improvement[B app]").value == pytest.approx(728 / 25)
    assert estimate(made, "improvement[C app]").value == pytest.approx(728 / 17)
    assert estimate(made, "write_operations[C app]").value == 4096
    rows = cells(made)
    assert rows[2]["fs_write_size"] == 16 * MIB
    assert rows[0]["per_node"] == pytest.approx(40 * 1024 / 728 / 8192)
    text = words(made)
    assert "C app is 43 times as fast as A app" in text
    assert "writes at the file system went from 16,388 to 4,096" in text
    assert "metadata takes 20% of the I/O time (was 98%)" in text
    assert "interfaces went from POSIX to MPI-IO" in text


@pytest.mark.parametrize("logs", ["00000000", "00000000,ffff", "0000,00000001"])
def test_bad_choices_are_refused(logs: str) -> None:
    with pytest.raises(UsageError):
        exhibits("tuning", planted(CASE), logs=logs)


class Planted:
    """An inventory of runs: (program, hour, interfaces, bytes written, bandwidth)."""

    def __init__(self, runs: list[tuple[str, int, str, int, float]]) -> None:
        self.con = pytest.importorskip("duckdb").connect()
        self.con.execute("CREATE TABLE applications (log_digest VARCHAR, exe VARCHAR, nprocs BIGINT, uid BIGINT)")
        counts = ("collective_count", "unique_file_count", "shared_file_count", "partially_shared_file_count",
                  "file_count", "write_count", "read_count")  # fmt: skip
        self.con.execute(
            "CREATE TABLE job_io (log_digest VARCHAR, start_ns BIGINT, bytes_per_s DOUBLE, interfaces VARCHAR, "
            f"read_bytes BIGINT, write_bytes BIGINT, {', '.join(f'{name} BIGINT' for name in counts)})"
        )
        for number, (exe, hour, interfaces, written, rate) in enumerate(runs):
            self.con.execute("INSERT INTO applications VALUES (?, ?, 4, 7)", [f"log{number}", exe])
            row = [f"log{number}", hour, rate, interfaces, 0, written, 0, 1, 0, 0, 1, 100, 0]
            self.con.execute(f"INSERT INTO job_io VALUES ({', '.join('?' * len(row))})", row)

    def tables(self) -> dict[str, int]:
        return {}

    def series(self) -> list[object]:
        return []

    def scalar(self, sql: str) -> object:
        return self.con.sql(sql).fetchall()[0][0]


def chosen(runs: list[tuple[str, int, str, int, float]]) -> object:
    choose = STUDY.params[0].choose
    assert choose is not None
    return choose(Planted(runs), {})  # type: ignore[arg-type]


def test_the_default_is_before_and_after_a_change_of_pattern_in_the_order_of_time() -> None:
    runs = [("app", hour, "POSIX" if hour < 4 else "MPI-IO", 1000, float(9 - hour)) for hour in range(8)]
    assert chosen(runs) == "log2,log6"  # of median bandwidth; slower after, and yet after
    assert chosen(list(reversed(runs))) == "log5,log1"


def test_runs_of_different_programs_are_named_before_their_speeds_are_compared() -> None:
    said = headline(rows(BEFORE | {"exe": "/bin/analysis x"}, AFTER | {"exe": "/bin/checkpoint y"}), ["A old", "B new"])
    assert said.startswith(
        "These are different programs (analysis, checkpoint): compare times only of the same work. "
        "B new is 28 times as fast as A old"
    )
