"""A job is a scheduler allocation; an instance is one run of an application in it. This makes jobs of instances.

Amounts and times add up; instances of one job that ran at the same time thus count their times one after the other.
Files are taken to differ between instances, as their names are not compared.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Indices, Ints
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables.applications import INTERFACES, JOB_IO
from ioweather.core.units import HOUR_NS
from ioweather.facts.file_records import NEVER_FIRST, NEVER_LAST, maximum, minimum, sums
from ioweather.facts.ratios import ratio_columns

# Without accounting, runs of one user under one job id are one job while no longer pause lies between them: a pid that
# stands in for a job id comes back some day. [ours]
PAUSE_NS: Final = 24 * HOUR_NS

_LARGEST: Final = ("nprocs", "io_rank_count", "d_f_r_seconds", "d_f_w_seconds")


def job_numbers(applications: Frame, matches: Frame | None = None) -> Ints:
    """Number of the job that each log belongs to: 0, 1, ... in order of first start."""
    start = applications.ints("start_ns")
    end = applications.ints("end_ns")
    uid, job_id = (applications.ints(name) for name in ("uid", "job_id"))
    row = np.full(applications.rows, -1, np.int64) if matches is None else matches.ints("job_row", missing=-1)
    unmatched = row < 0
    # Logs of one matched allocation are together whatever they say themselves.
    uid, job_id = np.where(unmatched, uid, 0), np.where(unmatched, job_id, 0)
    order = np.lexsort((start, job_id, uid, row))
    keys = np.stack([row, uid, job_id])[:, order]
    new_key = np.ones(len(order), np.bool_)
    new_key[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    previous_end = _running_end(end[order], new_key)
    pause = np.zeros(len(order), np.bool_)
    pause[1:] = (start[order][1:] > previous_end[:-1] + PAUSE_NS) & unmatched[order][1:]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new_key | pause) - 1
    groups = int(group.max(initial=-1)) + 1
    first = minimum(start, group, groups, np.ones(len(group), np.bool_))
    place = np.empty(groups, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(groups)
    return place[group]


def merge_instances(job_io: Frame, applications: Frame, matches: Frame | None = None) -> Frame:
    """Jobs of `job_io` rows: its columns (`log_digest` is the first instance's), and `instance_count`, `job_id`, `uid`,
    `exe` (of the instance that moved most), and from `matches` `state`, `account`, `user`, `node_count`.

    All three frames have the same logs in the same order. `run_seconds` is the sum of the instances' times.
    """
    group = job_numbers(applications, matches)
    jobs = int(group.max(initial=-1)) + 1
    everywhere = np.ones(len(group), np.bool_)
    start = job_io.ints("start_ns")
    moved = job_io.ints("read_bytes") + job_io.ints("write_bytes")
    # One representative each: the first to start, and the one that moved most.
    first, busiest = _last_of(group, -start, jobs), _last_of(group, moved, jobs)
    columns: dict[str, Column] = {
        "log_digest": job_io.text("log_digest")[first],
        "start_ns": minimum(start, group, jobs, everywhere),
        "end_ns": maximum(job_io.ints("end_ns"), group, jobs, everywhere),
        "partial": np.bincount(group[job_io.bools("partial")], minlength=jobs) > 0,
        "d_s_definition": _agreed(job_io.text("d_s_definition"), group, jobs),
        "create_rule": _agreed(job_io.text("create_rule"), group, jobs),
        "interfaces": _united(job_io.text("interfaces"), group, jobs),
        "main_mount": job_io.text("main_mount")[busiest],
        **_most_common(job_io, group, jobs),
    }
    ratios = set(ratio_columns(job_io.take(slice(0, 0))))
    for spec in JOB_IO.columns:
        if spec.name not in columns and spec.name not in ratios:
            columns[spec.name] = _merged(spec.name, job_io.array(spec.name), group, jobs)
    columns |= ratio_columns(Frame(columns))
    columns["instance_count"] = np.bincount(group, minlength=jobs).astype(np.int64)
    for name in ("job_id", "uid"):
        columns[name] = applications.ints(name)[first]
    columns["exe"] = applications.text("exe")[busiest]
    for name in ("state", "account", "user", "node_count"):
        if matches is not None:
            columns[name] = matches[name][first]
    return Frame(columns)


def _merged(name: str, values: NDArray[Any], group: Ints, jobs: int) -> Column:
    known = ~np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if plain.dtype.kind == "f":
        known &= np.isfinite(plain)
    there = np.bincount(group[known], minlength=jobs) > 0
    if name.startswith("first_") and name.endswith("_ns"):
        merged = minimum(np.asarray(plain, np.int64), group, jobs, known)
        missing_value: float = NEVER_FIRST
    elif name in _LARGEST or name.endswith("_ns"):
        merged = maximum(np.asarray(plain), group, jobs, known)
        missing_value = NEVER_LAST
    else:
        merged = sums(np.asarray(plain), group, jobs, known)
        missing_value = 0
    if plain.dtype.kind == "f":
        return np.where(there, merged, np.nan)
    if there.all():
        return merged
    return np.ma.MaskedArray(np.where(merged == missing_value, 0, merged), mask=~there)


def _last_of(group: Ints, value: Ints, groups: int) -> Indices:
    """Per group the row of greatest value; of ties the first row."""
    order = np.lexsort((-np.arange(len(group)), value, group))
    return order[np.flatnonzero(np.diff(group[order], append=groups))]


def _agreed(text: Text, group: Ints, groups: int) -> Text:
    """The value that all instances with one have; 'mixed' where they differ."""
    codes = text.codes.astype(np.int64)
    known = codes >= 0
    low, high = minimum(codes, group, groups, known), maximum(codes, group, groups, known)
    merged = np.where(low == NEVER_FIRST, -1, np.where(low == high, low, len(text.categories)))
    return Text(merged.astype(np.int32), (*text.categories, "mixed"))


def _united(interfaces: Text, group: Ints, groups: int) -> Text:
    bits = [sum(1 << INTERFACES.index(name) for name in each.split(",") if name) for each in interfaces.categories]
    union = np.zeros(groups, np.int64)
    np.bitwise_or.at(union, group, np.array([*bits, 0], np.int64)[interfaces.codes])
    sets = tuple(
        ",".join(name for i, name in enumerate(INTERFACES) if number >> i & 1) for number in range(1 << len(INTERFACES))
    )
    return Text(union.astype(np.int32), sets)


def _most_common(job_io: Frame, group: Ints, groups: int) -> dict[str, Column]:
    best = _last_of(group, job_io.ints("common_access_count", missing=-1), groups)
    return {name: job_io.array(name)[best] for name in ("common_access_bytes", "common_access_count")}


def _running_end(end: Ints, new_key: Bools) -> Ints:
    """Running maximum that starts again at each new key: of ranks, lifted above all ranks of earlier keys."""
    rows = max(1, len(end))
    order = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[order] = np.arange(len(end))
    lifted = (np.cumsum(new_key) - 1) * rows + rank
    highest: Ints = np.maximum.accumulate(lifted) % rows
    return end[order][highest]
