"""PBS accounting (OpenPBS, PBS Pro, Torque): `MM/DD/YYYY HH:MM:SS;E;id;key=value ...`: the source `pbs`.

The stamp of a line is local time and is not needed: submission, start and end are epochs among the values. Lines of
kind S (started) and E (ended) are jobs; the others (queued, deleted, licences) say nothing that these do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.sources.job_records import JobRecord, job_frames
from ioweather.sources.plain_values import whole_number
from ioweather.sources.schedulers.lines import moment_ns, numbered_lines, state_of
from ioweather.sources.textfiles import plain_head
from ioweather.tables.jobs import UNNAMED_CLUSTER

_LINE = re.compile(r"\d{2}/\d{2}/\d{4} \d{2}:\d{2}:\d{2};([A-Za-z]{1,2});([^;]*);(.*)")
_JOB = re.compile(r"([0-9]{1,18})(?:\[([0-9]{0,18})\])?(?:\.(.*))?")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
# 'n404/2', 'c1/0*13' (thirteen CPUs), 'c2/0-7', 'c3/0-3,8': a host and its slots.
_SLOTS = re.compile(r"([0-9]{1,9})(?:([*-])([0-9]{1,9}))?")
_RUNS = ("S", "E")
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
    for where, line in numbered_lines(path):
        match = _LINE.match(line)
        if match is None:
            raise CorruptInput(f"{where}: expected 'MM/DD/YYYY HH:MM:SS;KIND;JOB;...', found {line[:60]!r}.")
        kind, identity, message = match.groups()
        if kind in _RUNS:
            yield _record(where, kind, identity, _values(message), context.cluster)


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
        state=state_of(values.get("Exit_status")) if kind == "E" else "RUNNING",
        submit_ns=submit,
        user=values.get("user") or None,
        account=values.get("account") or (project if project != _NO_PROJECT else None) or None,
        name=values.get("jobname") or None,
        start_ns=times["start"],
        end_ns=times["end"] if kind == "E" else None,
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
