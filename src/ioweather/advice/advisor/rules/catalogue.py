"""Every rule, in the order in which those that cost the same are told: one line adds one."""

from __future__ import annotations

from typing import Final

from ioweather.advice.advisor.rule import Rule
from ioweather.advice.advisor.rules import layout, metadata, mpiio, ranks, requests

RULES: Final[tuple[Rule, ...]] = (
    requests.small_requests,
    requests.unaligned_file,
    requests.unaligned_memory,
    mpiio.no_mpiio,
    mpiio.no_collectives,
    mpiio.mpiio_splits,
    mpiio.unbuffered,
    mpiio.data_sieving,
    requests.stdio,
    metadata.seeks,
    mpiio.blocking,
    mpiio.aggregators,
    requests.random_access,
    requests.strided,
    requests.redundant_reads,
    requests.redundant_writes,
    requests.read_write_switches,
    requests.shared_file,
    ranks.rank_zero,
    ranks.subset,
    ranks.straggler_bytes,
    ranks.straggler_time,
    ranks.uneven_ranks,
    layout.striping,
    layout.unused_targets,
    layout.uneven_targets,
    metadata.metadata_storm,
    metadata.file_per_process,
    metadata.many_files,
    metadata.small_files,
    metadata.shared_metadata,
    metadata.reopening,
    requests.fsync_storm,
)
