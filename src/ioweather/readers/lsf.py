"""LSF accounting (lsb.acct): JOB_FINISH records of numbers and quoted texts: the source `lsf`.

Fields are told by their place. The places up to `idx` are those of IBM's reference for versions 6 to 10.1; what newer
versions have they put behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.tables.jobs import UNNAMED_CLUSTER
from ioweather.readers.job_records import JobRecord, job_frames, moment_ns, numbered_lines
from ioweather.readers.text_files import plain_head

_EVENT = re.compile(r'"([A-Z_]{3,40})" "[0-9.]{1,12}" [0-9]{1,18} ')
_SLOTS = re.compile(r"([0-9]{1,9})\*(.+)")
# Between `command` and `projectName`: 19 of rusage and `mailUser`.
_AFTER_COMMAND = 20
_DONE, _EXITED = 64, 32


@dataclass(frozen=True)
class LsfSource:
    name: str = "lsf"
    title: str = "LSF accounting (lsb.acct)"
    tables: tuple[str, ...] = ("jobs",)

    def detect(self, head: bytes, path: Path) -> float:
        return 0.95 if any(_EVENT.match(line) for line in plain_head(head).splitlines()[:2000]) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        yield from job_frames(_records(path, context.cluster or UNNAMED_CLUSTER))


def _records(path: Path, cluster: str) -> Iterator[JobRecord]:
    for where, line in numbered_lines(path):
        event = _EVENT.match(line)
        if event is None:
            raise CorruptInput(f'{where}: expected an event such as "JOB_FINISH", found {line[:60]!r}.')
        if event[1] == "JOB_FINISH":
            yield _record(where, line, cluster)


class _Fields:
    """The fields of a record one after the other."""

    def __init__(self, where: str, line: str) -> None:
        self._where = where
        self._found = _split(line)
        self._place = 0

    def text(self, *, skip: int = 0) -> str:
        self._place += skip + 1
        if self._place > len(self._found):
            raise CorruptInput(f"{self._where}: the record ends after {len(self._found)} fields, inside the job.")
        return self._found[self._place - 1]

    def number(self, name: str, *, skip: int = 0) -> int:
        text = self.text(skip=skip)
        value = whole_number(text)
        if value is None:
            raise CorruptInput(f"{self._where}: {name} is {text[:40]!r}, not a number.")
        return value

    def moment(self, name: str, *, skip: int = 0) -> int | None:
        return moment_ns(self.text(skip=skip), self._where, name)

    def texts(self, name: str) -> list[str]:
        """A counted list."""
        count = self.number(name)
        return [self.text() for _ in range(min(count, len(self._found)))]

    def optional(self, *, skip: int = 0) -> str:
        return self.text(skip=skip) if self._place + skip < len(self._found) else ""


def _split(line: str) -> list[str]:
    """Bare words, and texts in quotes, in which "" is one quote."""
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


def _record(where: str, line: str, cluster: str) -> JobRecord:
    fields = _Fields(where, line)
    end = fields.moment("eventTime", skip=2)
    job, uid = fields.number("jobId"), fields.number("userId")
    processors = fields.number("numProcessors", skip=1)
    submit = fields.moment("submitTime")
    start = fields.moment("startTime", skip=2)
    user = fields.text()
    fields.text(skip=9)  # queue to jobFile
    fields.texts("numAskedHosts")
    hosts, slots = _hosts(fields.texts("numExHosts"))
    status = fields.number("jStatus")
    name = fields.text(skip=1)
    fields.text()  # command
    project = fields.optional(skip=_AFTER_COMMAND)
    index = whole_number(fields.optional(skip=4)) or 0
    if submit is None:
        raise CorruptInput(f"{where}: job {job} was never submitted.")
    return JobRecord(
        cluster=cluster,
        job_id=f"{job}[{index}]" if index else str(job),
        raw_job_id=job,
        array_job_id=job if index else None,
        step="",
        state=_state(status, started=start is not None),
        submit_ns=submit,
        uid=uid,
        user=user or None,
        account=project or None,
        name=name or None,
        start_ns=start,
        end_ns=end if end is None or start is None else max(end, start),
        node_count=len(hosts) or None,
        cpu_count=max(processors, slots) or None,
        nodes=",".join(hosts) or None,
    )


def _hosts(listed: list[str]) -> tuple[list[str], int]:
    """Distinct hosts in order, and slots: a host stands once for each, or as '16*host'."""
    hosts: dict[str, None] = {}
    slots = 0
    for item in listed:
        match = _SLOTS.fullmatch(item)
        hosts[match[2] if match else item] = None
        slots += int(match[1]) if match else 1
    return list(hosts), slots


def _state(status: int, *, started: bool) -> str:
    """In the words of Slurm, which the table has."""
    if status == _DONE:
        return "COMPLETED"
    if status == _EXITED:
        return "FAILED" if started else "CANCELLED"
    return "UNKNOWN"


SOURCE = LsfSource()
