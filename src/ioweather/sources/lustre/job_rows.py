"""Rows of `job_operations`, as the source and the live collector write them. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator

from ioweather.sources.counter_samples import Target
from ioweather.sources.lustre.job_ids import identity_of
from ioweather.sources.lustre.job_stats import JobAmounts, Operation, size_bins


def job_rows(target: Target, amounts: JobAmounts, quality: int, cluster: str | None) -> Iterator[dict[str, object]]:
    """One per operation."""
    who = identity_of(amounts.job_key)
    for name, operation in sorted(amounts.operations.items()):
        yield {
            "start_ns": amounts.start_ns,
            "interval_ns": amounts.end_ns - amounts.start_ns,
            "system": target.system,
            "component_kind": target.kind,
            "component": target.name,
            "job_key": amounts.job_key,
            "job_id": who.job_id,
            "cluster": cluster if who.job_id is not None else None,
            "uid": who.uid,
            "exe": who.exe,
            "host": who.host,
            "operation": name,
            "count": operation.samples,
            "bytes": operation.bytes,
            "time_ns": None if operation.time_us is None else operation.time_us * 1000,
            "histogram": _histogram(operation),
            "quality": quality,
        }


def _histogram(operation: Operation) -> str | None:
    """JSON, which numbers alone need no encoder for."""
    bins = size_bins(operation.sizes)
    return "{" + ",".join(f'"{size}":{count}' for size, count in bins.items()) + "}" if bins else None
