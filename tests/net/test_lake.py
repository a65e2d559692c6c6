"""What comes into a lake, leaves it and stays in it, by commands and over HTTP alone."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from recorded import compare

import ioweather
from ioweather.ui.cli.main import run
from ioweather.ui.web.app import create_app
from object_stores import place_in_store
from pushed_segments import segment
from shipments import finish_queue

VERSION1 = Path(__file__).parents[1] / "data" / "version1"
START_NS = 1_772_409_600 * 10**9
Command = Callable[..., tuple[int, Any]]


@pytest.fixture
def root(tmp_path: Path, bucket: str | None) -> Path:
    return place_in_store(tmp_path / "lake", bucket) if bucket else tmp_path / "lake"


@pytest.fixture
def on(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `ioweather ARGUMENTS --lake LAKE`; the exit code, and the JSON or the text that it prints."""
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> tuple[int, Any]:
        code = run([*map(str, arguments), "--lake", str(root)])
        printed = capsys.readouterr()
        assert "bug in ioweather" not in printed.err
        text = printed.out or printed.err
        return code, json.loads(printed.out) if "--json" in arguments and printed.out else text

    return call


@pytest.fixture
def files(tmp_path: Path, logs: list[Path]) -> Path:
    """Good, cut, damaged, empty and unknown files, and a link to a file elsewhere."""
    made = tmp_path / "files"
    (made / "sub").mkdir(parents=True)
    for number, log in enumerate(logs[:5]):
        shutil.copy(log, made / "sub" / f"{number}.darshan")
    data = logs[5].read_bytes()
    (made / "cut.darshan").write_bytes(data[: len(data) * 2 // 3])
    (made / "damaged.darshan").write_bytes(data[:700] + bytes([255]) * 200 + data[900:])
    (made / "copy.darshan").write_bytes(logs[0].read_bytes())
    (made / "empty.darshan").touch()
    (made / "notes.txt").write_text("nothing that anybody reads\n")
    (made / ".hidden.darshan").write_bytes(data)
    (made / "link.darshan").symlink_to(logs[6])
    (made / "agent.ndjson").write_bytes(segment("n1", [START_NS + k * 10**9 for k in range(20)]) + b'{"table": "resp')
    (made / "df.csv").write_text("when,target,free\n2026-03-02 00:00:00,OST0,10\n2026-03-02 00:01:00,OST0,\n")
    return made


def rows_of(root: Path) -> dict[str, int]:
    return {name: rows for name, rows in ioweather.open_lake(root).tables().items() if rows}


def test_good_and_bad_files_once(on, root, files) -> None:
    code, first = on("ingest", files, "--json", "--workers", 1)
    refused = sorted([Path(bad["path"]).name, bad["status"], bad["reason"]] for bad in first.pop("refused"))
    compare(
        "lake", "ingest", {"exit": code, "json": {**first, "seconds": 0}, "refused": refused, "rows": rows_of(root)}
    )
    code, second = on("ingest", files, "--json", "--workers", 2)
    assert (code, second["read"], second["known"]) == (1, 0, first["read"] + first["known"])
    assert sum(second["rows_added"].values()) == 0
    code, again = on("ingest", files, "--again", "--json")
    assert (again["read"], sum(again["rows_added"].values())) == (first["read"], 0)
    code, listed = on("lake", "quarantine", "--json")
    assert sorted(Path(row["path"]).name for row in listed) == [name for name, _, _ in refused]


def test_forget_and_read_again(on, root, files) -> None:
    on("ingest", files / "sub", "--json")
    before = rows_of(root)
    code, text = on("lake", "forget", files / "sub/0.darshan", "--yes")
    assert code == 0
    assert "5 files" in text or "and" in text or text.count(".darshan") >= 5  # one command brought them together
    assert "applications" not in rows_of(root)
    code, found = on("ingest", files / "sub", "--json")
    assert found["read"] == 5
    assert {**rows_of(root), "ingests": 0} == {**before, "ingests": 0}
    assert on("lake", "forget", files / "nothing")[0] == 2


def test_seal_check_backup_export(on, root, files, tmp_path, capsys) -> None:
    on("ingest", files / "sub", "--json")
    on("ingest", files / "agent.ndjson", "--json")
    before = rows_of(root)
    assert on("lake", "compact", "--everything")[0] == 0
    assert rows_of(root) == before
    backup = tmp_path / "backup"
    assert on("lake", "backup", backup)[0] == 0
    code, text = on("lake", "backup", backup)
    assert (code, text.split()[:2]) == (0, ["Copied", "0"])
    assert on("lake", "retention", "--dry-run")[0] == 0
    code, whole = on("lake", "check", "--json")
    assert (code, whole["damaged"]) == (0, [])
    victim = next((root / "tables/applications").rglob("*.parquet"))
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:-20] + bytes(20))
    code, found = on("lake", "check", "--json")
    assert (code, len(found["damaged"])) == (1, 1)
    assert on("sql", "SELECT count(*) FROM applications", "--json")[0] in (0, 2)
    code, found = on("lake", "check", "--set-aside", "--json")
    assert len(found["inputs"]) == 5
    code, found = on("ingest", files / "sub", "--again", "--json")
    assert {**rows_of(root), "ingests": 0} == {**before, "ingests": 0}
    restored = tmp_path / "restored"
    assert run(["lake", "backup", str(restored), "--lake", str(backup)]) == 0
    assert rows_of(restored) == before
    assert run(["lake", "check", "--lake", str(restored)]) == 0
    out = tmp_path / "out.csv"
    assert on("lake", "export", "applications", "--out", out, "--where", "nprocs > 0")[0] == 0
    assert len(out.read_text().splitlines()) == 1 + before["applications"]
    assert on("lake", "export", "applications", "--out", tmp_path / "x.txt")[0] == 2
    assert on("lake", "export", "applications", "--out", out, "--where", "1=1; DROP TABLE x")[0] == 2


QUERIES = """
SELECT table_name, count(*) FROM information_schema.columns GROUP BY 1 ORDER BY 1
SELECT count(*), sum(nprocs) FROM applications
SELECT 1.5::DECIMAL(4,1) AS d, '2020-01-01 00:00:00+00'::TIMESTAMPTZ AS t, [1, 2] AS l, {'a': 1} AS s, MAP {1: 2} AS m
SELECT reason, count(*) FROM quarantine GROUP BY 1 ORDER BY 1
SELECT * FROM applications a JOIN job_io USING (log_digest) WHERE FALSE
SELECT 1; SELECT 2
DROP TABLE applications
EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'
COPY (SELECT 1) TO 'x.csv'
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM duckdb_settings()
SELECT current_setting('allowed_paths')
SELECT * FROM nothing
ATTACH 'x.db'
""".strip().splitlines()


def test_sql(on, files) -> None:
    on("ingest", files, "--json", "--workers", 1)
    for query in QUERIES:
        code, found = on("sql", query, "--json")
        compare("lake", query, {"exit": code, "json": found if code == 0 else None})
    code, text = on("sql", "EXPLAIN SELECT count(*) FROM applications")
    assert (code, "Aggregate" in text or "AGGREGATE" in text) == (0, True)
    code, text = on("sql", "SELECT count(*) FROM range(100000000000) a, range(1000) b", "--timeout", "0.3")
    assert (code, "longer than 0.3 s" in text) == (2, True)


def test_select_of_a_user(on, root, files) -> None:
    select = files / "map.sql"
    select.write_text(
        "SELECT ns(\"when\") AS start_ns, 60000000000 AS interval_ns, 'fs' AS system, 'ost' AS component_kind,"
        " target AS component, 'read_bytes' AS metric, free::DOUBLE AS value FROM input WHERE free IS NOT NULL"
    )
    code, found = on("ingest", files / "df.csv", "--as", "series", "--select", select, "--zone", "UTC", "--json")
    compare("lake", "select", {"exit": code, "json": {**found, "seconds": 0}, "rows": rows_of(root)})
    select.write_text("SELECT 1 AS nothing FROM input")
    code, found = on("ingest", files / "df.csv", "--as", "series", "--select", select, "--again", "--json")
    assert (code, [bad["reason"] for bad in found["refused"]]) == (1, ["corrupt_input"])
    code, found = on("ingest", files / "df.csv", "--as", "nothing", "--select", select)
    assert code == 2


SACCT = """#!/bin/sh
printf '%s\\037' JobID JobIDRaw Cluster UID User Account JobName State Submit Start End NNodes NCPUS | tr -d '\\n'
printf 'NodeList\\n'
printf '%s\\037' 4711 4711 big 1000 ann phys run COMPLETED 1600000000 1600000000 1600000060 1 4 | tr -d '\\n'
printf 'n1\\n'
"""


def test_watch(on, root, facility, tmp_path, monkeypatch) -> None:
    """Files of the last day are read once; a file that cannot be read waits; accounting comes in; `--tell` is run."""
    program = tmp_path / "bin" / "sacct"
    program.parent.mkdir()
    program.write_text(SACCT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    logs = facility / "data" / "darshan"
    code, first = on("ingest", "--watch", logs, "--once", "--all", "--json")
    assert (code, first["read"] > 50, first["left_files"]) == (0, True, 0)
    assert first["rows_added"]["jobs"] == 1
    code, second = on("ingest", "--watch", logs, "--once", "--json")
    assert (code, second["read"], second["known"], second["rows_added"]) == (0, 0, 0, {})
    code, third = on("ingest", "--watch", logs, "--once", "--all", "--json")
    assert (third["read"], third["known"]) == (0, first["read"])
    assert rows_of(root)["applications"] == first["read"]
    assert on("ingest", "--once", logs)[0] == 2


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    ioweather.open_lake(root, create=True)
    with TestClient(create_app(root, hosts=["testserver"]), raise_server_exceptions=False) as made:
        yield made


def test_receive_over_http(on, root, client) -> None:
    code, text = on("serve", "token", "create", "n1", "--hosts", "n1")
    assert code == 0
    token = next(word for word in text.split() if len(word) >= 40)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream"}

    def send(data: bytes, host: str = "n1", name: str = "seg-n1-1-1.ndjson", **more: Any) -> Any:
        return client.post(f"/api/v1/spool/{host}/{name}", content=data, headers={**headers, **more})

    small = segment("n1", [START_NS + k * 10**9 for k in range(20)])
    assert send(small).json() == {"status": "ok", "rows": {"responses": 20}, "message": ""}
    large = segment("n1", [START_NS + k * 10**9 for k in range(10, 3000)])
    assert send(large, name="seg-n1-2-1.ndjson").json()["rows"] == {"responses": 2990}
    cut = segment("n1", [START_NS + 4000 * 10**9]) + b'{"table'
    assert send(cut, name="seg-n1-3-1.ndjson").status_code == 200
    wide = segment("n1", [START_NS + k * 86_400 * 10**9 for k in range(1, 8)])
    assert send(wide, name="seg-n1-4-1.ndjson").status_code == 200
    answers = {
        "no token": send(small, authorization="Bearer x"),
        "another host": send(small, host="n2", name="seg-n2-1-1.ndjson"),
        "host of the segment": send(segment("n2", [START_NS])),
        "no segment": send(b"nothing"),
        "empty": send(b""),
        "name": send(small, name="../x"),
    }
    finish_queue(root)
    rows = rows_of(root)
    assert rows["responses"] == 3000 + 1 + 7
    compare("lake", "receive", {name: answer.status_code for name, answer in answers.items()})
    assert [row["reason"] for row in on("lake", "quarantine", "--json")[1]] == ["truncated_input"]
    assert client.get("/metrics").status_code in (200, 404)
    code, text = on("serve", "token", "list")
    assert "n1" in text
    assert on("serve", "token", "revoke", "n1")[0] == 0
    assert send(small).status_code in (401, 403)
    assert [path for path in (root / "queue").rglob("*-*") if path.is_file()] == []


def test_scan(on, root, tmp_path) -> None:
    tree = tmp_path / "tree"
    for number in range(6):
        (tree / f"d{number}").mkdir(parents=True)
        for size in (10, 5000, 2_000_000):
            (tree / f"d{number}" / f"{size}.bin").write_bytes(bytes(size))
    os.link(tree / "d0/10.bin", tree / "d1/other.bin")
    root.mkdir()
    (root / "facility.toml").write_text(f'[[project]]\nname = "odd"\npath = "{tree}/d[135]*"\n')
    code, found = on("scan", tree, "--workers", 1, "--json")
    (root / "facility.toml").unlink()
    counts = {name: found[name] for name in ("file_count", "directory_count", "complete", "rows_added")}
    compare("lake", "scan", {"exit": code, "found": counts})
    code, text = on("scan", tree, "--workers", 1)
    assert (code, "18 files with" in text) == (0, True)
    assert rows_of(root)["scans"] == 2
    assert on("scan", tree, "--resume", "--restart")[0] == 2
    sums = "SELECT sum(count)::INT AS n FROM scan_bins WHERE histogram = 'size' AND owner = 'odd'"
    assert on("sql", sums, "--json")[1] == [{"n": 9}]


def test_lake_of_the_first_version(on, root, tmp_path) -> None:
    with tarfile.open(VERSION1 / "lake.tar.xz") as archive:
        archive.extractall(root.parent, filter="data")
    assert rows_of(root) == json.loads((VERSION1 / "rows.json").read_text("utf-8"))
    code, found = on("ingest", VERSION1 / "segment.ndjson", "--json")
    assert (code, found["read"]) == (0, 1)
    after = rows_of(root)
    assert on("lake", "compact", "--everything")[0] == 0
    assert {**rows_of(root), "events": 0} == {**after, "events": 0}
    code, found = on("lake", "check", "--json")
    assert (code, found["damaged"]) == (0, [])
    code, found = on("lake", "--json")
    compare("lake", "version 1", {"series": found["series"], "rows": {**after, "events": 0}})
    marker = json.loads((root / "lake.json").read_text())
    (root / "lake.json").write_text(json.dumps({**marker, "schema_version": 99}))
    assert on("lake")[0] == 2
