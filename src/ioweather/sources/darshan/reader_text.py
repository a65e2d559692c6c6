"""The text of Darshan's own tools: what people paste into tickets where they cannot send the log.

Three forms begin with the same lines about the job: the records of darshan-parser, one counter a line (`text_records`);
its sums over all files with --total, --file and --perf (`text_sums`); the operations of darshan-dxt-parser
(`text_trace`). Floats have six decimals (traces four), and the start is known to the second.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from ioweather.core.errors import CorruptInput, TruncatedInput, UnsupportedVersion
from ioweather.core.units import NS
from ioweather.sources.darshan.job import check_job, longest_first
from ioweather.sources.darshan.layout import NATIVE
from ioweather.sources.darshan.model import DarshanJob, DarshanLog
from ioweather.sources.darshan.names import text
from ioweather.sources.darshan.reader3 import check_ranks, digest_of
from ioweather.sources.darshan.text_records import modules_of_records
from ioweather.sources.darshan.text_sums import Sums, modules_of_sums
from ioweather.sources.darshan.text_trace import TRACES, modules_of_trace
from ioweather.sources.plain_values import whole_number

FIRST_LINE: Final = b"# darshan log version:"
_MODULE: Final = re.compile(r"# ([A-Z][\w/-]{1,40}) module: .{0,80}ver=(\d{1,9})")
_INCOMPLETE: Final = re.compile(r"# \*WARNING\*: The ([A-Z][\w/-]{1,40}) module contains incomplete data")
_SECTION: Final = re.compile(r"# ([A-Z][\w/-]{1,40}) module data")
_SUM: Final = re.compile(r"total_[A-Z]\w{2,80}: ")
_RECORD: Final = re.compile(r"[A-Z][\w/-]{1,40}\t")
_OPERATION: Final = re.compile(r" {0,9}X_[A-Z]{1,20} ")
# A line of --file-list: id, path, times of the file; what it says is in the records too.
_FILE_LIST: Final = re.compile(r"\d{1,20}\t")
_WHOLE: Final = "darshan-parser --base --total --file --perf JOB.darshan > job.txt"


def is_darshan_text(data: bytes) -> bool:
    """Its first line may stand behind what a shell or a loader had to say."""
    return data.startswith(FIRST_LINE) or b"\n" + FIRST_LINE in data[: 64 << 10]


@dataclass
class _Parts:
    """The lines of a text, by what they are. `sums` is by module, `trace` is lines with their numbers."""

    facts: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    mounts: list[tuple[str, str]] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    partial: list[str] = field(default_factory=list)
    records: list[tuple[int, str]] = field(default_factory=list)
    sums: dict[str, Sums] = field(default_factory=dict)
    trace: list[tuple[int, str]] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)

    def comment(self, line: str, section: str) -> None:
        name, _, value = line[1:].strip().partition(": ")
        if line.startswith("# mount entry:"):
            path, _, kind = line.partition(":")[2].strip().partition("\t")
            self.mounts.append((path, kind))
        elif name == "metadata":
            key, _, setting = value.partition(" = ")
            self.metadata[key] = setting
        elif match := _MODULE.match(line):
            self.versions[match[1]] = int(match[2])
        elif match := _INCOMPLETE.match(line):
            self.partial.append(match[1])
        elif section:
            self.sums.setdefault(section, Sums()).comment(line)
        else:
            self.facts.setdefault(name, value.strip())


def read_parser_text(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    parts = _parts(text(data))
    job = _job(parts.facts, parts.metadata, parts.mounts)
    log = DarshanLog(
        parts.facts["darshan log version"], NATIVE, "none", job, {}, {}, tuple(parts.partial), (), digest_of(data)
    )
    if parts.records:
        modules, names, unknown = modules_of_records(parts.records, parts.versions, parts.partial)
        log = replace(log, modules=modules, names=names, unknown_modules=unknown, form="text")
    elif parts.trace:
        modules, names = modules_of_trace(parts.trace, parts.versions, parts.partial)
        log = replace(log, modules=modules, names=names, form="trace")
    elif any(part.counters for part in parts.sums.values()):
        modules, counts = modules_of_sums(parts.sums, parts.versions, parts.partial)
        log = replace(log, modules=modules, file_counts=counts, form="totals")
    elif parts.versions or parts.sums:
        raise _without_counters(parts)
    for module in log.modules.values():
        check_ranks(module, job.nprocs)
    if wanted is not None:
        kept = {name: module for name, module in log.modules.items() if name in wanted}
        log = replace(log, modules=kept, skipped_modules=tuple(name for name in log.modules if name not in wanted))
    return log


def _parts(whole: str) -> _Parts:
    parts = _Parts()
    section, began = "", False
    for number, line in enumerate(whole.split("\n"), 1):
        began = began or line.startswith(FIRST_LINE.decode())
        if not began or not line or line.isspace():
            continue
        if line.startswith("# DXT, ") or (
            section in TRACES and (line.startswith("# Module ") or _OPERATION.match(line))
        ):
            parts.trace.append((number, line.rstrip("\r")))
        elif match := _SECTION.match(line):
            section = match[1]
            parts.sections.add(section)
        elif line.startswith("#"):
            parts.comment(line.rstrip("\r"), section)
        elif _SUM.match(line):
            parts.sums.setdefault(section, Sums()).counter(number, line)
        elif _RECORD.match(line):
            parts.records.append((number, line))
        elif not _FILE_LIST.match(line):
            raise TruncatedInput(
                f"Line {number} is no counter of darshan-parser: {line[:60]!r}.", hint="Paste its whole output."
            )
    return parts


def _without_counters(parts: _Parts) -> TruncatedInput:
    if any(part.files or part.seconds for part in parts.sums.values()):
        return TruncatedInput(
            "The text has file counts or speeds, but no counters: what --file and --perf print says not how much was "
            "read and written.",
            hint=f"Print the counters too: {_WHOLE}",
        )
    if parts.sections - set(TRACES) or not parts.sections:
        return TruncatedInput(
            "The text names modules, but has no counter of them: it was cut.", hint=f"Paste it whole: {_WHOLE}"
        )
    return TruncatedInput(
        "The text of the trace has no operation: it was cut.", hint="darshan-dxt-parser JOB.darshan > trace.txt"
    )


def _job(facts: dict[str, str], metadata: dict[str, str], mounts: list[tuple[str, str]]) -> DarshanJob:
    version = facts.get("darshan log version", "")
    if not version.startswith("3."):
        raise UnsupportedVersion(
            f"The text is of a log of version {version[:20]}; that of 3.x is read.", hint="Ingest the log itself."
        )
    numbers = {name: whole_number(facts.get(name, "")) for name in ("start_time", "end_time", "nprocs")}
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        raise CorruptInput(
            f"The text has no {missing[0]}: its first lines are missing.", hint="Run darshan-parser again."
        )
    start, end, nprocs = (number or 0 for number in numbers.values())
    check_job(start, end, nprocs)
    try:
        run_seconds = float(facts.get("run time", ""))
    except ValueError:
        run_seconds = float(end - start + 1)
    # From 3.41 on the time of the run is printed with decimals; start and end are cut.
    precise = version >= "3.41" and 0 <= run_seconds <= end - start + 1
    # Ids of 64 bits are printed as they are; a uid of nobody as a negative number.
    uid, job_id = (_whole(facts.get(name, "0"), name) for name in ("uid", "jobid"))
    return DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=start * NS + round(run_seconds * NS) if precise else end * NS,
        run_seconds=run_seconds,
        metadata=metadata,
        exe=facts.get("exe", ""),
        mounts=longest_first(mounts),
    )


def _whole(printed: str, what: str) -> int:
    number = whole_number(printed.removeprefix("-"))
    if number is None:
        raise CorruptInput(f"The text says that {what} is {printed[:40]!r}, which is not a number.")
    return -number if printed.startswith("-") else number
