"""The answer to `job` without a Darshan log: the job's I/O as the servers counted it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ioweather.core.outcomes import JobOutcome
from ioweather.core.results import Answer, Cell, Chart, Exhibit, Fact, FactGroup, ResultTable, numbered
from ioweather.core.units import NS, format_bytes, format_time_ns
from ioweather.facts.server_io import Done, ServerIo
from ioweather.job_io.view import JobView, printable

_MOST_TARGETS: Final = 10
# Maximum intervals of a chart; neighbours are added up if there are more.
_MOST_TIMES: Final = 400


def server_answer(job: str, found: ServerIo, *, detail: bool) -> Answer:
    """Return volume, operations, sizes of requests and targets. The servers' counters do not include files or the time
    that the job waited."""
    where = ", ".join(printable(name) for name in found.systems)
    targets = f"{len(found.targets)} target{'s' if len(found.targets) > 1 else ''}"
    caveats = ["There is no Darshan log of this job: files, processes and time spent in I/O are not known."]
    if found.restarted_rows:
        caveats.append(
            f"In {found.restarted_rows} interval{'s' if found.restarted_rows > 1 else ''} the server counters "
            "were reset: the amounts are lower bounds."
        )
    owners = {
        "user": found.users or tuple(f"uid {uid}" for uid in found.uids),
        "project": found.projects,
        "program": found.programs,
    }
    requests = []
    for verb, done in ((verb, found.operations.get(verb)) for verb in ("read", "write")):
        if done is not None and done.count:
            # The mean, and the largest bin of the histogram if there is one.
            up_to, most = max(done.sizes.items(), key=lambda item: item[1], default=(0, 0))
            note = f"{most / sum(done.sizes.values()):.0%} up to {format_bytes(up_to)}" if most else ""
            mean = done.bytes / done.count
            requests.append(Fact(f"{verb}_request_bytes", f"{verb}s, mean", mean, "bytes", note=note))
    groups = (
        FactGroup(
            "job",
            "Job",
            tuple(Fact(name, name, "", note=printable(", ".join(of))) for name, of in owners.items() if of),
        ),
        FactGroup(
            "server_volume",
            "Volume",
            (
                Fact("read_bytes", "read", found.read_bytes, "bytes"),
                Fact("write_bytes", "written", found.write_bytes, "bytes"),
            ),
        ),
        FactGroup(
            "server_operations",
            "Operations",
            tuple(
                Fact(f"{name}_count", printable(name), done.count, "count", note=_server_time(done))
                for name, done in found.operations.items()
            ),
        ),
        FactGroup("server_requests", "Bytes of a request", tuple(requests)),
        FactGroup(
            "server_targets",
            f"Targets ({len(found.targets)})",
            numbered(
                Fact("target", printable(name), done.bytes, "bytes", note=f"{done.count:,} operations")
                for name, done in islice(found.targets.items(), _MOST_TARGETS)
            ),
        ),
    )
    one = {name: of[0] if len(of) == 1 else None for name, of in {**owners, "user": found.users}.items()}
    return Answer(
        question="job",
        headline=f"Job {job} read {format_bytes(found.read_bytes)} and wrote {format_bytes(found.write_bytes)} on "
        f"{targets} of {where}, {format_time_ns(found.start_ns)} to {format_time_ns(found.end_ns)}, as the servers "
        "count it.",
        facts=tuple(group for group in groups if group.facts),
        exhibits=tuple(_exhibits(found)) if detail else (),
        caveats=tuple(caveats),
        result=JobOutcome(
            job_id=found.job_ids[0] if len(found.job_ids) == 1 else None,
            user=one["user"],
            project=one["project"],
            program=printable(one["program"] or ""),
            logs=0,
            start_ns=found.start_ns,
            end_ns=found.end_ns,
            read_bytes=found.read_bytes,
            write_bytes=found.write_bytes,
            files=0,
            processes=None,
            nodes=None,
            run_seconds=None,
            io_seconds=None,
            bytes_per_s=None,
            metadata_ratio=None,
        ),
    )


def _server_time(done: Done) -> str:
    return "" if done.seconds is None else f"{done.seconds:,.3g} s of server time"


def _exhibits(found: ServerIo) -> Iterator[Exhibit]:
    step = -(-len(found.times) // _MOST_TIMES)
    rows: list[tuple[Cell, ...]] = []
    for first in range(0, len(found.times), step):
        starts, ends, read, written = zip(*found.times[first : first + step], strict=True)
        seconds = max((max(ends) - starts[0]) / NS, 1e-9)
        rows += [(starts[0], "read", sum(read) / seconds), (starts[0], "written", sum(written) / seconds)]
    table = ResultTable.of("over_time", "time [time_ns]; direction [text]; bytes_per_s [bytes_per_s]", rows)
    chart = Chart.of("timeline", table, "x=time y=bytes_per_s series=direction", "Bytes per second")
    yield Exhibit("job.server_timeline", "Server traffic of this job", charts=(chart,))
    amounts = "count: operations [count]; bytes [bytes]; seconds: seconds of the servers [seconds]"
    for name, parts in (("operation", found.operations), ("target", found.targets)):
        done = [(printable(n), d.count, d.bytes, d.seconds) for n, d in parts.items()]
        table = ResultTable.of(f"{name}s", f"{name} [text]; {amounts}", done)
        title = f"{name.capitalize()}s, as the servers count them"
        yield Exhibit(f"job.server_{name}s", title, tables=(table,))
    sizes = [(name, up_to, count) for name, done in found.operations.items() for up_to, count in done.sizes.items()]
    if sizes:
        columns = "operation [text]; up_to_bytes: up to [bytes]; count: requests [count]"
        table = ResultTable.of("sizes", columns, sizes)
        yield Exhibit("job.server_sizes", "Sizes of requests, as the servers count them", tables=(table,))


def beside_log(view: JobView, found: ServerIo) -> FactGroup:
    """Return the servers' counts of a job that has logs, compared with these."""
    logs = "the log" if view.logs_of_job == 1 else f"its {view.logs_of_job:,} logs"
    facts = []
    for verb, words, counted in (("read", "read", found.read_bytes), ("write", "written", found.write_bytes)):
        said = int(view.job_io.ints(f"{verb}_bytes").sum())
        if view.of_job is not None:
            said = view.of_job.read_bytes if verb == "read" else view.of_job.write_bytes
        note = f"{counted / said:.0%} of the {format_bytes(said)} in {logs}" if said else f"none in {logs}"
        facts.append(Fact(f"server_{verb}_bytes", words, counted, "bytes", note=note))
    facts.append(Fact("server_operations", "operations", sum(d.count for d in found.operations.values()), "count"))
    return FactGroup("servers", "As the servers count it", tuple(facts))
