"""Accounting of PBS, LSF and Grid Engine: the sources `pbs`, `lsf` and `sge`.

PBS (OpenPBS, PBS Pro, Torque) writes `MM/DD/YYYY HH:MM:SS;KIND;JOB;key=value ...`. The stamp is local time and is not
needed: submission, start and end are epochs among the values. Lines of kind S (started), E (ended) and R (rerun:
ended and waiting again) are read; the other kinds (queued, deleted, licences) add nothing. The runs of a job that
runs again are numbered by `run_count`, where E and R have it (PBS Pro, OpenPBS), else by the order of starts within a
file.

LSF (lsb.acct) writes JOB_FINISH records of numbers and quoted texts. Fields are known by their position. The
positions up to `idx` are those of IBM's reference for versions 6 to 10.1; newer versions append fields.

Grid Engine (SGE, OGE, UGE, Altair) writes one line per job with fields separated by colons, known by their position
(accounting(5)). Univa's versions count in milliseconds and append fields. A parallel job may also have one line for
each of its tasks (pe_taskid), which become its steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import JOBS, UNNAMED_CLUSTER
from ioweather.core.units import NS, whole_number
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import batches, numbered_lines, plain_head

# A row of `jobs` by its columns; what is not known may be left out.
Job: TypeAlias = dict[str, Any]
_BATCH = 100_000
END_NS: Final = 1 << 63  # beyond the int64 of the tables


def job_frames(jobs: Iterator[Job]) -> Iterator[tuple[str, Frame]]:
    """Frames of `jobs`, a batch at a time."""
    return (("jobs", JOBS.frame_of(batch)) for batch in batches(jobs, _BATCH))


def _accounting_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(where, line) of lines that are neither empty nor comments. A last line without its end is left out: accounting
    is appended to while it is read, and half a number is a number too."""
    for number, line, torn in numbered_lines(path):
        if torn and not line.isspace():
            raise SourceError(
                f"{path}, line {number}: skipped the last line because it has no line end.",
                hint="Ingest the file again when it is complete.",
                kind="TruncatedInput",
            )
        if line and not line.startswith("#") and not line.isspace():
            yield f"{path}, line {number}", line


def parse_epoch_ns(text: str, where: str, name: str, *, per_second: int = 1) -> int | None:
    """Return nanoseconds since 1970 from whole seconds (`per_second` 1000: milliseconds); None for '' and '0' (never).
    Raises CorruptInput, which names the line (`where`) and the field (`name`)."""
    unit_ns = NS // per_second
    if text in ("", "0"):
        return None
    count = whole_number(text)
    if count is None or count * unit_ns >= END_NS:
        raise CorruptInput(f"{where}: {name} is {text[:40]!r}, not seconds since 1970.")
    return count * unit_ns


def state_of(exit_status: str | None) -> str:
    """The state of a job by its exit status, in the words of Slurm."""
    if not exit_status:
        return "UNKNOWN"
    return "COMPLETED" if exit_status == "0" else "FAILED"


def _has_line(head: bytes, pattern: re.Pattern[str]) -> float:
    """How likely it is (0 to 1) that a file with a line of this form is accounting."""
    return 0.95 if any(pattern.match(line) for line in plain_head(head).splitlines()[:2000]) else 0.0


# PBS

_LINE = re.compile(r"\d{2}/\d{2}/\d{4} \d{2}:\d{2}:\d{2};([A-Za-z]{1,2});([^;]*);(.*)")
_JOB = re.compile(r"([0-9]{1,18})(?:\[([0-9]{0,18})\])?(?:\.(.*))?")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
# 'n404/2', 'c1/0*13' (thirteen CPUs), 'c2/0-7', 'c3/0-3,8': a host and its slots.
_PBS_SLOTS = re.compile(r"([0-9]{1,9})(?:([*-])([0-9]{1,9}))?")
_NO_PROJECT = "_pbs_project_default"


PBS = FileReader(
    "pbs",
    "PBS accounting (OpenPBS, PBS Pro, Torque: server_priv/accounting)",
    ("jobs",),
    lambda head, path: _has_line(head, _LINE),
    lambda path, context: job_frames(_pbs_records(path, context)),
)


def _pbs_records(path: Path, context: ReadContext) -> Iterator[Job]:
    """Runs of jobs. A run without an end record is yielded as running at the end of the file, or before its damage."""
    unfinished: dict[str, Job] = {}
    newest: dict[str, tuple[int | None, int]] = {}  # start and number of the newest run of a job
    try:
        for where, line in _accounting_lines(path):
            match = _LINE.match(line)
            if match is None:
                raise CorruptInput(f"{where}: expected 'MM/DD/YYYY HH:MM:SS;KIND;JOB;...', found {line[:60]!r}.")
            kind, identity, message = match.groups()
            if kind not in ("S", "E", "R"):
                continue
            values = _pbs_values(message)
            if kind == "R" and "start" not in values:  # Torque says no more than that it was
                continue
            job = _pbs_job(where, kind, identity, values, context.cluster)
            start, number = newest.get(identity, (job["start_ns"], 0))
            run_count = whole_number(values.get("run_count", "")) if kind != "S" else None
            if run_count:
                number = run_count - 1
            elif start != job["start_ns"]:
                number += 1
            newest[identity] = job["start_ns"], number
            job["restart"] = number or None  # the first run has no number: most jobs have no other
            if kind == "S":
                unfinished[identity] = job
            else:
                if identity in unfinished and unfinished[identity]["start_ns"] == job["start_ns"]:
                    del unfinished[identity]
                yield job
    except SourceError:
        yield from unfinished.values()
        raise
    yield from unfinished.values()


def _pbs_values(message: str) -> dict[str, str]:
    """The pairs `key=value` of a record, separated by blanks. A word that is not a pair continues the value before it:
    groups, accounts and job names may contain blanks, quoted or not."""
    values: dict[str, str] = {}
    key, words, quoted = "", [""], False
    for word in message.split(" "):
        name, equals, value = word.partition("=")
        if equals and not quoted and _KEY.fullmatch(name):
            values[key] = " ".join(words)
            key, words = name, [value]
            quoted = value.startswith('"') and not (len(value) > 1 and value.endswith('"'))
        else:
            words.append(word)
            quoted = quoted and not word.endswith('"')
    values[key] = " ".join(words)
    return {key: value.strip().strip('"') for key, value in values.items()}


def _pbs_job(where: str, kind: str, identity: str, values: dict[str, str], cluster: str | None) -> Job:
    """The row of a start (S), end (E) or rerun (R) record."""
    job = _JOB.fullmatch(identity)
    if job is None:
        raise CorruptInput(f"{where}: {identity[:60]!r} is not a job id.")
    number, task, server = int(job[1]), job[2], job[3]
    times = {
        name: parse_epoch_ns(values.get(name, ""), where, name) for name in ("ctime", "qtime", "etime", "start", "end")
    }
    submit = next((times[name] for name in ("ctime", "qtime", "etime", "start", "end") if times[name]), None)
    if submit is None:
        raise CorruptInput(f"{where}: job {identity[:60]} has neither ctime nor start.")
    hosts, slots = _pbs_hosts(values.get("exec_host", ""))
    project = values.get("project", "")
    used, asked = (whole_number(values.get(f"{name}.ncpus", "")) for name in ("resources_used", "Resource_List"))
    return {
        "cluster": cluster or server or UNNAMED_CLUSTER,
        "job_id": str(number) if task is None else f"{number}[{task}]",
        # Darshan takes the number in front of $PBS_JOBID: tasks of an array have one between them.
        "raw_job_id": number,
        "array_job_id": number if task is not None else None,
        "step": "",
        "state": {"S": "RUNNING", "R": "REQUEUED"}.get(kind) or state_of(values.get("Exit_status")),
        "submit_ns": submit,
        "user": values.get("user") or None,
        "account": values.get("account") or (project if project != _NO_PROJECT else None) or None,
        "name": values.get("jobname") or None,
        "start_ns": times["start"],
        "end_ns": times["end"] if kind != "S" else None,
        "node_count": len(hosts) or whole_number(values.get("Resource_List.nodect", "")),
        "cpu_count": used or slots or asked or None,
        "nodes": ",".join(hosts) or None,
    }


def _pbs_hosts(text: str) -> tuple[list[str], int]:
    """The distinct hosts of `exec_host` in order, and the number of their CPUs."""
    hosts: dict[str, None] = {}
    slots = 0
    for part in text.split("+"):
        host, _, listed = part.partition("/")
        if host:
            hosts[host] = None
        for item in listed.split(","):
            if match := _PBS_SLOTS.fullmatch(item):
                first, sign, last = match.groups()
                slots += 1 if sign is None else int(last) if sign == "*" else max(0, int(last) - int(first) + 1)
    return list(hosts), slots


_EVENT = re.compile(r'"([A-Z_]{3,40})" "[0-9.]{1,12}" [0-9]{1,18} ')
_LSF_SLOTS = re.compile(r"([0-9]{1,9})\*(.+)")
_DONE, _EXITED = 64, 32


LSF = FileReader(
    "lsf",
    "LSF accounting (lsb.acct)",
    ("jobs",),
    lambda head, path: _has_line(head, _EVENT),
    lambda path, context: job_frames(_lsf_records(path, context)),
)


def _lsf_records(path: Path, context: ReadContext) -> Iterator[Job]:
    """A job for each JOB_FINISH record; other events are skipped."""
    for where, line in _accounting_lines(path):
        event = _EVENT.match(line)
        if event is None:
            raise CorruptInput(f'{where}: expected an event such as "JOB_FINISH", found {line[:60]!r}.')
        if event[1] == "JOB_FINISH":
            yield _lsf_job(where, _split_fields(line), context.cluster or UNNAMED_CLUSTER)


def _split_fields(line: str) -> list[str]:
    """The fields of a line: bare words, and texts in quotes, in which "" is one quote."""
    found: list[str] = []
    quoted: list[str] = []
    for place, part in enumerate(line.split('"')):
        if place % 2:
            quoted.append(part)
        elif part or not quoted:  # nothing between two texts: the quote is doubled, and the text goes on
            found += ['"'.join(quoted)] if quoted else []
            quoted = []
            found += part.split()
    return [*found, '"'.join(quoted)] if quoted else found


def _lsf_job(where: str, fields: list[str], cluster: str) -> Job:
    """The row of a JOB_FINISH record, by the positions of its fields."""

    def number(name: str, place: int) -> int:
        """The number in the field at a place. Raises CorruptInput."""
        if place >= len(fields):
            raise CorruptInput(f"{where}: the record ends after {len(fields)} fields, within the job.")
        value = whole_number(fields[place])
        if value is None:
            raise CorruptInput(f"{where}: {name} is {fields[place][:40]!r}, not a number.")
        return value

    # Behind the hosts that were asked for, and those that were used, the places depend on how many there are.
    asked_at = 22
    hosts_at = asked_at + 1 + number("numAskedHosts", asked_at)
    status_at = hosts_at + 1 + number("numExHosts", hosts_at)
    status = number("jStatus", status_at)
    name_at, project_at, index_at = status_at + 2, status_at + 24, status_at + 29
    if name_at + 1 >= len(fields):
        raise CorruptInput(f"{where}: the record ends after {len(fields)} fields, within the job.")
    end, submit, start = (
        parse_epoch_ns(fields[place], where, name)
        for name, place in (("eventTime", 2), ("submitTime", 7), ("startTime", 10))
    )
    job, index = number("jobId", 3), (whole_number(fields[index_at]) or 0) if index_at < len(fields) else 0
    if submit is None:
        raise CorruptInput(f"{where}: job {job} has no submit time.")
    # A host is repeated for each slot, or printed as '16*host'.
    slots = 0
    hosts: dict[str, None] = {}
    for item in fields[hosts_at + 1 : status_at]:
        match = _LSF_SLOTS.fullmatch(item)
        hosts[match[2] if match else item] = None
        slots += int(match[1]) if match else 1
    ended_badly = "FAILED" if start is not None else "CANCELLED"
    return {
        "cluster": cluster,
        "job_id": f"{job}[{index}]" if index else str(job),
        "raw_job_id": job,
        "array_job_id": job if index else None,
        "step": "",
        "state": {_DONE: "COMPLETED", _EXITED: ended_badly}.get(status, "UNKNOWN"),
        "submit_ns": submit,
        "uid": number("userId", 4),
        "user": fields[11] or None,
        "account": (fields[project_at] if project_at < len(fields) else "") or None,
        "name": fields[name_at] or None,
        "start_ns": start,
        "end_ns": end if end is None or start is None else max(end, start),
        "node_count": len(hosts) or None,
        "cpu_count": max(number("numProcessors", 6), slots) or None,
        "nodes": ",".join(hosts) or None,
    }


_HOST, _OWNER, _NAME, _SGE_JOB, _ACCOUNT, _SUBMIT, _START, _END, _FAILED, _EXIT = 1, 3, 4, 5, 6, 8, 9, 10, 11, 12
_PROJECT, _PARALLEL, _SLOTS, _TASK, _PE_TASK = 31, 33, 34, 35, 41
_FEWEST_FIELDS = 36
_NUMBERS = (_SGE_JOB, _SUBMIT, _START, _END, _EXIT, _SLOTS, _TASK)
# As seconds this is the year 5138; as milliseconds 1973, before there was a Grid Engine.
_FIRST_MILLISECONDS = 100_000_000_000
_NOTHING = ("", "NONE")
_DEFAULT_ACCOUNT = "sge"


def _detect_sge(head: bytes, path: Path) -> float:
    lines = (line for line in plain_head(head).splitlines()[:2000] if line and not line.startswith("#"))
    return 0.9 if any(_is_sge_job(line.split(":")) for line in lines) else 0.0


SGE = FileReader(
    "sge",
    "Grid Engine accounting (SGE, UGE: common/accounting)",
    ("jobs",),
    _detect_sge,
    lambda path, context: job_frames(_sge_records(path, context)),
)


def _is_sge_job(fields: list[str]) -> bool:
    """Whether a line has enough fields, and numbers where accounting(5) has them."""
    return len(fields) >= _FEWEST_FIELDS and all(whole_number(fields[place]) is not None for place in _NUMBERS)


def _sge_records(path: Path, context: ReadContext) -> Iterator[Job]:
    """A job for each line, or a step for a line of a parallel task."""
    for where, line in _accounting_lines(path):
        fields = line.split(":")
        if not _is_sge_job(fields):
            raise CorruptInput(f"{where}: expected {_FEWEST_FIELDS} or more fields of a job, found {line[:60]!r}.")
        submit, start, end = (
            parse_epoch_ns(text, where, "a time", per_second=1000 if int(text) >= _FIRST_MILLISECONDS else 1)
            for text in (fields[_SUBMIT], fields[_START], fields[_END])
        )
        if submit is None and start is None:
            raise CorruptInput(f"{where}: job {fields[_SGE_JOB]} has no submit time.")
        job, task, slots = int(fields[_SGE_JOB]), int(fields[_TASK]), int(fields[_SLOTS])
        pe_task = fields[_PE_TASK] if len(fields) > _PE_TASK else ""
        # The project, which administrators give; else the account, which users choose, where they did.
        project, account = fields[_PROJECT], fields[_ACCOUNT]
        chosen = account if account not in (*_NOTHING, _DEFAULT_ACCOUNT) else None
        # The line names the first host alone: of a parallel job the others are not known.
        is_one_host = fields[_PARALLEL] in _NOTHING or slots <= 1
        yield {
            "cluster": context.cluster or UNNAMED_CLUSTER,
            "job_id": f"{job}.{task}" if task else str(job),
            "raw_job_id": job,
            "array_job_id": job if task else None,
            "step": "" if pe_task in _NOTHING else pe_task,
            "state": state_of(fields[_EXIT] if fields[_FAILED].split(" ")[0] == "0" else "failed"),
            "submit_ns": start if submit is None else submit,
            "user": fields[_OWNER] or None,
            "account": project if project not in _NOTHING else chosen,
            "name": fields[_NAME] or None,
            "start_ns": start,
            "end_ns": end,
            "node_count": 1 if is_one_host else None,
            "cpu_count": slots or None,
            "nodes": fields[_HOST] or None if is_one_host else None,
        }
