"""The answer to `job` where there is no Darshan log: what the servers counted of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ioweather.core.outcomes import JobOutcome
from ioweather.core.results import Answer, Cell, Chart, Exhibit, Fact, FactGroup, ResultColumn, ResultTable, numbered
from ioweather.core.units import NS, format_bytes, format_time_ns
from ioweather.facts.server_io import Done, ServerIo
from ioweather.job_io.view import JobView, printable

_MOST_TARGETS: Final = 10
# Intervals of a chart; of more, neighbours are added up.
_MOST_TIMES: Final = 400


def server_answer(job: str, found: ServerIo, *, detail: bool) -> Answer:
    """Volume, operations, sizes of requests and targets. Of files and of the time that the job waited, the servers'
    counters of a job say nothing."""
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
    groups = (
        FactGroup("job", "Job", tuple(_about(found))),
        FactGroup("server_volume", "Volume", (
            Fact("read_bytes", "read", found.read_bytes, "bytes"),
            Fact("write_bytes", "written", found.write_bytes, "bytes"),
        )),
        FactGroup("server_operations", "Operations", tuple(
            Fact(f"{name}_count", printable(name), done.count, "count", note=_note(done))
            for name, done in found.operations.items()
        )),
        FactGroup("server_requests", "Bytes of a request", tuple(_requests(found))),
        FactGroup("server_targets", f"Targets ({len(found.targets)})", numbered(
            Fact("target", printable(name), done.bytes, "bytes", note=f"{done.count:,} operations")
            for name, done in list(found.targets.items())[:_MOST_TARGETS]
        )),
    )  # fmt: skip
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
    return "" if done.seconds is None else f"{done.seconds:,.3g} s of the servers"


def _requests(found: ServerIo) -> Iterator[Fact]:
    """The mean, and the largest bin of the histogram where one is counted."""
    for name, words in (("read", "reads"), ("write", "writes")):
        done = found.operations.get(name)
        if done is None or not done.count:
            continue
        most = max(done.sizes.items(), key=lambda item: item[1], default=None)
        note = "" if most is None else f"{most[1] / sum(done.sizes.values()):.0%} up to {format_bytes(most[0])}"
        yield Fact(f"{name}_request_bytes", f"{words}, mean", done.bytes / done.count, "bytes", note=note)


def _table(name: str, title: str, columns: tuple[tuple[str, str, str], ...], rows: list[tuple[Cell, ...]]) -> Exhibit:
    table = ResultTable(name, tuple(ResultColumn(*column) for column in columns), tuple(rows))
    return Exhibit(f"job.server_{name}", title, tables=(table,))


def _exhibits(found: ServerIo) -> Iterator[Exhibit]:
    yield _over_time(found)
    amounts = (
        ("count", "operations", "count"),
        ("bytes", "", "bytes"),
        ("seconds", "seconds of the servers", "seconds"),
    )
    for name, title, parts in (
        ("operation", "Operations, as the servers count them", found.operations),
        ("target", "Targets, as the servers count them", found.targets),
    ):
        rows: list[tuple[Cell, ...]] = [(printable(n), d.count, d.bytes, d.seconds) for n, d in parts.items()]
        yield _table(f"{name}s", title, ((name, "", "text"), *amounts), rows)
    sizes: list[tuple[Cell, ...]] = [
        (name, up_to, requests) for name, done in found.operations.items() for up_to, requests in done.sizes.items()
    ]
    if sizes:
        columns = (("operation", "", "text"), ("up_to_bytes", "up to", "bytes"), ("count", "requests", "count"))
        yield _table("sizes", "Sizes of requests, as the servers count them", columns, sizes)


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
    return Exhibit("job.server_timeline", "What the servers moved for it", charts=(chart,))


def beside_log(view: JobView, found: ServerIo) -> FactGroup:
    """What the servers counted of a job that has logs, beside what these say."""
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
