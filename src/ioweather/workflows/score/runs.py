"""Questions about runs: their I/O time and bytes, their jobs, what the system and they themselves added; contents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.workflows.score.items import Evidence, Item

_LEAST_RUNS = 8


def io_time(evidence: Evidence) -> Iterator[Item]:
    """D of every log against the seconds that its run really spent."""
    truth = {(row["job_id"], row["details"]["instance"]): row for row in evidence.truth("run") if row["darshan"]}
    logs = evidence.rows(
        "SELECT a.job_id, a.start_ns, j.io_seconds, j.read_bytes, j.write_bytes FROM applications a "
        "JOIN job_io j USING (log_digest) ORDER BY a.job_id, a.start_ns"
    )
    place: dict[int, int] = {}
    errors, moved = [], 0
    for job_id, _, seconds, read, write in logs:
        instance = place.get(job_id, 0)
        place[job_id] = instance + 1
        row = truth.get((job_id, instance))
        if row is None:
            continue
        moved += read + write
        if seconds is not None and row["observed_seconds"]:
            errors.append(abs(seconds / row["observed_seconds"] - 1))
    yield Item("logs", float(len(truth)), float(len(logs)), 0.0, unit="count")
    planted = sum(row["read_bytes"] + row["write_bytes"] for row in truth.values())
    yield Item("bytes of runs", float(planted), float(moved), 1e-9, unit="bytes")
    if errors:
        yield Item("I/O time, 95% of runs within", 0.0, float(np.quantile(errors, 0.95)), 0.02, "difference", "ratio")


def accounting(evidence: Evidence) -> Iterator[Item]:
    rows = evidence.rows("SELECT count(*), count(*) FILTER (job_id IN (SELECT raw_job_id FROM jobs)) FROM applications")
    logs, matched = rows[0]
    if logs:
        yield Item("logs whose job is in the accounts", 1.0, matched / logs, 0.05, "rate")


def benchmark(evidence: Evidence) -> Iterator[Item]:
    planted = {row["name"]: row["value"] for row in evidence.truth("benchmark")}
    found = dict(evidence.rows("SELECT phase, coalesce(bytes_per_s, ops_per_s) FROM benchmarks"))
    errors = [abs(found[name] / value - 1) for name, value in planted.items() if found.get(name)]
    if planted:
        yield Item("phases", float(len(planted)), float(len(errors)), 0.0, unit="count")
        yield Item("speeds, largest error", 0.0, max(errors, default=None), 0.001, "difference", "ratio")


def growth(evidence: Evidence) -> Iterator[Item]:
    scans = {(row["id"], row["name"]): row for row in evidence.truth("scan")}
    before, after = scans["before", "all"], scans["after", "all"]
    found = evidence.estimates("car11.table3")
    yield Item("growth of files", after["value"] / before["value"] - 1, found["files_growth"], 0.001, unit="ratio")
    bytes_growth = after["details"]["bytes"] / before["details"]["bytes"] - 1
    note = "the exhibit counts capacity, in blocks"
    yield Item("growth of bytes", bytes_growth, found["used_growth"], 0.01, unit="ratio", note=note)


def association(evidence: Evidence) -> Iterator[Item]:
    """Runs of one program: does the time go with what the system did, as far as the system was the reason?"""
    coefficients = next(t for t in evidence.exhibit("mad17.table3").tables if t.name == "coefficients")
    rows = [dict(zip((c.name for c in coefficients.columns), row, strict=True)) for row in coefficients.rows]
    by_program: dict[str, list[tuple[float, float]]] = {}
    for row in evidence.truth("run"):
        system = row["incidents_seconds"] + row["others_seconds"]
        by_program.setdefault(f"{row['name'].replace('-', '')}-{row['nprocs']}", []).append(
            (row["observed_seconds"], system)
        )
    planted, found = [], []
    for name, pairs in by_program.items():
        own = [r["value"] for r in rows if r["measure"] == "Spearman" and str(r["group"]).startswith(f"{name}-")]
        if own and len(pairs) >= _LEAST_RUNS:
            planted.append(_rank_correlation(np.array(pairs)))
            found.append(max(float(str(value)) for value in own))
    if not found:
        return
    name, note = "rank correlation of time and load, mean of groups", "volumes say less than the seconds lost"
    values = (float(np.mean(planted)), float(np.mean(found)))
    yield Item(name, *values, 0.3, "difference", note=f"{len(found)} groups; {note}")


def _rank_correlation(pairs: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    ranks = pairs.argsort(axis=0).argsort(axis=0)
    return float(np.corrcoef(ranks[:, 0], ranks[:, 1])[0, 1])
