"""What known jobs will move: means are those that a loop finds, nothing later is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.stats.job_load import Jobs, Work, expected_load, laid_out

AHEAD = 24
WINDOWS = 600


def planted(period: int = 6, runs: int = 12, live: bool = True) -> Work:
    """Runs of one program, one after another: they wait for 4 windows, and write 100 in every `period`th of 30."""
    begins = 5 + 40 * np.arange(runs)
    jobs = Jobs(begins - 4.0, begins + 0.0, begins + 31.0, np.zeros(runs, np.int64))
    job = np.repeat(np.arange(runs), 5)
    window = (begins[:, None] + period * np.arange(1, 6)).ravel()
    return laid_out(jobs, (job, window, np.full(len(job), 100.0)), WINDOWS, AHEAD, live=live)


def random_work(seed: int, live: bool) -> Work:
    rng = np.random.default_rng(seed)
    count = 8
    submitted = rng.integers(0, 30, count) + rng.random(count)
    began = submitted + rng.integers(0, 8, count)
    ended = began + rng.integers(5, 25, count)
    submitted[-1] = began[-1] = ended[-1] = np.nan
    job, window = rng.integers(0, count, 60), rng.integers(0, 60, 60)
    jobs = Jobs(submitted, began, ended, rng.integers(0, 3, count))
    return laid_out(jobs, (job, window, rng.exponential(10.0, 60)), 60, AHEAD, live=live)


def by_a_loop(work: Work, windows: int, horizon: int) -> np.ndarray:
    """Every moment against every other one that had taught by then."""
    rows = [row for row in range(len(work.amount)) if work.present[row] and work.window[row] < windows]
    out = np.zeros(windows)
    for row in rows:
        guess = 0.0
        job, program = work.job[row], work.program[work.job[row]]
        for level in range(3):
            came = []
            for other in rows:
                alike = work.waits[other] == work.waits[row]
                alike &= level < 1 or work.program[work.job[other]] == program
                alike &= level < 2 or work.job[other] == job
                end = work.ends[work.job[other]]
                known = work.window[other] + horizon if work.live else end if end < windows else windows
                if alike and known <= work.window[row]:
                    came.append(work.amount[other + horizon])
            guess = (sum(came) + 2 * guess) / (len(came) + 2)
        out[work.window[row]] += guess
    return out


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("horizon", [1, 5])
def test_means_are_those_of_a_loop(live, horizon):
    for seed in range(3):
        work = random_work(seed, live)
        found = expected_load(work, 60, (horizon,))[0]
        np.testing.assert_allclose(found, by_a_loop(work, 60, horizon), atol=1e-9)


def test_waiting_jobs_are_foretold_too():
    work = planted()
    found = expected_load(work, WINDOWS, (10,))[0]
    waits = int(work.window[(work.job == 11) & work.waits & work.present][-1])
    assert found[waits - 2 : waits + 1].max() > 5


def test_logs_teach_when_the_job_has_ended():
    found = expected_load(planted(live=False), WINDOWS, (6,))[0]
    assert not found[:36].any()
    assert found[300:460].max() > 10


def test_nothing_later_is_used():
    work = planted()
    later = np.where(work.window >= 300, 7.0 * work.amount + 3.0, work.amount)
    one, two = (expected_load(each, WINDOWS, (1, 6, 24)) for each in (work, replace(work, amount=later)))
    np.testing.assert_allclose(one[:, :300], two[:, :300], rtol=1e-9, atol=1e-9)
    assert not np.allclose(one, two)


def test_windows_of_several_steps_are_their_means():
    """What comes in a window is the mean of its steps, seen from the end of the window before."""
    work = planted()
    single = expected_load(work, WINDOWS, tuple(range(7, 13)))
    wide = expected_load(work, WINDOWS, (1, 2), every=6)
    assert wide.shape == (2, WINDOWS // 6)
    late = slice(60, 75)
    np.testing.assert_allclose(wide[1, late].sum(), single[:, 5::6][:, late].mean(axis=0).sum(), rtol=0.1)


def test_work_without_accounts_is_there_while_it_moves():
    jobs = Jobs(np.array([np.nan]), np.array([np.nan]), np.array([np.nan]), np.zeros(1, np.int64))
    work = laid_out(jobs, (np.zeros(2, np.int64), np.array([10, 20]), np.ones(2)), 100, AHEAD, live=True)
    there = work.window[work.present]
    assert (there.min(), there.max()) == (10, 20 + AHEAD - 1)
