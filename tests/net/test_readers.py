"""A good file of every kind gives the rows that were recorded; cut, empty and foreign ones a reason."""

from __future__ import annotations

import json

import pytest
from fuzz_seeds import SEEDS, seeds_of
from recorded import compare, differences

import ioweather
from ioweather.ui.cli.main import run

SUMS = {
    "int64": "sum(\"{0}\"::DOUBLE)",
    "float64": "sum(\"{0}\")",
    "text": "count(DISTINCT \"{0}\")",
    "bool": "sum(\"{0}\"::INTEGER)",
}  # fmt: skip


def rows_of(root) -> dict[str, object]:
    """Rows, and a sum of each column, by table."""
    found: dict[str, object] = {}
    with ioweather.open_lake(root).snapshot() as snapshot:  # `sql` would start a process for each query
        for table, count in snapshot.tables().items():
            if count and table != "ingests":
                columns = snapshot.query(f"DESCRIBE SELECT * FROM {table}").fetchall()
                kinds = {"BIGINT": "int64", "DOUBLE": "float64", "VARCHAR": "text", "BOOLEAN": "bool"}
                names = [(name, kinds[kind]) for name, kind, *_ in columns if name not in ("ingest_id", "day")]
                sums = ", ".join(SUMS[kind].format(name) for name, kind in names)
                (values,) = snapshot.query(f"SELECT {sums} FROM {table}").fetchall()
                found[table] = {"rows": count, **{name: v for (name, _), v in zip(names, values, strict=True) if v}}
    return found


@pytest.mark.parametrize("kind", sorted(SEEDS))
def test_rows_of_good_files(tmp_path, capsys, kind: str) -> None:
    results = []
    for number, seed in enumerate(seeds_of(kind)):
        folder = tmp_path / str(number)
        options: list[str] = []
        if isinstance(seed.data, bytes):
            file = folder / (seed.suffix.lstrip("/") if seed.suffix.startswith("/") else f"file{seed.suffix}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(seed.data)
        else:
            for name, data in seed.data.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
            file = folder
        if seed.select is not None:
            continue
        lake = tmp_path / f"lake{number}"
        code = run(["ingest", str(file), "--zone", "UTC", "--host", "n1", "--lake", str(lake), *options])
        capsys.readouterr()
        results.append({"exit": code, "tables": rows_of(lake) if (lake / "lake.json").exists() else None})
    compare("readers", kind, results)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty", b""),
        ("text", b"nothing that anybody knows\n" * 20),
        ("zeros", bytes(4096)),
        ("cut.darshan", b"\x78\x9c" + bytes(100)),
        ("cut.gz", b"\x1f\x8b\x08\x00" + bytes(6)),
        ("page.html", b"<!doctype html><html><body>no</body></html>"),
        ("half.json", b'{"sysstat": {"hosts": ['),
    ],
)
def test_foreign_files_are_quarantined(tmp_path, capsys, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert run(["ingest", str(tmp_path / name), "--lake", str(tmp_path / "lake")]) != 0
    capsys.readouterr()
    if (tmp_path / "lake" / "lake.json").exists():
        assert run(["lake", "quarantine", "--json", "--lake", str(tmp_path / "lake")]) == 0
        (entry,) = json.loads(capsys.readouterr().out)
        assert entry["status"] == "quarantined"
        assert entry["reason"]


def test_the_same_file_twice_adds_nothing(facility, tmp_path, capsys) -> None:
    log = next((facility / "data" / "darshan").rglob("*.darshan"))
    for _ in range(2):
        assert run(["ingest", str(log), "--lake", str(tmp_path / "lake")]) == 0
    capsys.readouterr()
    assert ioweather.open_lake(tmp_path / "lake").tables()["applications"] == 1


def test_ingest_forget_ingest_gives_the_same_rows(facility, tmp_path, capsys) -> None:
    sacct = facility / "data" / "sacct.txt"
    root = tmp_path / "lake"
    assert run(["ingest", str(sacct), "--zone", "UTC", "--lake", str(root)]) == 0
    before = rows_of(root)
    assert run(["lake", "forget", str(sacct), "--yes", "--lake", str(root)]) == 0
    assert ioweather.open_lake(root).tables()["jobs"] == 0
    assert run(["ingest", str(sacct), "--zone", "UTC", "--lake", str(root)]) == 0
    capsys.readouterr()
    assert differences(before["jobs"], rows_of(root)["jobs"]) == []
