"""What the pivot search costs, and what its shortcuts lose.

    OPENBLAS_NUM_THREADS=1 python benchmarks/tails.py
    OPENBLAS_NUM_THREADS=1 python benchmarks/tails.py --largest 10000000 # the pivot search up to 10^7 times

Times are CPU seconds of one thread, so that a busy machine disturbs them less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ioweather.stats.families import Law, Mixture
from ioweather.stats.mixture import HEADS, TAILS, _Splits, candidate_cuts, fit_mixture, search_pair
from ioweather.stats.tail_fits import sample_of

T = TypeVar("T")
PLANTED = Mixture(Law("truncated_normal", 1.0, 0.12, 1.3), Law("power_law", 1.3, 3.0), 0.15)
OTHERS = {
    "normal + power law": PLANTED,
    "cauchy + power law": Mixture(Law("truncated_cauchy", 1.0, 0.05, 1.5), Law("power_law", 1.5, 2.5), 0.1),
    "normal + weibull": Mixture(PLANTED.head, Law("weibull", 1.3, 0.5, 2.0), 0.15),
    "normal + lognormal": Mixture(PLANTED.head, Law("lognormal", 1.3, 0.0, 0.6), 0.2),
}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _pivot_search(n: int, results: multiprocessing.Queue[tuple[float, float, float, str]]) -> None:
    times = PLANTED.sample(n, np.random.default_rng(n))
    wall = time.perf_counter()
    fit, seconds = timed(lambda: fit_mixture(times))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall = time.perf_counter() - wall
    results.put((seconds, wall, peak / 1024, f"{fit.best.name}, tail {fit.tail_share:.3f}"))


def pivot_searches(largest: int) -> None:
    print("\nfull pivot search: every pivot, both heads, all five tails, AIC of each pair (one thread)")
    print(f"{'n':>10} {'CPU s':>8} {'wall s':>8} {'peak MiB':>9}  found")
    context = multiprocessing.get_context("spawn")
    for n in (10_000, 100_000, 1_000_000, 2_500_000, 10_000_000):
        if n > largest:
            break
        results = context.Queue()
        child = context.Process(target=_pivot_search, args=(n, results))
        child.start()
        seconds, wall, memory, found = results.get()
        child.join()
        print(f"{n:>10,} {seconds:>8.2f} {wall:>8.2f} {memory:>9.0f}  {found}")


def losses(n: int, repetitions: int) -> None:
    """Coarse to fine against every candidate."""
    print(f"\nloss of the coarse-to-fine search, n = {n:,}: combined distance above that of all candidates")
    pairs = [(head, tail) for head in HEADS for tail in TAILS]
    for name, planted in OTHERS.items():
        worst, total = 0.0, []
        for seed in range(repetitions):
            sample = sample_of(planted.sample(n, np.random.default_rng(seed)))
            cuts = candidate_cuts(sample, 50)
            every, coarse = _Splits(sample, cuts), _Splits(sample, candidate_cuts(sample, 50, 1000))
            for head, tail in pairs:
                found = search_pair(coarse, cuts, head, tail, "weighted").value
                least = every.least(head, tail, "weighted")[1]
                total.append(found / least - 1)
        worst = max(total)
        print(f"  {name:<20} mean {np.mean(total):.2%}  worst {worst:.2%}  of {len(total)} searches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=2_500_000, help="largest sample of the pivot search")
    parser.add_argument("--quick", action="store_true", help="fewer searches")
    arguments = parser.parse_args()
    pivot_searches(arguments.largest)
    losses(6_000, 2 if arguments.quick else 5)


if __name__ == "__main__":
    main()
