"""One job, named by its log or by its id, as a `JobView`; and its heat maps, which the lake does not store.

A log is read in place and needs no lake. A job id means all logs of that job in the lake, with its accounting.
Processes without MPI, and launches one after the other, write a log each: their heat map is made from all of them,
where these logs are still in the place where they were ingested.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.arrays import Ints
from ioweather.core.clock import utc_day
from ioweather.core.contracts import Params, PathPolicy
from ioweather.core.errors import DataUnavailable, SourceError, UsageError
from ioweather.core.foreign_text import shown_command, shown_path
from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.core.units import DAY_NS, format_time_ns
from ioweather.facts.accounting import job_numbers, match_jobs
from ioweather.facts.job_metrics import job_io
from ioweather.facts.runs import JOB_COLUMNS, program_of
from ioweather.facts.server_io import ServerIo, server_io
from ioweather.job_io.heat_map import HEAT_MODULES, PAGE, SCREEN, Resolution, job_heat_maps
from ioweather.job_io.view import (
    JobView,
    LogFacts,
    ModuleRecords,
    main_run_of,
    printable,
)
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs
from ioweather.readers.darshan.log import DarshanLog
from ioweather.topics.source import DataSource

if TYPE_CHECKING:
    # Loads DuckDB, which a log alone does not need.
    from ioweather.lake.snapshot import Snapshot

# 4711, or what schedulers show for members of arrays and of heterogeneous jobs: 22_1, 43+0.
JOB_ID: Final = re.compile(r"\d{1,18}([_+]\d{1,9})?")


# The tables that `find_job` may read.
LOG_TABLES: Final = frozenset({"applications", "files", "ingests", "jobs", "series"})


def named_log(source: DataSource, params: Params) -> JobView:
    """Return the job that the parameter `job` names, found once for all questions that share results."""
    view = source.shared(find_named_log, params)
    note_log(source, "job", view)
    return view


def note_log(source: DataSource, param: str, view: JobView) -> None:
    """Record that the answer is about this job."""
    digests = [str(digest) for digest in view.applications.text("log_digest").tolist()]
    source.note_logs(param, digests, from_file=bool(view.log))


def find_named_log(source: DataSource, params: Params) -> JobView:
    """Return the job that the parameter `job` names; with heat maps of its logs if the question draws them."""
    view = find_job(source, params, params["job"])
    if view.log is None and source.reads_files and "detail" in params:
        # A server opens no logs for the asking user: the files at those paths may have changed.
        return with_heat_maps(view, source.snapshot, PAGE if params["detail"] else SCREEN)
    return view


def find_job(source: DataSource, params: Params, target: str) -> JobView:
    """Return the job that `target` names: a log if it is a file and files may be read, else a job id.

    Accounting of a log comes from the lake, if one was named.
    """
    place, files = source.place, source.reads_files
    paths: PathPolicy = params.get("paths", "keep")
    path = Path(target)
    if files and path.is_file():
        view = view_of_log(path, paths, PAGE if params.get("detail") else SCREEN)
        if place.was_named:
            view = with_accounting(view, place.snapshot)
    elif files and path.is_dir():
        raise UsageError(f"{target} is a directory.", hint="Name one log, or ingest them all and name a job id.")
    elif JOB_ID.fullmatch(target):
        view = view_in(source, params, target, paths)
    elif files:
        raise UsageError(f"There is no file {target}, and it is not a job id.")
    else:
        raise UsageError(f"{target!r} is not a job id.", hint="Expected a number, such as 4711 or 22_1.")
    return replace(view, processes_per_node=params.get("processes_per_node"))


def view_of_log(path: Path, paths: PathPolicy, resolution: Resolution) -> JobView:
    """Return the log at `path` as a job of its own. Nothing is written."""
    try:
        log = read_log(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    applications, files = rows_of_logs([log], paths)
    # The name of a log usually contains the user's and the program's: it is hidden where paths are.
    name = printable(path.name) if paths == "keep" else log.digest[:12]
    facts = LogFacts(
        name=name,
        library_version=log.job.metadata.get("lib_ver", ""),
        run_seconds=log.job.run_seconds,
        modules=tuple(ModuleRecords(m.name, m.version, m.partial, m.records) for m in log.modules.values()),
        unknown_modules=log.unknown_modules,
        unrecorded_file_count=_unrecorded(log),
        name_count=len(log.names),
        name_bytes=sum(map(len, log.names.values())),
    )
    return JobView(
        name, applications, files, job_io(applications, files), log=facts, heat_maps=job_heat_maps([log], resolution)
    )


def _unrecorded(log: DarshanLog) -> int:
    """Count paths of the name map without a record in any module; 0 if some modules were not read."""
    if log.unknown_modules or log.skipped_modules:
        return 0
    recorded = set().union(*(module.records["id"].tolist() for module in log.modules.values()))
    return sum(1 for record_id, name in log.names.items() if record_id not in recorded and name.startswith("/"))


_MOST_LISTED = 8


def view_in(source: DataSource, params: Params, job_id: str, paths: PathPolicy) -> JobView:
    """Return the run by which the job is judged, of the user and period of the question.

    Raises UsageError if there are several jobs of that id, with a line for each.
    """
    snapshot, uid = source.snapshot, params.get("uid")
    raw_id = raw_id_of(snapshot, job_id)
    where = {"job_id": raw_id} | ({} if uid is None else {"uid": uid})
    applications = snapshot.frame("applications", where=where, period_ns=source.period_ns)
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id, **_of_cluster(params)})
    if params.get("cluster") is not None:
        state = match_jobs(applications, jobs).text("state")
        applications = applications.take(state.equals("matched"))
    if not applications.rows:
        raise DataUnavailable(
            f"The lake has no Darshan log of job {job_id} here.",
            hint="Ingest its logs (`ioweather ingest`), or name a log instead of an id.",
        )
    applications = applications.take(np.argsort(applications.array("start_ns"), kind="stable"))
    matches = match_jobs(applications, jobs)
    numbers = job_numbers(applications, matches)
    if numbers.max() > 0:
        clusters = matches.text("cluster").tolist()
        question = _question(job_id, applications, numbers, clusters if len(set(clusters)) > 1 else ())
        raise UsageError(question, hint="Select one with --cluster, --uid, --from or --to.")
    return main_run_of(_view(snapshot, f"job {job_id}", applications, jobs, paths))


def with_heat_maps(view: JobView, snapshot: Snapshot, resolution: Resolution) -> JobView:
    """Add the heat maps of the logs that are still in their place."""
    logs = known_logs(_places(snapshot, view.applications))
    return replace(view, heat_maps=job_heat_maps(logs, resolution), heat_map_logs=len(logs))


def view_of_run(snapshot: Snapshot, digest: str, day: str) -> JobView:
    """Return one run, by the digest of its log and the UTC day of its start."""
    applications = snapshot.frame("applications", where={"log_digest": digest}, days={day})
    if not applications.rows:
        raise DataUnavailable(f"The lake has no Darshan log with digest {digest} on {day}.")
    raw_id = int(applications.ints("job_id")[0])
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id})
    return _view(snapshot, f"job {raw_id}", applications, jobs, "keep")


def _view(snapshot: Snapshot, label: str, applications: Frame, jobs: Frame, paths: PathPolicy) -> JobView:
    digests = tuple(str(digest) for digest in applications.text("log_digest").tolist())
    days = {utc_day(int(start)) for start in applications.array("start_ns")}
    files = snapshot.frame("files", where={"log_digest": digests}, days=days)
    known = _places(snapshot, applications).values() if paths == "keep" else ()
    return JobView(
        label,
        _hidden(applications, "exe", paths),
        _hidden(files, "path", paths),
        job_io(applications, files),
        jobs=jobs,
        facility=snapshot.facility,
        log_paths=tuple(path for path in known if Path(path).exists()),
        **_sampled_targets(snapshot, min(days)),
    )


def _places(snapshot: Snapshot, applications: Frame) -> dict[str, str]:
    """Return the path of each log at its ingest, by digest."""
    digests = tuple(str(digest) for digest in applications.text("log_digest").tolist())
    ledger = snapshot.frame("ingests", ("digest", "path"), where={"digest": digests})
    return dict(zip(map(str, ledger.text("digest").tolist()), map(str, ledger.text("path").tolist()), strict=True))


def counted_by_servers(source: DataSource, params: Params) -> ServerIo | None:
    """Return the operations of the parameter `job` as the servers counted them; None without any.

    Raises UsageError if jobs of several users or clusters have that id.
    """
    snapshot, job_id, uid = source.snapshot, params["job"], params.get("uid")
    raw_id = raw_id_of(snapshot, job_id)
    where = {"job_id": raw_id, **({} if uid is None else {"uid": uid}), **_of_cluster(params)}
    rows = snapshot.frame("job_operations", where=where, period_ns=source.period_ns)
    owners = {"user ids": rows.array("uid").tolist(), "clusters": rows.text("cluster").tolist()}
    for what, values in owners.items():
        several = sorted({str(value) for value in values if value is not None})
        if len(several) > 1:
            raise UsageError(
                f"Job ID {job_id} is ambiguous: it exists for {len(several)} {what} ({', '.join(several)}).",
                hint="Select one with --cluster, --uid, --from or --to.",
            )
    found = server_io(rows)
    return None if found is None else _accounted(found, snapshot, raw_id)


def counted_beside_log(snapshot: Snapshot, view: JobView) -> ServerIo | None:
    """Return what servers counted of a job that has logs: rows of its user, or without a user, within a day of it."""
    job_id, uid = (set(view.applications.ints(name).tolist()) for name in ("job_id", "uid"))
    if len(job_id) != 1 or not snapshot.filled(["job_operations"]):
        return None
    start, end = int(view.applications.ints("start_ns").min()), int(view.applications.ints("end_ns").max())
    rows = snapshot.frame(
        "job_operations", where={"job_id": job_id.pop()}, period_ns=(max(start - DAY_NS, 0), end + DAY_NS)
    )
    theirs = [each is None or each in uid for each in rows.array("uid").tolist()]
    return server_io(rows.take(np.array(theirs, np.bool_)))


def _accounted(found: ServerIo, snapshot: Snapshot, raw_id: int) -> ServerIo:
    """Add users and projects from accounting: allocations of that id and user that overlap in time."""
    columns = ("step", "uid", "user", "account", "start_ns", "end_ns")
    jobs = [
        row
        for row in snapshot.frame("jobs", columns, where={"raw_job_id": raw_id}).records()
        if not row["step"]
        and row["start_ns"] is not None
        and row["start_ns"] <= found.end_ns
        and (row["end_ns"] is None or row["end_ns"] >= found.start_ns)
        and (not found.uids or row["uid"] is None or row["uid"] in found.uids)
    ]
    owners = [(row["account"], row["uid"]) for row in jobs] or [(None, uid) for uid in found.uids]
    exe = found.programs[0] if len(found.programs) == 1 else None
    projects = {snapshot.facility.project_of(account=account, uid=uid, exe=exe) for account, uid in owners}
    users = {row["user"] for row in jobs if row["user"]}
    return replace(found, users=tuple(sorted(users)), projects=tuple(sorted(projects)))


def _sampled_targets(snapshot: Snapshot, day: str) -> dict[str, Any]:
    """Return the number of storage targets sampled on a day, and the highest rate of one of them."""
    where = {"component_kind": "ost", "metric": ("read_bytes", "write_bytes")}
    columns = ("component", "start_ns", "interval_ns", "value")
    rows = snapshot.rows("series", where, None, {day}, columns)
    ((count, fastest),) = snapshot.bare.execute(
        "SELECT count(DISTINCT component), max(rate) FROM (SELECT component, sum(value) * 1e9 / interval_ns AS rate "
        f"FROM ({rows}) WHERE interval_ns > 0 GROUP BY component, start_ns, interval_ns)"
    ).fetchall()
    return {"target_count": int(count) or None, "target_bytes_per_s": float(fastest) if fastest else None}


def with_accounting(view: JobView, snapshot: Snapshot) -> JobView:
    """Add the lake's accounting and facility file to the view of a log."""
    raw_id = int(view.applications.array("job_id")[0])
    return replace(
        view, jobs=snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id}), facility=snapshot.facility
    )


def raw_id_of(snapshot: Snapshot, job_id: str) -> int:
    """Return the scheduler's raw id, the only one in Darshan logs; ids of array jobs are looked up in accounting."""
    if job_id.isdigit():
        return int(job_id)
    known = snapshot.frame("jobs", ("raw_job_id",), where={"job_id": job_id})
    ids = sorted({int(value) for value in known.array("raw_job_id").tolist() if value is not None})
    if not ids:
        raise DataUnavailable(
            f"The lake's accounting has no job {job_id} with a raw id.", hint="Use the raw id: `sacct -o JobIDRaw`."
        )
    if len(ids) > 1:
        raise UsageError(f"Job {job_id} has several raw ids: {', '.join(map(str, ids))}.", hint="Name one of them.")
    return ids[0]


def _of_cluster(params: Params) -> dict[str, str]:
    return {} if params.get("cluster") is None else {"cluster": params["cluster"]}


def _question(job_id: str, applications: Frame, numbers: Ints, clusters: Sequence[str | None]) -> str:
    """List the jobs of one id: start, user, program and number of logs, and cluster if they differ."""
    start = applications.ints("start_ns")
    uid, exe = applications.array("uid").tolist(), applications.text("exe").tolist()
    lines = []
    for number in range(int(numbers.max()) + 1):
        mine = np.flatnonzero(numbers == number)
        first = int(mine[0])
        program = printable(program_of(exe[first] or "")) or "unnamed"
        logs = f"{len(mine)} logs" if len(mine) > 1 else "1 log"
        on = f", cluster {printable(clusters[first] or 'not known')}" if clusters else ""
        lines.append(f"  {format_time_ns(int(start[mine].min()))}  uid {uid[first]}  {program}, {logs}{on}")
    more = [f"  ... and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    listed = "\n".join([*lines[:_MOST_LISTED], *more])
    return f"Job ID {job_id} is ambiguous. It matches {len(lines)} jobs in the lake:\n{listed}\n"


def _hidden(frame: Frame, column: str, paths: PathPolicy) -> Frame:
    """Apply the path policy to a column."""
    if paths == "keep":
        return frame
    text = frame.text(column)
    hide = shown_path if column == "path" else shown_command
    shown = {value: hide(value, paths) for value in text.categories}
    return frame.with_columns(
        **{column: encode_text([None if each is None else shown[each] for each in text.tolist()])}
    )


# More are not read for a picture: on a parallel file system it is the opening that takes the time.
MOST_LOGS: Final = 1024


def known_logs(places: Mapping[str, str]) -> list[DarshanLog]:
    """Read the logs that are still in their place. `places` maps digests to paths; changed files are left out."""
    if len(places) > MOST_LOGS:
        return []
    found = []
    for digest, place in places.items():
        if not Path(place).is_file():  # a pipe would be waited for
            continue
        try:
            log = read_log(Path(place), modules=HEAT_MODULES)
        except (OSError, SourceError):
            continue
        if log.digest == digest:
            found.append(log)
    return found
