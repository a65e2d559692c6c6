"""The source `sacct`: text or JSON, plain or gzipped, recognised by content.

Text has any delimiter, fields in any order, delimiters inside names, rows broken by line ends inside them. `sacct -P`
does not escape its delimiter. A row with too many fields is put right by trying which of the free-text fields took the
surplus so that every other field reads as what it should be (a time, a number, a state). One way is taken; none, or
several that differ, is an error that names the line.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from zoneinfo import ZoneInfo

from ioweather.core.clock import local_to_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.foreign_text import parse_json, whole_number
from ioweather.core.frames import Frame
from ioweather.core.tables.jobs import UNNAMED_CLUSTER
from ioweather.core.units import NS
from ioweather.core.words import names_of
from ioweather.readers import slurm_json as document
from ioweather.readers.job_records import JobRecord, job_frames
from ioweather.readers.slurm_json import expand
from ioweather.readers.text_files import beginning, plain_head, text_blocks, whole_lines

# Slurm job ids as users see them: 22, 22_1, 22_[3-8], 43+0, and the step behind the dot.

_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,18}|\[[^\]]+\]))?(?:\+([0-9]{1,18}))?")


@dataclass(frozen=True)
class JobIdentity:
    """`job_id` is the text without the step; `step` is '' for the allocation."""

    job_id: str
    step: str
    array_job_id: int | None
    het_offset: int | None

    @property
    def plain(self) -> int | None:
        """The number, where the id is no more than one: it is then the raw id too."""
        return whole_number(self.job_id)


def parse_identity(text: str) -> JobIdentity | None:
    job, _, step = text.strip().partition(".")
    match = _JOB.fullmatch(job)
    if match is None:
        return None
    return JobIdentity(
        job_id=job,
        step=step,
        array_job_id=int(match[1]) if match[2] else None,
        het_offset=int(match[3]) if match[3] else None,
    )


NEEDED = ("State", "Start", "End")
ADVICE = (
    "SLURM_TIME_FORMAT=%s sacct -P --delimiter=$'\\x1f' --format=JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,"
    "Submit,Start,End,NNodes,NCPUS,NodeList"
)
_WORDS = frozenset(("State", "Submit", "Start", "End", "Elapsed", "NodeList", "AllocCPUS", "NNodes", "ExitCode"))
_HEADER = re.compile(r"^([A-Za-z]\w*)([^\w\s]+|\x1f|\t)([A-Za-z]\w*)")
_FREE_TEXT = ("JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir", "Constraints", "Extra")
_LONGEST_ROW_LINES = 40
_MOST_SURPLUS = 60
_END_NS = 1 << 63  # what the tables hold
_NEVER = ("", "None", "Unknown", "NONE")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
_STATE = re.compile(r"^[A-Z_]+( by \d+)?\+?$")
_ELAPSED = re.compile(r"^(\d+-)?[\d:.]*$|^(UNLIMITED|Partition_Limit|INVALID)$")


def _is_time(text: str) -> bool:
    return text in _NEVER or text.isdigit() or bool(_TIME.match(text))


def _is_count(text: str) -> bool:
    return text == "" or text.isdigit() or text == "Unknown"


_CHECKS: dict[str, Callable[[str], bool]] = {
    "JobID": lambda text: parse_identity(text) is not None,
    "JobIDRaw": lambda text: parse_identity(text) is not None,
    "State": lambda text: bool(_STATE.match(text)),
    "ExitCode": lambda text: text == "" or bool(re.match(r"^\d+:\d+$", text)),
    "DerivedExitCode": lambda text: text == "" or bool(re.match(r"^\d+:\d+$", text)),
    **dict.fromkeys(("Submit", "Start", "End", "Eligible"), _is_time),
    **dict.fromkeys(
        names_of("""
            NNodes NCPUS AllocCPUS AllocNodes UID GID ElapsedRaw CPUTimeRAW DBIndex ReqCPUS NTasks QOSRAW AssocID
            WCKeyID Restarts
        """),
        _is_count,
    ),
    **dict.fromkeys(
        ("Elapsed", "TotalCPU", "UserCPU", "SystemCPU", "CPUTime", "Suspended", "Timelimit", "Reserved"),
        lambda text: bool(_ELAPSED.match(text)),
    ),
    **dict.fromkeys(("User", "Account", "Cluster", "Partition", "Group"), lambda text: " " not in text),
    **dict.fromkeys(("ReqTRES", "AllocTRES"), lambda text: text == "" or "=" in text),
}
_KEPT = frozenset((*_CHECKS, "JobName", "NodeList"))
_DIFFERENT = 2
# What Open XDMoD's shredder calls sacct with, without a header; older versions have no QOS, and one TRES or GRES less.
_XDMOD_FRONT = "JobID JobIDRaw Cluster Partition"
_XDMOD_MIDDLE = (
    "Account Group GID User UID Submit Eligible Start End Elapsed ExitCode State NNodes NCPUS ReqCPUS ReqMem"
)
_XDMOD_END = "Timelimit NodeList JobName"
XDMOD = tuple(
    tuple(" ".join((_XDMOD_FRONT, qos, _XDMOD_MIDDLE, asked, _XDMOD_END)).split())
    for qos, asked in (("QOS", "ReqTRES AllocTRES"), ("QOS", "ReqGRES ReqTRES"), ("QOS", "ReqGRES"), ("", "ReqGRES"))
)


@dataclass(frozen=True)
class Header:
    delimiter: str
    fields: tuple[str, ...]
    trailing: bool  # --parsable ends each row in a delimiter, --parsable2 does not

    def value(self, row: Sequence[str], name: str) -> str | None:
        return row[self.fields.index(name)].strip() if name in self.fields else None


def parse_header(line: str) -> Header | None:
    match = _HEADER.match(line)
    if match is None:
        return None
    names = line.rstrip("\r\n").split(match[2])
    trailing = names[-1] == ""
    fields = tuple(names[:-1] if trailing else names)
    return Header(match[2], fields, trailing) if "JobID" in fields or "JobIDRaw" in fields else None


def parse_headerless(line: str) -> Header | None:
    """The layout of Open XDMoD's dumps, which have no header, where the first row is one of it."""
    parts = line.rstrip("\r\n").split("|")
    for fields in XDMOD:
        header = Header("|", fields, trailing=False)
        surplus = len(parts) - len(fields)
        if 0 <= surplus <= _MOST_SURPLUS and len(_readings(parts, header, surplus)) == 1:
            return header
    return None


def records(lines: Iterator[tuple[int, str]], where: str, zone: ZoneInfo | None, cluster: str) -> Iterator[JobRecord]:
    """Every row of the file. Times are local without an offset unless SLURM_TIME_FORMAT=%s made them epochs."""
    number, first = next(((number, line) for number, line in lines if line), (1, ""))
    header = parse_header(first)
    rows: Iterator[tuple[int, str]] = (item for item in lines if item[1] != first)  # dumps put into one file repeat it
    if header is None:
        header = parse_headerless(first)
        rows = chain([(number, first)], lines)
    if header is None:
        raise CorruptInput(f"{where}, line {number}: expected sacct's header with JobID.", hint="Run sacct without -n.")
    missing = [name for name in NEEDED if name not in header.fields]
    if missing:
        raise CorruptInput(f"{where} lacks {', '.join(missing)}.", hint=f"Use: {ADVICE}")
    read = _Reader(header, where, zone, cluster)
    unplaced: list[str] = []
    for number, row in _rows(rows, header, where):
        record = read.record(number, row)
        if isinstance(record, str):
            unplaced.append(record)
        else:
            yield record
    if unplaced:
        raise CorruptInput(
            f"{where}: {len(unplaced)} jobs have neither Submit nor Start and were left out, the first {unplaced[0]}.",
            hint=f"Use: {ADVICE}",
        )


def _rows(lines: Iterator[tuple[int, str]], header: Header, where: str) -> Iterator[tuple[int, list[str]]]:
    expected = len(header.fields)
    pending, since, joined = "", 0, 0
    for number, line in lines:
        if not line and not pending:
            continue
        pending = f"{pending}\n{line}" if joined else line
        since, joined = since or number, joined + 1
        parts = pending.split(header.delimiter)
        if header.trailing and parts[-1] == "":
            parts.pop()
        if len(parts) < expected:
            if joined > _LONGEST_ROW_LINES:
                raise CorruptInput(f"{where}, line {since}: {len(parts)} fields where the header names {expected}.")
            continue
        yield since, parts if len(parts) == expected else _put_right(parts, header, f"{where}, line {since}")
        pending, since, joined = "", 0, 0
    if joined:
        parts = pending.split(header.delimiter)
        raise CorruptInput(f"{where}, line {since}: {len(parts)} fields where the header names {expected}.")


def _put_right(parts: list[str], header: Header, where: str) -> list[str]:
    surplus = len(parts) - len(header.fields)
    if surplus > _MOST_SURPLUS or not any(name in _FREE_TEXT for name in header.fields):
        raise CorruptInput(
            f"{where}: {len(parts)} fields where the header names {len(header.fields)}.", hint=f"Use: {ADVICE}"
        )
    readings = _readings(parts, header, surplus)
    if len(readings) != 1:
        raise CorruptInput(
            f"{where}: {len(parts)} fields where the header names {len(header.fields)}, and "
            f"{'several ways' if readings else 'no way'} to read them: a name holds the delimiter.",
            hint=f"Use: {ADVICE}",
        )
    return list(readings[0])


def _readings(parts: list[str], header: Header, surplus: int) -> list[tuple[str, ...]]:
    """The ways to read the row, two at most, with fields that we do not keep left empty: readings that differ only
    there are the same to us.

    `ways[taken]` are those of the fields so far that took so many of the surplus delimiters. Two are enough of each:
    what differs so far differs at the end.
    """
    ways: dict[int, list[tuple[str, ...]]] = {0: [()]}
    for index, name in enumerate(header.fields):
        longer: dict[int, list[tuple[str, ...]]] = {}
        check = _CHECKS.get(name)
        for taken, so_far in ways.items():
            first = index + taken
            for more in range(surplus - taken + 1 if name in _FREE_TEXT else 1):
                known = longer.setdefault(taken + more, [])
                value = header.delimiter.join(parts[first : first + more + 1]).strip() if name in _KEPT else ""
                if check is None or check(value):
                    known += [way for before in so_far if (way := (*before, value)) not in known]
                    del known[_DIFFERENT:]
        ways = {taken: known for taken, known in longer.items() if known}
    return ways.get(surplus, [])


@dataclass
class _Reader:
    header: Header
    where: str
    zone: ZoneInfo | None
    cluster: str

    def record(self, number: int, row: list[str]) -> JobRecord | str:
        """The job, or the id of one without a time to put it at."""
        value = self.header.value
        identity = parse_identity(value(row, "JobID") or value(row, "JobIDRaw") or "")
        state = value(row, "State") or ""
        if identity is None or not _STATE.match(state):
            raise CorruptInput(f"{self.where}, line {number}: {row[0]!r} with state {state!r} is not a job.")
        submit = self._time(row, "Submit", number)
        start = self._time(row, "Start", number, submit and submit - 1)
        moment = submit if submit is not None else start
        if moment is None:
            return identity.job_id
        raw = parse_identity(value(row, "JobIDRaw") or "")
        nodes = expand(value(row, "NodeList") or "")
        return JobRecord(
            cluster=value(row, "Cluster") or self.cluster,
            job_id=identity.job_id,
            step=identity.step,
            state=state.removesuffix("+"),
            submit_ns=moment,
            raw_job_id=raw.plain if raw is not None else identity.plain,
            restart=_count(value(row, "Restarts")),
            array_job_id=identity.array_job_id,
            het_offset=identity.het_offset,
            uid=_count(value(row, "UID")),
            user=value(row, "User") or None,
            account=value(row, "Account") or None,
            name=value(row, "JobName") or None,
            start_ns=start,
            end_ns=self._time(row, "End", number, start and start - 1),
            node_count=_count(value(row, "NNodes") or value(row, "AllocNodes")),
            cpu_count=_count(value(row, "NCPUS") or value(row, "AllocCPUS")),
            nodes=",".join(nodes) or None,
        )

    def _time(self, row: list[str], name: str, number: int, after_ns: int | None = None) -> int | None:
        text = self.header.value(row, name) or ""
        if text in _NEVER:
            return None
        seconds = whole_number(text)
        moment = seconds * NS if seconds is not None else self._local_time(text, name, number, after_ns)
        if not 0 <= moment < _END_NS:
            raise CorruptInput(f"{self.where}, line {number}: {name} is {text!r}, not a time of this age.")
        return moment or None

    def _local_time(self, text: str, name: str, number: int, after_ns: int | None) -> int:
        try:
            naive = dt.datetime.fromisoformat(text)
        except ValueError:
            raise CorruptInput(f"{self.where}, line {number}: {name} is {text[:60]!r}, not a time.") from None
        if naive.tzinfo is not None:
            return int(naive.timestamp()) * NS
        if self.zone is None:
            raise UndatedInput(
                f"{self.where}, line {number}: {text!r} is local time, and the zone is not known.",
                hint="Give --zone, set `zone` in facility.toml, or run sacct with SLURM_TIME_FORMAT=%s.",
            )
        # In the doubled hour of autumn a later moment of the same job tells which passage it was, or nothing does.
        return local_to_ns(naive, self.zone, after_ns=after_ns)


def _count(text: str | None) -> int | None:
    return whole_number(text) if text else None


@dataclass(frozen=True)
class SacctSource:
    name: str = "sacct"
    title: str = "Slurm accounting (sacct text, any delimiter, --json, Open XDMoD's dumps)"
    tables: tuple[str, ...] = ("jobs",)

    def detect(self, head: bytes, path: Path) -> float:
        start = plain_head(head)
        if document.looks_like_accounting(start):
            return 0.95
        first = start.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
        header = parse_header(first)
        if header is not None:
            # Somebody's own table may have a column JobID; sacct's has several of its words.
            return 0.95 if sum(name in _WORDS for name in header.fields) >= 2 else 0.0
        return 0.9 if parse_headerless(first) is not None else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        yield from job_frames(self._records(path, context))

    def _records(self, path: Path, context: ReadContext) -> Iterator[JobRecord]:
        cluster = context.cluster or UNNAMED_CLUSTER
        if beginning(path).startswith("{"):
            yield from document.records(_json(path), str(path), cluster)
            return
        yield from records(whole_lines(path), str(path), context.zone, cluster)


def _json(path: Path) -> object:
    try:
        return parse_json("".join(text_blocks(path)))
    except ValueError as error:
        raise CorruptInput(f"{path} is not JSON: {error}.") from None


SOURCE = SacctSource()
