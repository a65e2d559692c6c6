"""What `ioweather who --without JOB` says, against a facility in which the job really was not there.

    python benchmarks/what_if.py --seeds 241 242 --jobs 4

For each seed two simulated days are made, and once more without each of the jobs that cost others most. Set side by
side are the I/O hours of everybody else about the job: as they were, as what-if supposes, as they then are. The peer
supposes that nothing changes. A job that is gone lets others start earlier, which what-if does not know.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np

from ioweather.core.contracts import ALL_TIME
from ioweather.core.units import NS
from ioweather.diagnosis.blame_query import estimate_without
from ioweather.simulate import world
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import for_days
from job_counts import count_jobs  # modules of this folder
from who import FACILITY


def hours(truth: Path) -> dict[str, tuple[int, float, int]]:
    """Start, I/O seconds and job of each run that has a log."""
    rows = duckdb.sql(
        f"SELECT id, start_ns, observed_seconds, job_id FROM '{truth}' WHERE kind = 'run' AND darshan ORDER BY id"
    )
    return {name: (start, seconds, job) for name, start, seconds, job in rows.fetchall()}


def worst_jobs(truth: Path, count: int) -> list[int]:
    rows = duckdb.sql(f"""SELECT name::BIGINT FROM '{truth}' WHERE kind = 'cost' AND name NOT LIKE '%.%'
        GROUP BY name ORDER BY sum(value) DESC LIMIT {count}""")
    return [job for (job,) in rows.fetchall()]


def without(job: int, place: Path, seed: int) -> Path:
    make_jobs = world.make_jobs
    with patch.object(world, "make_jobs", lambda *given: [one for one in make_jobs(*given) if one.number != job]):
        return generate(for_days(FACILITY, 2), place, seed=seed, watch=count_jobs).truth


def compared(seed: int, jobs: int) -> list[tuple[float, float, float]]:
    """(hours as they were, as supposed, as they then are) of each job."""
    found = []
    asked = {"without": 0, "move": None, "stripe": None, "begin": None, "over": None, "filesystem": None}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        made = generate(for_days(FACILITY, 2), Path(folder, "facility"), seed=seed, watch=count_jobs)
        lake = ingest_simulated(made, Path(folder, "lake"))
        before = hours(made.truth)
        with lake.snapshot() as snapshot:
            for job in worst_jobs(made.truth, jobs):
                result = estimate_without(snapshot, {**asked, "without": job}, ALL_TIME)
                after = hours(without(job, Path(folder, f"without-{job}"), seed))
                about = [name for name, (start, seconds, of) in before.items() if of != job and name in after
                         and start < result.end_ns and start + seconds * NS > result.start_ns]  # fmt: skip
                was, now = (sum(each[name][1] for name in about) / 3600 for each in (before, after))
                assert result.saved.value is not None
                found.append((was, was - result.saved.value / 3600, now))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[241])
    parser.add_argument("--jobs", type=int, default=4)
    given = parser.parse_args()
    print(
        "| seed | hours as they were | supposed | as they then are | error | error of the peer |\n"
        "|---|---|---|---|---|---|"
    )
    errors = []
    for seed in given.seeds:
        for was, said, true in compared(seed, given.jobs):
            errors.append((said / true - 1, was / true - 1))
            print(
                f"| {seed} | {was:.2f} | {said:.2f} | {true:.2f} | {errors[-1][0]:+.1%} | {errors[-1][1]:+.1%} |",
                flush=True,
            )
    ours, peer = np.abs(np.array(errors)).T
    print(
        f"\nerror: median {np.median(ours):.1%}, largest {ours.max():.1%}; "
        f"the peer's {np.median(peer):.1%}, {peer.max():.1%}"
    )


if __name__ == "__main__":
    main()
