"""What the targets of a file system hold and moved, and the files on one of them: the need `relief`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.choices import busiest_filesystem
from ioweather.core.contracts import Period
from ioweather.core.errors import DataUnavailable
from ioweather.core.units import NS
from ioweather.facts.load_query import loads
from ioweather.facts.run_environment import target_number
from ioweather.lake.database import literal
from ioweather.lake.snapshot import Snapshot
from ioweather.planning.relief import By, FileThere, Relief

MOST_FILES: Final = 10_000
_ROOM: Final = ("capacity_bytes", "free_bytes")
_LIST: Final = "lfs find DIRECTORY -type f -printf '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'"
_STRIPES: Final = "string_split(replace(osts, ';', ','), ',')"
Amounts = dict[str, tuple[float, float]]


def relief(snapshot: Snapshot, values: Mapping[str, Any], period: Period) -> Relief:
    by: By = values["by"]
    filesystem = values["filesystem"] or _filesystem(snapshot, values["target"])
    scan = _scan(snapshot, filesystem) if by == "space" else None
    amounts = _held(snapshot, filesystem, period, scan) if by == "space" else _moved(snapshot, filesystem, period)
    names = tuple(sorted(amounts))
    amount, size = (np.array([amounts[name][i] for name in names]) for i in (0, 1))
    target = _target(names, amount / size, values["target"])
    number = target_number(target)
    if number is None:
        raise DataUnavailable(f"The name of {target} does not tell its OST number.", hint="Expected NAME-OST0007.")
    if by == "space":
        if scan is None and snapshot.owner is None:
            raise DataUnavailable(
                f"The lake has no list of the files of {filesystem} with their OSTs.",
                hint=f"Make one by {_LIST} and ingest it with --raw --start TIME --system {filesystem}.",
            )
        files, there = _of_scan(snapshot, scan, number) if scan is not None else ((), 0)
        origin = "those in the list of the file system"
    else:
        files, there = _of_logs(snapshot, filesystem, number, period)
        origin = "those that several logged runs used"
    return Relief(by, filesystem, target, names, tuple(map(target_number, names)), amount, size, files, there, origin)


def _filesystem(snapshot: Snapshot, target: str | None) -> str:
    """That of the target's name, else the busiest."""
    known = snapshot.filesystems()
    named = [name for name in known if target is not None and target.startswith(f"{name}-")]
    found = named[0] if named else busiest_filesystem(snapshot) or (known[0] if known else None)
    if found is None:
        raise DataUnavailable("The lake has no samples of storage targets.", hint="Ingest LMT or Lustre data.")
    return found


def _target(names: tuple[str, ...], level: Floats, asked: str | None) -> str:
    if asked is None:
        return names[int(np.argmax(level))]
    if asked not in names:
        near = get_close_matches(asked, names, n=3, cutoff=0.5)
        raise DataUnavailable(
            f"There is no target {asked!r} in this period.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"Targets are: {', '.join(names[:8])}.",
        )
    return asked


def _held(snapshot: Snapshot, filesystem: str, period: Period, scan: str | None) -> Amounts:
    """Bytes used and capacity of each target, as last sampled; without samples, what the list of files has there."""
    groups = [g for g in snapshot.series() if g.filesystem == filesystem and g.component_kind == "ost"]
    groups = [g for g in groups if g.metric in _ROOM and g.first_ns < period[1] and g.end_ns > period[0]]
    if {g.metric for g in groups} == set(_ROOM):
        where = {"filesystem": filesystem, "component_kind": "ost", "metric": _ROOM}
        rows = snapshot.rows("series", where, days={max(g.day for g in groups)})
        last = snapshot.bare.execute(
            f"SELECT component, arg_max(value, start_ns) FILTER (metric = 'capacity_bytes'), "
            f"arg_max(value, start_ns) FILTER (metric = 'free_bytes') FROM ({rows}) GROUP BY component"
        ).fetchall()
        found = {name: (size - free, size) for name, size, free in last if size and free is not None}
        if found:
            return found
    if scan is None or snapshot.owner is not None:  # of one person's files it does not follow how full a target is
        raise DataUnavailable(
            f"The lake has no samples of how full the targets of {filesystem} are.",
            hint="`ioweather agent run lustre` on its servers takes them; --by load needs none.",
        )
    rows = _entries(snapshot, scan)
    bytes_of = snapshot.bare.execute(
        f"SELECT number, sum(share) FROM (SELECT unnest({_STRIPES}) AS number, bytes / len({_STRIPES}) AS share "
        f"FROM ({rows})) GROUP BY number"
    ).fetchall()
    return {f"{filesystem}-OST{int(number):04x}": (float(total), 1.0) for number, total in bytes_of}


def _moved(snapshot: Snapshot, filesystem: str, period: Period) -> Amounts:
    """Bytes that each target read and wrote in the period."""
    whole = loads(snapshot, filesystem, period)
    traffic = next((t for t in whole.traffic if t.component_kind == "ost"), None)
    if traffic is None or not traffic.components:
        raise DataUnavailable(
            f"The lake has no samples of the OSTs of {filesystem} in this period.", hint="Ingest LMT or Lustre data."
        )
    rates = np.nansum(traffic.parts_read, axis=0) + np.nansum(traffic.parts_write, axis=0)
    total = rates * (whole.step_ns / NS)
    return {name: (float(moved), 1.0) for name, moved in zip(traffic.components, total, strict=True)}


def _scan(snapshot: Snapshot, filesystem: str) -> str | None:
    """The newest list of the file system whose entries have OSTs."""
    if not snapshot.pinned["scan_entries"].uris:
        return None
    rows = snapshot.query(
        "SELECT scan_id, system FROM scans WHERE scan_id IN (SELECT scan_id FROM scan_entries WHERE osts IS NOT NULL) "
        "ORDER BY start_ns DESC"
    ).fetchall()
    return next((scan for scan, system in rows if snapshot.facility.filesystem_of(system) == filesystem), None)


def _entries(snapshot: Snapshot, scan: str) -> str:
    """Files with stripes: of several names of one inode the first."""
    return (
        "SELECT *, coalesce(capacity_bytes, size_bytes, 0) AS bytes FROM "
        f"({snapshot.rows('scan_entries', {'scan_id': scan})}) "
        "WHERE osts IS NOT NULL AND kind IS DISTINCT FROM 'directory' "
        "QUALIFY inode IS NULL OR row_number() OVER (PARTITION BY device, inode ORDER BY path) = 1"
    )


def _of_scan(snapshot: Snapshot, scan: str, number: int) -> tuple[tuple[FileThere, ...], int]:
    there = f"bytes * {_stripes_on(number)} / len({_STRIPES})"
    return _listed(
        snapshot,
        f"SELECT path, escaped, {there} AS there, size_bytes, uid, greatest(atime_ns, mtime_ns), osts "
        f"FROM ({_entries(snapshot, scan)}) WHERE {there} > 0",
    )


def _stripes_on(number: int) -> str:
    """How many stripes of a row of files lie on the target."""
    doubled = "',' || replace(replace(osts, ';', ','), ',', ',,') || ','"
    return f"(len(string_split({doubled}, ',{number},')) - 1)"


def _of_logs(snapshot: Snapshot, filesystem: str, number: int, period: Period) -> tuple[tuple[FileThere, ...], int]:
    """Bytes that logged runs moved on the target, by file that several of them used: one that a single run made and
    left takes no load with it. POSIX and STDIO records have every byte once."""
    if not snapshot.pinned["files"].uris:
        raise DataUnavailable(
            "The lake has no Darshan logs, which tell what is moved in which file.",
            hint="Ingest some: ioweather ingest LOGS",
        )
    mine = _stripes_on(number)
    moved = f"(coalesce(read_bytes, 0) + coalesce(write_bytes, 0)) * {mine} / len({_STRIPES})"
    files = snapshot.rows("files", {"module": ("POSIX", "STDIO")}, period)
    logs = snapshot.rows("applications", None, period)
    rows = (
        f"SELECT path, {moved} AS there, greatest(read_extent_bytes, write_extent_bytes) AS size, uid, osts, start_ns, "
        f"log_digest, greatest(last_read_ns, last_write_ns) AS used FROM ({files}) "
        f"JOIN (SELECT log_digest, uid FROM ({logs})) USING (log_digest) "
        f"WHERE path IS NOT NULL AND osts IS NOT NULL AND {mine} > 0 "
        f"AND {_on(snapshot, filesystem)}"
    )
    return _listed(
        snapshot,
        "SELECT path, CASE WHEN path LIKE '/%' THEN FALSE END, sum(there) AS there, max(size), arg_max(uid, start_ns), "
        f"max(used), arg_max(osts, start_ns) FROM ({rows}) GROUP BY path "
        "HAVING sum(there) > 0 AND count(DISTINCT log_digest) > 1",
    )


def _on(snapshot: Snapshot, filesystem: str) -> str:
    """Files on its mounts; all, where facility.toml does not tell them."""
    known = snapshot.facility.filesystem(filesystem)
    if known is None or not known.mounts:
        return "TRUE"
    mounts = [
        mount for (mount,) in snapshot.query("SELECT DISTINCT mount FROM files WHERE mount IS NOT NULL").fetchall()
    ]
    here = [m for m in mounts if (f := snapshot.facility.filesystem_of_path(m)) is not None and f.name == filesystem]
    return f"mount IN ({', '.join(map(literal, here)) or 'NULL'})"


def _listed(snapshot: Snapshot, select: str) -> tuple[tuple[FileThere, ...], int]:
    """The largest first, and how many there are."""
    ((count,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({select})").fetchall()
    rows = snapshot.bare.execute(f"{select} ORDER BY there DESC, path LIMIT {MOST_FILES}").fetchall()
    users = _users(snapshot)
    return tuple(
        FileThere(
            path, escaped, float(there), size, uid, users.get(uid), used,
            tuple(int(n) for n in osts.replace(";", ",").split(",")), osts.count(";") + 1,
        )
        for path, escaped, there, size, uid, used, osts in rows
    ), int(count)  # fmt: skip


def _users(snapshot: Snapshot) -> dict[int, str]:
    if not snapshot.pinned["jobs"].uris:
        return {}
    found = snapshot.query(
        'SELECT uid, min("user") FROM jobs WHERE uid IS NOT NULL AND "user" IS NOT NULL GROUP BY uid'
    )
    return dict(found.fetchall())
