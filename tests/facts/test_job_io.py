"""`job_io` against a slow, direct implementation of METHODS section 1: one log at a time, one rule at a time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.frames import Frame
from ioweather.core.tables import (
    APPLICATIONS,
    FILES,
    INTERFACES,
    JOB_IO,
    READ_BINS,
    STRATEGIES,
    WRITE_BINS,
    concat,
)
from ioweather.facts.job_metrics import job_io

START = 1_300_000_000_000_000_000
NS = 1_000_000_000


def application(digest: str = "a", **changes: Any) -> dict[str, Any]:
    row = {
        "log_digest": digest, "job_id": 1, "uid": 7, "exe": "app", "nprocs": 4, "start_ns": START,
        "end_ns": START + 100 * NS, "log_version": "3.41", "partial_modules": "", "mounts": None, "modules": "POSIX",
        "hosts": None,
    }  # fmt: skip
    return row | changes


def record(digest: str = "a", **changes: Any) -> dict[str, Any]:
    """A file record; `open`, `reads` (first, last) and `writes` are seconds since the start of the run."""
    row: dict[str, Any] = {spec.name: None for spec in FILES.columns}
    row |= {"log_digest": digest, "start_ns": START, "record_id": 1, "rank": 0, "module": "POSIX",
            "standard_stream": False, "open_count": 1, "read_count": 0, "write_count": 0, "read_bytes": 0,
            "write_bytes": 0, "meta_seconds": 0.0, "read_seconds": 0.0, "write_seconds": 0.0}  # fmt: skip
    for name, seconds in (("open", changes.pop("open", None)), ("close", changes.pop("close", None))):
        if seconds is not None:
            row["first_open_ns" if name == "open" else "last_close_ns"] = START + round(seconds * NS)
    for verb in ("read", "write"):
        span = changes.pop(f"{verb}s", None)
        if span is not None:
            row[f"first_{verb}_ns"], row[f"last_{verb}_ns"] = (START + round(s * NS) for s in span)
    return row | changes


def frames(applications: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> tuple[Frame, Frame]:
    def frame(table: Any, rows: Sequence[dict[str, Any]]) -> Frame:
        return table.frame({spec.name: [row.get(spec.name) for row in rows] for spec in table.columns}, rows=len(rows))

    return frame(APPLICATIONS, applications), frame(FILES, records)


def one(records: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return job_io(*frames([application(**changes)], records)).records()[0]


# ---------------------------------------------------------------- the reference


def counted_records(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of the layer that the application called, per file."""
    result = []
    for each in records:
        if each["standard_stream"]:
            continue
        same = [r for r in records if r["record_id"] == each["record_id"] and not r["standard_stream"]]
        mpiio = [r for r in same if r["module"] == "MPI-IO"]
        posix = [r for r in same if r["module"] == "POSIX"]
        by_mpiio = bool(mpiio) and not (moved(mpiio) == 0 and moved(posix) > 0)
        if each["module"] == "STDIO" or (each["module"] == "MPI-IO") == by_mpiio:
            result.append(each)
    return result


def moved(records: list[dict[str, Any]]) -> int:
    return sum(r["read_bytes"] + r["write_bytes"] for r in records)


def d_parts(records: list[dict[str, Any]]) -> dict[str, float | None]:
    own = [r for r in records if r["rank"] >= 0]
    times: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for r in own:
        t_read, t_write, t_meta = r["read_seconds"], r["write_seconds"], r["meta_seconds"]
        operations = r["read_count"] + r["write_count"]
        times[r["rank"]][0] += t_meta
        times[r["rank"]][1] += t_read + t_write
        times[r["rank"]][2] += t_read + (t_meta * r["read_count"] / operations if operations else 0)
        times[r["rank"]][3] += t_write + (t_meta * r["write_count"] / operations if operations else 0)
    d_u_m = d_u_rw = None
    if times:
        slowest = max(times, key=lambda rank: (times[rank][0] + times[rank][1], -rank))
        d_u_m, d_u_rw = times[slowest][:2]
    d_read = max((t[2] for t in times.values()), default=0.0)
    d_write = max((t[3] for t in times.values()), default=0.0)

    shared = [r for r in records if r["rank"] < 0 and r["read_count"] + r["write_count"] + moved([r]) > 0]
    spans = []
    for r in shared:
        starts = [r["first_open_ns"]] if r["first_open_ns"] else [r["first_read_ns"], r["first_write_ns"]]
        begin = min((t for t in starts if t), default=None)
        end = max((t for t in (r["last_read_ns"], r["last_write_ns"]) if t), default=None)
        spans.append((begin, end))
    whole = [(b, e) for b, e in spans if b and e]
    begins, ends = [b for b, _ in spans if b], [e for _, e in spans if e]
    d_span = max(0, max(ends) - min(begins)) / NS if begins and ends else None
    d_per_file = sum(max(0, e - b) / NS for b, e in whole) if shared and len(whole) == len(spans) else None
    recorded = all(r["slowest_rank_seconds"] for r in shared)
    d_slowest = sum(r["slowest_rank_seconds"] for r in shared) if shared and recorded else None
    for r, (begin, _) in zip(shared, spans, strict=True):
        t_read, t_write = r["read_seconds"], r["write_seconds"]
        if d_slowest is not None:
            t_meta, operations = r["meta_seconds"], r["read_count"] + r["write_count"]
            spent = t_meta + t_read + t_write
            if spent:
                meta_read = t_meta * r["read_count"] / operations if operations else 0
                meta_write = t_meta * r["write_count"] / operations if operations else 0
                d_read += r["slowest_rank_seconds"] * (t_read + meta_read) / spent
                d_write += r["slowest_rank_seconds"] * (t_write + meta_write) / spent
            continue
        both = r["first_read_ns"] and r["first_write_ns"]
        for verb in ("read", "write"):
            first, last = (r[f"first_{verb}_ns"] if both else begin), r[f"last_{verb}_ns"]
            if first and last:
                d_read += max(0, last - first) / NS if verb == "read" else 0
                d_write += max(0, last - first) / NS if verb == "write" else 0
    d_s = d_slowest if d_slowest is not None else d_per_file
    parts = [p for p in (d_u_m, d_u_rw, d_s) if p is not None]
    return {
        "d_u_m_seconds": d_u_m, "d_u_rw_seconds": d_u_rw, "d_s_seconds": d_s, "d_s_span_seconds": d_span,
        "d_s_per_file_seconds": d_per_file, "d_s_slowest_seconds": d_slowest,
        "d_s_definition": None if d_s is None else "slowest" if d_slowest is not None else "per_file",
        "io_seconds": sum(parts) if parts else None,
        "d_read_seconds": d_read or None, "d_write_seconds": d_write or None,
    }  # fmt: skip


def total(records: list[dict[str, Any]], *names: str) -> int:
    return sum(r[name] or 0 for r in records for name in names)


def by_file(records: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for r in records:
        groups[r["record_id"]].append(r)
    return groups


def interfaces_of(r: dict[str, Any]) -> tuple[str, set[str]]:
    """The interface that gets the bytes, and all that were used."""
    if r["library"]:
        return r["library"], {r["library"]}
    streams = r["stream_open_count"] or 0
    if r["module"] != "POSIX" or not streams:
        return r["module"], {r["module"]}
    return ("STDIO", {"STDIO"}) if r["open_count"] == streams else ("POSIX", {"POSIX", "STDIO"})


def file_part(app: dict[str, Any], every: list[dict[str, Any]], counted: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = defaultdict(int)
    longest: dict[str, list[float]] = {"read": [], "write": []}
    known = new = proxy = written_files = 0
    for record_id, all_rows in by_file(every).items():
        rows = [r for r in counted if r["record_id"] == record_id]
        read = total(rows, "read_count", "read_bytes") > 0
        written = total(rows, "write_count", "write_bytes") > 0
        ranks = {r["rank"] for r in rows}
        shared = app["nprocs"] > 1 and (-1 in ranks or len(ranks) >= app["nprocs"])
        strategy = "shared" if shared else "partially_shared" if len(ranks - {-1}) > 1 else "unique"
        for verb in ("read", "write"):
            row[f"{strategy}_{verb}_bytes"] += total(rows, f"{verb}_bytes")
            firsts = [r[f"first_{verb}_ns"] for r in rows if r[f"first_{verb}_ns"]]
            lasts = [r[f"last_{verb}_ns"] for r in rows if r[f"last_{verb}_ns"]]
            if firsts and lasts:
                longest[verb].append(max(0, max(lasts) - min(firsts)) / NS)
        if not (read or written or total(all_rows, "open_count")):
            continue
        row["file_count"] += 1
        row[f"{strategy}_file_count"] += 1
        row["read_only_file_count"] += read and not written
        row["write_only_file_count"] += written and not read
        row["read_write_file_count"] += read and written
        if not written:
            continue
        written_files += 1
        sizes = [r["size_at_open_bytes"] for r in all_rows if r["size_at_open_bytes"] is not None]
        known += bool(sizes)
        new += bool(sizes) and min(sizes) == 0
        first_read = min((r["first_read_ns"] for r in all_rows if r["first_read_ns"]), default=math.inf)
        first_write = min((r["first_write_ns"] for r in all_rows if r["first_write_ns"]), default=math.inf)
        below = [r for r in all_rows if r["module"] != "MPI-IO"]
        extent = max((r["write_extent_bytes"] for r in below if r["write_extent_bytes"] is not None), default=0)
        proxy += first_write <= first_read and total(below, "write_bytes") >= extent
    row["create_count"] = new if known else proxy
    row["create_rule"] = None if not written_files else "size_at_open" if known else "written_whole"
    row["size_known_file_count"] = known or None
    row["new_or_empty_file_count"] = new if known else None
    row["d_f_r_seconds"] = max(longest["read"], default=None)
    row["d_f_w_seconds"] = max(longest["write"], default=None)
    return row


def usage_part(app: dict[str, Any], counted: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {f"{i.lower().replace('-', '')}_{v}_bytes": 0 for i in INTERFACES for v in ("read", "write")}
    used = {name for mark, name in (("H5", "HDF5"), ("PNETCDF", "PnetCDF")) if mark in app["modules"]}
    ranks: set[int] = set()
    by_all = False
    rank0 = 0
    for r in counted:
        interface, names = interfaces_of(r)
        name = interface.lower().replace("-", "")
        row[f"{name}_read_bytes"] += r["read_bytes"]
        row[f"{name}_write_bytes"] += r["write_bytes"]
        if total([r], "open_count", "read_count", "write_count") + moved([r]):
            used |= names
        if moved([r]):
            rank = r["rank"]
            if rank < 0 and r["slowest_rank_bytes"] == moved([r]):
                rank = r["slowest_rank"]
            by_all |= rank < 0
            ranks |= {rank} - {-1}
            rank0 += moved([r]) if rank == 0 else 0
    row["interfaces"] = ",".join(i for i in INTERFACES if i in used)
    row["io_rank_count"] = app["nprocs"] if by_all else len(ranks)
    row["rank0_bytes"] = rank0
    mounts: dict[str, int] = defaultdict(int)
    for r in counted:
        if r["mount"] and moved([r]):
            mounts[r["mount"]] += moved([r])
    row["main_mount"] = min(mounts, key=lambda m: (-mounts[m], m)) if mounts else None
    sizes: dict[int, int] = defaultdict(int)
    for r in counted:
        for i in range(1, 5):
            if r["module"] != "STDIO" and (r[f"access{i}_count"] or 0) > 0:
                sizes[r[f"access{i}_bytes"]] += r[f"access{i}_count"]
    common = max(sizes, key=lambda s: (sizes[s], s)) if sizes else None
    row["common_access_bytes"] = common
    row["common_access_count"] = None if common is None else sizes[common]
    return row


def reference(app: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, Any]:
    every = [r for r in records if not r["standard_stream"]]
    counted = counted_records(records)
    posix = [r for r in every if r["module"] == "POSIX"]
    mpiio = [r for r in every if r["module"] == "MPI-IO"]
    row: dict[str, Any] = {
        "log_digest": app["log_digest"], "start_ns": app["start_ns"], "end_ns": app["end_ns"], "nprocs": app["nprocs"],
        "run_seconds": (app["end_ns"] - app["start_ns"]) / NS,
        "partial": any(m in ("POSIX", "MPI-IO", "STDIO") for m in app["partial_modules"].split(",")),
        **d_parts(counted),
        "posix_io_seconds": d_parts(posix)["io_seconds"] if mpiio else None,
    }  # fmt: skip
    for name in ("read_bytes", "write_bytes", "read_count", "write_count", *READ_BINS, *WRITE_BINS):
        row[name] = total(counted, name)
    for name in ("meta_seconds", "read_seconds", "write_seconds"):
        row[name] = sum(r[name] for r in counted) if counted else None
    for verb in ("read", "write"):
        row[f"fs_{verb}_count"] = total(posix, f"{verb}_count")
        row[f"fs_{verb}_bytes"] = total(posix, f"{verb}_bytes")
    row["seek_count"], row["stat_count"] = total(every, "seek_count"), total(every, "stat_count")
    row["collective_count"] = total(mpiio, "collective_read_count", "collective_write_count")
    row["independent_count"] = total(mpiio, "read_count", "write_count") - row["collective_count"]
    row["sequential_count"] = total(posix, "sequential_read_count", "sequential_write_count")
    row["consecutive_count"] = total(posix, "consecutive_read_count", "consecutive_write_count")
    tested = [r for r in posix if r["file_not_aligned_count"] is not None]
    row["alignment_tested_count"] = total(tested, "read_count", "write_count")
    row["not_aligned_count"] = total(tested, "file_not_aligned_count")
    for kind, choose in (("first", min), ("last", max)):
        for what in ("open", "read", "write") if kind == "first" else ("close", "read", "write"):
            times = [r[f"{kind}_{what}_ns"] for r in counted if r[f"{kind}_{what}_ns"]]
            row[f"{kind}_{what}_ns"] = choose(times) if times else None
    files = file_part(app, every, counted)
    for name in JOB_IO.names:
        if name not in row and name in files:
            row[name] = files[name]
    row |= usage_part(app, counted)
    for name in ("file_count", "read_only_file_count", "write_only_file_count", "read_write_file_count"):
        row[name] = files[name]
    for strategy in STRATEGIES:
        for suffix in ("file_count", "read_bytes", "write_bytes"):
            row[f"{strategy}_{suffix}"] = files[f"{strategy}_{suffix}"]
    both = row["read_bytes"] + row["write_bytes"]
    row["bytes_per_s"] = ratio(both, row["io_seconds"])
    row["read_bytes_per_s"] = ratio(row["read_bytes"], row["d_read_seconds"])
    row["write_bytes_per_s"] = ratio(row["write_bytes"], row["d_write_seconds"])
    spent = sum(row[f"{part}_seconds"] or 0 for part in ("meta", "read", "write"))
    row["metadata_ratio"] = ratio(row["meta_seconds"], spent)
    row["files_per_process"] = row["file_count"] / row["nprocs"]
    row["creates_per_process"] = row["create_count"] / row["nprocs"]
    row["bytes_per_process"] = both / row["nprocs"]
    row["sequential_ratio"] = ratio(row["sequential_count"], row["fs_read_count"] + row["fs_write_count"])
    unaligned = ratio(row["not_aligned_count"], row["alignment_tested_count"])
    row["aligned_ratio"] = None if unaligned is None else 1 - unaligned
    return row


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


# ---------------------------------------------------------------- random jobs

small = st.integers(0, 3)
amounts = st.sampled_from([0, 0, 1, 100, 4096, 3 << 40])
seconds = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 2.0])
moments = st.one_of(st.none(), st.integers(1, 6).map(lambda s: START + s * NS))


@st.composite
def records_of(draw: st.DrawFn, digest: str, nprocs: int) -> dict[str, Any]:
    module = draw(st.sampled_from(["POSIX", "MPI-IO", "STDIO"]))
    row = record(
        digest, record_id=draw(st.integers(-2, 2)), rank=draw(st.integers(-1, nprocs - 1)), module=module,
        standard_stream=draw(st.integers(0, 9)) == 0, library=draw(st.sampled_from([None, None, "HDF5", "PnetCDF"])),
        mount=draw(st.sampled_from([None, "/scratch", "/home", "/"])),
        open_count=draw(small), read_count=draw(small), write_count=draw(small),
        read_bytes=draw(amounts), write_bytes=draw(amounts),
        meta_seconds=draw(seconds), read_seconds=draw(seconds), write_seconds=draw(seconds),
    )  # fmt: skip
    for name in ("open", "read", "write"):
        row[f"first_{name}_ns"] = draw(moments)
    for name in ("close", "read", "write"):
        row[f"last_{name}_ns"] = draw(moments)
    for name in ("seek_count", "stat_count", "sequential_read_count", "sequential_write_count",
                 "consecutive_read_count", "file_not_aligned_count", "stream_open_count", "size_at_open_bytes",
                 "write_extent_bytes", "access1_bytes", "access2_bytes", *READ_BINS[:2], *WRITE_BINS[-1:]):  # fmt: skip
        row[name] = draw(st.one_of(st.none(), small))
    for i in (1, 2):
        row[f"access{i}_count"] = None if row[f"access{i}_bytes"] is None else draw(small)
    row["stream_open_count"] = min(row["stream_open_count"] or 0, row["open_count"]) or None
    if module == "MPI-IO":
        row["collective_read_count"] = draw(st.integers(0, row["read_count"]))
    if row["rank"] < 0:
        row["slowest_rank_seconds"] = draw(st.one_of(st.none(), seconds))
        row["slowest_rank"] = draw(st.integers(0, nprocs - 1))
        row["slowest_rank_bytes"] = draw(st.one_of(st.none(), st.just(moved([row])), amounts))
    return row


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    applications, records = [], []
    for digest in draw(st.sampled_from(["a", "ab", "abc"])):
        nprocs = draw(st.integers(1, 3))
        applications.append(
            application(
                digest, nprocs=nprocs, modules=draw(st.sampled_from(["POSIX", "POSIX,H5F", "POSIX,PNETCDF_FILE"])),
                partial_modules=draw(st.sampled_from(["", "DXT_POSIX", "STDIO"])),
            )
        )  # fmt: skip
        found = draw(st.lists(records_of(digest, nprocs), max_size=8))
        records += {(r["record_id"], r["rank"], r["module"]): r for r in found}.values()
    return applications, draw(st.permutations(records))


def agree(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, (int, float)):
        return math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(mine == theirs)


@settings(max_examples=80, deadline=None)
@given(jobs())
def test_agrees_with_the_direct_implementation(case: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    applications, records = case
    rows = job_io(*frames(applications, records)).records()
    for app, row in zip(applications, rows, strict=True):
        expected = reference(app, [r for r in records if r["log_digest"] == app["log_digest"]])
        different = {n: (row[n], expected[n]) for n in JOB_IO.names if not agree(row[n], expected[n])}
        assert not different


@settings(max_examples=20, deadline=None)
@given(jobs())
def test_parts_are_the_whole(case: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    """Logs together give what logs one by one give."""
    applications, records = case
    whole = job_io(*frames(applications, records))
    parts = [
        job_io(*frames([app], [r for r in records if r["log_digest"] == app["log_digest"]])) for app in applications
    ]
    assert whole.records() == concat(parts).records()


# ---------------------------------------------------------------- planted jobs


def test_no_logs_and_no_files() -> None:
    assert job_io(*frames([], [])).rows == 0
    row = one([])
    assert (row["file_count"], row["read_bytes"], row["interfaces"]) == (0, 0, "")
    assert row["io_seconds"] is None
    assert row["bytes_per_s"] is None
    assert row["metadata_ratio"] is None


def test_bytes_are_exact_beyond_float_precision() -> None:
    big = (1 << 60) + 1
    assert one([record(read_bytes=big, read_count=1), record(rank=1, read_bytes=3)])["read_bytes"] == big + 3
