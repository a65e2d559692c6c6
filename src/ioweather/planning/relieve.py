"""The topic `relieve`: files to move off a target that is busier than the others (pat19 section 6)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NamedTuple

import numpy as np

from ioweather.core.choices import busiest_filesystem
from ioweather.core.contracts import Param, Params, Period, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Floats, Indices
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, Finding, ResultTable
from ioweather.core.units import NS, format_bytes, format_value
from ioweather.facts.loads import loads
from ioweather.facts.run_targets import target_number
from ioweather.lake.database import literal
from ioweather.lake.lake import Snapshot
from ioweather.topics.source import DataSource

_COLUMNS: Final = (
    "command: what to run [text]; bytes_there: on target [bytes]; size_bytes: size [bytes]; user: owner [text]; "
    "last_used_ns: last used [time_ns]"
)
_MOST_FILES: Final = 10_000
# SQL of the stripes of a file: those of all components of its layout.
_STRIPES: Final = "string_split(replace(osts, ';', ','), ',')"
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_COMMAND: Final = (
    "of these files have no command: their layout has several components, their path is not in the lake, or they use "
    "all targets. `lfs migrate --copy FILE FILE` preserves a layout. Set max_create_count=0 for the target during the "
    "migration."
)
_CAVEATS: Final = (
    "Target load comes from server samples. File traffic comes from Darshan logs and is spread evenly over the "
    "stripes of a file. Runs without a log are not included.",
    "Files used by a single run are excluded, because their load will not recur. If each run creates new files, "
    "change the striping of their directory: `ioweather predict --stripe`.",
    "`lfs migrate -n` skips files that are in use.",
)


@dataclass(frozen=True)
class FileToMove:
    """A file with stripes on the target, where `bytes_there` were moved. `command` moves the file, None where its path
    is not known or its layout has several parts."""

    path: str
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    user: str | None
    last_used_ns: int | None
    osts: tuple[int, ...]
    command: str | None


@dataclass(frozen=True)
class RelieveOutcome:
    """`level` is the bytes that the target moved, `mean_level` the mean of all targets. `files` are the fewest that
    bring it to the mean; all that are known, where these are not enough."""

    filesystem: str
    target: str
    level: float
    mean_level: float
    excess_bytes: float
    moved_bytes: float
    is_enough: bool
    files: tuple[FileToMove, ...] = ()


class FileThere(NamedTuple):
    """A file with stripes on the target, and the bytes moved there.

    `path` is as stored, perhaps a hash. `osts` are the OST numbers of its layout, a semicolon between components.
    """

    path: str
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    last_used_ns: int | None
    osts: str


def run(source: DataSource, params: Params) -> Answer:
    """Return the fewest files that bring a target to the mean of all.

    Raises DataUnavailable without samples, or without logs.
    """
    filesystem = params["filesystem"] or _find_filesystem(source.snapshot, params["target"])
    outcome, coverage = _find_files_to_move(source, filesystem, params["target"])
    rows = []
    for file in outcome.files[: params["most"]]:
        owner = file.user or (f"uid {file.uid}" if file.uid is not None else None)
        what = file.command or f"(no command) {file.path}"
        rows.append((what, file.bytes_there, file.size_bytes, owner, file.last_used_ns))
    title = f"{len(rows):,} of {len(outcome.files):,} files" if len(rows) < len(outcome.files) else "Files to move"
    if not outcome.files:
        headline, asked = _write_headline(outcome), f"Which files should move off {outcome.target}?"
        return Answer(question=asked, headline=headline, coverage=(coverage,), name="relieve", result=outcome)
    several = sum(file.command is None for file in outcome.files)
    facts = (
        Fact("level", "moved", outcome.level, "bytes"),
        Fact("mean_level", "mean of all targets", outcome.mean_level, "bytes"),
        Fact("excess_bytes", "above the mean", outcome.excess_bytes, "bytes"),
        Fact("moved_bytes", "data in these files", outcome.moved_bytes, "bytes"),
        Fact("files", "files to move", len(outcome.files), "count"),
    )
    return Answer(
        question=f"Which files should move off {outcome.target}?",
        headline=_write_headline(outcome),
        facts=(FactGroup("target", outcome.target, facts),),
        exhibits=(Exhibit("relieve", "Files to move", tables=(ResultTable.of("files", _COLUMNS, rows, title),)),),
        findings=(Finding(f"{several:,} {_NO_COMMAND}", "undecided", name="no_command"),) if several else (),
        caveats=_CAVEATS,
        coverage=(coverage,),
        name="relieve",
        result=outcome,
    )


def _find_files_to_move(source: DataSource, filesystem: str, named: str | None) -> tuple[RelieveOutcome, Coverage]:
    """Return the target that was named, or the busiest, and the fewest files that bring it to the mean; and how many
    files on the target were searched."""
    snapshot, period = source.snapshot, source.period_ns
    amounts = _sum_moved_bytes(snapshot, filesystem, period)
    names = sorted(amounts)
    amount = np.array([amounts[name] for name in names])
    target = _choose_target(names, amount, named)
    number = target_number(target)
    if number is None:
        raise DataUnavailable(f"Cannot find an OST number in {target}.", hint="Expected NAME-OST0007.")
    select = _write_sql_of_logged_files(snapshot, filesystem, number, period)
    count, files = _read_largest(snapshot, select)
    here = names.index(target)
    level, mean = float(amount[here]), float(amount.mean())
    excess = level - mean
    chosen = [files[i] for i in choose_fewest(np.array([file.bytes_there for file in files]), excess).tolist()]
    moved, users = sum(file.bytes_there for file in chosen), _read_user_names(snapshot)
    to_move = tuple(
        FileToMove(
            *(file.path, file.bytes_there, file.size_bytes, file.uid, users.get(file.uid), file.last_used_ns),
            osts=tuple(_parse_ost_numbers(file)),
            command=_format_migrate_command(file, to),
        )
        for file, to in zip(chosen, choose_destinations(target, names, amount, chosen), strict=True)
    )
    levels = (level, mean, max(excess, 0.0), moved)
    outcome = RelieveOutcome(filesystem, target, *levels, is_enough=moved >= excess, files=to_move)
    what = "files on the target, used by several logged runs"
    return outcome, Coverage(count, len(files), what, detail="the largest")


def _write_headline(outcome: RelieveOutcome) -> str:
    """Return how much the target moved, and what moving the files changes."""
    level, mean = format_bytes(outcome.level), format_bytes(outcome.mean_level)
    state = f"{outcome.target} moved {level}; the mean is {mean}."
    if not outcome.excess_bytes:
        return (
            f"No files to move, because {outcome.target} moved {level}, no more than the mean of all targets ({mean})."
        )
    if not outcome.files:
        return (
            f"No files to move, because the lake has no file on {outcome.target} that several logged runs used; "
            f"the target moved {level}, and the mean is {mean}."
        )
    count = f"{len(outcome.files):,} file{'s' if len(outcome.files) > 1 else ''}"
    what = f"{count} ({format_bytes(outcome.moved_bytes)} on it)"
    if outcome.is_enough:
        return f"{state} Moving {what} would bring the target to the mean."
    share = format_value(outcome.moved_bytes / outcome.excess_bytes, "ratio")
    return f"{state} Moving all {what} would remove {share} of the excess."


def choose_fewest(amounts: Floats, wanted: float) -> Indices:
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


def choose_destinations(
    target: str, names: Sequence[str], amount: Floats, chosen: Sequence[FileThere]
) -> list[list[int] | None]:
    """Return new stripes of each file: the target is replaced by the one that moved least and that the file does not
    use yet, including the files moved so far. None if there is none, or if its layout has several components."""
    own, amount = target_number(target), amount.copy()
    place = {number: i for i, name in enumerate(names) if (number := target_number(name)) is not None}
    found: list[list[int] | None] = []
    for file in chosen:
        stripes = _parse_ost_numbers(file)
        free = {number: i for number, i in place.items() if number != own and number not in stripes}
        if not free or ";" in file.osts:
            found.append(None)
            continue
        to = min(free, key=lambda number: amount[place[number]])
        amount[place[to]] += file.bytes_there
        found.append([to if each == own else each for each in stripes])
    return found


def _parse_ost_numbers(file: FileThere) -> list[int]:
    """Return the OST numbers of a file's layout, of all its components."""
    return [int(number) for number in file.osts.replace(";", ",").split(",")]


def _format_migrate_command(file: FileThere, stripes: Sequence[int] | None) -> str | None:
    """Return the command that moves a file; None without a known path or a free target."""
    if stripes is None or not file.path.startswith("/"):
        return None
    return f"lfs migrate -n -o {','.join(map(str, stripes))} {quote_for_shell(file.path)}"


def quote_for_shell(path: str) -> str:
    """Quote a path for the shell: as $'...' if it has control characters."""
    if not _UNPRINTABLE.search(path):
        return shlex.quote(path)
    text = _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", path.replace("\\", "\\\\"))
    return "$'" + text.replace("'", "\\'") + "'"


def _find_filesystem(snapshot: Snapshot, target: str | None) -> str:
    """Return the file system of the target's name, else the busiest."""
    known = snapshot.filesystems()
    named = [name for name in known if target is not None and target.startswith(f"{name}-")]
    found = named[0] if named else busiest_filesystem(snapshot) or (known[0] if known else None)
    if found is None:
        raise DataUnavailable("The lake has no storage target samples.", hint="Ingest LMT or Lustre data.")
    return found


def _choose_target(names: Sequence[str], level: Floats, asked: str | None) -> str:
    """Return the target that was asked for, else the one with the highest level."""
    if asked is None:
        return names[int(np.argmax(level))]
    if asked not in names:
        near = get_close_matches(asked, names, n=3, cutoff=0.5)
        raise DataUnavailable(
            f"Target {asked!r} has no data in this period.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"Targets: {', '.join(names[:8])}.",
        )
    return asked


def _sum_moved_bytes(snapshot: Snapshot, filesystem: str, period: Period) -> dict[str, float]:
    """Return the bytes that each target read and wrote in the period."""
    whole = loads(snapshot, filesystem, period)
    traffic = next((t for t in whole.traffic if t.component_kind == "ost"), None)
    if traffic is None or not traffic.components:
        raise DataUnavailable(
            f"The lake has no samples for the OSTs of {filesystem} in this period.", hint="Ingest LMT or Lustre data."
        )
    rates = np.nansum(traffic.parts_read, axis=0) + np.nansum(traffic.parts_write, axis=0)
    total = rates * (whole.step_ns / NS)
    return {name: float(moved) for name, moved in zip(traffic.components, total, strict=True)}


def _write_sql_of_stripes(number: int) -> str:
    """Return SQL of the number of stripes of a file on the target."""
    doubled = "',' || replace(replace(osts, ';', ','), ',', ',,') || ','"
    return f"(len(string_split({doubled}, ',{number},')) - 1)"


def _write_sql_of_logged_files(snapshot: Snapshot, filesystem: str, number: int, period: Period) -> str:
    """Return SQL of the bytes that logged runs moved on the target, by files that several runs used: moving a file
    of one run does not move future load. POSIX and STDIO records have every byte once."""
    if not snapshot.pinned["files"].uris:
        raise DataUnavailable(
            "File traffic comes from Darshan logs, but the lake has none.",
            hint="Ingest some: ioweather ingest LOGS",
        )
    on_filesystem, known = "TRUE", snapshot.facility.filesystem(filesystem)
    if known is not None and known.mounts:  # without mounts in facility.toml all files count
        mounts = [m for (m,) in snapshot.query("SELECT DISTINCT mount FROM files WHERE mount IS NOT NULL").fetchall()]
        systems = {mount: snapshot.facility.filesystem_of_path(mount) for mount in mounts}
        here = [literal(mount) for mount, system in systems.items() if system is not None and system.name == filesystem]
        on_filesystem = f"mount IN ({', '.join(here) or 'NULL'})"
    mine = _write_sql_of_stripes(number)
    moved = f"(coalesce(read_bytes, 0) + coalesce(write_bytes, 0)) * {mine} / len({_STRIPES})"
    return f"""
        SELECT path, sum(there) AS there,
            max(greatest(read_extent_bytes, write_extent_bytes)), arg_max(uid, start_ns),
            max(greatest(last_read_ns, last_write_ns)), arg_max(osts, start_ns)
        FROM (SELECT *, {moved} AS there FROM ({snapshot.rows("files", {"module": ("POSIX", "STDIO")}, period)}))
        JOIN (SELECT log_digest, uid FROM ({snapshot.rows("applications", None, period)})) USING (log_digest)
        WHERE path IS NOT NULL AND osts IS NOT NULL AND {mine} > 0 AND {on_filesystem}
        GROUP BY path HAVING sum(there) > 0 AND count(DISTINCT log_digest) > 1"""


def _read_largest(snapshot: Snapshot, select: str) -> tuple[int, list[FileThere]]:
    """Return the number of files, and the largest first."""
    ((count,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({select})").fetchall()
    rows = snapshot.bare.execute(f"{select} ORDER BY there DESC, path LIMIT {_MOST_FILES}").fetchall()
    return int(count), [FileThere(*row)._replace(bytes_there=float(row[1])) for row in rows]


def _read_user_names(snapshot: Snapshot) -> dict[int | None, str]:
    """Return user names by uid, from accounting."""
    if not snapshot.pinned["jobs"].uris:
        return {}
    found = snapshot.query(
        'SELECT uid, min("user") FROM jobs WHERE uid IS NOT NULL AND "user" IS NOT NULL GROUP BY uid'
    )
    return dict(found.fetchall())


QUESTION = Question(
    name="relieve",
    result=RelieveOutcome,
    run=run,
    tables=frozenset({"applications", "files", "jobs", "series"}),
    params=(
        Param("target", "The OST (default: the busiest).", positional=True),
        Param("filesystem", "File system (default: from the target's name, else the busiest).", metavar="NAME"),
        Param("most", "Maximum number of files to list.", "int", default=10, least=1, metavar="N"),
    ),
    help="""List the files to move off a busy OST: the fewest that bring it to the mean of all OSTs, with size, owner,
    last use and command.

    Candidates are files that several logged runs used, ranked by the bytes moved on the OST in the period.""",
    epilog="Example: ioweather relieve scratch-OST0007 --from 7d",
    table="files",
)
