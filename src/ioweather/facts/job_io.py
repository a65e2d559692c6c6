"""`job_io`: the I/O metrics that a Darshan log alone yields (METHODS section 1), for many logs at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables.applications import FILE_MODULES, JOB_IO, READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.words import names_of
from ioweather.facts.file_records import NEVER_FIRST, NEVER_LAST, FileRecords, file_records, maximum, minimum
from ioweather.facts.files import (
    common_access_columns,
    file_columns,
    interface_columns,
    main_mount_column,
    rank_columns,
)
from ioweather.facts.ratios import ratio_columns
from ioweather.facts.times import file_spans, times

_NS = 1e-9
# What sums over all files do not tell (`form` totals), and what a trace of reads and writes does not.
_OF_SINGLE_FILES: Final = (
    "d_u_m_seconds", "d_u_rw_seconds", "d_s_seconds", "d_s_definition", "d_s_span_seconds", "d_s_per_file_seconds",
    "d_s_slowest_seconds", "posix_io_seconds", "d_f_r_seconds", "d_f_w_seconds", "file_count", "read_only_file_count",
    "write_only_file_count", "read_write_file_count", *(f"{name}_file_count" for name in STRATEGIES),
    *(f"{name}_{verb}_bytes" for name in STRATEGIES for verb in ("read", "write")), "create_count", "create_rule",
    "size_known_file_count", "new_or_empty_file_count", "io_rank_count", "rank0_bytes", "main_mount",
)  # fmt: skip
_NOT_TRACED: Final = names_of("""
    meta_seconds seek_count stat_count collective_count independent_count sequential_count consecutive_count
    alignment_tested_count not_aligned_count
""")
_SPANS = ("first_open_ns", "last_close_ns", "first_read_ns", "last_read_ns", "first_write_ns", "last_write_ns")


def job_io(applications: Frame, files: Frame) -> Frame:
    """One row per application, in their order. A log without file records has zero files and bytes, and no times.
    What text of a log does not tell is null."""
    records = file_records(applications, files)
    totals, trace = (applications.text("form").equals(form) for form in ("totals", "trace"))
    start_ns = applications.ints("start_ns")
    end_ns = applications.ints("end_ns")
    columns: dict[str, Column] = {
        "log_digest": applications.text("log_digest"),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "nprocs": records.nprocs,
        "run_seconds": (end_ns - start_ns) * _NS,
        "partial": _partial(applications.text("partial_modules")) | totals | trace,
        **_time_columns(records, totals),
        **_amount_columns(records),
        **_operation_columns(records),
        **file_columns(records),
        **interface_columns(records, applications.text("modules")),
        **rank_columns(records),
        **common_access_columns(records),
        "main_mount": main_mount_column(records),
        **_span_columns(records),
    }
    for names, unknown in ((_OF_SINGLE_FILES, totals), (_NOT_TRACED, trace)):
        if unknown.any():
            columns |= {name: _without(columns[name], unknown) for name in names}
    if totals.any():
        columns |= _printed_counts(columns, applications.text("file_counts"))
    return JOB_IO.frame(columns | ratio_columns(Frame(columns)), rows=records.logs)


def _without(column: Column, unknown: Bools) -> Column:
    """The column with nulls where it is not known."""
    if isinstance(column, Text):
        return Text(np.where(unknown, -1, column.codes).astype(np.int32), column.categories)
    if column.dtype.kind == "f":
        return np.where(unknown, np.nan, column)
    return np.ma.MaskedArray(column, mask=np.ma.getmaskarray(column) | unknown)


def _printed_counts(columns: Mapping[str, Column], printed: Text) -> dict[str, Column]:
    """Files of the layer that the program called, as darshan-parser --file counted them. It has one number for files of
    several ranks and of all."""
    filled = {name: np.ma.MaskedArray(columns[name]) for name in _OF_SINGLE_FILES if name.endswith("_file_count")}
    filled |= {"file_count": np.ma.MaskedArray(columns["file_count"])}
    for row, text in enumerate(printed.tolist()):
        by_module = json.loads(text) if text else {}
        layers = ["MPI-IO" if "MPI-IO" in by_module else "POSIX", "STDIO"]
        counts = [by_module[layer] for layer in layers if layer in by_module]
        for kind in ("total", "read_only", "write_only", "read_write", "unique") if counts else ():
            name = "file_count" if kind == "total" else f"{kind}_file_count"
            filled[name][row] = sum(count[kind] for count in counts)
    return dict(filled)


def _time_columns(records: FileRecords, totals: Bools) -> dict[str, Column]:
    # First to last over all files is no time of I/O: of sums, only the slowest process's seconds count.
    told = ~totals[records.log] | (records.seconds("slowest_rank_seconds") > 0)
    result = times(records, records.counted & told)
    with_mpiio = np.bincount(records.log[records.mpiio], minlength=records.logs) > 0
    below = times(records, records.posix & with_mpiio[records.log])
    there = np.isfinite(result.d_s)
    definition = np.where(there, np.where(result.by_slowest, 0, 1), -1)
    return {
        "d_u_m_seconds": result.d_u_m,
        "d_u_rw_seconds": result.d_u_rw,
        "d_s_seconds": result.d_s,
        "d_s_definition": Text(definition.astype(np.int32), ("slowest", "per_file")),
        "d_s_span_seconds": result.d_s_span,
        "d_s_per_file_seconds": result.d_s_per_file,
        "d_s_slowest_seconds": result.d_s_slowest,
        "io_seconds": result.total,
        "posix_io_seconds": below.total,
        "d_read_seconds": result.d_read,
        "d_write_seconds": result.d_write,
        "d_f_r_seconds": file_spans(records, "read"),
        "d_f_w_seconds": file_spans(records, "write"),
    }


def _amount_columns(records: FileRecords) -> dict[str, Column]:
    there = np.bincount(records.log[records.counted], minlength=records.logs) > 0
    columns: dict[str, Column] = {
        name: records.per_log(records.ints(name), records.counted)
        for name in ("read_bytes", "write_bytes", "read_count", "write_count", *READ_BINS, *WRITE_BINS)
    }
    for part in ("meta", "read", "write"):
        total = records.per_log(records.seconds(f"{part}_seconds"), records.counted)
        columns[f"{part}_seconds"] = np.where(there, total, np.nan)
    return columns


def _operation_columns(records: FileRecords) -> dict[str, Column]:
    """Operations as the file system saw them: sequence and alignment are counted by POSIX alone, below MPI-IO too."""
    posix, mpiio = records.posix, records.mpiio
    operations = records.ints("read_count") + records.ints("write_count")
    collective = records.ints("collective_read_count") + records.ints("collective_write_count")
    sequential = records.ints("sequential_read_count") + records.ints("sequential_write_count")
    consecutive = records.ints("consecutive_read_count") + records.ints("consecutive_write_count")
    return {
        "fs_read_count": records.per_log(records.ints("read_count"), posix),
        "fs_write_count": records.per_log(records.ints("write_count"), posix),
        "fs_read_bytes": records.per_log(records.ints("read_bytes"), posix),
        "fs_write_bytes": records.per_log(records.ints("write_bytes"), posix),
        "seek_count": records.per_log(records.ints("seek_count")),
        "stat_count": records.per_log(records.ints("stat_count")),
        "collective_count": records.per_log(collective, mpiio),
        "independent_count": records.per_log(operations - collective, mpiio),
        "sequential_count": records.per_log(sequential, posix),
        "consecutive_count": records.per_log(consecutive, posix),
        "alignment_tested_count": records.per_log(operations, posix & records.known("file_not_aligned_count")),
        "not_aligned_count": records.per_log(records.ints("file_not_aligned_count"), posix),
    }


def _span_columns(records: FileRecords) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in _SPANS:
        if name.startswith("first"):
            values = minimum(records.first(name), records.log, records.logs, records.counted)
        else:
            values = maximum(records.last(name), records.log, records.logs, records.counted)
        missing = (values == NEVER_FIRST) | (values == NEVER_LAST)
        columns[name] = np.ma.MaskedArray(np.where(missing, 0, values), mask=missing)
    return columns


def _partial(partial_modules: Text) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    flags = [bool(set(category.split(",")) & set(FILE_MODULES)) for category in partial_modules.categories]
    return np.array([*flags, False], np.bool_)[partial_modules.codes]
