"""Rows of `job_operations`, as the source and the live collector write them. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ioweather.sources.counter_samples import Target
from ioweather.sources.lustre.job_ids import identity_of
from ioweather.sources.lustre.job_stats import JobAmounts, size_bins


def job_rows(target: Target, amounts: JobAmounts, quality: int, cluster: str | None) -> Iterator[dict[str, object]]:
    """One per operation."""
    job_key, start_ns, end_ns, operations, _ = amounts
    who = identity_of(job_key)
    of_all = {
        "start_ns": start_ns,
        "interval_ns": end_ns - start_ns,
        "system": target.system,
        "component_kind": target.kind,
        "component": target.name,
        "job_key": job_key,
        "job_id": who.job_id,
        "cluster": cluster if who.job_id is not None else None,
        "uid": who.uid,
        "exe": who.exe,
        "host": who.host,
    }
    for name, (samples, moved, time_us, sizes) in sorted(operations.items()):
        yield {
            **of_all,
            "operation": name,
            "count": samples,
            "bytes": moved,
            "time_ns": None if time_us is None else time_us * 1000,
            "histogram": _histogram(sizes) if sizes else None,
            "quality": quality,
        }


@lru_cache(maxsize=1 << 12)  # a few requests of one size, mostly
def _histogram(sizes: str) -> str | None:
    """JSON, which numbers alone need no encoder for."""
    bins = size_bins(sizes)
    return "{" + ",".join(f'"{size}":{count}' for size, count in bins.items()) + "}" if bins else None
