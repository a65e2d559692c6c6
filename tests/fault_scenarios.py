"""Commands to disturb: what each begins with, what it is, and what must be there when it has succeeded.

Every case has a folder of its own on the disturbed file system (`here`) and one beside it (`beside`); both begin as
copies of what an undisturbed preparation made.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  the lake loads only a part of it, which has no `sql`

from ioweather.agent.spool import Spool, row_line
from ioweather.core.tables import TABLES
from ioweather.core.units import HOUR_NS
from ioweather.ingestion.queue import waiting
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import check_lake
from planted_logs import write_climate
from warm_commands import WarmCommands

START_NS = 1_760_000_400_000_000_000  # 2025-10-09T09:00Z


@dataclass(frozen=True)
class Places:
    here: Path
    beside: Path


@dataclass(frozen=True)
class Scenario:
    name: str
    prepare: Callable[[WarmCommands, Places], None]
    arguments: Callable[[Places], list[object]]
    state: Callable[[Places], Any]
    every: int = 2  # kind of call is disturbed in short
    done: str = ""  # what a run says that finds nothing left to do, and ends with 2


def write_segments(folder: Path, first: int, count: int, host: str = "n1") -> None:
    """Closed segments as the agent writes them: a probe's responses, a counter's minutes and an event in each."""
    spool = Spool(folder, host, "run")
    for n in range(first, first + count):
        at = START_NS + n * HOUR_NS // 2
        for k in range(8):
            spool.add(row_line("responses", _response(host, at + k * 10**9)))
            minute = at + k * 60 * 10**9
            spool.add(row_line("series", {"start_ns": minute, "interval_ns": 60 * 10**9, "system": "scratch",
                                          "component_kind": "ost", "component": "OST0000", "metric": "read_bytes",
                                          "value": 1.0 * n + k, "quality": 0}))  # fmt: skip
        event = {"event_id": f"{host}:{n}", "kind": "gap", "start_ns": at, "label": "agent stopped", "host": host}
        spool.add(row_line("events", event))
        spool.flush(at)
        spool.rotate(at, force=True)
    spool.close(START_NS)


def _response(host: str, at: int) -> dict[str, object]:
    return {
        "host": host, "target": "/scratch", "system": "scratch", "op": "read", "mode": "nocache", "run_id": "run",
        "request_bytes": 4096, "start_ns": at, "scheduled_ns": at, "duration_ns": 10**6, "status": "ok",
    }  # fmt: skip


def lake_state(root: Path, places: Places) -> dict[str, list[str]]:
    """All rows of all tables, each table sorted; rows that are in twice are there twice. What the ledger says of files
    that are in, and what it says is in quarantine."""
    found: dict[str, list[str]] = {}
    with open_lake(root).snapshot() as snapshot:
        for name, spec in TABLES.items():
            files = snapshot.pinned[name]
            left_out = {"ingest_id", "ingested_ns", "rows_ingest_ids"}
            columns = ", ".join(f'"{column}"' for column in (*spec.names, "source") if column not in left_out)
            rows = files.view() if spec.revisable else files.scan()
            where = "WHERE status = 'ok'" if name == "ingests" else ""
            listed = snapshot.bare.sql(f"SELECT {columns} FROM ({rows}) {where}").fetchall()
            found[name] = sorted(_anywhere(repr(row), places) for row in listed)
        waiting = snapshot.query("SELECT path, status, reason FROM quarantine").fetchall()
        found["quarantine"] = sorted(_anywhere(repr(row), places) for row in waiting)
    return found


def _anywhere(text: str, places: Places) -> str:
    return text.replace(str(places.here), "HERE").replace(str(places.beside), "BESIDE")


def _ingested(commands: WarmCommands, lake: Path, *sources: Path) -> None:
    for source in sources:
        ended = commands.run("ingest", source / "segments", "--lake", lake, "--workers", 1)
        assert ended.code == 0, ended


def _new_lake(commands: WarmCommands, places: Places) -> None:
    write_segments(places.beside / "spool", 0, 3)


def _grown_lake(commands: WarmCommands, places: Places) -> None:
    write_segments(places.beside / "old", 0, 2)
    write_segments(places.beside / "spool", 2, 2)
    _ingested(commands, places.here / "lake", places.beside / "old")


def _lake_in_pieces(root: Path, commands: WarmCommands, places: Places) -> None:
    for n in range(2):
        write_segments(places.beside / f"spool{n}", 2 * n, 2)
        _ingested(commands, root, places.beside / f"spool{n}")


def _compact_state(places: Places) -> Any:
    root = places.here / "lake"
    found: dict[str, Any] = {**lake_state(root, places)}
    with open_lake(root).snapshot() as snapshot:
        found["files"] = {name: len(files.uris) for name, files in snapshot.pinned.items()}
    seals = (root / "seals").glob("*.json")
    found["seals"] = sorted(json.dumps(json.loads(seal.read_text())["groups"]) for seal in seals)
    return found


def _backup_state(places: Places, target: Path) -> Any:
    assert check_lake(open_lake(target))["damaged"] == []
    (target / "checked.json").unlink()
    drafts = [path.name for path in target.rglob(".*.partial")]
    return {**lake_state(target, places), "drafts": drafts}


def _logs_in_lake(commands: WarmCommands, at: Places) -> None:
    """Two logs that came in by a command each."""
    for job in (1, 2):
        folder = at.beside / f"logs{job}"
        folder.mkdir(parents=True)
        write_climate(folder / "run.darshan", job_id=job, start_ns=START_NS, end_ns=START_NS + job * HOUR_NS)
        ended = commands.run("ingest", folder, "--lake", at.here / "lake", "--workers", 1)
        assert ended.code == 0, ended


def _digest_of_first(at: Places) -> str:
    """Of the first log, wherever it was read from."""
    name = at.here.parents[1] / "template/here/lake"
    with open_lake(name).snapshot() as snapshot:
        return str(snapshot.scalar("SELECT log_digest FROM applications WHERE job_id = 1"))


def _old_lake(commands: WarmCommands, at: Places) -> None:
    _lake_in_pieces(at.here / "lake", commands, at)
    facility = '[retention]\nresponses = "30d"\nraw_series = "30d"\nversions = "7d"\n'
    (at.here / "lake/facility.toml").write_text(facility)


def _with_backup(commands: WarmCommands, at: Places) -> None:
    _lake_in_pieces(at.beside / "lake", commands, at)
    ended = commands.run("lake", "backup", at.beside / "copy", "--lake", at.beside / "lake")
    assert ended.code == 0, ended


FORGET = Scenario(
    "lake forget",
    _logs_in_lake,
    lambda at: ["lake", "forget", _digest_of_first(at), "--yes", "--lake", at.here / "lake"],
    lambda at: lake_state(at.here / "lake", at),
    done="The lake has no file",
)
RESTORE = Scenario(
    "lake backup, of the copy",
    _with_backup,
    lambda at: ["lake", "backup", at.here / "lake", "--lake", at.beside / "copy"],
    lambda at: lake_state(at.here / "lake", at),
)
RETENTION = Scenario(
    "lake retention",
    _old_lake,
    lambda at: ["lake", "retention", "--lake", at.here / "lake"],
    lambda at: lake_state(at.here / "lake", at),
)
SCENARIOS = (
    Scenario(
        "ingest into a new lake",
        _new_lake,
        lambda at: ["ingest", at.beside / "spool/segments", "--lake", at.here / "lake", "--workers", 1],
        lambda at: lake_state(at.here / "lake", at),
    ),
    Scenario(
        "ingest into a lake with rows",
        _grown_lake,
        lambda at: ["ingest", at.beside / "spool/segments", "--lake", at.here / "lake", "--workers", 1],
        lambda at: lake_state(at.here / "lake", at),
    ),
    Scenario(
        "ingest from the spool",
        lambda commands, at: write_segments(at.here / "spool", 0, 3),
        lambda at: ["ingest", at.here / "spool/segments", "--lake", at.beside / "lake", "--workers", 1],
        lambda at: lake_state(at.beside / "lake", at),
    ),
    Scenario(
        "lake compact",
        lambda commands, at: _lake_in_pieces(at.here / "lake", commands, at),
        lambda at: ["lake", "compact", "--everything", "--lake", at.here / "lake"],
        _compact_state,
    ),
    Scenario(
        "lake backup, from the lake",
        lambda commands, at: _lake_in_pieces(at.here / "lake", commands, at),
        lambda at: ["lake", "backup", at.beside / "copy", "--lake", at.here / "lake"],
        lambda at: _backup_state(at, at.beside / "copy"),
    ),
    Scenario(
        "lake backup, to the copy",
        lambda commands, at: _lake_in_pieces(at.beside / "lake", commands, at),
        lambda at: ["lake", "backup", at.here / "copy", "--lake", at.beside / "lake"],
        lambda at: _backup_state(at, at.here / "copy"),
    ),
    Scenario(
        "report",
        lambda commands, at: _lake_in_pieces(at.here / "lake", commands, at),
        lambda at: ["report", "--lake", at.here / "lake", "--out", at.here / "report.html"],
        lambda at: {**lake_state(at.here / "lake", at), "report": _ending(at.here / "report.html")},
        every=3,  # slow, and with less to lose
    ),
)  # fmt: skip


def _ending(page: Path) -> str:
    return page.read_text()[-8:]


# Rows that differ each time: whatever is seen in a spool must be in the lake at the end, once.


def rows_in_spool(spool: Path) -> set[str]:
    """Whole lines of all segments, the open one too."""
    found: set[str] = set()
    for path in (spool / "segments").glob("*seg-*"):
        *lines, _ = path.read_text().split("\n")
        found.update(_row_key(row.pop("table"), row) for row in map(json.loads, lines[1:]))
    return found


def rows_in_lake(root: Path) -> list[str]:
    found = []
    with open_lake(root).snapshot() as snapshot:
        for table in ("events", "series", "responses"):
            files = snapshot.pinned[table]
            rows = snapshot.bare.sql(files.view() if TABLES[table].revisable else files.scan())
            names = rows.columns
            found += [_row_key(table, dict(zip(names, row, strict=True))) for row in rows.fetchall()]
    return found


def _row_key(table: str, row: dict[str, Any]) -> str:
    names = {
        "events": ("event_id",),
        "series": ("start_ns", "component", "metric"),
        "responses": ("start_ns", "op", "request_bytes", "scheduled_ns"),
    }
    return json.dumps([table, *(row.get(name) for name in names[table])])


def wait_until_written(root: Path, seconds: float = 300) -> None:
    """Until the server's writer has brought all that was pushed to the lake."""
    end = time.monotonic() + seconds
    while (left := waiting(root).files) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left, f"{left} pushed files were not written"


def make_small_agent(folder: Path, lake: Path) -> None:
    """What `collect block` needs: a lake that says how often, and counters."""
    open_lake(lake, create=True)
    (lake / "facility.toml").write_text(f'[collect]\nroot = "{folder}"\nblock_period = "50ms"\nship_every = "400ms"\n')
    (folder / "proc").mkdir(parents=True)
    (folder / "proc/diskstats").write_text(" 8 0 sda 100 0 800 100 0 0 0 0 0 100 100\n")


def copy_places(template: Places, backing: Path, beside: Path) -> None:
    shutil.copytree(template.here, backing)
    shutil.copytree(template.beside, beside)
