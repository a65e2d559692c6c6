"""Do a year of benchmark jobs on a real system follow the system's activity? Associations as in mad17 table III.

    python benchmarks/edison.py ../shared/data/tokio-abc/edison-summaries_2017-02-14-2018-02-15.csv.gz

The file has one row per job: what Darshan says of it, and what the servers of its file system did meanwhile (SC'18, "A
Year in the Life of a Parallel File System"). D is the job's bytes over the rate of its slowest process, Psi what the
servers moved during the job in the job's direction, nu = Psi less the job's own bytes. Jobs are grouped by program,
file system, processes and bytes (`exact`). Left out: servers' samples missing, and jobs that moved over 1.2 times what
the servers did. The peer is the published way, one coefficient over all jobs pooled.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ioweather.stats.dependence import Association, associate, pearson, spearman

MIB = 1 << 20
LEAST_JOBS = 30
SHOWN = 6
_BAD_COVERAGE = 1.2


@dataclass(frozen=True)
class Jobs:
    """Arrays, one entry per job; `group` is its number, `names` what the group is called."""

    group: np.ndarray
    names: tuple[str, ...]
    start: np.ndarray
    io_seconds: np.ndarray
    run_seconds: np.ndarray
    own_bytes: np.ndarray
    psi_bytes: np.ndarray
    left_out: dict[str, int]

    @property
    def others_rate(self) -> np.ndarray:
        return (self.psi_bytes - self.own_bytes) / self.run_seconds


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows have one field more than the header: an index without a name comes first."""
    with gzip.open(path, "rt", newline="") as file:
        lines = csv.reader(file)
        header = next(lines)
        return [dict(zip(header, line[len(line) - len(header) :], strict=True)) for line in lines]


def number(row: dict[str, str], name: str) -> float:
    return float(row[name]) if row[name] else float("nan")


def program(row: dict[str, str]) -> str:
    return row["darshan_app"].rsplit("/", 1)[-1]


def jobs_of(rows: list[dict[str, str]]) -> Jobs:
    kept, left_out = (
        [],
        {"no Darshan figures": 0, "samples of the servers missing": 0, "moved more than the servers": 0},
    )
    for row in rows:
        read, written = (number(row, f"darshan_tot_bytes_{way}_posix") for way in ("read", "written"))
        way = "read" if read >= written else "written"
        own, rate = max(read, written), number(row, "darshan_agg_perf_by_slowest_posix")
        psi, wall = number(row, f"fs_tot_bytes_{way}"), number(row, "darshan_walltime")
        if not (own > 0 and rate > 0 and wall > 0):
            left_out["no Darshan figures"] += 1
        elif not (psi > 0 and number(row, "fs_frac_missing") <= 0.01):
            left_out["samples of the servers missing"] += 1
        elif own > _BAD_COVERAGE * psi:
            left_out["moved more than the servers"] += 1
        else:
            key = (f"{program(row)} {way} {row['_file_system']}", int(number(row, "darshan_nprocs")), int(own))
            kept.append((key, number(row, "_datetime_start"), (read + written) / MIB / rate, wall, own, psi))
    kept.sort(key=lambda item: item[1])
    keys = sorted({item[0] for item in kept}, key=lambda key: -sum(item[0] == key for item in kept))
    place = {key: i for i, key in enumerate(keys)}
    start, seconds, wall, own, psi = (np.array([item[i] for item in kept]) for i in range(1, 6))
    names = tuple(f"{name}, {processes:,} processes" for name, processes, _ in keys)
    return Jobs(np.array([place[item[0]] for item in kept]), names, start, seconds, wall, own, psi, left_out)


def associations(jobs: Jobs, group: int) -> tuple[int, dict[str, Association], dict[str, Association]]:
    """(jobs, D against Psi, D against others' rate), with intervals and permutation p."""
    rows = np.flatnonzero(jobs.group == group)
    by_volume = associate(jobs.psi_bytes[rows], jobs.io_seconds[rows])
    return len(rows), by_volume, associate(jobs.others_rate[rows], jobs.io_seconds[rows])


def pooled(rows: list[dict[str, str]]) -> tuple[int, float, float]:
    """As published: all jobs together, rate over the best of its program, direction and file system against the job's
    share of what the servers moved. (jobs, Pearson, Spearman)."""
    found = []
    for row in rows:
        own, servers = (
            [number(row, name.format(way)) for way in ("read", "written")]
            for name in ("darshan_tot_bytes_{}_posix", "fs_tot_bytes_{}")
        )
        rate, share = number(row, "darshan_agg_perf_by_slowest_posix"), sum(own) / (sum(servers) or float("nan"))
        if rate > 0 and 0 < share <= _BAD_COVERAGE:
            found.append(((program(row), row["_file_system"], own[0] >= own[1]), rate, share))
    best: dict[tuple[str, str, bool], float] = {}
    for key, rate, _ in found:
        best[key] = max(best.get(key, 0.0), rate)
    share = np.array([each[2] for each in found])
    fraction = np.array([rate / best[key] for key, rate, _ in found])
    return len(found), pearson(share, fraction), spearman(share, fraction)


def large_groups(jobs: Jobs) -> list[int]:
    sizes = np.bincount(jobs.group)
    return [int(g) for g in np.flatnonzero(sizes >= LEAST_JOBS)]


def report(jobs: Jobs) -> None:
    large = large_groups(jobs)
    print(f"{len(jobs.group):,} jobs in {len(jobs.names)} groups, {len(large)} of {LEAST_JOBS} jobs or more; left out: "
          + ", ".join(f"{n} {why}" for why, n in jobs.left_out.items()))  # fmt: skip
    print(
        "\n| group | jobs | of D with | Pearson | Spearman | distance corr. | mutual inf. |\n"
        "|---|---|---|---|---|---|---|"
    )
    for group in large[:SHOWN]:
        n, volume, rate = associations(jobs, group)
        for label, found in (("Psi", volume), ("others' rate", rate)):
            cells = " | ".join(f"{a.value:.2f} ({a.low:.2f} to {a.high:.2f})" for a in found.values())
            print(f"| {jobs.names[group]} | {n} | {label} | {cells} |")
    every = {
        label: np.array([spearman(x[jobs.group == g], jobs.io_seconds[jobs.group == g]) for g in large])
        for label, x in (("Psi", jobs.psi_bytes), ("others' rate", jobs.others_rate))
    }
    for label, values in every.items():
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        strong, mild = np.mean(values >= 0.4), np.mean(values >= 0.15)
        print(
            f"\nSpearman of D with {label} over all large groups: median {middle:.2f}, quartiles {low:.2f} and "
            f"{high:.2f}; {strong:.0%} strong, {mild:.0%} at least mild"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    rows = rows_of(parser.parse_args().file)
    report(jobs_of(rows))
    n, linear, ranks = pooled(rows)
    print(
        f"\npeer, {n:,} jobs pooled: fraction of peak against the job's share of the servers' bytes, Pearson "
        f"{linear:.2f}, Spearman {ranks:.2f}"
    )


if __name__ == "__main__":
    main()
