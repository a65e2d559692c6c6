"""The answer to `job` where there is no Darshan log: what the servers counted of the job."""

from __future__ import annotations

from ioweather.core.outcomes import JobOutcome
from ioweather.core.results import Answer, Fact, FactGroup, numbered
from ioweather.core.units import format_bytes, format_time_ns
from ioweather.derive.jobs.server_io import ServerIo
from ioweather.studies.job.view import printable

_MOST_TARGETS = 10


def server_answer(job: str, found: ServerIo) -> Answer:
    """Volume, operations and targets. Of time spent and of files the servers' counters of a job say nothing."""
    where = ", ".join(printable(name) for name in found.systems)
    targets = f"{len(found.targets)} target{'s' if len(found.targets) > 1 else ''}"
    headline = (
        f"Job {job} read {format_bytes(found.read_bytes)} and wrote {format_bytes(found.write_bytes)} on {targets} of "
        f"{where}, {format_time_ns(found.start_ns)} to {format_time_ns(found.end_ns)}, as the servers count it."
    )
    caveats = ["There is no Darshan log of this job: files, processes and time spent in I/O are not known."]
    if found.restarted_rows:
        caveats.append(
            f"In {found.restarted_rows} interval{'s' if found.restarted_rows > 1 else ''} the servers began to count "
            "again: the amounts are lower bounds."
        )
    return Answer(
        question="job",
        headline=headline,
        facts=(
            FactGroup("server_volume", "Volume", (
                Fact("read_bytes", "read", found.read_bytes, "bytes"),
                Fact("write_bytes", "written", found.write_bytes, "bytes"),
            )),
            FactGroup("server_operations", "Operations", tuple(
                Fact(f"{name}_count", name, done.count, "count") for name, done in found.operations.items()
            )),
            FactGroup("server_targets", f"Targets ({len(found.targets)})", numbered(
                Fact("target", printable(name), done.bytes, "bytes", note=f"{done.count:,} operations")
                for name, done in list(found.targets.items())[:_MOST_TARGETS]
            )),
        ),
        caveats=tuple(caveats),
        result=JobOutcome(
            job_id=found.job_ids[0] if len(found.job_ids) == 1 else None,
            user=None,
            project=None,
            program=printable(found.programs[0]) if len(found.programs) == 1 else "",
            logs=0,
            processes=None,
            nodes=None,
            start_ns=found.start_ns,
            end_ns=found.end_ns,
            run_seconds=None,
            io_seconds=None,
            read_bytes=found.read_bytes,
            write_bytes=found.write_bytes,
            bytes_per_s=None,
            metadata_ratio=None,
            files=0,
        ),
    )  # fmt: skip
