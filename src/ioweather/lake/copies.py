"""Copies of a lake (backup) and of a table (export).

A backup is a lake at pinned versions, made while writers go on; the next one copies only new files. Data files and
commits of Delta never change once they exist, so a file that the backup has is not read again. Data are copied first
and commits last: an interrupted backup is the one before it. A backup of the copy restores the lake elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

import duckdb

from ioweather.core.errors import LakeError, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import make_directories
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.database import literal, quote
from ioweather.lake.delta_tables import commits_until, newest_version
from ioweather.lake.lake import Lake, Snapshot
from ioweather.lake.layout import require_undamaged
from ioweather.lake.object_store import store_of
from ioweather.lake.sandbox import require_select

_CHUNK: Final = 4 << 20
# What may be in the directory of a first backup that was interrupted.
_TOP: Final = ("tables", "seals", "lake.json", "facility.toml")


def backup(lake: Lake, target: Path, *, progress: Progress = silent) -> dict[str, int]:
    """Bring `target` to the current versions.

    Returns `copied_files`, `copied_bytes`, `kept_files` (already there) and `removed_files`."""
    root = lake.root
    if store_of(root) is not None:
        raise UsageError(
            "A lake in an object store cannot be backed up with this command.",
            hint="Use the versioning or replication of the store.",
        )
    _require_own_copy(root, target)
    with lake.snapshot() as snapshot:
        versions = snapshot.versions
        tables = snapshot.pinned.items()
        data = [f"tables/{name}/day={uri.rsplit('day=', 1)[1]}" for name, files in tables for uri in files.uris]
    # The ledger last: what it lists is then there, even if this is interrupted.
    commits = [
        str(path.relative_to(root))
        for name in sorted(versions, key=lambda name: name == "ingests")
        for path in commits_until(layout.tables_dir(root) / name, versions[name])
    ]
    # Refuse a copy that was written to, or whose lake was set back to an earlier state since.
    hint = "Use a new directory."
    for relative in commits:
        there = target / relative
        if there.suffix == ".json" and there.is_file() and there.read_bytes() != (root / relative).read_bytes():
            raise LakeError(f"{target} has another history: {relative} differs.", hint=hint)
    for name, version in versions.items():
        newest = newest_version(target / "tables", TABLES[name])
        if newest is not None and newest > version:
            raise LakeError(f"{target} is newer than the lake: it has version {newest} of `{name}`.", hint=hint)
    loose = ["facility.toml"] if layout.facility_file(root).exists() else []
    # lake.json last: until everything is there, it is no lake.
    loose += [*sorted(f"seals/{path.name}" for path in layout.seals_dir(root).glob("*.json")), "lake.json"]
    _make_folder(target)
    kept = copied_bytes = 0
    wanted = [*data, *commits, *loose]
    for position, relative in enumerate(wanted):
        progress(position, len(wanted), "files")
        source, there = root / relative, target / relative
        is_there = there.is_file() and there.stat().st_size == source.stat().st_size
        if is_there and (relative not in loose or there.read_bytes() == source.read_bytes()):
            kept += 1
            continue
        if relative.endswith(".zstd.parquet"):
            require_undamaged([source])
        copied_bytes += _copy_file(source, there, target)
    removed = _remove_unlisted(target, set(wanted))
    progress(len(wanted), len(wanted), "files")
    copied = len(wanted) - kept
    return {"copied_files": copied, "copied_bytes": copied_bytes, "kept_files": kept, "removed_files": removed}


def _require_own_copy(root: Path, target: Path) -> None:
    """Raise LakeError unless the target is empty, a copy of this lake, or a first copy that was interrupted."""
    if target.resolve() == root.resolve() or root.resolve() in target.resolve().parents:
        raise LakeError(f"{target} is inside the lake.", hint="Use a directory on another disk.")
    if not target.exists():
        return
    if not layout.is_lake(target):
        if not all(entry.name.removesuffix(".partial").lstrip(".") in _TOP for entry in target.iterdir()):
            raise LakeError(f"{target} is neither empty nor a backup.", hint="Use a new directory.")
        return
    markers = [json.loads(layout.lake_marker(path).read_text("utf-8")) for path in (root, target)]
    if markers[0].get("created_ns") != markers[1].get("created_ns"):
        raise LakeError(f"{target} is a backup of another lake.", hint="Use a new directory.")


def _remove_unlisted(target: Path, wanted: set[str]) -> int:
    """Remove data files and seals that the lake no longer has, and drafts; returns how many."""
    removed = 0
    for draft in target.glob(".*.partial"):
        draft.unlink()
    for folder in (layout.tables_dir(target), layout.seals_dir(target)):
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            if str(path.relative_to(target)) not in wanted:
                path.unlink()
                removed += 1
    return removed


def _make_folder(target: Path) -> None:
    """Make the directory as private as a lake, so that no other user can place files in it."""
    try:
        layout.lake_directory(target, new=True).close()
    except OSError as error:
        raise LakeError(f"Cannot create {target}: {error.strerror}.", hint="Use another directory.") from None


def _copy_file(source: Path, target: Path, top: Path) -> int:
    """Copy a file, complete or not at all; returns its bytes."""
    draft = target.with_name(f".{target.name}.partial")
    try:
        make_directories(target.parent, top)
        draft.unlink(missing_ok=True)  # of a copy that was killed: it may be read-only
        with source.open("rb") as reader, draft.open("wb") as writer:
            shutil.copyfileobj(reader, writer, _CHUNK)
            writer.flush()
            os.fchmod(writer.fileno(), 0o444 if target.is_relative_to(top / "tables") else 0o644)
            os.fsync(writer.fileno())
            size = writer.tell()
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LakeError(
            f"Cannot copy {source} to {target}: {error.strerror}.",
            hint="Check space and permissions and run the command again. It resumes.",
        ) from None
    return size


_FORMS: Final = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
}


def export_table(
    snapshot: Snapshot, table: str, out: Path, *, where: str = "", period_ns: tuple[int, int] | None = None
) -> int:
    """Write rows of a table in the order of time; returns how many. Of revisable rows, those that count."""
    if table not in TABLES:
        raise UsageError(f"Table {table!r} does not exist.", hint=f"Tables: {', '.join(TABLES)}.")
    form = next((form for ending, form in _FORMS.items() if out.name.endswith(ending)), None)
    if form is None:
        raise UsageError(f"--out {out}: the extension must be one of {', '.join(_FORMS)}.")
    time = quote(TABLES[table].time)
    conditions = [f"({where}\n)"] if where else []  # the line break ends a comment in it
    if period_ns is not None:
        conditions.append(f"{time} >= {period_ns[0]} AND {time} < {period_ns[1]}")
    query = f"SELECT * FROM {quote(table)} WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY {time}"
    try:
        require_select(query, query)
    except UsageError as error:
        raise UsageError(
            f"--where requires one condition. {error.message}",
            hint="Example: --where \"system = 'scratch'\"",
            kind="QueryRefused",
        ) from None
    draft = out.with_name(f".{out.name}.partial")
    try:
        copied = snapshot.query(f"COPY ({query}) TO {literal(draft)} ({form})")
        rows: int = copied.fetchall()[0][0]
        draft.replace(out)
    except duckdb.IOException as error:
        raise UsageError(f"--out {out}: {error}") from None
    except duckdb.Error as error:
        raise UsageError(f"DuckDB: {error}", kind="QueryRefused") from None
    finally:
        draft.unlink(missing_ok=True)
    return rows
