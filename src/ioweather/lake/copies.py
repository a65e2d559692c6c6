"""Copies of a lake (backup and restore) and of a table (export).

A backup is a lake at pinned versions, made while writers go on; the next one copies only new files. Data files and
commits of Delta never change once they exist, so a file that the backup has is not read again. Data are copied first
and commits last: an interrupted backup is the one before it. The copy can be opened in place; its `backup.json` names
every file with its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

from ioweather._version import __version__
from ioweather.core.errors import LakeError, QueryRefused, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import TABLES
from ioweather.core.units import now_ns
from ioweather.lake import layout
from ioweather.lake.database import literal, quote
from ioweather.lake.delta_tables import LAST_CHECKPOINT, commits_until, newest_version
from ioweather.lake.lake import Lake, Snapshot, open_lake
from ioweather.lake.layout import require_undamaged
from ioweather.lake.object_store import store_of
from ioweather.lake.sandbox import require_select

MANIFEST: Final = "backup.json"
_CHUNK: Final = 4 << 20
_TOP: Final = ("tables", "seals", "lake.json", "facility.toml", MANIFEST)


def backup(lake: Lake, target: Path, *, verify: bool = False, progress: Progress = silent) -> dict[str, int]:
    """Bring `target` to the current versions. With `verify`, every file of it is read again and compared.

    Returns `copied_files`, `copied_bytes`, `kept_files` (already there) and `removed_files`."""
    root = lake.root
    if store_of(root) is not None:
        raise UsageError("A lake in object storage is copied by its store.", hint="Use versions or replication there.")
    known = _known_files(root, target)
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
    loose += [*sorted(f"seals/{path.name}" for path in layout.seals_dir(root).glob("*.json")), "lake.json"]
    _make_folder(target)
    manifest: dict[str, Any] = {}
    kept = copied_bytes = 0
    wanted = [*data, *commits, *loose]
    for position, relative in enumerate(wanted):
        progress(position, len(wanted), "files")
        source, there, old = root / relative, target / relative, known.get(relative)
        is_there = old is not None and there.is_file() and there.stat().st_size == old["bytes"]
        if is_there and (relative not in loose or there.read_bytes() == source.read_bytes()):
            manifest[relative] = old
            kept += 1
            continue
        if relative.endswith(".zstd.parquet"):
            require_undamaged([source])
        manifest[relative] = _copy(source, there, target)
        copied_bytes += manifest[relative]["bytes"]
    _point_at_checkpoints(target, versions)
    body = {"made_ns": now_ns(), "software_version": __version__, "versions": versions, "files": manifest}
    write_whole(target / MANIFEST, json.dumps(body).encode(), 0o644)
    removed = _remove_unlisted(target, set(manifest))
    progress(len(wanted), len(wanted), "files")
    if verify:
        check_backup(target, progress=progress)
    copied = len(wanted) - kept
    return {"copied_files": copied, "copied_bytes": copied_bytes, "kept_files": kept, "removed_files": removed}


def check_backup(source: Path, *, progress: Progress = silent) -> Mapping[str, int]:
    """Check that every file exists and has its digest; returns the versions."""
    manifest = _read_manifest(source)
    for position, (relative, entry) in enumerate(manifest["files"].items()):
        progress(position, len(manifest["files"]), "files checked")
        try:
            with (source / relative).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise LakeError(f"Cannot read {source / relative}: {error.strerror}.", hint="Make a new backup.") from None
        _require_same(source / relative, entry, digest)
    versions: Mapping[str, int] = manifest["versions"]
    return versions


def restore(source: Path, target: Path, *, progress: Progress = silent) -> int:
    """Make a lake at `target`, which must not exist, from a backup; each file is compared with its digest. Returns the
    number of files."""
    manifest = _read_manifest(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LakeError(f"{target} already exists.", hint="Restore into a new directory.")
    _make_folder(target)
    files: dict[str, Any] = manifest["files"]
    # lake.json last: until everything is there, it is no lake.
    for position, relative in enumerate(sorted(files, key=lambda relative: relative == "lake.json")):
        progress(position, len(files), "files")
        made = _copy(source / relative, target / relative, target)
        _require_same(source / relative, files[relative], made["sha256"])
    _point_at_checkpoints(target, manifest["versions"])
    progress(len(files), len(files), "files")
    open_lake(target)
    return len(files)


def _read_manifest(source: Path) -> dict[str, Any]:
    """The list of files of a backup. Raises LakeError where it is missing or damaged."""
    try:
        body: dict[str, Any] = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
        _ = body["files"], body["versions"]
    except FileNotFoundError:
        raise LakeError(
            f"{source} is not a backup: it has no {MANIFEST}.", hint="Use a directory written by `lake backup`."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{source / MANIFEST} is damaged.", hint="Use another backup.") from None
    return body


def _known_files(root: Path, target: Path) -> dict[str, Any]:
    """Files of the previous backup at the target. Anything else at the target is refused and not changed."""
    if target.resolve() == root.resolve() or root.resolve() in target.resolve().parents:
        raise LakeError(f"{target} is inside the lake.", hint="Use a directory on another disk.")
    if not target.exists() or not any(target.iterdir()):
        return {}
    is_backup = (target / MANIFEST).exists()
    if not is_backup and not all(entry.name in _TOP or _is_draft(entry) for entry in target.iterdir()):
        raise LakeError(f"{target} is neither empty nor a backup.", hint="Use a new directory.")
    mine, theirs = (
        json.loads(layout.lake_marker(path).read_text(encoding="utf-8")).get("created_ns")
        for path in (root, target if layout.is_lake(target) else root)
    )
    if mine != theirs:
        raise LakeError(f"{target} is a backup of another lake.", hint="Use a new directory.")
    files: dict[str, Any] = _read_manifest(target)["files"] if is_backup else {}  # a first backup that was interrupted
    return files


def _is_draft(path: Path) -> bool:
    """Whether this is a draft that an interrupted backup left."""
    return path.name.startswith(".") and path.name[1:].rpartition(".")[0] in _TOP


def _remove_unlisted(target: Path, wanted: set[str]) -> int:
    """Remove data files and seals that the lake no longer has, and drafts; returns how many."""
    removed = 0
    for draft in filter(_is_draft, target.iterdir()):
        draft.unlink()
    for folder in (layout.tables_dir(target), layout.seals_dir(target)):
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            if str(path.relative_to(target)) not in wanted and path.name != LAST_CHECKPOINT:
                path.unlink()
                removed += 1
    return removed


def _point_at_checkpoints(target: Path, versions: Mapping[str, int]) -> None:
    """Make each copied table name the last checkpoint that it has."""
    for name, version in versions.items():
        paths = commits_until(target / "tables" / name, version)
        checkpoints = [int(path.name.split(".", 1)[0]) for path in paths if path.name.endswith(".checkpoint.parquet")]
        named = target / "tables" / name / "_delta_log" / LAST_CHECKPOINT
        if checkpoints:
            write_whole(named, json.dumps({"version": max(checkpoints), "size": 0}).encode(), 0o644)
        else:
            named.unlink(missing_ok=True)


def _make_folder(target: Path) -> None:
    """Make the directory as private as a lake, so that no other user can place files in it."""
    try:
        layout.lake_directory(target, new=True).close()
    except OSError as error:
        raise LakeError(f"Cannot create {target}: {error.strerror}.", hint="Use another directory.") from None


def _copy(source: Path, target: Path, top: Path) -> dict[str, Any]:
    """Copy a file, complete or not at all; returns its size and the digest of the bytes that were written."""
    digest, size = hashlib.sha256(), 0
    draft = target.with_name(f".{target.name}.partial")
    try:
        make_directories(target.parent, top)
        draft.unlink(missing_ok=True)  # of a copy that was killed: it may be read-only
        with source.open("rb") as reader, draft.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                digest.update(chunk)
                writer.write(chunk)
                size += len(chunk)
            writer.flush()
            os.fchmod(writer.fileno(), 0o444 if target.is_relative_to(top / "tables") else 0o644)
            os.fsync(writer.fileno())
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LakeError(
            f"Cannot copy {source} to {target}: {error.strerror}.",
            hint="Check space and permissions and run the command again. It resumes.",
        ) from None
    return {"bytes": size, "sha256": digest.hexdigest()}


def _require_same(path: Path, entry: Mapping[str, Any], digest: str) -> None:
    """Raise LakeError if the digest is not that of the manifest."""
    if digest != entry["sha256"]:
        raise LakeError(f"{path} does not match the backup: its digest differs.", hint="Use another backup.")


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
        raise UsageError(f"There is no table {table!r}.", hint=f"Tables: {', '.join(TABLES)}.")
    form = next((form for ending, form in _FORMS.items() if out.name.endswith(ending)), None)
    if form is None:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(_FORMS)}.")
    time = quote(TABLES[table].time)
    conditions = [f"({where}\n)"] if where else []  # the line break ends a comment in it
    if period_ns is not None:
        conditions.append(f"{time} >= {period_ns[0]} AND {time} < {period_ns[1]}")
    query = f"SELECT * FROM {quote(table)} WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY {time}"
    try:
        require_select(query, query)
    except QueryRefused as error:
        raise QueryRefused(
            f"--where requires one condition. {error.message}", hint="Example: --where \"system = 'scratch'\""
        ) from None
    draft = out.with_name(f".{out.name}.partial")
    try:
        copied = snapshot.query(f"COPY ({query}) TO {literal(draft)} ({form})")
        rows: int = copied.fetchall()[0][0]
        draft.replace(out)
    except duckdb.IOException as error:
        raise UsageError(f"--out {out}: {error}") from None
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return rows
