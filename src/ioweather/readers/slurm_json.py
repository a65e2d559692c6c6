"""`sacct --json`: the same jobs from a document whose shape changed between versions.

Numbers are plain in 21.08-22.05 and {"set": true, "infinite": false, "number": 3} from 23.02 on; a state is a text or a
list of texts; `job_id` is the raw id. Keys come in any order: `jobs` may stand before the `meta` that names Slurm.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ioweather.core.errors import CorruptInput
from ioweather.core.units import NS
from ioweather.readers.job_records import JobRecord

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NOTHING = ("", "None assigned", "None", "(null)", "Unknown")
MOST_HOSTS = 200_000


# Slurm's compressed host lists: 'n[1-3,07]-ib[0-1],login' is seven names.
def expand(text: str) -> list[str]:
    """Names in the order of the list; an odd list is kept as one name rather than guessed at."""
    if text.strip() in _NOTHING:
        return []
    names: list[str] = []
    for part in _split_outside_brackets(text.strip()):
        names += _expand_one(part)
        if len(names) > MOST_HOSTS:
            return [text]
    return names


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part for part in [*parts, current] if part]


def _expand_one(part: str) -> list[str]:
    pieces = _BRACKETS.split(part)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        return [part]
    choices: list[list[str]] = []
    for index, piece in enumerate(pieces):
        values = _numbers(piece) if index % 2 else [piece]
        if values is None:
            return [part]
        choices.append(values)
    if math.prod(map(len, choices)) > MOST_HOSTS:
        return [part]
    return ["".join(combination) for combination in itertools.product(*choices)]


def _numbers(text: str) -> list[str] | None:
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            return None
        first, last = match[1], match[2] or match[1]
        if len(found) + int(last) - int(first) > MOST_HOSTS:
            return None
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


_MOST = 1 << 63  # what the tables hold
_JOBS = re.compile(r'"jobs"\s{0,99}:\s{0,99}\[')
# What an accounted job has in every version; a waiting or running one of `squeue --json` has none of them.
_OF_A_JOB = ('"association"', '"allocation_nodes"', '"derived_exit_code"', '"tres"', '"het"')
_NAMED = ('"Slurm"', '"slurm"')


def looks_like_accounting(start: str) -> bool:
    """Of the first part of a file: an object that names Slurm, or has a list of jobs as accounting has them."""
    if not start.lstrip().startswith("{"):
        return False
    by_shape = bool(_JOBS.search(start)) and sum(key in start for key in _OF_A_JOB) >= 2
    return by_shape or any(name in start for name in _NAMED)


def records(document: Any, where: str, cluster: str) -> Iterator[JobRecord]:
    jobs = document.get("jobs") if isinstance(document, Mapping) else None
    if not isinstance(jobs, list):
        raise CorruptInput(f"{where} has no list of jobs: expected what `sacct --json` prints.")
    if jobs and isinstance(jobs[0], Mapping) and "job_state" in jobs[0]:
        raise CorruptInput(
            f"{where} is what `squeue --json` or `scontrol --json` prints: jobs of now, not accounting.",
            hint="Use: sacct --allusers --json",
        )
    cluster = _cluster_of(document) or cluster
    for position, job in enumerate(jobs):
        try:
            yield from _job(job, cluster)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise CorruptInput(f"{where}: job {position} lacks or garbles {str(error)[:200]}.") from None


def _cluster_of(document: Mapping[str, Any]) -> str | None:
    """The cluster that newer versions name once for all jobs."""
    meta = document.get("meta")
    slurm = (meta.get("slurm") or meta.get("Slurm")) if isinstance(meta, Mapping) else None
    name = slurm.get("cluster") if isinstance(slurm, Mapping) else None
    return name if isinstance(name, str) and name else None


def _job(job: Mapping[str, Any], cluster: str) -> Iterator[JobRecord]:
    raw = _whole(job["job_id"])
    array, task = _array(job["array"])
    het, offset = _number(job["het"]["job_id"]) or None, _number(job["het"].get("job_offset"))
    shown = f"{array}_{task}" if array else f"{het}+{offset}" if het else str(raw)
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


def _array(array: Mapping[str, Any]) -> tuple[int | None, str]:
    """The array's id and the task, or those that still wait: '[3-8]'. Newer versions give every job an array's id."""
    task, waiting = _number(array.get("task_id")), _text(array.get("task"))
    if task is None and waiting is None:
        return None, ""
    return _number(array["job_id"]) or None, str(task) if task is not None else f"[{waiting}]"


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
