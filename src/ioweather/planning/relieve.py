"""The topic `relieve`: files to move off a target that is fuller or busier than the others (pat19 section 6)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.choices import busiest_filesystem
from ioweather.core.contracts import Param, Params, Period, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import Outcome
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, Finding, ResultTable, columns_of
from ioweather.core.units import NS, format_value
from ioweather.facts.loads import loads
from ioweather.facts.run_targets import target_number
from ioweather.lake.database import literal
from ioweather.lake.snapshot import Snapshot
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class FileToMove:
    """A file with stripes on the target. `bytes_there` lie there, or were moved there; `command` moves it, None where
    its path is not known or its layout has several parts."""

    path: str
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    user: str | None
    last_used_ns: int | None
    osts: tuple[int, ...]
    command: str | None


@dataclass(frozen=True)
class RelieveOutcome(Outcome):
    """`level` of the target and the mean of all: the share of its space that is used (bytes, where its size is not
    known), or by load the bytes it moved. `files` are the fewest that bring it to the mean; all that are known, where
    these are not enough."""

    by: str
    filesystem: str
    target: str
    level: float
    mean_level: float
    excess_bytes: float
    moved_bytes: float
    is_enough: bool
    files: tuple[FileToMove, ...] = ()


_COLUMNS: Final = columns_of(
    "command: what to run [text]; bytes_there: there [bytes]; size_bytes: size [bytes]; user: owner [text]; "
    "last_used_ns: last used [time_ns]"
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_SURE: Final = "`lfs migrate -n` skips files that are in use."
_CAVEATS: Final = {
    "space": (
        "A file's bytes are assumed to be spread evenly over all stripes of its layout.",
        "The file list is older than the samples and may include deleted files.",
        _SURE,
    ),
    "load": (
        "Bytes moved come from Darshan logs and are assumed to be spread evenly over a file's stripes. Runs without a "
        "log are not included.",
        "Files used by a single run are excluded: their load will not recur. If each run creates new files, change the "
        "striping of their directory: `ioweather predict --stripe`.",
        _SURE,
    ),
}


def run(source: DataSource, params: Params) -> Answer:
    """Return the fewest files that bring a target to the mean of all."""
    found = relief(source.snapshot, params, source.period_ns)
    excess = found.excess_bytes
    order = fewest(np.array([file.bytes_there for file in found.files]), excess)
    chosen = [found.files[i] for i in order.tolist()]
    moved = sum(file.bytes_there for file in chosen)
    files = tuple(
        FileToMove(
            path=file.path,
            bytes_there=file.bytes_there,
            size_bytes=file.size_bytes,
            uid=file.uid,
            user=file.user,
            last_used_ns=file.last_used_ns,
            osts=file.stripes,
            command=command(file, stripes),
        )
        for file, stripes in zip(chosen, destinations(found, chosen), strict=True)
    )
    level, mean = float(found.level[found.components.index(found.target)]), found.mean_level
    known = float(found.size.max(initial=1.0)) > 1.0
    unit = "ratio" if found.by == "space" and known else "bytes"
    outcome = RelieveOutcome(
        found.by, found.filesystem, found.target, level, mean, max(excess, 0.0), moved, moved >= excess, files
    )
    shown = files[: params["most"]]
    rows = []
    for f in shown:
        owner = f.user or (f"uid {f.uid}" if f.uid is not None else None)
        rows.append((f.command or f"(no command) {f.path}", f.bytes_there, f.size_bytes, owner, f.last_used_ns))
    title = f"{len(shown):,} of {len(files):,} files" if len(shown) < len(files) else "Files to move"
    return Answer(
        question=f"Which files should leave {found.target}?",
        headline=_headline(found, outcome, unit),
        facts=(_facts(outcome, unit),),
        exhibits=(Exhibit("relieve", "Files to move", tables=(ResultTable("files", _COLUMNS, tuple(rows), title),)),),
        findings=tuple(_findings(found, outcome)),
        caveats=_CAVEATS[found.by],
        coverage=(Coverage(found.files_there, len(found.files), f"files on it, {found.origin}", detail="the largest"),),
        name="relieve",
        result=outcome,
    )


def _headline(found: Relief, outcome: RelieveOutcome, unit: str) -> str:
    level, mean = format_value(outcome.level, unit), format_value(outcome.mean_level, unit)
    state = {
        ("space", "ratio"): f"{found.target} is {level} full; the mean is {mean}.",
        ("space", "bytes"): f"{found.target} holds {level}; the mean is {mean}.",
        ("load", "bytes"): f"{found.target} moved {level}; the mean is {mean}.",
    }[found.by, unit]
    if not outcome.excess_bytes:
        return f"{state} Nothing has to move."
    if not outcome.files:
        return f"{state} No file on it is known{' that several runs used' if found.by == 'load' else ''}."
    count = f"{len(outcome.files):,} file{'s' if len(outcome.files) > 1 else ''}"
    what = f"{count} with {format_value(outcome.moved_bytes, 'bytes')} there"
    if outcome.is_enough:
        return f"{state} Moving {what} brings it to the mean."
    share = format_value(outcome.moved_bytes / outcome.excess_bytes, "ratio")
    return f"{state} Moving all {what} removes {share} of the excess."


def _facts(outcome: RelieveOutcome, unit: str) -> FactGroup:
    words = "full" if unit == "ratio" else "holds" if outcome.by == "space" else "moved"
    facts = (
        Fact("level", words, outcome.level, unit),
        Fact("mean_level", "mean of all targets", outcome.mean_level, unit),
        Fact("excess_bytes", "above the mean", outcome.excess_bytes, "bytes"),
        Fact("moved_bytes", "of it in these files", outcome.moved_bytes, "bytes"),
        Fact("files", "files to move", len(outcome.files), "count"),
    )
    return FactGroup("target", outcome.target, facts)


def _findings(found: Relief, outcome: RelieveOutcome) -> Iterator[Finding]:
    several = sum(file.command is None for file in outcome.files)
    if several:
        yield Finding(
            f"No command for {several:,} of them: their layout has several components, their path is not in the lake, "
            "or they use all targets. `lfs migrate --copy FILE FILE` preserves a layout; set max_create_count=0 for "
            "the target while it runs.",
            "undecided",
            name="no_command",
        )
    if outcome.excess_bytes and not outcome.is_enough:
        yield Finding("The known files account for only part of the excess.", "undecided", name="not_enough")


def command(file: FileThere, stripes: tuple[int, ...] | None) -> str | None:
    """Return the command that moves a file; None without a known path or a free target."""
    if stripes is None or file.escaped is None:
        return None
    return f"lfs migrate -n -o {','.join(map(str, stripes))} {shell_word(file.path, escaped=file.escaped)}"


def shell_word(path: str, *, escaped: bool) -> str:
    """Quote a path for the shell: as $'...' if it has control characters, or is stored with \\xNN and doubled
    backslashes (`escaped`)."""
    if path.startswith("-"):
        path = f"./{path}"
    if not escaped and not _UNPRINTABLE.search(path):
        return shlex.quote(path)
    text = path if escaped else path.replace("\\", "\\\\")
    text = _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return "$'" + text.replace("'", "\\'") + "'"


QUESTION = Question(
    name="relieve",
    result=RelieveOutcome,
    run=run,
    tables=frozenset({"applications", "files", "jobs", "scan_entries", "scans", "series"}),
    params=(
        Param("target", "The OST (default: the fullest, or the busiest).", positional=True),
        Param("by", "Which excess to reduce.", default="load", choices=("space", "load")),
        Param("filesystem", "Its file system (default: that of the target's name, else the busiest).", metavar="NAME"),
        Param("most", "Maximum number of files to list.", "int", default=10, least=1, metavar="N"),
    ),
    help="""List the files to move off a full or busy OST: the fewest that bring it to the mean of all OSTs, with size,
    owner, last use and command.

    By load: files that several logged runs used, by the bytes they moved on the OST in the period. By space: a list of
    the file system that has the OSTs of files (lfs find -printf with %Lo), and how full the OSTs are.""",
    epilog="Example: ioweather relieve scratch-OST0007 --by load --from 7d",
    table="files",
)


By: TypeAlias = Literal["space", "load"]


@dataclass(frozen=True)
class FileThere:
    """A file with stripes on the target, and its bytes there, stored or moved.

    `path` is as stored; `escaped`: not UTF-8, None if the lake has a hash. `stripes` are OST numbers, of all `parts` of
    the layout.
    """

    path: str
    escaped: bool | None
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    user: str | None
    last_used_ns: int | None
    stripes: tuple[int, ...]
    parts: int = 1


@dataclass(frozen=True, eq=False)
class Relief:
    """Targets of one file system: `amount` is stored or moved bytes, `size` the capacity (1 each for load).

    `files` are the largest of `files_there` on `target`.
    """

    by: By
    filesystem: str
    target: str
    components: tuple[str, ...]
    numbers: tuple[int | None, ...]
    amount: Floats
    size: Floats
    files: tuple[FileThere, ...]
    files_there: int
    origin: str

    @property
    def level(self) -> Floats:
        """Share of its space, or bytes moved."""
        return np.asarray(self.amount / self.size, np.float64)

    @property
    def mean_level(self) -> float:
        """Mean level of the file system."""
        return float(self.amount.sum() / self.size.sum())

    @property
    def excess_bytes(self) -> float:
        """Bytes above the mean on the target; negative below it."""
        place = self.components.index(self.target)
        return float(self.amount[place] - self.mean_level * self.size[place])


def fewest(amounts: Floats, wanted: float) -> Indices:
    """Return the fewest amounts whose sum reaches `wanted`: the largest, and the smallest sufficient one as the last.

    All of them if they do not reach it.
    """
    if wanted <= 0:
        return np.zeros(0, np.intp)
    order = np.argsort(-amounts, kind="stable")
    reached = np.cumsum(amounts[order])
    count = int(np.searchsorted(reached, wanted)) + 1
    if count > len(order):
        return np.asarray(order, np.intp)
    before = reached[count - 2] if count > 1 else 0.0
    enough = order[count - 1 :][amounts[order[count - 1 :]] >= wanted - before]
    return np.asarray(np.append(order[: count - 1], enough[-1]), np.intp)


def destinations(relief: Relief, chosen: Sequence[FileThere]) -> list[tuple[int, ...] | None]:
    """Return new stripes of each file: the target is replaced by the one with the lowest level that the file does not
    use yet, including the files moved so far. None if there is none."""
    own = relief.numbers[relief.components.index(relief.target)]
    amount = relief.amount.copy()
    place = {number: i for i, number in enumerate(relief.numbers) if number is not None}
    found: list[tuple[int, ...] | None] = []
    for file in chosen:
        free = [i for number, i in place.items() if number != own and number not in file.stripes]
        if not free or file.parts > 1:
            found.append(None)
            continue
        to = min(free, key=lambda i: amount[i] / relief.size[i])
        amount[to] += file.bytes_there
        number = relief.numbers[to]
        found.append(tuple(number if each == own and number is not None else each for each in file.stripes))
    return found


MOST_FILES: Final = 10_000
_ROOM: Final = ("capacity_bytes", "free_bytes")
_LIST: Final = "lfs find DIRECTORY -type f -printf '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'"
_STRIPES: Final = "string_split(replace(osts, ';', ','), ',')"
Amounts = dict[str, tuple[float, float]]


def relief(snapshot: Snapshot, values: Mapping[str, Any], period: Period) -> Relief:
    """Read the targets of a file system, and the files on one of them, `by` space or load.

    Raises DataUnavailable without samples, or without a list of files.
    """
    by: By = values["by"]
    filesystem = values["filesystem"] or _filesystem(snapshot, values["target"])
    scan = _scan(snapshot, filesystem) if by == "space" else None
    amounts = _held(snapshot, filesystem, period, scan) if by == "space" else _moved(snapshot, filesystem, period)
    names = tuple(sorted(amounts))
    amount, size = (np.array([amounts[name][i] for name in names]) for i in (0, 1))
    target = _target(names, amount / size, values["target"])
    number = target_number(target)
    if number is None:
        raise DataUnavailable(f"Cannot find an OST number in the name {target}.", hint="Expected NAME-OST0007.")
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
    """Return the file system of the target's name, else the busiest."""
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
    """Return bytes used and capacity of each target in the last samples; without samples, the bytes in the list of
    files."""
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
    if scan is None or snapshot.owner is not None:  # the files of one user do not show how full a target is
        raise DataUnavailable(
            f"The lake has no samples of how full the targets of {filesystem} are.",
            hint="Collect them with `ioweather agent run lustre` on the servers, or use --by load.",
        )
    rows = _entries(snapshot, scan)
    bytes_of = snapshot.bare.execute(
        f"SELECT number, sum(share) FROM (SELECT unnest({_STRIPES}) AS number, bytes / len({_STRIPES}) AS share "
        f"FROM ({rows})) GROUP BY number"
    ).fetchall()
    return {f"{filesystem}-OST{int(number):04x}": (float(total), 1.0) for number, total in bytes_of}


def _moved(snapshot: Snapshot, filesystem: str, period: Period) -> Amounts:
    """Return the bytes that each target read and wrote in the period."""
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
    """Return the newest list of the file system whose entries have OSTs."""
    if not snapshot.pinned["scan_entries"].uris:
        return None
    rows = snapshot.query(
        "SELECT scan_id, system FROM scans WHERE scan_id IN (SELECT scan_id FROM scan_entries WHERE osts IS NOT NULL) "
        "ORDER BY start_ns DESC"
    ).fetchall()
    return next((scan for scan, system in rows if snapshot.facility.filesystem_of(system) == filesystem), None)


def _entries(snapshot: Snapshot, scan: str) -> str:
    """SQL of files with stripes; of several names of one inode the first."""
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
    """SQL of the number of stripes of a file on the target."""
    doubled = "',' || replace(replace(osts, ';', ','), ',', ',,') || ','"
    return f"(len(string_split({doubled}, ',{number},')) - 1)"


def _of_logs(snapshot: Snapshot, filesystem: str, number: int, period: Period) -> tuple[tuple[FileThere, ...], int]:
    """Return bytes that logged runs moved on the target, by files that several runs used: moving a file of one run does
    not move future load. POSIX and STDIO records have every byte once."""
    if not snapshot.pinned["files"].uris:
        raise DataUnavailable(
            "Needs Darshan logs for the traffic of each file; the lake has none.",
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
    """SQL of files on the file system's mounts; all files if facility.toml has no mounts."""
    known = snapshot.facility.filesystem(filesystem)
    if known is None or not known.mounts:
        return "TRUE"
    mounts = [
        mount for (mount,) in snapshot.query("SELECT DISTINCT mount FROM files WHERE mount IS NOT NULL").fetchall()
    ]
    here = [m for m in mounts if (f := snapshot.facility.filesystem_of_path(m)) is not None and f.name == filesystem]
    return f"mount IN ({', '.join(map(literal, here)) or 'NULL'})"


def _listed(snapshot: Snapshot, select: str) -> tuple[tuple[FileThere, ...], int]:
    """Return the largest files first, and their number."""
    ((count,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({select})").fetchall()
    rows = snapshot.bare.execute(f"{select} ORDER BY there DESC, path LIMIT {MOST_FILES}").fetchall()
    users = _users(snapshot)
    files = tuple(
        FileThere(
            path=path,
            escaped=escaped,
            bytes_there=float(there),
            size_bytes=size,
            uid=uid,
            user=users.get(uid),
            last_used_ns=used,
            stripes=tuple(int(number) for number in osts.replace(";", ",").split(",")),
            parts=osts.count(";") + 1,
        )
        for path, escaped, there, size, uid, used, osts in rows
    )
    return files, int(count)


def _users(snapshot: Snapshot) -> dict[int, str]:
    if not snapshot.pinned["jobs"].uris:
        return {}
    found = snapshot.query(
        'SELECT uid, min("user") FROM jobs WHERE uid IS NOT NULL AND "user" IS NOT NULL GROUP BY uid'
    )
    return dict(found.fetchall())
