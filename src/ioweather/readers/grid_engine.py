"""Grid Engine accounting (SGE, OGE, UGE, Altair): a line of fields apart by colons for each job: the source `sge`.

The file has no header; fields are told by their place (accounting(5)). Univa's versions count in milliseconds and put
fields of their own behind. A parallel job may also have a line for each of its tasks (pe_taskid): they are its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.tables.jobs import UNNAMED_CLUSTER
from ioweather.readers.job_records import JobRecord, job_frames, moment_ns, numbered_lines, state_of
from ioweather.readers.text_files import plain_head

_HOST, _OWNER, _NAME, _JOB, _ACCOUNT, _SUBMIT, _START, _END, _FAILED, _EXIT = 1, 3, 4, 5, 6, 8, 9, 10, 11, 12
_PROJECT, _PARALLEL, _SLOTS, _TASK, _PE_TASK = 31, 33, 34, 35, 41
_FEWEST_FIELDS = 36
_NUMBERS = (_JOB, _SUBMIT, _START, _END, _EXIT, _SLOTS, _TASK)
# As seconds this is the year 5138; as milliseconds 1973, before there was a Grid Engine.
_FIRST_MILLISECONDS = 100_000_000_000
_NOTHING = ("", "NONE")
_DEFAULT_ACCOUNT = "sge"


@dataclass(frozen=True)
class GridEngineSource:
    name: str = "sge"
    title: str = "Grid Engine accounting (SGE, UGE: common/accounting)"
    tables: tuple[str, ...] = ("jobs",)

    def detect(self, head: bytes, path: Path) -> float:
        lines = (line for line in plain_head(head).splitlines()[:2000] if line and not line.startswith("#"))
        return 0.9 if any(_is_job(line.split(":")) for line in lines) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        yield from job_frames(_records(path, context.cluster or UNNAMED_CLUSTER))


def _is_job(fields: list[str]) -> bool:
    return len(fields) >= _FEWEST_FIELDS and all(whole_number(fields[place]) is not None for place in _NUMBERS)


def _records(path: Path, cluster: str) -> Iterator[JobRecord]:
    for where, line in numbered_lines(path):
        fields = line.split(":")
        if not _is_job(fields):
            raise CorruptInput(
                f"{where}: expected at least {_FEWEST_FIELDS} fields apart by colons with number, times, slots and "
                f"task of a job, found {line[:60]!r}."
            )
        yield _record(where, fields, cluster)


def _record(where: str, fields: list[str], cluster: str) -> JobRecord:
    submit = _moment(where, fields[_SUBMIT], "submission_time")
    start = _moment(where, fields[_START], "start_time")
    end = _moment(where, fields[_END], "end_time")
    moment = submit if submit is not None else start
    if moment is None:
        raise CorruptInput(f"{where}: job {fields[_JOB]} was never submitted.")
    job, task, slots = int(fields[_JOB]), int(fields[_TASK]), int(fields[_SLOTS])
    pe_task = fields[_PE_TASK] if len(fields) > _PE_TASK else ""
    # The line names the first host alone: of a parallel job the others are not known.
    is_one_host = fields[_PARALLEL] in _NOTHING or slots <= 1
    return JobRecord(
        cluster=cluster,
        job_id=f"{job}.{task}" if task else str(job),
        raw_job_id=job,
        array_job_id=job if task else None,
        step="" if pe_task in _NOTHING else pe_task,
        state=state_of(fields[_EXIT] if fields[_FAILED].split(" ")[0] == "0" else "failed"),
        submit_ns=moment,
        user=fields[_OWNER] or None,
        account=_account(fields),
        name=fields[_NAME] or None,
        start_ns=start,
        end_ns=end,
        node_count=1 if is_one_host else None,
        cpu_count=slots or None,
        nodes=fields[_HOST] or None if is_one_host else None,
    )


def _moment(where: str, text: str, name: str) -> int | None:
    return moment_ns(text, where, name, per_second=1000 if int(text) >= _FIRST_MILLISECONDS else 1)


def _account(fields: list[str]) -> str | None:
    """The project, which administrators give; else the account, which users choose, where they did."""
    project, account = fields[_PROJECT], fields[_ACCOUNT]
    return project if project not in _NOTHING else account if account not in (*_NOTHING, _DEFAULT_ACCOUNT) else None


SOURCE = GridEngineSource()
