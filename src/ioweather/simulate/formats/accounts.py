"""Slurm accounting as `sacct -P` prints it, in local time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Calendar
from ioweather.simulate.runs import Job

_FIELDS = ("JobID", "JobIDRaw", "Cluster", "UID", "User", "Account", "JobName", "State", "Submit", "Start", "End",
           "NNodes", "NCPUS", "NodeList")  # fmt: skip


class AccountsWriter:
    """Jobs in the order in which they end. With a delay, what ended last is not in the accounts yet."""

    def __init__(self, path: Path, preset: Preset, calendar: Calendar) -> None:
        self._preset, self._calendar = preset, calendar
        self._until = (preset.days - preset.accounting_delay_days) * 86400.0
        self._file = path.open("w", encoding="utf-8")
        self._file.write("|".join(_FIELDS) + "\n")

    def add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.submit >= self._until:
                continue
            ended = job.end is not None and job.end < self._until
            started = job.start is not None and job.start < self._until
            state = "COMPLETED" if ended else "RUNNING" if started else "PENDING"
            program = job.program
            self._file.write("|".join((
                str(job.number), str(job.number), self._preset.cluster or self._preset.fsname, str(program.uid),
                program.user, program.account, program.name, state, self._time(job.submit),
                self._time(job.start) if started else "Unknown",
                self._time(job.end) if ended else "Unknown", str(program.nodes),
                str(program.nodes * self._preset.cores),
                _nodes(job, self._preset.nodes) if started else "None assigned",
            )) + "\n")  # fmt: skip

    def close(self) -> None:
        self._file.close()

    def _time(self, seconds: float | None) -> str:
        assert seconds is not None
        return self._calendar.local(seconds).strftime("%Y-%m-%dT%H:%M:%S")


def _nodes(job: Job, nodes: int) -> str:
    first, count = job.first_node, job.program.nodes
    if count == 1:
        return f"nid{first:05d}"
    end = first + count - 1
    if end < nodes:
        return f"nid[{first:05d}-{end:05d}]"
    return f"nid[00000-{end - nodes:05d},{first:05d}-{nodes - 1:05d}]"
