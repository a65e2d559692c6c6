"""The paper's own tuning case, planted: 728 s, 25 s and 17 s for 40 GiB."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, MIB, cells, estimate, exhibits, planted, words

from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.studies.job.tuning import STUDY

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
    assert "C app: writes at the file system went from 16,388 to 4,096" in text
    assert "B app: metadata takes 20% of the I/O time, before 98%" in text
    assert "C app: it uses MPI-IO, before POSIX" in text


@pytest.mark.parametrize("logs", ["00000000", "00000000,ffff", "0000,00000001"])
def test_bad_choices_are_refused(logs: str) -> None:
    with pytest.raises(UsageError):
        exhibits("tuning", planted(CASE), logs=logs)


def test_nothing_to_compare_is_a_state() -> None:
    with pytest.raises(DataUnavailable):
        exhibits("tuning", planted(CASE), logs=None)


def test_the_default_is_the_slowest_and_the_fastest_run_of_the_most_repeated_program() -> None:
    duckdb = pytest.importorskip("duckdb")
    often = {"exe": "often", "read": 10}
    frames = planted(
        [{"exe": "rare", "io": 1.0, "read": 9}, often | {"io": 5.0}, often | {"io": 1.0}, often | {"io": 2.0},
         often | {"nprocs": 8, "io": 0.1}, {"exe": "often"}]
    )  # fmt: skip
    con = duckdb.connect()
    for table, columns in (
        ("job_io", ("log_digest", "bytes_per_s")),
        ("applications", ("log_digest", "exe", "nprocs")),
    ):
        con.execute(f"CREATE TABLE {table} ({', '.join(f'{c} {_TYPES[c]}' for c in columns)})")
        for row in frames[table].select(columns).records():
            con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", [row[c] for c in columns])

    class Inventory:
        def tables(self) -> dict[str, int]:
            return {}

        def series(self) -> list[object]:
            return []

        def scalar(self, sql: str) -> object:
            return con.sql(sql).fetchall()[0][0]

    choose = STUDY.params[0].choose
    assert choose is not None
    assert choose(Inventory(), {}) == "00000001log,00000002log"  # type: ignore[arg-type]


_TYPES = {"log_digest": "VARCHAR", "bytes_per_s": "DOUBLE", "exe": "VARCHAR", "nprocs": "BIGINT"}
