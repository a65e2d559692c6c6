"""`sacct --json`: the same jobs from a document whose shape changed between versions.

Numbers are plain in 21.08-22.05 and {"set": true, "infinite": false, "number": 3} from 23.02 on; a state is a text or a
list of texts; `job_id` is the raw id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ioweather.core.errors import CorruptInput
from ioweather.core.units import NS
from ioweather.sources.slurm.nodelist import expand
from ioweather.sources.slurm.rows import JobRecord

_MOST = 1 << 63  # what the tables hold


def records(document: Any, where: str, cluster: str) -> Iterator[JobRecord]:
    jobs = document.get("jobs") if isinstance(document, Mapping) else None
    if not isinstance(jobs, list):
        raise CorruptInput(f"{where} has no list of jobs: expected what `sacct --json` prints.")
    for position, job in enumerate(jobs):
        try:
            yield from _job(job, cluster)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CorruptInput(f"{where}: job {position} lacks or garbles {str(error)[:200]}.") from None


def _job(job: Mapping[str, Any], cluster: str) -> Iterator[JobRecord]:
    raw = _whole(job["job_id"])
    array, task = _number(job["array"]["job_id"]) or None, _number(job["array"].get("task_id"))
    het, offset = _number(job["het"]["job_id"]) or None, _number(job["het"].get("job_offset"))
    shown = f"{array}_{task}" if array and task is not None else f"{het}+{offset}" if het else str(raw)
    times = job["time"]
    start = _moment(times["start"])
    submit = _moment(times["submission"])
    if submit is None and start is None:
        raise ValueError("time.submission")
    common: dict[str, Any] = {
        "cluster": _text(job.get("cluster")) or cluster,
        "job_id": shown,
        "raw_job_id": raw,
        "restart": _number(job.get("restart_cnt")),
        "array_job_id": array,
        "het_offset": offset if het else None,
        "user": _text(job.get("user")) or _text(job.get("association", {}).get("user")),
        "account": _text(job.get("account")),
    }
    nodes = expand(job.get("nodes") or "")
    yield JobRecord(
        **common,
        step="",
        state=_state(job["state"]["current"]),
        submit_ns=submit or start or 0,
        uid=_number(job.get("uid")),
        name=_text(job.get("name")),
        start_ns=start,
        end_ns=_moment(times["end"]),
        node_count=_number(job.get("allocation_nodes")),
        cpu_count=_tres(job.get("tres", {}).get("allocated", []), "cpu"),
        nodes=",".join(nodes) or None,
    )
    for step in job.get("steps", []):
        yield _step(step, common)


def _step(step: Mapping[str, Any], common: Mapping[str, Any]) -> JobRecord:
    start = _moment(step["time"]["start"])
    name = step["step"]["id"]
    # From 23.02 on the id is text with the job before a dot: '36.batch'.
    label = str(name).rsplit(".", 1)[-1]
    nodes = step["nodes"].get("list") or expand(step["nodes"].get("range") or "")
    return JobRecord(
        **common,
        step=label,
        state=_state(step["state"]),
        submit_ns=start or 0,
        name=_text(step["step"].get("name")),
        start_ns=start,
        end_ns=_moment(step["time"]["end"]),
        node_count=_number(step["nodes"].get("count")),
        cpu_count=_tres(step.get("tres", {}).get("allocated", []), "cpu"),
        nodes=",".join(nodes) or None,
    )


def _number(value: Any) -> int | None:
    if isinstance(value, Mapping):
        return _whole(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else _whole(value)


def _whole(value: Any) -> int:
    number = int(value)
    if not -_MOST < number < _MOST:
        raise ValueError(f"a number: {str(value)[:40]}")
    return number


def _text(value: Any) -> str | None:
    """None for '' too: Slurm writes either for what is not known."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a text: {str(value)[:40]}")
    return value or None


def _moment(value: Any) -> int | None:
    """Seconds since the epoch; 0 is never."""
    seconds = _number(value)
    if seconds is not None and not 0 <= seconds < _MOST // NS:
        raise ValueError(f"a time: {seconds}")
    return seconds * NS if seconds else None


def _state(value: Any) -> str:
    state = _text(value[0] if isinstance(value, list) and value else value)
    if state is None:
        raise ValueError("state")
    return state


def _tres(listed: Any, kind: str) -> int | None:
    return next((_number(item["count"]) for item in listed or [] if item["type"] == kind), None)
