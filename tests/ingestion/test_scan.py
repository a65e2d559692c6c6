"""Scans into the lake: rows, projects, resuming, listings, lists of others; and the exhibits that follow."""

from __future__ import annotations

import fcntl
import json
import os
import time
from types import SimpleNamespace

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.results import to_jsonable
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.scan_tree import ScanRequest, scan, summary
from ioweather.lake.lake import open_lake
from ioweather.readers.scan.scanner import Walker
from ioweather.topics.analyse import availability, make_exhibits


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    now = time.time()
    for number in range(30):
        folder = root / ("earth" if number % 3 else "other") / f"run{number}"
        folder.mkdir(parents=True)
        for index in range(10):
            file = folder / f"f{index}.h5"
            file.write_bytes(b"x" * (100 if number % 3 else 5000) * (index + 1))
            os.utime(file, (now, now - number * 10 * 86_400))
    os.close(os.open(os.fsencode(root) + b"/odd\xff\x1b[31m.txt", os.O_CREAT | os.O_WRONLY))
    return root


@pytest.fixture
def lake_dir(tmp_path):
    return tmp_path / "lake"


def rows(lake_dir, sql):
    with open_lake(lake_dir).snapshot() as snapshot:
        return snapshot.query(sql).fetchall()


def test_exhibits_follow(tree, lake_dir):
    scan(lake_dir, ScanRequest(tree))
    for number in range(40):
        (tree / f"new{number}").write_text("x")
    scan(lake_dir, ScanRequest(tree))
    lake = open_lake(lake_dir)
    made = make_exhibits(lake, ["car11.fig8", "car11.table3", "car11.overwrite"])
    growth = {e.name: e.value for e in made[1].estimates}
    assert growth["files_growth"] == pytest.approx(40 / 301)
    age = {e.name: e.value for e in made[2].estimates}
    old = sum(p.stat().st_size for n in range(7, 30) for p in tree.glob(f"*/run{n}/*"))
    everything = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file())
    assert age["unmodified_ratio[64 d]"] == pytest.approx(old / everything)
    with lake.snapshot() as snapshot:
        states = {item.id: item for item in availability(snapshot)}
    assert states["car11.overwrite"].ready


@pytest.mark.parametrize(("policy", "shown"), [("hash", 32), ("drop", None)])
def test_paths_can_be_hidden(tree, lake_dir, policy, shown):
    scan(lake_dir, ScanRequest(tree, paths=policy))
    largest = json.loads(rows(lake_dir, "SELECT largest FROM scans")[0][0])["files"][0]["path"]
    assert largest is None if shown is None else len(largest) == shown


def test_one_scan_of_a_tree_at_a_time(tree, lake_dir):
    scan(lake_dir, ScanRequest(tree))
    (lock,) = (lake_dir / "scans").glob("*.lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="is running"):
            scan(lake_dir, ScanRequest(tree))


def test_the_summary_is_safe_to_print(tree, lake_dir):
    (tree / "big\x1b]0;owned\x07").write_bytes(b"x" * 100_000)
    answer = summary(scan(lake_dir, ScanRequest(tree)))
    text = str(to_jsonable(answer))
    assert "\x1b" not in text
    assert "\\x1b]0;owned\\x07" in answer.facts[-1].facts[0].note
    assert "302 files" in answer.headline


def test_entries_of_anybodys_csv_make_a_scan(lake_dir, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(
        "file,size,user,changed\n"
        "/x/a.h5,100,1001,2026-01-01\n"
        "/x/y/b.nc,3000,1002,2020-01-01\n"
        "/x/y/c,0,1001,2026-01-02\n"
    )
    sql = """SELECT 'table-1' AS scan_id, ns('2026-01-03T00:00:00Z') AS start_ns, file AS path, size AS size_bytes,
             "user" AS uid, ns(changed || 'T00:00Z') AS mtime_ns FROM input"""
    lake = open_lake(lake_dir, create=True)
    report = ingest(lake, [table], select=("scan_entries", sql))
    assert not report.bad, report.bad
    assert report.rows_added == {"scan_entries": 3, "scans": 1}
    assert rows(lake_dir, "SELECT scan_id, root, file_count, file_bytes, source FROM scans") == [
        ("table-1", "/x", 3, 3100, "mapped")
    ]
    ages = "SELECT low, count FROM scan_bins WHERE owner_kind = 'all' AND histogram = 'mtime' ORDER BY low"
    assert rows(lake_dir, ages) == [(1, 1), (2, 1), (2048, 1)]
    made = make_exhibits(lake, ["car11.fig8"])[0]
    assert any("uid 1001 has the most files" in finding.text for finding in made.findings)


def lying(entry, size, blocks):
    """As a file system may answer that is not ours."""
    status = list(entry.stat(follow_symlinks=False))
    status[6] = size
    return SimpleNamespace(
        name=entry.name, is_dir=entry.is_dir,
        stat=lambda follow_symlinks: os.stat_result(status, {**vars_of(entry), "st_blocks": blocks}),
    )  # fmt: skip


def vars_of(entry):
    found = entry.stat(follow_symlinks=False)
    return {name: getattr(found, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}


@pytest.mark.parametrize(("size", "blocks"), [(-5, 8), (5, -8), (5, 1 << 62)])
def test_a_file_that_cannot_be_is_left_out_alone(tree, lake_dir, monkeypatch, size, blocks):
    real = Walker._count_chunk

    def count(self, entries, place):
        return real(self, [lying(e, size, blocks) if e.name == "f3.h5" else e for e in entries], place)

    monkeypatch.setattr(Walker, "_count_chunk", count)
    report = scan(lake_dir, ScanRequest(tree))
    assert rows(lake_dir, "SELECT file_count, not_examined_count FROM scans") == [(271, 30)]
    kept = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and path.name != "f3.h5")
    assert rows(lake_dir, "SELECT file_bytes FROM scans") == [(kept,)]
    assert "30 entries could not be read with stat (30 impossible size)." in summary(report).caveats


def test_times_of_any_century_are_kept(tree, lake_dir):
    os.utime(tree / "earth/run1/f0.h5", ns=(-(10**18), 14_000_000_000 * 10**9))
    report = scan(lake_dir, ScanRequest(tree))
    assert report.rows_refused == 0
    assert rows(
        lake_dir, "SELECT count FROM scan_bins WHERE histogram = 'mtime' AND owner_kind = 'all' AND low IS NULL"
    ) == [(1,)]
