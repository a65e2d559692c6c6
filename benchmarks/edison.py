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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.units import zone_named
from ioweather.ingestion.mappings import read_select_text, read_selected
from ioweather.stats.dependence import pearson, spearman
from ioweather.studies.mad17.coefficients import Association, associate

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


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return a row per run, by the SELECTs that come with ioweather."""
    context, limits = ReadContext(zone=zone_named("UTC")), {"seconds": 120, "memory_bytes": 1 << 30, "rows": 1_000_000}

    def selected(table: str, select: str) -> list[dict[str, Any]]:
        frames = read_selected(path, table, read_select_text(Path(select)), context, **limits)
        return [row for _, frame in frames for row in frame.records()]

    samples = {
        (row["system"], row["start_ns"], row["metric"]): row
        for row in selected("series", "tokio_abc_servers")
        if row["component_kind"] == "ost"
    }

    def moved(system: str, start_ns: int, metric: str) -> tuple[float, bool]:
        """Bytes of the samples of one run, and whether some are missing. A long run has several of equal size."""
        first = one = samples.get((system, start_ns, metric))
        total = 0.0
        while one is not None and one["value"] == first["value"]:
            total, start_ns = total + one["value"], start_ns + one["interval_ns"]
            one = samples.get((system, start_ns, metric)) if one["quality"] & 8 else None
        return (total, bool(first["quality"] & 32)) if first else (float("nan"), True)

    programs = {row["log_digest"]: row["exe"].rsplit("/", 1)[-1] for row in selected("applications", "tokio_abc_runs")}
    found = []
    for row in selected("job_io", "tokio_abc_io"):
        system, nan = row["main_mount"].strip("/"), float("nan")
        servers = [moved(system, row["start_ns"], f"{way}_bytes") for way in ("read", "write")]
        found.append({
            "program": programs[row["log_digest"]], "system": system, "nprocs": row["nprocs"], "start": row["start_ns"],
            "own": (row["read_bytes"], row["write_bytes"]), "rate": row["bytes_per_s"] or nan,
            "wall": row["run_seconds"], "psi": tuple(amount for amount, _ in servers),
            "lacking": any(lacking for _, lacking in servers),
        })  # fmt: skip
    return found


def jobs_of(rows: list[dict[str, Any]]) -> Jobs:
    kept = []
    left_out = {"no Darshan figures": 0, "samples of the servers missing": 0, "moved more than the servers": 0}
    for row in rows:
        way = int(row["own"][1] > row["own"][0])
        own, psi = row["own"][way], row["psi"][way]
        if not (own > 0 and row["rate"] > 0 and row["wall"] > 0):
            left_out["no Darshan figures"] += 1
        elif not psi > 0 or row["lacking"]:
            left_out["samples of the servers missing"] += 1
        elif own > _BAD_COVERAGE * psi:
            left_out["moved more than the servers"] += 1
        else:
            key = (f"{row['program']} {('read', 'written')[way]} {row['system']}", row["nprocs"], int(own))
            kept.append((key, row["start"], sum(row["own"]) / row["rate"], row["wall"], own, psi))
    kept.sort(key=lambda item: item[1])
    keys = sorted({item[0] for item in kept}, key=lambda key: -sum(item[0] == key for item in kept))
    place = {key: i for i, key in enumerate(keys)}
    start, seconds, wall, own, psi = (np.array([item[i] for item in kept], float) for i in range(1, 6))
    names = tuple(f"{name}, {processes:,} processes" for name, processes, _ in keys)
    return Jobs(np.array([place[item[0]] for item in kept]), names, start, seconds, wall, own, psi, left_out)


def associations(jobs: Jobs, group: int) -> tuple[int, dict[str, Association], dict[str, Association]]:
    """(jobs, D against Psi, D against others' rate), with intervals and permutation p."""
    rows = np.flatnonzero(jobs.group == group)
    by_volume = associate(jobs.psi_bytes[rows], jobs.io_seconds[rows])
    return len(rows), by_volume, associate(jobs.others_rate[rows], jobs.io_seconds[rows])


def pooled(rows: list[dict[str, Any]]) -> tuple[int, float, float]:
    """As published: all jobs together, rate over the best of its program, direction and file system against the job's
    share of what the servers moved. (jobs, Pearson, Spearman)."""
    shares = ((row, sum(row["own"]) / sum(row["psi"])) for row in rows if sum(row["psi"]) > 0 and row["rate"] > 0)
    found = [
        ((row["program"], row["system"], row["own"][0] >= row["own"][1]), row["rate"], share)
        for row, share in shares
        if 0 < share <= _BAD_COVERAGE
    ]
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
