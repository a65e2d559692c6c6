"""Collective MPI-IO with fewer aggregators than nodes."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    below = _callers(profile)
    rows = profile.counted & profile.collective
    if profile.node_count is None or not below or not rows.any() or below >= profile.nodes:
        return None
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    saved = np.where(rows, data * (1.0 - below / profile.nodes), 0.0)
    least = profile.moved_bytes / profile.ceiling_bytes_per_s
    seconds = min(profile.saving(saved), max(0.0, (profile.io_seconds or 0.0) - least))
    evidence = f"{below:,} aggregators for {profile.nodes:,} nodes"
    lines = (f'MPI_Info_set(info, "cb_nodes", "{profile.nodes}");', 'MPI_Info_set(info, "cb_config_list", "*:1");')
    return Seen(evidence, seconds, lines)


def _callers(profile: Profile) -> int:
    """Known where a trace or records of single processes show who called POSIX below collective MPI-IO."""
    records = profile.records
    mine = np.isin(records.file, np.unique(records.file[profile.collective]))
    ranks = set(records.rank[mine & records.posix & profile.moved_rows].tolist())
    if ranks and min(ranks) >= 0:
        return len(ranks)
    trace = profile.log.records("DXT_POSIX") if profile.log else None
    if trace is None or not len(trace):
        return 0
    active = trace["rank"][(trace["reads"] + trace["writes"]) > 0]
    return len(np.unique(active[active >= 0]))


RULE = Rule(
    name="aggregators",
    headline="few aggregators",
    dimension="interface",
    part="ranks",
    trigger="collective MPI-IO with fewer aggregators than nodes, both known",
    model="the data by one aggregator per node, each at its rate, within the ceiling",
    sources=("ROMIO user's guide: cb_nodes, cb_config_list", "Drishti (Bez et al. 2022)"),
    before="MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file);",
    after=(
        'MPI_Info_set(info, "cb_nodes", "8");  /* the nodes of the run */\n'
        'MPI_Info_set(info, "cb_config_list", "*:1");\n'
        "MPI_File_open(comm, path, mode, info, &file);"
    ),
    look=_look,
)
