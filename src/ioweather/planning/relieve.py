"""`relieve`: which files to move off a target that is fuller or busier than the others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.outcomes import FileToMove, RelieveOutcome
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, Finding, ResultTable, columns_of
from ioweather.core.units import format_value
from ioweather.planning.relief import FileThere, Relief, destinations, fewest
from ioweather.planning.relieve_query import relief
from ioweather.topics.source import DataSource

_COLUMNS: Final = columns_of(
    "command: what to run [text]; bytes_there: there [bytes]; size_bytes: size [bytes]; user: owner [text]; "
    "last_used_ns: last used [time_ns]"
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_SURE: Final = "`lfs migrate -n` leaves a file alone that is in use meanwhile."
_CAVEATS: Final = {
    "space": (
        "A file's bytes are taken as spread evenly over its stripes, of all parts of its layout.",
        "The list of files is older than the samples: what was deleted since is still in it.",
        _SURE,
    ),
    "load": (
        "Bytes moved are those of Darshan logs, spread evenly over a file's stripes. What runs without a log moved is "
        "not in them.",
        "Files that one run alone used are left out: their load does not come again. Where each run makes new files, "
        "stripe their directory differently: `ioweather predict --stripe`.",
        _SURE,
    ),
}


def run(source: DataSource, params: Params) -> Answer:
    """The fewest files that bring a target to the mean of all."""
    found = relief(source.snapshot, params, source.period_ns)
    excess = found.excess_bytes
    order = fewest(np.array([file.bytes_there for file in found.files]), excess)
    chosen = [found.files[i] for i in order.tolist()]
    moved = sum(file.bytes_there for file in chosen)
    ways = zip(chosen, destinations(found, chosen), strict=True)
    files = tuple(
        FileToMove(f.path, f.bytes_there, f.size_bytes, f.uid, f.user, f.last_used_ns, f.stripes, command(f, to))
        for f, to in ways
    )
    level, mean = float(found.level[found.components.index(found.target)]), found.mean_level
    known = float(found.size.max(initial=1.0)) > 1.0
    unit = "ratio" if found.by == "space" and known else "bytes"
    outcome = RelieveOutcome(
        found.by, found.filesystem, found.target, level, mean, max(excess, 0.0), moved, moved >= excess, files
    )
    shown = files[: params["most"]]
    rows = tuple(
        (f.command or f"(no command) {f.path}", f.bytes_there, f.size_bytes,
         f.user or (f"uid {f.uid}" if f.uid is not None else None), f.last_used_ns)
        for f in shown
    )  # fmt: skip
    title = f"{len(shown):,} of {len(files):,} files" if len(shown) < len(files) else "Files to move"
    return Answer(
        question=f"Which files should leave {found.target}?",
        headline=_headline(found, outcome, unit),
        facts=(_facts(outcome, unit),),
        exhibits=(Exhibit("relieve", "Files to move", tables=(ResultTable("files", _COLUMNS, rows, title),)),),
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
    return f"{state} Moving all {what} takes {share} of the excess away."


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
            f"{several:,} of them have no command here: their layout has several parts, the lake keeps no path of "
            "them, or they use all targets. `lfs migrate --copy FILE FILE` keeps a layout; set max_create_count=0 for "
            "the target meanwhile.",
            "undecided",
            name="no_command",
        )
    if outcome.excess_bytes and not outcome.is_enough:
        yield Finding(
            "The files that are known do not explain all that lies above the mean.", "undecided", name="not_enough"
        )


def command(file: FileThere, stripes: tuple[int, ...] | None) -> str | None:
    """The line that moves it; None where the path is not known or there is no place for it."""
    if stripes is None or file.escaped is None:
        return None
    return f"lfs migrate -n -o {','.join(map(str, stripes))} {shell_word(file.path, escaped=file.escaped)}"


def shell_word(path: str, *, escaped: bool) -> str:
    """A path as a shell reads it. One with control characters, or whose other bytes stand as \\xNN with backslashes
    doubled (`escaped`), goes into $'...'."""
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
        Param("by", "What is too much there.", default="load", choices=("space", "load")),
        Param("filesystem", "Its file system (default: that of the target's name, else the busiest).", metavar="NAME"),
        Param("most", "Files to list at most.", "int", default=10, least=1, metavar="N"),
    ),
    help="""Say which files to move off a full or busy OST: the fewest that bring it to the mean of all OSTs, with size,
    owner, last use and the command.

    By load: files that several logged runs used, by the bytes they moved on the OST in the period. By space: a list of
    the file system that has the OSTs of files (lfs find -printf with %Lo), and how full the OSTs are.""",
    epilog="Example: ioweather relieve scratch-OST0007 --by load --from 7d",
    table="files",
)
