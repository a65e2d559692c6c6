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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from ioweather._version import __version__
from ioweather.core.clock import now_ns
from ioweather.core.errors import LakeError, QueryRefused, UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.database import literal, quote
from ioweather.lake.delta_tables import LAST_CHECKPOINT, commits_until, newest_version, point_at_checkpoint
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.snapshot import Snapshot
from ioweather.lake.table_files import require_undamaged

MANIFEST: Final = "backup.json"
_CHUNK: Final = 4 << 20
_TOP: Final = ("tables", "seals", "lake.json", "facility.toml", MANIFEST)


@dataclass(frozen=True)
class Copied:
    """What a backup or a restore did; `versions` are those of the tables in it."""

    copied_files: int
    copied_bytes: int
    kept_files: int
    removed_files: int
    versions: Mapping[str, int]


def backup(lake: Lake, target: Path, *, verify: bool = False, progress: Progress = silent) -> Copied:
    """Bring `target` to the versions of this moment. With `verify`, every file there is read again and compared."""
    known = _known(lake.root, target)
    with lake.snapshot() as snapshot:
        versions = snapshot.versions
        data = [
            f"tables/{name}/day={uri.rsplit('day=', 1)[1]}"
            for name, files in snapshot.pinned.items()
            for uri in files.uris
        ]
    # The ledger last: what it lists is then there, even if this is interrupted.
    order = sorted(versions, key=lambda name: name == "ingests")
    commits = [
        f"{path.relative_to(lake.root)}"
        for name in order
        for path in commits_until(layout.tables_dir(lake.root) / name, versions[name])
    ]
    _refuse_other_history(lake.root, target, versions, commits)
    loose = ["facility.toml"] if layout.facility_file(lake.root).exists() else []
    loose += [*sorted(f"seals/{path.name}" for path in layout.seals_dir(lake.root).glob("*.json")), "lake.json"]
    _make_folder(target)
    manifest: dict[str, Any] = {}
    kept = copied = copied_bytes = 0
    wanted = [*data, *commits, *loose]
    for position, relative in enumerate(wanted):
        progress(position, len(wanted), "files")
        old = known.get(relative)
        if old is not None and _is_there(lake.root, target, relative, old["bytes"], changes=relative in loose):
            manifest[relative] = old
            kept += 1
            continue
        if relative.endswith(".zstd.parquet"):
            require_undamaged([lake.root / relative])
        manifest[relative] = _copy(lake.root / relative, target / relative, target)
        copied += 1
        copied_bytes += manifest[relative]["bytes"]
    for name, version in versions.items():
        point_at_checkpoint(target / "tables" / name, version)
    body = {"made_ns": now_ns(), "software_version": __version__, "versions": versions, "files": manifest}
    write_whole(target / MANIFEST, json.dumps(body).encode(), 0o644)
    removed = _remove_strangers(target, set(manifest))
    progress(len(wanted), len(wanted), "files")
    if verify:
        check_backup(target, progress=progress)
    return Copied(copied, copied_bytes, kept, removed, versions)


def _is_there(root: Path, target: Path, relative: str, size: int, *, changes: bool) -> bool:
    there = target / relative
    if not there.is_file() or there.stat().st_size != size:
        return False
    return not changes or there.read_bytes() == (root / relative).read_bytes()


def check_backup(source: Path, *, progress: Progress = silent) -> Mapping[str, int]:
    """Every file is there and has its digest; returns the versions."""
    manifest = _manifest(source)
    for position, (relative, entry) in enumerate(manifest["files"].items()):
        progress(position, len(manifest["files"]), "files checked")
        _require_same(source / relative, entry, _digest(source / relative))
    versions: Mapping[str, int] = manifest["versions"]
    return versions


def restore(source: Path, target: Path, *, progress: Progress = silent) -> Copied:
    """A lake at `target`, which must not be there yet, from a backup; each file is compared with its digest."""
    manifest = _manifest(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LakeError(f"{target} is there already.", hint="Restore into a new directory, then move it.")
    _make_folder(target)
    files: dict[str, Any] = manifest["files"]
    # lake.json last: until everything is there, it is no lake.
    order = sorted(files, key=lambda relative: relative == "lake.json")
    total = 0
    for position, relative in enumerate(order):
        progress(position, len(order), "files")
        made = _copy(source / relative, target / relative, target)
        _require_same(source / relative, files[relative], made["sha256"])
        total += made["bytes"]
    for name, version in manifest["versions"].items():
        point_at_checkpoint(target / "tables" / name, version)
    progress(len(order), len(order), "files")
    open_lake(target)
    return Copied(len(order), total, 0, 0, manifest["versions"])


def _manifest(source: Path) -> dict[str, Any]:
    try:
        body: dict[str, Any] = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
        _ = body["files"], body["versions"]
    except FileNotFoundError:
        raise LakeError(
            f"{source} is not a backup: it has no {MANIFEST}.", hint="Name a DEST of `lake backup`."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{source / MANIFEST} is damaged.", hint="Use another backup.") from None
    return body


def _known(root: Path, target: Path) -> dict[str, Any]:
    """Files of the backup before this one. Whatever else lies at the target is not touched, but refused."""
    if target.resolve() == root.resolve() or root.resolve() in target.resolve().parents:
        raise LakeError(f"{target} lies in the lake itself.", hint="Name a directory on another disk.")
    if not target.exists() or not any(target.iterdir()):
        return {}
    if not (target / MANIFEST).exists():
        begun = all(entry.name in _TOP or _is_draft(entry) for entry in target.iterdir())
        if begun and (not layout.is_lake(target) or _created(target) == _created(root)):
            return {}  # a first backup that was interrupted
        raise LakeError(f"{target} is not empty and not a backup.", hint="Name a new directory.")
    if layout.is_lake(target) and layout.lake_marker(target).read_bytes() != layout.lake_marker(root).read_bytes():
        mine, theirs = (_created(path) for path in (root, target))
        if mine != theirs:
            raise LakeError(f"{target} is a backup of another lake.", hint="Name a new directory.")
    files: dict[str, Any] = _manifest(target)["files"]
    return files


def _is_draft(path: Path) -> bool:
    """What an interrupted backup leaves beside the files that it was writing."""
    return path.name.startswith(".") and path.name[1:].rpartition(".")[0] in _TOP


def _created(root: Path) -> Any:
    return json.loads(layout.lake_marker(root).read_text(encoding="utf-8")).get("created_ns")


def _refuse_other_history(root: Path, target: Path, versions: Mapping[str, int], commits: list[str]) -> None:
    """A copy that somebody wrote to, or of a lake that was set back since, must not be mixed with this one."""
    for relative in commits:
        there = target / relative
        if there.suffix == ".json" and there.is_file() and there.read_bytes() != (root / relative).read_bytes():
            raise LakeError(f"{target} has another history: {relative} differs.", hint="Name a new directory.")
    for name, version in versions.items():
        newest = newest_version(target / "tables", TABLES[name])
        if newest is not None and newest > version:
            raise LakeError(
                f"{target} is ahead of the lake: it has version {newest} of `{name}`.", hint="Name a new directory."
            )


def _remove_strangers(target: Path, wanted: set[str]) -> int:
    """Data files that compaction or retention took out of the lake; seals of days that went; drafts."""
    removed = 0
    for draft in filter(_is_draft, target.iterdir()):
        draft.unlink()
    for folder in (layout.tables_dir(target), layout.seals_dir(target)):
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            if str(path.relative_to(target)) not in wanted and path.name != LAST_CHECKPOINT:
                path.unlink()
                removed += 1
    return removed


def _make_folder(target: Path) -> None:
    """As private as the lake: what others planted there is refused, and below a folder of ours nobody plants."""
    try:
        layout.lake_directory(target, new=True).close()
    except OSError as error:
        raise LakeError(f"{target} cannot be made: {error.strerror}.", hint="Choose another place.") from None


def _copy(source: Path, target: Path, top: Path) -> dict[str, Any]:
    """Whole or not at all; the digest is that of the bytes that were written."""
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
            f"{source} cannot be copied to {target}: {error.strerror}.",
            hint="Check space and permissions, and run it again: what is there stays.",
        ) from None
    return {"bytes": size, "sha256": digest.hexdigest()}


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LakeError(f"{path} cannot be read: {error.strerror}.", hint="Make a new backup.") from None


def _require_same(path: Path, entry: Mapping[str, Any], digest: str) -> None:
    if digest != entry["sha256"]:
        raise LakeError(f"{path} is not what was backed up: its digest differs.", hint="Use another backup.")


# A table as one file for other tools

_FORMS: Final = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
}
ENDINGS: Final = tuple(_FORMS)


def export_table(
    snapshot: Snapshot, table: str, out: Path, *, where: str = "", period_ns: tuple[int, int] | None = None
) -> int:
    """Write rows of a table in the order of time; returns how many. Of revisable rows, those that count."""
    if table not in TABLES:
        raise UsageError(f"There is no table {table!r}.", hint=f"Tables: {', '.join(TABLES)}.")
    form = next((_FORMS[ending] for ending in sorted(_FORMS, key=len, reverse=True) if out.name.endswith(ending)), None)
    if form is None:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    time = quote(TABLES[table].time)
    conditions = [f"({where}\n)"] if where else []  # the line break ends a comment in it
    if period_ns is not None:
        conditions.append(f"{time} >= {period_ns[0]} AND {time} < {period_ns[1]}")
    query = f"SELECT * FROM {quote(table)} WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY {time}"
    _one_select(query)
    draft = out.with_name(f".{out.name}.partial")
    try:
        copied = snapshot.query(f"COPY ({query}) TO {literal(draft)} ({form})")
        rows: int = copied.fetchall()[0][0]
        draft.replace(out)
    except duckdb.IOException as error:
        raise UsageError(f"--out {out}: {error}") from None
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return rows


def _one_select(query: str) -> None:
    try:
        kinds = [str(statement.type).rsplit(".", 1)[-1] for statement in duckdb.extract_statements(query)]
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    if kinds not in (["SELECT"], ["SELECT_STATEMENT"]):
        raise QueryRefused("--where takes one condition.", hint="For example: --where \"system = 'scratch'\"")
