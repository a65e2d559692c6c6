"""PBS accounting (OpenPBS, PBS Pro, Torque): `MM/DD/YYYY HH:MM:SS;E;id;key=value ...`: the source `pbs`.

The stamp of a line is local time and is not needed: submission, start and end are epochs among the values. Lines of
kind S (started), E (ended) and R (rerun: it ended, and waits again) are runs of jobs; the others (queued, deleted,
licences) say nothing that these do not. A job that runs again has another start: its runs are told apart by
`run_count`, where E and R have it (PBS Pro, OpenPBS), else by the order of starts within a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.tables.jobs import UNNAMED_CLUSTER
from ioweather.core.units import NS
from ioweather.readers.job_records import JobRecord, job_frames, moment_ns, numbered_lines, state_of
from ioweather.readers.text_files import plain_head

_LINE = re.compile(r"(\d{2}/\d{2}/\d{4} \d{2}:\d{2}:\d{2});([A-Za-z]{1,2});([^;]*);(.*)")
_JOB = re.compile(r"([0-9]{1,18})(?:\[([0-9]{0,18})\])?(?:\.(.*))?")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
# 'n404/2', 'c1/0*13' (thirteen CPUs), 'c2/0-7', 'c3/0-3,8': a host and its slots.
_SLOTS = re.compile(r"([0-9]{1,9})(?:([*-])([0-9]{1,9}))?")
_RUNS = ("S", "E", "R")
_STAMP = "%m/%d/%Y %H:%M:%S"
_NO_PROJECT = "_pbs_project_default"


@dataclass(frozen=True)
class PbsSource:
    name: str = "pbs"
    title: str = "PBS accounting (OpenPBS, PBS Pro, Torque: server_priv/accounting)"
    tables: tuple[str, ...] = ("jobs",)

    def detect(self, head: bytes, path: Path) -> float:
        return 0.95 if any(_LINE.match(line) for line in plain_head(head).splitlines()[:2000]) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        yield from job_frames(_records(path, context))


def _records(path: Path, context: ReadContext) -> Iterator[JobRecord]:
    runs = _Runs()
    try:
        for where, line in numbered_lines(path):
            match = _LINE.match(line)
            if match is None:
                raise CorruptInput(f"{where}: expected 'MM/DD/YYYY HH:MM:SS;KIND;JOB;...', found {line[:60]!r}.")
            stamp, kind, identity, message = match.groups()
            if kind not in _RUNS:
                continue
            values = _values(message)
            if kind == "R" and "start" not in values:  # Torque says no more than that it was
                yield from runs.stopped(identity, stamp)
                continue
            record = _record(where, kind, identity, values, context.cluster)
            if kind == "S":
                runs.started(identity, record, stamp)
            else:
                yield runs.ended(identity, record, whole_number(values.get("run_count", "")))
    except SourceError:
        yield from runs.unfinished()
        raise
    yield from runs.unfinished()


class _Runs:
    """Runs of jobs in one file. What started is kept until its end, which says more, or until the end of the file."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[JobRecord, str]] = {}
        self._last: dict[str, tuple[int | None, int]] = {}  # start and number of the newest run of a job

    def started(self, identity: str, record: JobRecord, stamp: str) -> None:
        self._open[identity] = self._numbered(identity, record, None), stamp

    def ended(self, identity: str, record: JobRecord, run_count: int | None) -> JobRecord:
        started = self._open.get(identity)
        if started is not None and started[0].start_ns == record.start_ns:
            del self._open[identity]
        return self._numbered(identity, record, run_count)

    def stopped(self, identity: str, stamp: str) -> Iterator[JobRecord]:
        """The two stamps are of one clock: between them lies what the run took."""
        if identity in self._open:
            record, began = self._open.pop(identity)
            try:
                took = datetime.strptime(stamp, _STAMP) - datetime.strptime(began, _STAMP)
                seconds = max(0, round(took.total_seconds()))
            except ValueError:  # the 31st of June
                seconds = None
            start = record.start_ns
            end = None if start is None or seconds is None else start + seconds * NS
            yield replace(record, state="REQUEUED", end_ns=end)

    def unfinished(self) -> Iterator[JobRecord]:
        return (record for record, _ in self._open.values())

    def _numbered(self, identity: str, record: JobRecord, run_count: int | None) -> JobRecord:
        """The first run has no number: most jobs have no other."""
        start, number = self._last.get(identity, (record.start_ns, 0))
        if run_count:
            number = run_count - 1
        elif start != record.start_ns:
            number += 1
        self._last[identity] = record.start_ns, number
        return replace(record, restart=number or None)


def _values(message: str) -> dict[str, str]:
    """`key=value` apart by blanks. A word that is no pair goes on with the value before it: groups, accounts and job
    names hold blanks, quoted or not."""
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


def _record(where: str, kind: str, identity: str, values: dict[str, str], cluster: str | None) -> JobRecord:
    job = _JOB.fullmatch(identity)
    if job is None:
        raise CorruptInput(f"{where}: {identity[:60]!r} is not the id of a job.")
    number, task, server = int(job[1]), job[2], job[3]
    times = {name: moment_ns(values.get(name, ""), where, name) for name in ("ctime", "qtime", "etime", "start", "end")}
    submit = next((times[name] for name in ("ctime", "qtime", "etime", "start", "end") if times[name]), None)
    if submit is None:
        raise CorruptInput(f"{where}: job {identity[:60]} has neither ctime nor start.")
    hosts, slots = _hosts(values.get("exec_host", ""))
    project = values.get("project", "")
    return JobRecord(
        cluster=cluster or server or UNNAMED_CLUSTER,
        job_id=str(number) if task is None else f"{number}[{task}]",
        # Darshan takes the number in front of $PBS_JOBID: tasks of an array have one between them.
        raw_job_id=number,
        array_job_id=number if task is not None else None,
        step="",
        state={"S": "RUNNING", "R": "REQUEUED"}.get(kind) or state_of(values.get("Exit_status")),
        submit_ns=submit,
        user=values.get("user") or None,
        account=values.get("account") or (project if project != _NO_PROJECT else None) or None,
        name=values.get("jobname") or None,
        start_ns=times["start"],
        end_ns=times["end"] if kind != "S" else None,
        node_count=len(hosts) or whole_number(values.get("Resource_List.nodect", "")),
        cpu_count=_first_count(values.get("resources_used.ncpus"), str(slots), values.get("Resource_List.ncpus")),
        nodes=",".join(hosts) or None,
    )


def _first_count(*texts: str | None) -> int | None:
    return next((count for text in texts if text and (count := whole_number(text))), None)


def _hosts(text: str) -> tuple[list[str], int]:
    """Distinct hosts in order, and their CPUs."""
    hosts: dict[str, None] = {}
    slots = 0
    for part in text.split("+"):
        host, _, listed = part.partition("/")
        if host:
            hosts[host] = None
        for item in listed.split(","):
            if match := _SLOTS.fullmatch(item):
                first, sign, last = match.groups()
                slots += 1 if sign is None else int(last) if sign == "*" else max(0, int(last) - int(first) + 1)
    return list(hosts), slots


SOURCE = PbsSource()
