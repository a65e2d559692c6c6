"""A job in the lake: all logs of one scheduler job, and its accounting. Imported only where a lake is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ioweather.core.arrays import Ints
from ioweather.core.clock import utc_day
from ioweather.core.contracts import PathPolicy
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.foreign_text import shown_command, shown_path
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS, format_time_ns
from ioweather.facts.accounting_match import match_jobs
from ioweather.facts.instances import job_numbers
from ioweather.facts.job_io import job_io
from ioweather.facts.runs import JOB_COLUMNS
from ioweather.facts.server_io import ServerIo, server_io
from ioweather.facts.signatures import program_of
from ioweather.job_io.heat_map import Resolution
from ioweather.job_io.view import JobView, main_run_of, printable
from ioweather.lake.snapshot import Snapshot

_MOST_LISTED = 8


@dataclass(frozen=True)
class Which:
    """Which of several jobs with one id is meant."""

    uid: int | None = None
    period_ns: tuple[int, int] = (0, 2**62)


def view_in(snapshot: Snapshot, job_id: str, which: Which, paths: PathPolicy) -> JobView:
    """The run that the job is judged by. Several jobs of that id are a question back to the person."""
    raw_id = raw_id_of(snapshot, job_id)
    where = {"job_id": raw_id} | ({} if which.uid is None else {"uid": which.uid})
    applications = snapshot.frame("applications", where=where, period_ns=which.period_ns)
    if not applications.rows:
        raise DataUnavailable(
            f"The lake has no Darshan log of job {job_id} here.",
            hint="Ingest its logs (`ioweather ingest`), or name a log instead of an id.",
        )
    applications = applications.take(np.argsort(applications.array("start_ns"), kind="stable"))
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id})
    numbers = job_numbers(applications, match_jobs(applications, jobs))
    if numbers.max() > 0:
        raise UsageError(_question(job_id, applications, numbers), hint="Say which with --uid, --from or --to.")
    return main_run_of(_view(snapshot, f"job {job_id}", applications, jobs, paths))


def with_heat_maps(view: JobView, snapshot: Snapshot, resolution: Resolution) -> JobView:
    """With the heat maps of the logs that still lie where they were read."""
    from ioweather.job_io.job_activity import job_heat_maps, known_logs  # reads logs, which few questions do

    logs = known_logs(_places(snapshot, view.applications))
    return replace(view, heat_maps=job_heat_maps(logs, resolution), heat_map_logs=len(logs))


def view_of_run(snapshot: Snapshot, digest: str, day: str) -> JobView:
    """One run alone, by the digest of its log and the UTC day of its start."""
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
        label, _hidden(applications, "exe", paths), _hidden(files, "path", paths),
        job_io(applications, files), jobs=jobs, facility=snapshot.facility,
        log_paths=tuple(path for path in known if Path(path).exists()), target_count=_targets(snapshot, min(days)),
    )  # fmt: skip


def _places(snapshot: Snapshot, applications: Frame) -> dict[str, str]:
    """Where logs lay when they were read, by digest."""
    digests = tuple(str(digest) for digest in applications.text("log_digest").tolist())
    ledger = snapshot.frame("ingests", ("digest", "path"), where={"digest": digests})
    return dict(zip(map(str, ledger.text("digest").tolist()), map(str, ledger.text("path").tolist()), strict=True))


def counted_by_servers(snapshot: Snapshot, job_id: str, which: Which) -> ServerIo | None:
    """What servers counted of the job. Several jobs of that id are a question back to the person."""
    raw_id = raw_id_of(snapshot, job_id)
    where = {"job_id": raw_id} | ({} if which.uid is None else {"uid": which.uid})
    rows = snapshot.frame("job_operations", where=where, period_ns=which.period_ns)
    for column in ("uid", "cluster"):
        values = rows.array(column).tolist() if column == "uid" else rows.text(column).tolist()
        several = sorted({str(value) for value in values if value is not None})
        if len(several) > 1:
            raise UsageError(
                f"Job id {job_id} stands for jobs of {len(several)} {_OWNERS[column]}: {', '.join(several)}.",
                hint="Say which with --uid, --from or --to.",
            )
    found = server_io(rows)
    return None if found is None else _accounted(found, snapshot, raw_id)


_OWNERS = {"uid": "user ids", "cluster": "clusters"}


def counted_beside_log(snapshot: Snapshot, view: JobView) -> ServerIo | None:
    """What servers counted of a job that has logs: of its user, or of nobody known, within a day of its time."""
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
    """With the names of accounting: of allocations of that id and user that ran meanwhile."""
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


def _targets(snapshot: Snapshot, day: str) -> int | None:
    rows = snapshot.rows("series", {"component_kind": "ost", "metric": "write_bytes"}, None, {day}, ("component",))
    ((found,),) = snapshot.bare.execute(f"SELECT count(DISTINCT component) FROM ({rows})").fetchall()
    return int(found) or None


def with_accounting(view: JobView, snapshot: Snapshot) -> JobView:
    """The view of a log, with what the lake's accounting and facility file say of its job."""
    raw_id = int(view.applications.array("job_id")[0])
    return replace(
        view, jobs=snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": raw_id}), facility=snapshot.facility
    )


def raw_id_of(snapshot: Snapshot, job_id: str) -> int:
    """Darshan knows the scheduler's raw id only; what people type for array jobs is found in the accounting."""
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


def _question(job_id: str, applications: Frame, numbers: Ints) -> str:
    """One line per job: when, whose, what, how many logs."""
    start = applications.ints("start_ns")
    uid, exe = applications.array("uid").tolist(), applications.text("exe").tolist()
    lines = []
    for number in range(int(numbers.max()) + 1):
        mine = np.flatnonzero(numbers == number)
        first = int(mine[0])
        program = printable(program_of(exe[first] or "")) or "unnamed"
        logs = f"{len(mine)} logs" if len(mine) > 1 else "1 log"
        lines.append(f"  {format_time_ns(int(start[mine].min()))}  uid {uid[first]}  {program}, {logs}")
    more = [f"  ... and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    listed = "\n".join([*lines[:_MOST_LISTED], *more])
    return f"Job id {job_id} stands for {len(lines)} jobs in the lake:\n{listed}\n"


def _hidden(frame: Frame, column: str, paths: PathPolicy) -> Frame:
    """The paths of a column as asked for."""
    if paths == "keep":
        return frame
    text = frame.text(column)
    hide = shown_path if column == "path" else shown_command
    return frame.with_columns(**{column: _recoded(text, [hide(value, paths) for value in text.categories])})


def _recoded(text: Text, values: Sequence[str | None]) -> Text:
    known = sorted({value for value in values if value is not None})
    place = {value: code for code, value in enumerate(known)}
    codes = np.array([-1 if value is None else place[value] for value in values] + [-1], np.int32)
    return Text(codes[text.codes], tuple(known))
