"""Slurm accounting: text and JSON of sacct, plain or gzipped (source `sacct`).

Text has any delimiter, fields in any order, delimiters inside names, and rows broken by line ends inside names:
`sacct -P` does not escape its delimiter. A row with too many fields is repaired by trying which of the free-text fields
took the surplus so that every other field still parses (a time, a number, a state). Exactly one way is accepted; none,
or several that differ, is an error that names the line.

The shape of `sacct --json` changed between versions: numbers are plain in 21.08-22.05 and {"set": true, "infinite":
false, "number": 3} from 23.02 on; a state is a text or a list of texts; `job_id` is the raw id. Keys come in any order:
`jobs` may come before the `meta` that names Slurm.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import UNNAMED_CLUSTER
from ioweather.core.units import NS, local_to_ns, names_of, parse_json, whole_number
from ioweather.readers.reader_catalogue import SACCT_COMMAND, FileReader
from ioweather.readers.schedulers import END_NS, Job, job_frames
from ioweather.readers.text_files import beginning, plain_head, text_blocks, whole_lines

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_NOTHING = ("", "None assigned", "None", "(null)", "Unknown")
_MOST_HOSTS = 200_000
# Slurm job ids as users see them: 22, 22_1, 22_[3-8], 43+0, and the step behind the dot.
_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,18}|\[[^\]]+\]))?(?:\+([0-9]{1,18}))?")


def expand(text: str) -> list[str]:
    """Names of a host list of Slurm, in its order: 'n[1-3,07]-ib[0-1],login' is nine names. An odd list, or one of more
    hosts than there are, stays one name."""
    text = text.strip()
    if text in _NOTHING:
        return []
    names: list[str] = []
    parts = _PART.findall(text)
    if ",".join(parts) != text.strip(","):
        return [text]
    for part in parts:
        choices: list[list[str]] = []
        for place, piece in enumerate(_BRACKETS.split(part)):
            choices.append(_numbered(piece) or [f"[{piece}]"] if place % 2 else [piece])
        if math.prod(map(len, choices)) + len(names) > _MOST_HOSTS:
            return [text]
        names += map("".join, product(*choices))
    return names


def _numbered(text: str) -> list[str]:
    """The numbers in a bracket, such as 1-3,07; none for other text, or for more numbers than hosts exist."""
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            return []
        first, last = match[1], match[2] or match[1]
        if len(found) + int(last) - int(first) > _MOST_HOSTS:
            return []
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


class _JobIdentity(NamedTuple):
    """`job_id` is the text without the step; `step` is '' for the allocation. `plain` is the number, where the id is no
    more than one: it is then the raw id too."""

    job_id: str
    step: str
    array_job_id: int | None
    het_offset: int | None
    plain: int | None


def parse_identity(text: str) -> _JobIdentity | None:
    """The parts of a job id as sacct prints it; None where it is none."""
    job, _, step = text.strip().partition(".")
    match = _JOB.fullmatch(job)
    if match is None:
        return None
    array, het = int(match[1]) if match[2] else None, int(match[3]) if match[3] else None
    return _JobIdentity(job, step, array, het, whole_number(job))


# JSON

_JSON_JOBS = re.compile(r'"jobs"\s{0,99}:\s{0,99}\[')
# What an accounted job has in every version; a waiting or running one of `squeue --json` has none of them.
_OF_A_JOB = ('"association"', '"allocation_nodes"', '"derived_exit_code"', '"tres"', '"het"')


def _is_json_accounting(start: str) -> bool:
    """Whether a text begins as an object that names Slurm, or that has a list of jobs as accounting has them."""
    if not start.lstrip().startswith("{"):
        return False
    by_shape = bool(_JSON_JOBS.search(start)) and sum(key in start for key in _OF_A_JOB) >= 2
    return by_shape or '"Slurm"' in start or '"slurm"' in start


def _json_records(path: Path, cluster: str) -> Iterator[Job]:
    """Jobs and steps of `sacct --json`. Raises CorruptInput with the position of a damaged job."""
    try:
        document = parse_json("".join(text_blocks(path)))
    except ValueError as error:
        raise CorruptInput(f"{path} is not JSON: {error}.") from None
    jobs = document.get("jobs") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(jobs, list):
        raise CorruptInput(f"{path} has no job list: expected `sacct --json` output.")
    if jobs and isinstance(jobs[0], Mapping) and "job_state" in jobs[0]:
        raise CorruptInput(
            f"{path} is `squeue --json` or `scontrol --json` output, not accounting.",
            hint="Use: sacct --allusers --json",
        )
    # Newer versions name the cluster once for all jobs.
    meta = document.get("meta")
    slurm = (meta.get("slurm") or meta.get("Slurm")) if isinstance(meta, Mapping) else None
    named = slurm.get("cluster") if isinstance(slurm, Mapping) else None
    for position, job in enumerate(jobs):
        try:
            yield from _json_job(job, named if isinstance(named, str) and named else cluster)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CorruptInput(f"{path}: job {position} has no valid {str(error)[:200]}.") from None


def _json_job(job: Mapping[str, Any], cluster: str) -> Iterator[Job]:
    """A job, then its steps. Raises KeyError, TypeError or ValueError if a value is missing or damaged."""
    raw = _integer(job["job_id"])
    # The array's id and the task, or those that still wait: '[3-8]'. Newer versions give every job an array's id.
    task, waiting = _number(job["array"].get("task_id")), _text(job["array"].get("task"))
    array = None if task is None and waiting is None else _number(job["array"]["job_id"]) or None
    het, offset = _number(job["het"]["job_id"]) or None, _number(job["het"].get("job_offset"))
    start, submit = _seconds_to_ns(job["time"]["start"]), _seconds_to_ns(job["time"]["submission"])
    if submit is None and start is None:
        raise ValueError("time.submission")
    shown = str(raw)
    if array:
        shown = f"{array}_{task}" if task is not None else f"{array}_[{waiting}]"
    elif het:
        shown = f"{het}+{offset}"
    common: Job = {
        "cluster": _text(job.get("cluster")) or cluster,
        "job_id": shown,
        "raw_job_id": raw,
        "restart": _number(job.get("restart_cnt")),
        "array_job_id": array,
        "het_offset": offset if het else None,
        "user": _text(job.get("user")) or _text(job.get("association", {}).get("user")),
        "account": _text(job.get("account")),
    }
    yield {
        **common,
        "step": "",
        "state": _state(job["state"]["current"]),
        "submit_ns": submit or start or 0,
        "uid": _number(job.get("uid")),
        "name": _text(job.get("name")),
        "start_ns": start,
        "end_ns": _seconds_to_ns(job["time"]["end"]),
        "node_count": _number(job.get("allocation_nodes")),
        "cpu_count": _cpus(job),
        "nodes": ",".join(expand(job.get("nodes") or "")) or None,
    }
    for step in job.get("steps", []):
        start = _seconds_to_ns(step["time"]["start"])
        yield {
            **common,
            # From 23.02 on the id is text with the job before a dot: '36.batch'.
            "step": str(step["step"]["id"]).rsplit(".", 1)[-1],
            "state": _state(step["state"]),
            "submit_ns": start or 0,
            "name": _text(step["step"].get("name")),
            "start_ns": start,
            "end_ns": _seconds_to_ns(step["time"]["end"]),
            "node_count": _number(step["nodes"].get("count")),
            "cpu_count": _cpus(step),
            "nodes": ",".join(step["nodes"].get("list") or expand(step["nodes"].get("range") or "")) or None,
        }


def _number(value: Any) -> int | None:
    """A number of either shape: plain, or {"set": true, "infinite": false, "number": 3}."""
    if isinstance(value, Mapping):
        return _integer(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else _integer(value)


def _integer(value: Any) -> int:
    """An integer within 64 bits. Raises ValueError for others."""
    number = int(value)
    if not -END_NS < number < END_NS:
        raise ValueError(f"a number: {str(value)[:40]}")
    return number


def _text(value: Any) -> str | None:
    """A text; None for null and '', which Slurm writes for what it does not know."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a text: {str(value)[:40]}")
    return value or None


def _seconds_to_ns(value: Any) -> int | None:
    """Seconds since the epoch as nanoseconds; None for 0, which means never."""
    seconds = _number(value)
    if seconds is not None and not 0 <= seconds < END_NS // NS:
        raise ValueError(f"a time: {seconds}")
    return seconds * NS if seconds else None


def _state(value: Any) -> str:
    """A state of either shape: a text, or a list of texts."""
    state = _text(value[0] if isinstance(value, list) and value else value)
    if state is None:
        raise ValueError("state")
    return state


def _cpus(job: Mapping[str, Any]) -> int | None:
    """The allocated CPUs of a job or step."""
    allocated = job.get("tres", {}).get("allocated") or []
    return next((_number(item["count"]) for item in allocated if item["type"] == "cpu"), None)


# Text

_HINT = f"Use: {SACCT_COMMAND}"
_WORDS = frozenset(("State", "Submit", "Start", "End", "Elapsed", "NodeList", "AllocCPUS", "NNodes", "ExitCode"))
_HEADER = re.compile(r"^([A-Za-z]\w*)([^\w\s]+|\x1f|\t)([A-Za-z]\w*)")
_FREE_TEXT = ("JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir", "Constraints", "Extra")
_LONGEST_ROW_LINES = 40
_MOST_SURPLUS = 60
_NEVER = ("", "None", "Unknown", "NONE")
_STATE = re.compile(r"[A-Z_]+( by [0-9]+)?\+?")
# The form of fields: a field that does not fit shows that a name before it contains the delimiter.
_FORMS = {
    name: re.compile(form, re.DOTALL)
    for form, names in (
        (rf"\s*{_JOB.pattern}(\..*)?", "JobID JobIDRaw"),
        (_STATE.pattern, "State"),
        (r"([0-9]+:[0-9]+)?", "ExitCode DerivedExitCode"),
        (r"(None|NONE|Unknown|[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})?", "Submit Start End Eligible"),
        (
            r"(Unknown|[0-9]+)?",
            "NNodes NCPUS AllocCPUS AllocNodes UID GID ElapsedRaw CPUTimeRAW DBIndex ReqCPUS NTasks QOSRAW AssocID "
            "WCKeyID Restarts",
        ),
        (
            r"([0-9]+-)?[0-9:.]*|UNLIMITED|Partition_Limit|INVALID",
            "Elapsed TotalCPU UserCPU SystemCPU CPUTime Suspended Timelimit Reserved",
        ),
        (r"[^ ]*", "User Account Cluster Partition Group"),
        (r"(.*=.*)?", "ReqTRES AllocTRES"),
    )
    for name in names.split()
}
_KEPT = frozenset((*_FORMS, "JobName", "NodeList"))
# What Open XDMoD's shredder calls sacct with, without a header; older versions have no QOS, and one TRES or GRES less.
_XDMOD = tuple(
    names_of(
        f"JobID JobIDRaw Cluster Partition {qos} Account Group GID User UID Submit Eligible Start End Elapsed ExitCode "
        f"State NNodes NCPUS ReqCPUS ReqMem {asked} Timelimit NodeList JobName"
    )
    for qos, asked in (("QOS", "ReqTRES AllocTRES"), ("QOS", "ReqGRES ReqTRES"), ("QOS", "ReqGRES"), ("", "ReqGRES"))
)


class _Header(NamedTuple):
    """The layout of rows. `trailing`: --parsable ends each row in a delimiter, --parsable2 does not."""

    delimiter: str
    fields: tuple[str, ...]
    trailing: bool = False


def _parse_header(line: str) -> _Header | None:
    """The layout that a header names; None for other lines."""
    match = _HEADER.match(line)
    if match is None:
        return None
    names = line.rstrip("\r\n").split(match[2])
    trailing = names[-1] == ""
    fields = tuple(names[:-1] if trailing else names)
    return _Header(match[2], fields, trailing) if "JobID" in fields or "JobIDRaw" in fields else None


def _parse_headerless(line: str) -> _Header | None:
    """The layout of Open XDMoD's dumps, which have no header, if the first row fits one of them."""
    parts = line.rstrip("\r\n").split("|")
    layouts = (_Header("|", fields) for fields in _XDMOD)
    return next((layout for layout in layouts if len(_readings_of_line(parts, layout)) == 1), None)


def _text_records(lines: Iterator[tuple[int, str]], where: str, zone: ZoneInfo | None, cluster: str) -> Iterator[Job]:
    """The jobs in text of sacct. Times are local without an offset unless SLURM_TIME_FORMAT=%s made them epochs."""
    number, first = next(((number, line) for number, line in lines if line), (1, ""))
    header = _parse_header(first)
    rows: Iterator[tuple[int, str]] = (item for item in lines if item[1] != first)  # dumps put into one file repeat it
    if header is None:
        header = _parse_headerless(first)
        rows = chain([(number, first)], lines)
    if header is None:
        raise CorruptInput(f"{where}, line {number}: expected sacct's header with JobID.", hint="Run sacct without -n.")
    missing = [name for name in ("State", "Start", "End") if name not in header.fields]
    if missing:
        raise CorruptInput(f"{where} lacks {', '.join(missing)}.", hint=_HINT)
    unplaced: list[str] = []
    for number, row in _rows(rows, header, where):
        values = {name: text.strip() for name, text in zip(header.fields, row, strict=True)}
        job = _text_job(values, f"{where}, line {number}", zone, cluster)
        if job["submit_ns"] is None:
            unplaced.append(job["job_id"])
        else:
            yield job
    if unplaced:
        raise CorruptInput(
            f"{where}: skipped {len(unplaced)} jobs without Submit and Start; first: {unplaced[0]}.",
            hint=_HINT,
        )


def _rows(lines: Iterator[tuple[int, str]], header: _Header, where: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with their first line's number. Rows broken by line ends are joined, surplus delimiters put back into the
    name that contains them."""
    pending: list[str] = []
    since = 0
    for number, line in chain(lines, [(0, None)]):
        if not line and not pending:
            continue
        since = since if pending else number
        if line is not None:
            pending.append(line)
        parts = "\n".join(pending).split(header.delimiter)
        if header.trailing and parts[-1] == "":
            parts.pop()
        surplus = len(parts) - len(header.fields)
        if surplus < 0 and line is not None and len(pending) <= _LONGEST_ROW_LINES:
            continue
        wrong = f"{where}, line {since}: {len(parts)} fields, but the header has {len(header.fields)}"
        if surplus < 0:
            raise CorruptInput(f"{wrong}.")
        if surplus:
            rows = _readings_of_line(parts, header)
            if len(rows) != 1:
                ways = "several ways" if rows else "no way"
                raise CorruptInput(f"{wrong}, with {ways} to read them: a name contains the delimiter.", hint=_HINT)
            parts = rows[0]
        yield since, parts
        pending = []


def _readings_of_line(parts: list[str], header: _Header) -> list[list[str]]:
    """Return the ways to read a line whose free-text fields may contain the delimiter: none, one, or two if ambiguous.

    `parts` is the line split at every delimiter. A reading has one text per field of the header: only fields of
    _FREE_TEXT take more than one part, and every text matches its form in _FORMS. Fields outside of _KEPT are empty, so
    that readings which differ only there are equal.
    """
    surplus = len(parts) - len(header.fields)
    if not 0 <= surplus <= _MOST_SURPLUS:
        return []
    # By the number of surplus delimiters in the fields so far. What differs so far differs at the end, so two of each
    # are enough.
    rows: dict[int, list[list[str]]] = {0: [[]]}
    for index, name in enumerate(header.fields):
        longer: dict[int, list[list[str]]] = {}
        form = _FORMS.get(name)
        for taken, known in rows.items():
            for more in range(surplus - taken + 1 if name in _FREE_TEXT else 1):
                first = index + taken
                text = header.delimiter.join(parts[first : first + more + 1]).strip() if name in _KEPT else ""
                if form is None or form.fullmatch(text):
                    found = longer.setdefault(taken + more, [])
                    found += [row for before in known if (row := [*before, text]) not in found]
                    del found[2:]
        rows = longer
    return rows.get(surplus, [])


def _text_job(values: Mapping[str, str], where: str, zone: ZoneInfo | None, cluster: str) -> Job:
    """A row of `jobs`; `submit_ns` is None where the job has no time to put it at."""

    def given(*names: str) -> str:
        return next((text for name in names if (text := values.get(name, ""))), "")

    def count(*names: str) -> int | None:
        text = given(*names)
        return whole_number(text) if text else None

    identity, state = parse_identity(given("JobID", "JobIDRaw")), given("State")
    if identity is None or not _STATE.fullmatch(state):
        raise CorruptInput(f"{where}: {next(iter(values.values()))!r} with state {state!r} is not a job.")
    submit = _time_ns(given("Submit"), "Submit", where, zone)
    start = _time_ns(given("Start"), "Start", where, zone, submit and submit - 1)
    raw = parse_identity(given("JobIDRaw"))
    return {
        "cluster": given("Cluster") or cluster,
        "job_id": identity.job_id,
        "step": identity.step,
        "state": state.removesuffix("+"),
        "submit_ns": submit if submit is not None else start,
        "raw_job_id": raw.plain if raw is not None else identity.plain,
        "restart": count("Restarts"),
        "array_job_id": identity.array_job_id,
        "het_offset": identity.het_offset,
        "uid": count("UID"),
        "user": given("User") or None,
        "account": given("Account") or None,
        "name": given("JobName") or None,
        "start_ns": start,
        "end_ns": _time_ns(given("End"), "End", where, zone, start and start - 1),
        "node_count": count("NNodes", "AllocNodes"),
        "cpu_count": count("NCPUS", "AllocCPUS"),
        "nodes": ",".join(expand(given("NodeList"))) or None,
    }


def _time_ns(text: str, name: str, where: str, zone: ZoneInfo | None, after_ns: int | None = None) -> int | None:
    """A printed epoch or local time as UTC nanoseconds; None for never. In the doubled hour of autumn a later moment of
    the same job tells which passage it was, or nothing does."""
    if text in _NEVER:
        return None
    seconds = whole_number(text)
    try:
        naive = None if seconds is not None else dt.datetime.fromisoformat(text)
    except ValueError:
        raise CorruptInput(f"{where}: {name} is {text[:60]!r}, not a time.") from None
    if naive is None:
        moment = (seconds or 0) * NS
    elif naive.tzinfo is not None:
        moment = int(naive.timestamp()) * NS
    elif zone is None:
        raise SourceError(
            f"{where}: {text!r} is a local time without a time zone.",
            hint="Use --zone, set `zone` in facility.toml, or run sacct with SLURM_TIME_FORMAT=%s.",
            kind="UndatedInput",
        )
    else:
        moment = local_to_ns(naive, zone, after_ns=after_ns)
    if not 0 <= moment < END_NS:
        raise CorruptInput(f"{where}: {name} is {text!r}, not a plausible time.")
    return moment or None


def _detect_sacct(head: bytes, path: Path) -> float:
    """JSON of accounting, a header with several of sacct's fields, or the first row of an XDMoD dump."""
    start = plain_head(head)
    if _is_json_accounting(start):
        return 0.95
    first = start.lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
    header = _parse_header(first)
    if header is not None:
        # Somebody's own table may have a column JobID; sacct's has several of its words.
        return 0.95 if sum(name in _WORDS for name in header.fields) >= 2 else 0.0
    return 0.9 if _parse_headerless(first) is not None else 0.0


def _read_sacct(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Frames of `jobs` from JSON or text."""
    cluster = context.cluster or UNNAMED_CLUSTER
    if beginning(path).startswith("{"):
        return job_frames(_json_records(path, cluster))
    return job_frames(_text_records(whole_lines(path), str(path), context.zone, cluster))


SACCT = FileReader(
    "sacct",
    "Slurm accounting (sacct text with any delimiter, sacct --json, Open XDMoD dumps)",
    ("jobs",),
    _detect_sacct,
    _read_sacct,
)
