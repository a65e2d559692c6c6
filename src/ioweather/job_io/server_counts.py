"""The answer to `job` without a Darshan log: the job's I/O as the servers counted it."""

from __future__ import annotations

from collections.abc import Iterator
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
    headline = (
        f"Job {job} read {format_bytes(found.read_bytes)} and wrote {format_bytes(found.write_bytes)} on {targets} of "
        f"{where}, {format_time_ns(found.start_ns)} to {format_time_ns(found.end_ns)}, as the servers count it."
    )
    caveats = ["There is no Darshan log of this job: files, processes and time spent in I/O are not known."]
    if found.restarted_rows:
        caveats.append(
            f"In {found.restarted_rows} interval{'s' if found.restarted_rows > 1 else ''} the server counters "
            "were reset: the amounts are lower bounds."
        )
    volume = (
        Fact("read_bytes", "read", found.read_bytes, "bytes"),
        Fact("write_bytes", "written", found.write_bytes, "bytes"),
    )
    operations = tuple(
        Fact(f"{name}_count", printable(name), done.count, "count", note=_note(done))
        for name, done in found.operations.items()
    )
    busiest = numbered(
        Fact("target", printable(name), done.bytes, "bytes", note=f"{done.count:,} operations")
        for name, done in list(found.targets.items())[:_MOST_TARGETS]
    )
    groups = (
        FactGroup("job", "Job", tuple(_about(found))),
        FactGroup("server_volume", "Volume", volume),
        FactGroup("server_operations", "Operations", operations),
        FactGroup("server_requests", "Bytes of a request", tuple(_requests(found))),
        FactGroup("server_targets", f"Targets ({len(found.targets)})", busiest),
    )
    return Answer(
        question="job",
        headline=headline,
        facts=tuple(group for group in groups if group.facts),
        exhibits=tuple(_exhibits(found)) if detail else (),
        caveats=tuple(caveats),
        result=_outcome(found),
    )


def _outcome(found: ServerIo) -> JobOutcome:
    return JobOutcome(
        job_id=found.job_ids[0] if len(found.job_ids) == 1 else None,
        user=_only(found.users),
        project=_only(found.projects),
        program=printable(_only(found.programs) or ""),
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
    )


def _only(names: tuple[str, ...]) -> str | None:
    return names[0] if len(names) == 1 else None


def _about(found: ServerIo) -> Iterator[Fact]:
    users = found.users or tuple(f"uid {uid}" for uid in found.uids)
    for name, words, values in (
        ("user", "user", users),
        ("project", "project", found.projects),
        ("program", "program", found.programs),
    ):
        if values:
            yield Fact(name, words, "", note=printable(", ".join(values)))


def _note(done: Done) -> str:
    return "" if done.seconds is None else f"{done.seconds:,.3g} s of server time"


def _requests(found: ServerIo) -> Iterator[Fact]:
    """Yield the mean, and the largest bin of the histogram if there is one."""
    for name, words in (("read", "reads"), ("write", "writes")):
        done = found.operations.get(name)
        if done is None or not done.count:
            continue
        most = max(done.sizes.items(), key=lambda item: item[1], default=None)
        note = "" if most is None else f"{most[1] / sum(done.sizes.values()):.0%} up to {format_bytes(most[0])}"
        yield Fact(f"{name}_request_bytes", f"{words}, mean", done.bytes / done.count, "bytes", note=note)


def _exhibits(found: ServerIo) -> Iterator[Exhibit]:
    yield _over_time(found)
    amounts = "count: operations [count]; bytes [bytes]; seconds: seconds of the servers [seconds]"
    for name, parts in (("operation", found.operations), ("target", found.targets)):
        rows = [(printable(n), d.count, d.bytes, d.seconds) for n, d in parts.items()]
        table = ResultTable.of(f"{name}s", f"{name} [text]; {amounts}", rows)
        title = f"{name.capitalize()}s, as the servers count them"
        yield Exhibit(f"job.server_{name}s", title, tables=(table,))
    sizes = [
        (name, up_to, requests) for name, done in found.operations.items() for up_to, requests in done.sizes.items()
    ]
    if sizes:
        columns = "operation [text]; up_to_bytes: up to [bytes]; count: requests [count]"
        table = ResultTable.of("sizes", columns, sizes)
        yield Exhibit("job.server_sizes", "Sizes of requests, as the servers count them", tables=(table,))


def _over_time(found: ServerIo) -> Exhibit:
    step = -(-len(found.times) // _MOST_TIMES)
    rows: list[tuple[Cell, ...]] = []
    for first in range(0, len(found.times), step):
        part = found.times[first : first + step]
        seconds = max((max(end for _, end, *_ in part) - part[0][0]) / NS, 1e-9)
        rows += [
            (part[0][0], words, sum(interval[place] for interval in part) / seconds)
            for place, words in ((2, "read"), (3, "written"))
        ]
    encoding = {"x": "time", "y": "bytes_per_s", "series": "direction"}
    table = ResultTable.of("over_time", "time [time_ns]; direction [text]; bytes_per_s [bytes_per_s]", rows)
    chart = Chart("timeline", table, encoding, "Bytes per second")
    return Exhibit("job.server_timeline", "Server traffic of this job", charts=(chart,))


def beside_log(view: JobView, found: ServerIo) -> FactGroup:
    """Return the servers' counts of a job that has logs, compared with these."""
    job = view.of_job
    said = {name: int(view.job_io.ints(f"{name}_bytes").sum()) for name in ("read", "write")}
    if job is not None:
        said = {"read": job.read_bytes, "write": job.write_bytes}
    logs = "the log" if view.logs_of_job == 1 else f"its {view.logs_of_job:,} logs"
    facts = []
    for name, words, counted in (("read", "read", found.read_bytes), ("write", "written", found.write_bytes)):
        note = (
            f"{counted / said[name]:.0%} of the {format_bytes(said[name])} in {logs}"
            if said[name]
            else f"none in {logs}"
        )
        facts.append(Fact(f"server_{name}_bytes", words, counted, "bytes", note=note))
    facts.append(Fact("server_operations", "operations", sum(d.count for d in found.operations.values()), "count"))
    return FactGroup("servers", "As the servers count it", tuple(facts))
